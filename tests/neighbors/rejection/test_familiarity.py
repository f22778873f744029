import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.neighbors.experts.document_vectors import unit
from docsplit_hf.neighbors.rejection.familiarity import NEAREST, closeness, confidence, familiarity, novelty

SHARES = st.floats(0, 1, width=32)


def test_closeness_is_the_mean_cosine_of_the_nearest():
    rng = np.random.default_rng(0)
    queries, examples = (unit(rng.standard_normal((count, 8))).astype(np.float32) for count in (6, 30))
    expected = np.sort(queries @ examples.T, axis=1)[:, -NEAREST:].mean(1)
    np.testing.assert_allclose(closeness(queries, examples), expected, atol=1e-5)
    np.testing.assert_allclose(closeness(queries, examples[:2]), (queries @ examples[:2].T).mean(1), atol=1e-5)


def test_copies_of_the_query_do_not_count_however_many_there_are():
    rng = np.random.default_rng(0)
    queries, examples = (unit(rng.standard_normal((count, 8))).astype(np.float32) for count in (3, 30))
    expected = closeness(queries, examples)
    many = np.concatenate([np.repeat(queries, 40, axis=0), examples])
    np.testing.assert_allclose(closeness(queries, many, without_equal=True), expected, atol=1e-5)
    assert closeness(queries, queries[:1].repeat(9, axis=0), without_equal=True)[0] == 0


def test_each_of_the_three_makes_a_text_less_familiar():
    sure, unsure = np.array([[0.9, 0.1]]), np.array([[0.5, 0.5]])
    best = familiarity(sure, sure, np.array([0.8]))
    assert best == 0.9 * 0.9 * 0.8**2
    for other in ((unsure, sure, 0.8), (sure, unsure, 0.8), (sure, sure, 0.3), (sure, sure, -0.9)):
        assert familiarity(*other[:2], np.array([other[2]])) < best


@given(st.lists(SHARES, min_size=1, max_size=20), st.lists(SHARES, min_size=1, max_size=20))
def test_novelty_is_from_0_to_1_and_falls_with_familiarity(texts, examples):
    texts = np.sort(np.array(texts, np.float32))
    found = novelty(texts, np.array(examples, np.float32))
    assert ((found >= 0) & (found <= 1)).all() and (np.diff(found) <= 1e-12).all()


def test_novelty_is_the_share_of_more_familiar_examples():
    examples = np.linspace(0.1, 0.9, 99)
    np.testing.assert_allclose(novelty(np.array([0.1, 0.5, 0.9, 0.0, 1.0]), examples), [0.99, 0.5, 0.01, 1, 0])
    assert novelty(np.array([0.05]), examples) > novelty(np.array([0.09]), examples) > 0.99  # below them all, in order


def test_a_novel_text_is_not_sure():
    found = confidence(np.array([[0.2, 0.8], [0.9, 0.1]]), np.array([0.5, 0.995]))
    np.testing.assert_array_equal(found, np.array([0.8, 0], np.float32))
