import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.neighbors.audit.shingles import LENGTH, MOST_SHINGLES, shingles_of
from docsplit_hf.neighbors.experts.words import words_of


def triples(text):
    words = words_of(text)
    length = min(LENGTH, len(words))
    return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)} if words else set()


@given(st.lists(st.one_of(st.text(max_size=40), st.text("ab 北京", max_size=40)), max_size=8))
def test_they_are_the_different_triples_of_a_text_and_equal_where_the_triples_are(texts):
    found = shingles_of(texts)
    sets = [triples(text) for text in texts]
    assert found.totals.tolist() == found.sizes.tolist() == [len(own) for own in sets]
    for i, own in enumerate(sets):
        assert (np.diff(found.of(i).astype(object)) > 0).all()
        for j, others in enumerate(sets):
            assert len(np.intersect1d(found.of(i), found.of(j))) == len(own & others)


def test_of_a_long_text_a_sample_is_kept():
    found = shingles_of([" ".join(f"w{i}" for i in range(5_000))])
    assert found.sizes.tolist() == [MOST_SHINGLES] and found.totals.tolist() == [4_998]
    assert found.numbers.max() / 2**64 < 0.1  # those of the smallest numbers
