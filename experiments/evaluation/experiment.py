"""The interface of protocols: settings, the tasks and systems that they accept, plans, and measurements."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

from transformers.hf_argparser import HfArg

from .results import Settings
from .systems import System
from .tasks import EvaluationTask

AT_LEAST_ONE = ("max_length", "seeds", "repeats", "shots", "max_train_examples", "max_test_examples")


@dataclass
class EvaluationSettings:
    """Settings of protocols. Its probes are fixed; a subclass for the papers' experiments has a choice of them."""

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
    seed: int = HfArg(default=0, help="First seed of the repeats.")

    def __post_init__(self) -> None:
        self.curve_shots = sorted(set(self.curve_shots))
        for name in AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}.")
        if not self.curve_shots or self.curve_shots[0] < 1:
            raise ValueError(f"curve_shots must be numbers from 1, got {self.curve_shots}.")
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, got {self.seed}.")

    def shots_of(self, task_name: str) -> int:
        """The training examples per class in ``few_shot`` on a task."""
        return self.shots

    def seeds_of(self, repeats: int) -> list[int]:
        """The seeds of a number of repeats."""
        return list(range(self.seed, self.seed + repeats))


Result = TypeVar("Result")


@dataclass(eq=False)
class Evaluation:
    """A system on a task; ``checkpoint``: the encoder's folder or name, for protocols that fine-tune it."""

    system: System
    task: EvaluationTask
    checkpoint: str | None = None
    _results: dict[tuple[Hashable, ...], Any] = field(default_factory=dict, init=False)

    def once(self, compute: Callable[..., Result], *arguments: Hashable) -> Result:
        """Return ``compute(self, *arguments)``, which is computed in the first call only."""
        key = (compute, *arguments)
        if key not in self._results:
            self._results[key] = compute(self, *arguments)
        return self._results[key]


Measure = Callable[[Evaluation, Settings, int], dict[str, float]]


class PlannedMeasurement(NamedTuple):
    """A planned measurement, the result of which is one record."""

    protocol: str
    settings: Settings  # the settings that the metrics depend on
    seed: int
    measure: Measure

    def run(self, evaluation: Evaluation) -> dict[str, float]:
        """Measure: metrics by name."""
        return self.measure(evaluation, self.settings, self.seed)


Plan = tuple[list[PlannedMeasurement], list[str]]  # measurements, and a line for each one that is impossible


class Experiment(NamedTuple):
    """A protocol."""

    description: str
    tasks: tuple[type, ...] | None  # the classes of tasks that it accepts; None: any
    plan: Callable[[EvaluationTask, EvaluationSettings], Plan]
    # Returns what kind of encoder it needs for a system that it does not accept, otherwise None. None: it accepts all.
    refuses: Callable[[System], str | None] | None = None
    # Plans measurements in addition to the planned ones.
    beside: Callable[[System, list[PlannedMeasurement]], list[PlannedMeasurement]] | None = None


def once_per_seed(protocol: str, chosen: Settings, settings: EvaluationSettings, measure: Measure) -> Plan:
    """Plan the same measurement with each seed."""
    measurements = [PlannedMeasurement(protocol, chosen, seed, measure) for seed in settings.seeds_of(settings.seeds)]
    return measurements, []


def sentence_settings(task: EvaluationTask, settings: EvaluationSettings) -> Settings:
    """The settings of a protocol that splits texts into sentences; English is left out, as in older records."""
    chosen: Settings = {"max_length": settings.max_length}
    if task.language != "en":
        chosen["language"] = task.language
    return chosen


def check_protocols(names: Iterable[str], protocols: Iterable[str]) -> None:
    """Refuse unknown protocols; the error names the known ones."""
    for name in names:
        if name not in protocols:
            near = difflib.get_close_matches(name, protocols, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"There is no protocol {name!r}.{hint} Known protocols: {', '.join(protocols)}.")


def plan(
    experiments: Mapping[str, Experiment], system: System, task: EvaluationTask, settings: EvaluationSettings
) -> Plan:
    """Plan the measurements of a system on a task, without duplicates; explain each protocol that is left out."""
    measurements: list[PlannedMeasurement] = []
    left_out: list[str] = []
    for name, experiment in experiments.items():
        if experiment.tasks is not None and not isinstance(task, experiment.tasks):
            wanted = " or ".join(kind.kind for kind in experiment.tasks)
            left_out.append(f"{name} does not run on {task.name}: it takes {wanted}, and {task.name} has {task.kind}.")
            continue
        reason = experiment.refuses(system) if experiment.refuses else None
        if reason:
            left_out.append(f"{name} does not run with {system.name}: it takes an encoder {reason}.")
            continue
        planned, lines = experiment.plan(task, settings)
        if experiment.beside is not None:
            planned = planned + experiment.beside(system, planned)
        measurements += [measurement for measurement in planned if measurement not in measurements]
        left_out += lines
    return measurements, left_out
