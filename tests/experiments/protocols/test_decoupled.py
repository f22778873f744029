import numpy as np
import pytest

from docsplit_hf.experiments.protocols.decoupled import decoupled_metrics
from docsplit_hf.experiments.tasks.task import ClassificationTask


def test_a_task_without_an_example_to_hold_out_is_refused(tmp_path):
    labels = np.array([0, 1])
    task = ClassificationTask("two", ["a", "b"], labels, ["c", "d"], labels, ["x", "y"])
    with pytest.raises(ValueError, match="two: each class has one text"):
        decoupled_metrics("nowhere", task, str(tmp_path), 0, max_length=8, pooling="mean")


def test_classifier_neighbors_and_mixture_are_measured_and_the_seed_decides(tiny_checkpoint, texts, tmp_path):
    labels = np.arange(len(texts)) % 2
    texts = [f"The {('glacier', 'market')[label]} of number {i}. {texts[i]}" for i, label in enumerate(labels)]
    task = ClassificationTask("subjects", texts[:36], labels[:36], texts[36:], labels[36:], ["glacier", "market"])
    arguments = {"num_train_epochs": 1, "learning_rate": 1e-3, "per_device_train_batch_size": 8, "use_cpu": True}
    arguments |= {"disable_tqdm": True, "max_length": 32, "pooling": "mean"}
    scores = [decoupled_metrics(str(tiny_checkpoint), task, str(tmp_path / run), 1, **arguments) for run in "ab"]
    assert set(scores[0]) == {
        f"{part}{name}" for part in ("", "classifier_", "knn_") for name in ("accuracy", "macro_f1")
    }
    assert all(0 <= value <= 1 for value in scores[0].values())
    assert scores[0] == scores[1]
