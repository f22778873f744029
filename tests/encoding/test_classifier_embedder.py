import time

import numpy as np
import pytest
import torch

from docsplit_hf import KNNClassifier, KNNClassifierConfig
from docsplit_hf.encoding.classifier_embedder import make_embedder
from docsplit_hf.reading.text_warnings import unlogged


@pytest.fixture(scope="module")
def classifier(make_tiny_config):
    torch.manual_seed(0)
    return KNNClassifier(KNNClassifierConfig(encoder_config=make_tiny_config(), num_labels=3, pooling="mean"))


def test_the_order_and_the_values_do_not_depend_on_the_batches(classifier, tokenizer, texts):
    whole = make_embedder(classifier, tokenizer).embed(texts)
    for options in ({"max_tokens_per_batch": 1}, {"batch_size": 3}, {"max_tokens_per_batch": 200}):
        parts = make_embedder(classifier, tokenizer, **options).embed(texts)
        assert parts.logits == pytest.approx(whole.logits, abs=1e-5)
        assert parts.retrieval_embeddings == pytest.approx(whole.retrieval_embeddings, abs=1e-5)
    with torch.no_grad():
        alone = classifier.eval()(**tokenizer(texts[7], truncation=True, max_length=64, return_tensors="pt"))
    assert whole.logits[7] == pytest.approx(alone.logits[0].numpy(), abs=1e-5)


def test_pairs_are_read_as_the_tokenizer_pairs_them(classifier, tokenizer):
    inputs = tokenizer("a river", "a garden", return_tensors="pt")
    assert inputs["token_type_ids"].any()
    with torch.no_grad():
        expected = classifier.eval()(**inputs).logits[0].numpy()
    predictions = make_embedder(classifier, tokenizer).embed(["a river", "x"], ["a garden", "y z"])
    assert predictions.logits[0] == pytest.approx(expected, abs=1e-5)


def test_no_texts_and_unusual_characters_are_embedded(classifier, tokenizer):
    assert make_embedder(classifier, tokenizer).embed([]).logits.shape == (0, 3)
    strange = ["", "\ud800", "\x00", "a" * 100_000, "\U0010ffff"]
    assert np.isfinite(make_embedder(classifier, tokenizer).embed(strange).retrieval_embeddings).all()


@pytest.mark.parametrize(
    "given_texts, pairs, error, message",
    [
        ("one string", None, TypeError, r"pass \[text\]"),
        (["a", 3], None, TypeError, "Text 1 is 3"),
        (["a"], [3], TypeError, "Text pair 0 is 3"),
        (["a", "b"], ["c"], ValueError, "2 texts and 1 text pairs"),
    ],
)
def test_inputs_that_are_not_texts_are_refused(classifier, tokenizer, given_texts, pairs, error, message):
    with pytest.raises(error, match=message):
        make_embedder(classifier, tokenizer).embed(given_texts, pairs)


@pytest.mark.parametrize("pairs, length", [(None, 2), (["b"], 3)])
def test_a_length_without_room_for_text_is_refused(classifier, tokenizer, pairs, length):
    make_embedder(classifier, tokenizer, max_length=length + 1).embed(["a"], pairs)
    with pytest.raises(ValueError, match=f"max_length={length} leaves no room for text beside the {length} special"):
        make_embedder(classifier, tokenizer, max_length=length).embed(["a"], pairs)


LONG = "The river feeds the garden. " * 3000  # 84,000 characters


@pytest.mark.parametrize(
    ("first", "second"),
    [(LONG, None), (LONG[:9000], "a garden"), ("the market " * 40, LONG[:9000])]
    + [(LONG[:3000], LONG[:2500]), (LONG[:2500], LONG[:3000]), (LONG[:3000], LONG[:3000])],
)
@pytest.mark.parametrize("max_length", [63, 64])
def test_long_texts_are_embedded_by_their_beginning(classifier, tokenizer, first, second, max_length, caplog):
    predictions = make_embedder(classifier, tokenizer, max_length=max_length).embed([first], [second])
    inputs = tokenizer(first, second, truncation=True, max_length=max_length, return_tensors="pt")
    with torch.no_grad():
        expected = classifier.eval()(**inputs)
    assert predictions.logits[0] == pytest.approx(expected.logits[0].numpy(), abs=1e-5)
    assert "1 of 1 texts are longer than" in caplog.text


def test_two_long_texts_do_not_take_the_product_of_their_lengths(classifier, tokenizer):
    """Tokenizers keep each part of the one with each part of the other: half a million here, in gigabytes."""
    start = time.process_time()
    make_embedder(classifier, tokenizer).embed([LONG], [LONG])
    assert time.process_time() - start < 20


def test_unfamiliar_texts_are_warned_of(classifier, tokenizer, caplog):
    chinese = ["今天下了一场大雨，城市的许多街道被淹，居民们正在等待帮助。"]
    with unlogged():
        make_embedder(classifier, tokenizer).embed(chinese)
    assert not caplog.text
    make_embedder(classifier, tokenizer).embed(chinese)
    assert "words are unknown to the encoder's tokenizer" in caplog.text
