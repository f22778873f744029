"""EvaluationSettings: how often, with how many examples, and how much of a text is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from transformers.hf_argparser import HfArg

LEAST_ONE = ("max_length", "seeds", "repeats", "shots", "max_train_examples", "max_test_examples")


@dataclass
class EvaluationSettings:
    """How protocols are run. The names of the probes are fixed here; the papers' experiments choose among several."""

    probe: ClassVar[str] = "logistic"
    few_shot_probe: ClassVar[str] = "logistic"
    max_length: int = HfArg(default=512, help="Longest text in tokens; the rest is cut.")
    seeds: int = HfArg(default=3, help="Repeats of all protocols but few_shot and curve.")
    shots: int = HfArg(default=5, help="Training examples per class in 'few_shot'.")
    repeats: int = HfArg(default=10, help="Draws of the few examples.")
    curve_shots: list[int] = HfArg(
        default_factory=lambda: [1, 2, 5, 10, 20, 50], help="Training examples per class in 'curve'."
    )
    max_train_examples: int | None = HfArg(default=None, help="Use a random sample of this many training examples.")
    max_test_examples: int | None = HfArg(
        default=None, help="Use a random sample of this many test examples, or texts of a corpus."
    )
    seed: int = HfArg(default=0, help="Where the seeds of the repeats begin.")

    def __post_init__(self) -> None:
        self.curve_shots = sorted(set(self.curve_shots))
        for name in LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}.")
        if not self.curve_shots or self.curve_shots[0] < 1:
            raise ValueError(f"curve_shots must be numbers from 1, got {self.curve_shots}.")
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, got {self.seed}.")

    def shots_of(self, task_name: str) -> int:
        """Training examples per class in ``few_shot`` on a task."""
        return self.shots

    def seeds_of(self, repeats: int) -> list[int]:
        """The seeds of this many repeats."""
        return list(range(self.seed, self.seed + repeats))
