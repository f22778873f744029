"""MeasuringTrainer: a Trainer whose logs and evaluations tell the parts of its loss, and not the loss alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from transformers import Trainer

from .statistics import RunningMeans


class MeasuringTrainer(Trainer):
    """The stock Trainer, which logs what a subclass adds to ``_means`` in its ``compute_loss``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._means = RunningMeans()

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log, with the means of what the steps since the last log measured.

        Args:
            logs: What is to be logged.
            start_time: As ``Trainer.log``.
        """
        means = self._means.pop()
        # "loss" of steps, "eval_loss" of an evaluation; "train_loss" is the mean of the run, log loss a metric.
        losses = [name for name in logs if name == "loss" or name.endswith("_loss")]
        for name in losses:
            if name != "train_loss" and not name.endswith("log_loss"):
                logs |= {f"{name.removesuffix('loss')}{measured}": value for measured, value in means.items()}
        super().log(logs, start_time)

    @contextlib.contextmanager
    def _measuring_apart(self) -> Iterator[None]:
        """Keep what an evaluation measures apart from what the steps around it do."""
        training, self._means = self._means, RunningMeans()
        try:
            yield
        finally:
            self._means = training
