import numpy as np
import pytest

from docsplit_hf.neighbors.audit.duplicate_groups import NEAR_COSINE, duplicate_groups
from docsplit_hf.neighbors.experts.document_vectors import unit
from docsplit_hf.neighbors.store.row_table import make_rows

from .test_near_duplicates import sentences


def groups_of(texts, vectors=None, pairs=None):
    if vectors is None:
        vectors = np.eye(len(texts), dtype=np.float32)
    rows = make_rows(len(texts), map(str, range(len(texts))), texts, pairs)
    return [(group.rows, group.exact) for group in duplicate_groups(rows, vectors)]


def test_copies_of_copies_are_one_group_and_exact_ones_come_first():
    texts = [sentences(12, seed) for seed in range(4)]
    first, second = texts[0].copy(), texts[0].copy()
    first[2], second[9] = sentences(2, 50)
    written = [" ".join(text) for text in [*texts, first, second]]
    assert groups_of([*written, written[2], "!?", "...", "!?"]) == [([2, 6], True), ([7, 9], True), ([0, 4, 5], False)]


def test_equal_words_are_not_an_equal_text():
    text = " ".join(sentences(3))
    assert groups_of([text, text.upper()]) == [([0, 1], False)]


def test_a_pair_is_a_copy_where_both_texts_are():
    text, other, third = (" ".join(sentences(5, seed)) for seed in range(3))
    found = groups_of([text, text, text], pairs=[other, third, other])
    assert found == [([0, 2], True)]


def test_without_texts_embeddings_say_it():
    vectors = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    near = vectors[2] + 0.15 * np.random.default_rng(1).standard_normal(64).astype(np.float32)
    vectors = unit(np.concatenate([vectors, vectors[[5]], near[None]]))
    assert 1 > vectors[2] @ vectors[9] > NEAR_COSINE
    assert groups_of([None] * 10, vectors) == [([5, 8], True), ([2, 9], False)]
    assert groups_of(["a text with words in it", *[None] * 9], vectors) == [([5, 8], True), ([2, 9], False)]


@pytest.mark.parametrize("texts", [["one text"], ["one text", None], ["", "a"]])
def test_there_may_be_none(texts):
    assert groups_of(texts) == []
