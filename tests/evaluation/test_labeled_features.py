import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from docsplit_hf.evaluation.experiment import Evaluation
from docsplit_hf.evaluation.labeled_features import check_features, combine_pairs, labeled_features, sample_per_class
from docsplit_hf.evaluation.load_system import EncoderSystem, TfidfSystem
from docsplit_hf.evaluation.task import ClassificationTask

LABELS = np.array([0, 1])


class LengthEncoder:
    """Keeps what it embeds."""

    fingerprint = "the length of a text, as an angle"

    def __init__(self):
        self.seen = []

    def encode(self, texts, show_progress=True):
        self.seen += texts
        return np.array([[np.cos(len(text)), np.sin(len(text))] for text in texts], dtype=np.float32)


class GivenFeatures:
    def __init__(self, train, test):
        self.features = lambda *texts: [train, test]


def test_features_are_made_once_whoever_asks():
    encoder = LengthEncoder()
    system = EncoderSystem("length", encoder)
    task = ClassificationTask("t", ["a", "bb"], LABELS, ["ccc", "d"], LABELS, ["x", "y"])
    evaluation = Evaluation(system, task)
    found = [evaluation.once(labeled_features) for _ in range(3)]
    assert encoder.seen == ["a", "bb", "ccc", "d"]
    assert found[0].train == pytest.approx(encoder.encode(["a", "bb"])) and found[2].test.shape == (2, 2)


@pytest.mark.parametrize("name", ["encoder", "tfidf"])
def test_two_texts_become_one_vector(name):
    texts = (["red fruit", "grey stone"], LABELS, ["red stone"], LABELS[:1], ["x", "y"])
    task = ClassificationTask("t", *texts, train_pairs=["red fruit", "red"], test_pairs=["grey fruit"])
    system = EncoderSystem("length", LengthEncoder()) if name == "encoder" else TfidfSystem()
    features = labeled_features(Evaluation(system, task))
    train = features.train.toarray() if name == "tfidf" else features.train
    dimensions = train.shape[1] // 4
    assert train.shape == (2, 4 * dimensions) and features.test.shape == (1, 4 * dimensions)
    same = train[0].reshape(4, dimensions)  # of a text with itself
    np.testing.assert_allclose(same[0], same[1])
    assert not same[2].any() and same[3] == pytest.approx(same[0] ** 2)


def test_dense_and_sparse_pairs_are_combined_alike():
    first, second = np.random.default_rng(0).normal(size=(2, 3, 5))
    both = combine_pairs(sparse.csr_matrix(first), sparse.csr_matrix(second))
    np.testing.assert_allclose(both.toarray(), combine_pairs(first, second))


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix])
def test_a_model_that_gives_nan_is_named_and_not_scored(convert):
    good, broken = np.ones((4, 2), dtype=np.float32), np.ones((4, 2), dtype=np.float32)
    broken[3, 1] = np.nan
    labels = np.array([0, 1, 0, 1])
    task = ClassificationTask("t", list("abcd"), labels, list("efgh"), labels, ["x", "y"])
    for train, test, said in ((broken, good, "training"), (good, broken, "test")):
        with pytest.raises(ValueError, match=f"the {said} features: row 3 holds NaN"):
            labeled_features(Evaluation(GivenFeatures(convert(train), convert(test)), task))
    with pytest.raises(ValueError, match="3 rows, but 4 labels"):
        labeled_features(Evaluation(GivenFeatures(convert(good[:3]), convert(good)), task))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.coo_matrix])
@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        ([[0.0], [np.nan]], None, "the test features: row 1 holds NaN"),
        (np.ones((0, 2)), None, "the test features: there are none. Is the split empty"),
        ([[1.0], [2.0]], np.array([0]), "the test features: 2 rows, but 1 labels"),
    ],
)
def test_broken_features_are_refused(form, rows, labels, message):
    with pytest.raises(ValueError, match=message):
        check_features(form(rows), "the test features", labels)


@given(st.integers(1, 6), st.integers(0, 99))
def test_each_class_gives_as_many_and_fewer_shots_are_among_more(shots, seed):
    labels = np.random.default_rng(0).permutation(np.repeat([0, 2, 5], [6, 7, 40]))
    rows = sample_per_class(labels, shots, seed, list("abcdef"))
    assert len(set(rows)) == len(rows)
    assert np.bincount(labels[rows]).tolist() == [shots, 0, shots, 0, 0, shots]
    assert shots == 1 or set(sample_per_class(labels, shots - 1, seed, list("abcdef"))) < set(rows)


def test_the_classes_that_are_too_small_are_named():
    labels = np.repeat([0, 1, 2], [3, 9, 4])
    with pytest.raises(ValueError, match="'ham' has 3, 'eggs' has 4: lower the number of shots to 3"):
        sample_per_class(labels, 5, 0, ["ham", "spam", "eggs"])
    with pytest.raises(ValueError, match="'E' has 1 .and 7 more classes are too small.: lower"):
        sample_per_class(np.arange(12), 2, 0, list("ABCDEFGHIJKL"))
