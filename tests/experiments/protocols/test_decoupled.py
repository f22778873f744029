import dataclasses

import numpy as np
import pytest

from docsplit_hf.classifier.calibration import Calibration
from experiments.evaluation.experiment import Evaluation
from experiments.evaluation.systems import load_system
from experiments.evaluation.tasks import ClassificationTask
from experiments.papers_options import PaperSettings
from experiments.protocols import fine_tuned
from experiments.protocols.decoupled import (
    PAPER_K,
    PAPER_TEMPERATURE,
    WEIGHTS,
    mixture_metrics,
    neighbors_settings,
)
from experiments.protocols.fine_tuned import FineTuned

from ..planning import plan

QUICK = {"num_train_epochs": 1, "learning_rate": 1e-3, "per_device_train_batch_size": 8, "use_cpu": True}


@pytest.fixture(scope="module")
def task(texts):
    labels = np.arange(len(texts)) % 2
    texts = [f"The {('glacier', 'market')[label]} of number {i}. {texts[i]}" for i, label in enumerate(labels)]
    return ClassificationTask("subjects", texts[:36], labels[:36], texts[36:], labels[36:], ["glacier", "market"])


def found(seed=0, queries=40, classes=3):
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=queries)
    neighbors = np.where(rng.random((queries, 128)) < 0.5, labels[:, None], rng.integers(classes, size=(queries, 128)))
    classifier = rng.dirichlet(np.ones(classes), queries)
    return FineTuned(
        classifier=classifier,
        distances=np.sort(rng.random((queries, 128)), 1),
        neighbor_labels=neighbors,
        labels=labels,
        calibration=Calibration(3, 0.5, 0.25, -1.0, 2.0, 10),
        examples=1000,
        silhouette=0.1,
    )


def test_fixed_settings_give_equations_2_and_3():
    one = found()
    k = 5
    temperature = 0.2
    weight = 0.3
    shares = np.exp(-one.distances[:, :k] / temperature)
    shares /= shares.sum(1, keepdims=True)
    knn = np.stack([(shares * (one.neighbor_labels[:, :k] == label)).sum(1) for label in range(3)], 1)
    mixed = weight * knn + (1 - weight) * one.classifier
    settings = {"neighbors": "fixed", "k": k, "temperature": temperature, "weight": weight}
    metrics = mixture_metrics(one, settings)
    assert metrics["accuracy"] == (mixed.argmax(1) == one.labels).mean()
    assert metrics["knn_accuracy"] == (knn.argmax(1) == one.labels).mean()
    assert metrics["classifier_accuracy"] == (one.classifier.argmax(1) == one.labels).mean()
    assert metrics["weight"] == weight and metrics["silhouette"] == one.silhouette
    pairs = zip(one.labels, one.neighbor_labels[:, :64], strict=True)
    assert metrics["purity"] == pytest.approx(np.mean([list(row).count(label) / 64 for label, row in pairs]))


@pytest.mark.parametrize("metric", ["accuracy", "matthews_correlation"])
def test_the_oracle_is_the_best_of_all_weights_on_the_test_set(metric):
    for seed in range(2):
        one = found(seed)
        chosen = {"k": PAPER_K, "temperature": PAPER_TEMPERATURE}
        oracle = mixture_metrics(one, {"neighbors": "oracle", "best": metric} | chosen)
        by_weight = [mixture_metrics(one, {"neighbors": "fixed", "weight": w} | chosen)[metric] for w in WEIGHTS]
        assert oracle[metric] == max(by_weight) and oracle["weight"] == WEIGHTS[int(np.argmax(by_weight))]


def test_calibrated_uses_the_calibration_alone():
    one = found()
    metrics = mixture_metrics(one, {"neighbors": "calibrated"})
    assert metrics["weight"] == one.calibration.weight
    as_given = {"neighbors": "fixed", "k": 3, "temperature": 0.5, "weight": 0.25}
    assert metrics["knn_accuracy"] == mixture_metrics(one, as_given)["knn_accuracy"]


def test_fixed_has_lambda_for_the_papers_tasks_and_needs_it_for_others():
    settings = PaperSettings()
    assert neighbors_settings("fixed", "TNEWS", settings)["weight"] == 0.8
    assert neighbors_settings("fixed", "CoLA", PaperSettings(knn_weight=0.5))["weight"] == 0.5
    assert neighbors_settings("oracle", "CoLA", settings)["best"] == "matthews_correlation"
    with pytest.raises(ValueError, match="needs lambda for mine.*--knn_weight"):
        neighbors_settings("fixed", "mine", settings)


def test_the_epoch_is_chosen_by_the_metric_of_the_task(task, tiny_checkpoint):
    system = load_system(str(tiny_checkpoint), max_length=32)
    for name, metric in (("CoLA", "matthews_correlation"), ("SST-2", None)):
        planned, _ = plan(["decoupled"], system, dataclasses.replace(task, name=name), PaperSettings())
        assert planned[0].settings["arguments"].get("metric_for_best_model") == metric


def test_three_systems_are_trained_once_for_all_ways_to_choose(task, tiny_checkpoint, monkeypatch):
    trained = []
    train = fine_tuned.KNNClassifierTrainer.train

    def counted_train(trainer):
        trained.append(trainer.model.config)
        return train(trainer)

    monkeypatch.setattr(fine_tuned.KNNClassifierTrainer, "train", counted_train)
    settings = PaperSettings(
        seeds=1, neighbors_protocol=["calibrated", "fixed", "oracle"], knn_weight=0.5, fine_tuning=QUICK
    )
    evaluation = Evaluation(load_system(str(tiny_checkpoint), max_length=32), task, str(tiny_checkpoint))
    planned, _ = plan(["decoupled"], evaluation.system, task, settings)
    assert len(planned) == 9
    metrics = [one.run(evaluation) for one in planned]
    assert [config.decouple for config in trained] == [False, False, True]
    assert all(one["classifier_accuracy"] == metrics[0]["classifier_accuracy"] for one in metrics[:3])
    again = Evaluation(evaluation.system, task, str(tiny_checkpoint))
    assert planned[-1].run(again) == metrics[-1]  # equal seeds give equal metrics
    sweep, _ = plan(["neighbors_sweep"], evaluation.system, task, settings)
    assert sweep[-1].run(again)["weight"] == 0.5 and len(trained) == 4  # the sweep uses the same classifier
