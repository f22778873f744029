import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.ensemble.content import KnownContent, content_of_examples, warn_of_no_content
from docsplit_hf.fitting.ensemble.scoring import prepare_experts

from .stores import fitted_store

TEXTS = ["the apple of the tree", "the pear", "the iron of the mine", "the stone", "yes", "👍", "苹果的树", "铁的矿"]
LABELS = ["fruit", "fruit", "mineral", "mineral", "yes", "yes", "fruit", "mineral"]


def make_snapshot(texts=TEXTS, labels=LABELS):
    keys = np.random.default_rng(0).standard_normal((len(labels), 4)).astype(np.float32)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(labels))}
    return KNNDatastore(keys, [numbers[label] for label in labels], list(numbers), texts).snapshot


def have_no_content(snapshot, texts):
    content = content_of_examples(snapshot)
    return [content.is_missing(text) for text in texts]


@pytest.mark.parametrize(
    "text", ["", " ", "\n", "...", "?!", "—", "👎", "the", "The", "the of", "OF THE", "of", "\u200b", "…。"]
)
def test_texts_without_content(text):
    assert have_no_content(make_snapshot(), [text]) == [True]


@pytest.mark.parametrize(
    "text", ["apple", "the apple", "yes", "👍", "👍 ", "苹果", "яблоко", "تفاحة", "unknown", "of unknown", "42", "사과"]
)
def test_texts_with_content(text):
    assert have_no_content(make_snapshot(), [text]) == [False]


def test_a_text_like_an_example_has_content():
    texts = ["the one", "the two", "the"]
    labels = ["a", "b", "c"]
    assert have_no_content(make_snapshot(texts, labels), ["the", "of the"]) == [False, False]
    assert have_no_content(make_snapshot(texts[:-1], labels[:-1]), ["the"]) == [True]


def test_without_texts_in_the_store_letters_and_digits_are_content():
    snapshot = make_snapshot(None, ["a", "b"])
    assert have_no_content(snapshot, ["the", "?", ""]) == [False, True, True]


def test_content_is_computed_once_for_a_snapshot():
    snapshot = fitted_store().snapshot
    ready = prepare_experts(snapshot)
    assert prepare_experts(snapshot, ready).content is ready.content


def test_the_warning_has_counts_and_an_example(caplog):
    content = KnownContent(common=frozenset({"the"}), texts=frozenset(), word_sets=frozenset())
    warn_of_no_content(content, ["", "apple", "the"], 1024)
    assert "1 of 3 texts have no content, such as text 1026, 'the'" in caplog.text  # empty ones are counted elsewhere
    caplog.clear()
    warn_of_no_content(content, ["apple"], 0)
    assert not caplog.text
