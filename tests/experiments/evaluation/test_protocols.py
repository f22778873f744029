"""Probes, few examples and half-document retrieval."""

import numpy as np
import pytest
from scipy import sparse

from docsplit_hf.evaluation.systems import TfidfSystem
from experiments.evaluation.experiment import Evaluation
from experiments.evaluation.protocols import check_features, labeled_features
from experiments.evaluation.systems import EncoderSystem
from experiments.evaluation.tasks import ClassificationTask

LABELS = np.array([0, 1])


class LengthEncoder:
    """Embeds a text by its length, as an angle, and keeps the texts."""

    fingerprint = "the length of a text, as an angle"

    def __init__(self):
        self.seen = []

    def encode(self, texts, show_progress=True):
        self.seen += texts
        return np.array([[np.cos(len(text)), np.sin(len(text))] for text in texts], dtype=np.float32)


def test_features_are_computed_once():
    encoder = LengthEncoder()
    system = EncoderSystem("length", encoder)
    task = ClassificationTask("t", ["a", "bb"], LABELS, ["ccc", "d"], LABELS, ["x", "y"])
    evaluation = Evaluation(system, task)
    found = [evaluation.once(labeled_features) for _ in range(3)]
    assert encoder.seen == ["a", "bb", "ccc", "d"]
    assert found[0].train == pytest.approx(encoder.encode(["a", "bb"])) and found[2].test.shape == (2, 2)


@pytest.mark.parametrize("name", ["encoder", "tfidf"])
def test_a_pair_of_texts_has_one_feature_vector(name):
    task = ClassificationTask(
        "t",
        train_texts=["red fruit", "grey stone"],
        train_labels=LABELS,
        test_texts=["red stone"],
        test_labels=LABELS[:1],
        label_names=["x", "y"],
        train_pairs=["red fruit", "red"],
        test_pairs=["grey fruit"],
    )
    system = EncoderSystem("length", LengthEncoder()) if name == "encoder" else TfidfSystem()
    features = labeled_features(Evaluation(system, task))
    train = features.train.toarray() if name == "tfidf" else features.train
    dimensions = train.shape[1] // 4
    assert train.shape == (2, 4 * dimensions) and features.test.shape == (1, 4 * dimensions)
    same = train[0].reshape(4, dimensions)  # of a text with itself
    np.testing.assert_allclose(same[0], same[1])
    assert not same[2].any() and same[3] == pytest.approx(same[0] ** 2)


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
