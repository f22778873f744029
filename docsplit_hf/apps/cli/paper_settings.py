"""Defaults of ``docsplit classify`` for the tasks of the paper (table 3 of Liang et al. 2023)."""

from typing import Any

from ...reading.paper_tasks import Task


def paper_settings(task: Task, batches_per_step: int) -> dict[str, str | float | None]:
    """Return the options of a task by name. The batch size of the paper is that of a step, over all processes."""
    return {
        "model_name_or_path": task.encoder,
        **task.training_arguments(),
        "per_device_train_batch_size": max(task.batch_size // batches_per_step, 1),
        "max_length": task.max_length,
        "metric_for_best_model": task.metric,
        "knn_weight": task.knn_weight,
    }


def describe_settings(task: Task, batches_per_step: int, given: set[str], used: dict[str, Any]) -> str:
    """Describe the settings, and whether each comes from the paper or the user; ``used``: all options of the run."""
    lines = [f"{task.name}: the settings of the paper (table 3), except where you set others:"]
    for name, paper_value in paper_settings(task, batches_per_step).items():
        value = used[name]
        origin = f"yours; the paper's: {paper_value}" if name in given else "the paper's"
        if name == "per_device_train_batch_size":
            origin += f"; {value * batches_per_step} in a step, {task.batch_size} in the paper"
        elif name == "metric_for_best_model" and name not in given:
            origin = "the metric of the paper, which does not state how it chose an epoch"
        elif name == "knn_weight" and used["neighbors_protocol"] == "calibrated":
            value = "calibrated on held-out examples"
            origin = f"the paper's lambda, {paper_value:g}, was chosen on its test examples"
        lines.append(f"  {name}: {value} ({origin})")
    return "\n".join(lines)
