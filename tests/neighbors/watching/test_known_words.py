import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.neighbors.watching.known_words import known_words


@pytest.fixture
def store():
    store = KNNDatastore([[1.0, 0], [0, 1]], [0, 1], ["a", "b"], ["red green red", "blue green"], ["gold", None])
    store.add_documents([[1.0, 1], [0, 2]], ["blue rare", None])
    return store


@pytest.mark.parametrize(
    "text, share, words",
    [
        ("Red gold", 0, set()),  # of a pair, in other cases
        ("new red new rare", 1 / 2, {"new"}),
        ("blue rare", 1 / 2, {"rare"}),  # its own words are not known of others
        ("blue green", 0, set()),  # others have them too
        ("red green red gold", 3 / 4, {"red", "gold"}),
        ("?", 0, set()),
    ],
)
def test_which_words_no_other_text_has(text, share, words, store):
    assert known_words(store.snapshot).unknown(text) == (share, words)


def test_without_texts_no_words_are_known():
    assert known_words(KNNDatastore([[1.0, 0]], [0], ["a"]).snapshot) is None
