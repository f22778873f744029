"""Probes, few examples and half-document retrieval."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from docsplit_hf.evaluation.comparison import retrieval_metrics
from docsplit_hf.evaluation.probes import LabeledFeatures, logistic_predictions, sample_per_class
from docsplit_hf.evaluation.systems import TfidfSystem
from docsplit_hf.finetuning.evaluation import prediction_metrics
from docsplit_hf.fitting.label_tree import label_paths, label_tree
from docsplit_hf.pretraining.half_retrieval import half_texts
from experiments.evaluation import protocols
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


@given(st.integers(1, 6), st.integers(0, 99))
def test_each_class_has_the_same_number_of_shots_and_more_shots_include_fewer(shots, seed):
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


def clusters(count, classes=4, dimension=16, spread=0.1, seed=0):
    """Features around one center for each class, and their labels; the centers are the same for all seeds."""
    centers = np.random.default_rng(99).normal(size=(classes, dimension))
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    features = centers[labels] + spread * rng.normal(size=(count, dimension))
    return (features / np.linalg.norm(features, axis=1, keepdims=True)).astype(np.float32), labels


def labeled(train, test, convert=np.asarray):
    """``LabeledFeatures`` of two pairs of features and labels, all training inputs different."""
    train_features, train_labels = train
    test_features, test_labels = test
    return LabeledFeatures(
        train=convert(train_features),
        train_labels=train_labels,
        test=convert(test_features),
        test_labels=test_labels,
        train_inputs=range(len(train_labels)),
    )


@pytest.fixture
def few_are_held_out(monkeypatch):
    """Hold out examples of small training sets too."""
    monkeypatch.setattr(protocols, "FEWEST_TO_HOLD_OUT", 100)


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_matrix])
@pytest.mark.parametrize("count", [24, 500])
def test_separable_classes_are_separated_and_random_features_give_chance(convert, count, caplog):
    train, labels = clusters(count)
    test, test_labels = clusters(400, seed=1)
    features = labeled((train, labels), (test, test_labels), convert)
    with caplog.at_level("INFO", "docsplit_hf"):
        assert set(features.metrics(logistic_predictions(features, 0)).values()) == {1.0}
    assert ("with an accuracy of 1.000 on 48 held-out examples" in caplog.text) == (count == 500)
    noise, noise_test = np.random.default_rng(2).normal(size=(2, 600, 16)).astype(np.float32)
    random = labeled((noise[:count], labels), (noise_test[:400], test_labels), convert)
    assert 0.15 < np.mean(logistic_predictions(random, 0) == test_labels) < 0.35


def test_predictions_depend_only_on_the_seed_and_keep_the_callers_random_state(few_are_held_out):
    features = labeled(clusters(100, spread=2.0), clusters(300, spread=2.0, seed=1), scipy.sparse.csr_matrix)
    predicted = []
    for state in (1, 2):
        np.random.seed(state)
        before = np.random.get_state()[1].copy()
        predicted.append(logistic_predictions(features, 0))
        assert (np.random.get_state()[1] == before).all()
    assert (predicted[0] == predicted[1]).all()


def test_a_class_may_have_one_example_or_test_examples_only(few_are_held_out):
    train, labels = clusters(200)
    test, test_labels = clusters(40, seed=1)
    labels = np.where(np.arange(200) == 5, 4, labels)
    predicted = logistic_predictions(labeled((train, labels), (test, test_labels)), 0)
    assert np.mean(predicted == np.where(np.arange(40) == 0, 7, test_labels)) == pytest.approx(39 / 40)


TREE_NAMES = ["law > tax > vat", "law > tax > income", "law > lease", "art", "art > film"]


def with_tree(names, test_labels):
    """``LabeledFeatures`` of labels with these names, without features."""
    features = labeled((np.zeros((2, 1)), LABELS), (np.zeros((len(test_labels), 1)), np.array(test_labels)))
    return features._replace(tree=label_tree(label_paths(names)))


def test_a_prediction_that_is_wrong_within_its_parent_is_right_at_the_parent():
    features = with_tree(TREE_NAMES, [0, 1, 2, 3])
    within_tax = features.metrics(np.array([1, 0, 2, 3]))
    assert [within_tax[f"{level}accuracy"] for level in ("", "level_1_", "level_2_")] == [0.5, 1.0, 1.0]
    assert [within_tax[f"{level}macro_f1"] for level in ("", "level_1_", "level_2_")] == [0.5, 1.0, 1.0]
    # Level 1: law, law, art, art instead of law, law, law, art. F1 of law is 4/5 and of art 2/3.
    # Level 2: tax, lease, art, art > film instead of tax, tax, lease, art. F1 is 2/3 of tax, and 0 of the other three.
    mixed = features.metrics(np.array([1, 2, 3, 4]))
    assert [mixed[f"{level}accuracy"] for level in ("", "level_1_", "level_2_")] == [0.0, 0.75, 0.25]
    assert mixed["level_1_macro_f1"] == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert mixed["level_2_macro_f1"] == pytest.approx(2 / 3 / 4)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30))
def test_metrics_of_a_level_are_those_of_the_beginnings_of_names(pairs):
    predictions, right = np.array(pairs).T
    found = with_tree(TREE_NAMES, right).metrics(predictions)
    for level in (1, 2):
        nodes = [" > ".join(name.split(" > ")[:level]) for name in TREE_NAMES]
        numbers = np.array([nodes.index(node) for node in nodes])
        expected = prediction_metrics(numbers[predictions], numbers[right])
        assert found[f"level_{level}_accuracy"] == expected["accuracy"]
        assert found[f"level_{level}_macro_f1"] == pytest.approx(expected["macro_f1"])
    assert found["accuracy"] <= found["level_2_accuracy"] <= found["level_1_accuracy"]


@pytest.mark.parametrize("names", [["a", "b", "c"], ["a > b", "c > d", "e"], ["a > b", "a > c", "a > d"]])
def test_labels_that_no_level_groups_have_the_metrics_of_flat_labels(names):
    predictions = np.array([0, 1, 1, 2])
    right = np.array([0, 1, 2, 2])
    assert with_tree(names, right).metrics(predictions) == prediction_metrics(predictions, right)


def test_dense_and_sparse_features_have_equal_retrieval_metrics(texts):
    first_texts, second_texts = half_texts(texts, 0)
    vectorizer = TfidfVectorizer().fit(texts)
    first = vectorizer.transform(first_texts)
    second = vectorizer.transform(second_texts)
    score = retrieval_metrics(first, second)
    assert score == pytest.approx(retrieval_metrics(first.toarray(), second.toarray()), abs=1e-6)
    assert score["recall@1"] > 0.9  # each sentence has the number of its document


def test_identical_halves_are_found_and_ties_count_as_wrong():
    features = np.random.default_rng(0).normal(size=(1500, 8))
    assert retrieval_metrics(features, 2 * features)["mrr"] == 1.0
    assert retrieval_metrics(np.ones((30, 2)), np.ones((30, 2)))["recall@10"] == 0.0
    zeros = scipy.sparse.csr_matrix((30, 2))
    assert retrieval_metrics(zeros, zeros)["recall@10"] == 0.0
