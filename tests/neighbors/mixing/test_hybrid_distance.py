"""The hybrid distance: closed forms, and its order at both ends."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.neighbors.mixing.hybrid_distance import hybrid_distances

DISTANCES = np.array([[1.0, 2.0, 4.0], [1.0, 2.0, 4.0]], dtype=np.float32)
BM25 = np.array([[0.0, 3.0, 6.0], [0.0, 0.0, 0.0]], dtype=np.float32)


def test_it_adds_what_is_missing_of_the_best_score():
    found = hybrid_distances(DISTANCES, BM25, 10)
    assert found.dtype == np.float32
    assert found.tolist() == [[11.0, 7.0, 4.0], [11.0, 12.0, 14.0]]  # without words all grow alike
    assert (hybrid_distances(DISTANCES, BM25, 0) == DISTANCES).all()


@given(st.lists(st.floats(0, 100, width=32), min_size=1, max_size=9), st.floats(0.1, 1000))
def test_a_large_weight_leaves_the_order_of_words_and_the_scale_of_scores_says_nothing(scores, scale):
    bm25 = np.array([scores], dtype=np.float32)
    distances = np.linspace(0, 1, len(scores), dtype=np.float32)[None]
    far = hybrid_distances(distances, bm25, 1e6)[0]
    best = far.argmin()
    assert bm25[0, best] >= bm25.max() * (1 - 1e-5)
    one, other = (hybrid_distances(distances, bm25 * np.float32(by), 2.0) for by in (1, scale))
    assert one == pytest.approx(other, abs=1e-3)
