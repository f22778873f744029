"""Batches of labeled texts."""

import copy
import time

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docsplit_hf import DataCollatorForLabeledExamples

LONG = "The river feeds the garden, " * 6000  # 168,000 characters


def truncated_by_tokenizer(tokenizer, examples, max_length):
    columns = [[example[name] for example in examples] for name in ("text", "text_pair") if name in examples[0]]
    return tokenizer(
        *columns, truncation=True, max_length=max_length, padding=True, padding_side="right", return_tensors="pt"
    )


def assert_truncated_like_tokenizer(tokenizer, examples, max_length):
    batch = DataCollatorForLabeledExamples(tokenizer, max_length)([{**one, "label": 0} for one in examples])
    expected = truncated_by_tokenizer(tokenizer, examples, max_length)
    for name in ("input_ids", "attention_mask", "token_type_ids"):
        assert torch.equal(batch[name], expected[name])
    counts = [counts_of(tokenizer, example, max_length) for example in examples]
    # Counts of a text of more than 65,536 characters are estimates.
    assert batch["token_counts"].tolist() == [pytest.approx(expected, rel=1e-3) for expected in counts]


def counts_of(tokenizer, example, max_length):
    """Tokens cut off and all tokens of an example, by tokenizing all of it."""
    length = sum(len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in example.values())
    special = tokenizer.num_special_tokens_to_add(pair=len(example) == 2)
    return [max(0, length + special - max_length), length]


words = st.lists(st.sampled_from(["the", "river", "feeds", "gardens,", "x" * 30, "市", "\n", "."]), min_size=1)
lengths = st.integers(1, 1000)  # of a pair, texts of more than 16 characters for each token are cut before


def repeated(words, length):
    """A text of ``length`` characters or less, made of the words again and again."""
    return ((" ".join(words) + " ") * 1000)[:length]


@given(words, words, lengths, lengths, st.integers(4, 20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pairs_are_truncated_as_by_the_tokenizer(
    tokenizer, first_words, second_words, first_length, second_length, max_length
):
    long_pair = {"text": repeated(first_words, first_length), "text_pair": repeated(second_words, second_length)}
    assert_truncated_like_tokenizer(tokenizer, [long_pair, {"text": "a", "text_pair": "b"}], max_length)


@pytest.mark.parametrize("side", ["right", "left"])
def test_long_texts_are_truncated_as_by_the_tokenizer(tokenizer, side):
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.truncation_side = side
    assert_truncated_like_tokenizer(tokenizer, [{"text": LONG + "end"}, {"text": "a river"}], 64)


def test_long_texts_are_tokenized_only_as_far_as_they_are_read(tokenizer):
    collator = DataCollatorForLabeledExamples(tokenizer, 512)
    start = time.process_time()  # unlike wall-clock time, independent of the machine's other processes
    for _ in range(5):
        collator([{"text": 30 * LONG, "label": 0}])
    collator([{"text": LONG, "text_pair": LONG, "label": 0}])  # the product would be gigabytes
    assert time.process_time() - start < 5
