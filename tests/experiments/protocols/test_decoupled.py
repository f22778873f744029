import numpy as np
import pytest

from docsplit_hf.experiments.protocols.decoupled import decoupled_score
from docsplit_hf.experiments.tasks.loading import ClassificationTask


@pytest.fixture
def task(texts):
    """Which of two subjects a text names, where it names one of them only."""
    subjects = ("glacier", "market")
    labeled = [(f"The {subjects[i % 2]} of number {i}. {text}", i % 2) for i, text in enumerate(texts)]
    train, test = labeled[:36], labeled[36:]
    split = [([text for text, _ in rows], np.array([label for _, label in rows])) for rows in (train, test)]
    return ClassificationTask("subjects", *split[0], *split[1], list(subjects))


def test_classifier_neighbors_and_mixture_are_measured_and_the_seed_decides(tiny_checkpoint, task, tmp_path):
    arguments = {"num_train_epochs": 1, "learning_rate": 1e-3, "per_device_train_batch_size": 8, "use_cpu": True}
    arguments |= {"disable_tqdm": True, "max_length": 32}
    scores = [decoupled_score(tiny_checkpoint, task, tmp_path / str(run), seed=1, **arguments) for run in range(2)]
    parts = ("classifier", "knn", "mixture")
    assert set(scores[0]) == {f"{part}_{name}" for part in parts for name in ("accuracy", "macro_f1")}
    assert all(0 <= value <= 1 for value in scores[0].values())
    assert scores[0] == scores[1]


def test_a_task_without_an_example_to_hold_out_is_refused(tmp_path):
    labels = np.array([0, 1])
    task = ClassificationTask("two", ["a", "b"], labels, ["c", "d"], labels, ["x", "y"])
    with pytest.raises(ValueError, match="two: each class has one text"):
        decoupled_score("nowhere", task, tmp_path)
