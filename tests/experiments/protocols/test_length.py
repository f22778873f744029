import numpy as np
import pytest

from docsplit_hf.evaluation.probes import LabeledFeatures, logistic_predictions
from docsplit_hf.evaluation.systems import TfidfSystem
from experiments.evaluation.experiment import Evaluation
from experiments.evaluation.systems import EncoderSystem, load_system
from experiments.evaluation.tasks import ClassificationTask
from experiments.papers_options import PaperSettings
from experiments.protocols.length import metrics_by_length, passage_predictions, reading_by_length
from experiments.protocols.nearest_neighbors import has_passages, knn_predictions
from experiments.systems import with_passages
from tests.evaluation.test_probes import clusters, labeled

from ..planning import plan

SETTINGS = PaperSettings(shots=2, repeats=2, seeds=1, max_length=32)
WORDS = np.array([10, 249, 250, 999, 1_000, 5_000])


@pytest.fixture(scope="module")
def task(texts):
    long = [" ".join(texts[i : i + 8] if i % 3 else texts[i : i + 1]) for i in range(40)]
    labels = np.array(["river" in text for text in texts[:40]], dtype=np.int64)
    return ClassificationTask("rivers", long[:30], labels[:30], long[30:], labels[30:], ["no", "yes"])


def test_each_bucket_has_the_accuracy_of_its_documents_and_an_interval():
    labels = np.array([0, 1, 0, 1, 1, 0])
    metrics = metrics_by_length(np.array([0, 0, 0, 1, 1, 0]), labels, WORDS)
    accuracies = {"": 5 / 6, " < 250": 0.5, " 250-500": 1, " 500-1,000": 1, " 1,000-2,000": 1, " > 4,000": 1}
    assert {name: metrics[f"accuracy{name}"] for name in accuracies} == pytest.approx(accuracies)
    assert metrics["macro_f1 < 250"] == pytest.approx(1 / 3)
    assert not any("2,000-4,000" in name for name in metrics)
    assert metrics["accuracy_interval"] == pytest.approx(2.5706 * np.std(np.arange(6) > 0, ddof=1) / 6**0.5, rel=1e-4)
    assert "accuracy > 4,000_interval" not in metrics  # of one document


def test_shares_and_tokens_read_are_averaged_in_each_bucket():
    metrics = reading_by_length(np.array([1, 0.5, 1, 0.2, 0.1, 0.4]), np.arange(6), WORDS)
    assert (metrics["documents < 250"], metrics["share_read < 250"], metrics["tokens_read < 250"]) == (2, 0.75, 0.5)
    assert (metrics["documents"], metrics["tokens_read"]) == (6, 2.5)


def passages(features, others=0, seed=0):
    """Documents with one informative passage among random ones, at a random place."""
    rng = np.random.default_rng(seed)
    rows = np.empty(len(features), dtype=object)
    for number, informative in enumerate(features):
        noise = rng.normal(size=(others, len(informative)))
        noise /= np.linalg.norm(noise, axis=1, keepdims=True)
        rows[number] = np.insert(noise, rng.integers(others + 1), informative, axis=0).astype(np.float32)
    return rows


def by_probe(features, seed):
    predict = passage_predictions if has_passages(features.train) else logistic_predictions
    return predict(features, seed)


@pytest.mark.parametrize("predict", [knn_predictions, by_probe])
def test_a_document_of_one_passage_is_classified_like_its_embedding(predict):
    train = clusters(60, spread=1.5)
    test = clusters(200, spread=1.5, seed=1)
    _, test_labels = test
    alone = predict(labeled(train, test), 0)
    assert (predict(labeled(train, test, passages), 0) == alone).all() and 0.5 < (alone == test_labels).mean() < 1


@pytest.mark.parametrize("predict", [knn_predictions, by_probe])
def test_passages_are_more_accurate_than_their_mean(predict):
    train, labels = clusters(80, dimension=32)
    test, test_labels = clusters(200, dimension=32, seed=1)
    features = LabeledFeatures(passages(train, 15), labels, passages(test, 15, seed=1), test_labels, range(80))
    means = features._replace(
        train=np.stack([vectors.mean(0) for vectors in features.train]),
        test=np.stack([vectors.mean(0) for vectors in features.test]),
    )
    by_passages = np.mean(predict(features, 0) == test_labels)
    by_means = np.mean(predict(means, 0) == test_labels)
    assert by_passages > by_means + 0.1


@pytest.mark.parametrize("strategy", ["first", "head_tail", "average", "passages"])
def test_accuracy_and_reading_are_measured_for_each_strategy(task, tiny_checkpoint, strategy):
    loaded = load_system(f"{tiny_checkpoint}#pooling=mean", max_length=32)
    [reading] = loaded.with_strategies([strategy])
    system = with_passages(reading)
    assert system.name == f"{tiny_checkpoint}#pooling=mean ({strategy})" and system.encoder.encoder is loaded.encoder
    planned, left_out = plan(["length"], system, task, SETTINGS)
    assert left_out == [] and len(planned) == 1 + 2 * (2 + 1)
    evaluation = Evaluation(system, task)
    for measurement in planned[1:]:
        metrics = measurement.run(evaluation)
        assert metrics == measurement.run(evaluation) and 0 <= metrics["accuracy < 250"] <= 1
    tokens = [len(ids) for ids in loaded.encoder.tokenizer(task.test_texts, add_special_tokens=False)["input_ids"]]
    shares = [min(30 / count, 1) if strategy in ("first", "head_tail") else 1 for count in tokens]
    read = planned[0].run(evaluation)
    assert read["share_read"] == pytest.approx(np.mean(shares))
    assert read["tokens_read"] <= 32 if strategy in ("first", "head_tail") else read["tokens_read"] > 32


def test_word_counts_read_whole_texts_and_endpoints_are_refused(task):
    planned, _ = plan(["length"], TfidfSystem(), task, SETTINGS)
    read = planned[0].run(Evaluation(TfidfSystem(), task))
    assert (read["share_read"], read["tokens_read"], read["documents"]) == (1, 0, 10)
    planned, [line] = plan(["length"], EncoderSystem("service", object()), task, SETTINGS)
    assert planned == [] and "it takes an encoder whose weights are here" in line
    assert EncoderSystem("service", object()).with_strategies(["first", "head_tail"])[0].name == "service"
