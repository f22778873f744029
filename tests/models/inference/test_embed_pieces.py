from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.models.inference.embed_pieces import inference_batches, refuse_broken, token_budget_batches
from docsplit_hf.text.tokenization import TOKENIZER_CHARACTERS, check_texts, tokenizer_batches


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 200), st.none() | st.integers(1, 9), st.booleans())
def test_batches_hold_each_row_once_keep_to_the_limits_and_are_full(lengths, max_tokens, max_rows, packed):
    batches = token_budget_batches(lengths, max_tokens, max_rows, packed)
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))

    def fits(batch):
        in_batch = [lengths[row] for row in batch]
        tokens = sum(in_batch) if packed else max(in_batch) * len(batch)
        return tokens <= max_tokens and (max_rows is None or len(batch) <= max_rows)

    assert all(len(batch) == 1 or fits(batch) for batch in batches)
    assert not any(fits([*batch, following[0]]) for batch, following in pairwise(batches))  # the longest first


@pytest.mark.parametrize(("max_tokens", "max_rows", "named"), [(0, None, "max_tokens_per_batch"), (9, 0, "batch_size")])
def test_a_limit_of_nothing(max_tokens, max_rows, named):
    with pytest.raises(ValueError, match=f"{named} must be at least 1, got 0"):
        token_budget_batches([3], max_tokens, max_rows)


@pytest.mark.parametrize(
    ("texts", "named"),
    [("a text", r"one string: pass \[text\]"), ({"text": "a"}, "got dict"), (5, "got int"), (None, "got NoneType"),
     (iter(["a text"]), "got list_iterator"), (["a text", float("nan")], "Text 1 is nan")],
)  # fmt: skip
def test_what_is_not_a_list_of_texts(texts, named):
    with pytest.raises(TypeError, match=named):
        check_texts(texts)


def test_rows_are_padded_on_the_right_whatever_the_tokenizer_does(tokenizer):
    rows = [{"input_ids": np.array(ids, dtype=np.int32)} for ids in ([7, 8], [7, 8, 9])]
    tokenizer.padding_side, side = "left", tokenizer.padding_side
    try:
        ((numbers, batch),) = inference_batches(rows, tokenizer, torch.device("cpu"))
    finally:
        tokenizer.padding_side = side
    assert numbers == [1, 0]
    assert batch["input_ids"].tolist() == [[7, 8, 9], [7, 8, tokenizer.pad_token_id]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (True, r"Its weights are broken, in weight: train it again"),
        (False, r'too large for torch.float32: .*dtype="float32"'),
    ],
)
def test_nan_is_refused_with_the_text_and_the_reason(broken, reason):
    model = torch.nn.Linear(1, 1)
    if broken:
        model.weight.data.fill_(torch.nan)
    values = torch.tensor([[0.0], [torch.inf]])
    with pytest.raises(ValueError, match=f"Linear gives NaN or infinity for text 1 of 2, 'xxx.*{reason}"):
        refuse_broken(values, [0, 1], ["a", "x" * 100], model, "Linear")
    refuse_broken(values[:1], [0], ["a"], model, "Linear")


def test_a_batch_for_the_tokenizer_is_bounded_by_texts_and_by_characters():
    assert [len(batch) for batch in tokenizer_batches(["a"] * 2001)] == [1000, 1000, 1]
    long = "a" * (TOKENIZER_CHARACTERS - 1)
    assert list(tokenizer_batches(iter(["a", long, "a", long * 2, "a"]))) == [["a", long], ["a"], [long * 2], ["a"]]
    assert list(tokenizer_batches([])) == []
