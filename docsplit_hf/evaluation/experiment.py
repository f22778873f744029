"""Protocols: their settings, the tasks they accept, their plans, and how a measurement is made."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

from transformers.hf_argparser import HfArg

from .systems import System
from .tasks import EvaluationTask

LEAST_ONE = ("max_length", "seeds", "repeats", "shots", "max_train_examples", "max_test_examples")


@dataclass
class EvaluationSettings:
    """How protocols are run. The probes are fixed here; the papers' experiments offer several."""

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
            if (value := getattr(self, name)) is not None and value < 1:
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


Result = TypeVar("Result")


@dataclass(eq=False)
class Evaluation:
    """A system on a task; ``checkpoint`` is where its encoder is, to be fine-tuned."""

    system: System
    task: EvaluationTask
    checkpoint: str | None = None
    _results: dict[tuple[Hashable, ...], Any] = field(default_factory=dict, init=False)

    def once(self, compute: Callable[..., Result], *arguments: Hashable) -> Result:
        """The result of ``compute`` for these arguments, computed at the first call only."""
        key = (compute, *arguments)
        if key not in self._results:
            self._results[key] = compute(self, *arguments)
        return self._results[key]


Measure = Callable[[Evaluation, Mapping[str, Any], int], dict[str, float]]


class Measurement(NamedTuple):
    """A measurement, which becomes one record: protocol, settings that the metrics depend on, and seed."""

    protocol: str
    settings: dict[str, Any]
    seed: int
    measure: Measure

    def run(self, evaluation: Evaluation) -> dict[str, float]:
        """The metrics."""
        return self.measure(evaluation, self.settings, self.seed)


Plan = tuple[list[Measurement], list[str]]  # the measurements, and a line for each one that is impossible


class Experiment(NamedTuple):
    """One protocol."""

    description: str
    tasks: tuple[type, ...] | None  # None: any
    plan: Callable[[EvaluationTask, EvaluationSettings], Plan]
    # Which encoder it takes, where a system is none such; and what is measured beside the plan, as rows of their own.
    refuses: Callable[[System], str | None] = lambda system: None
    beside: Callable[[System, list[Measurement]], list[Measurement]] = lambda system, planned: []


def once_per_seed(protocol: str, chosen: dict[str, Any], settings: EvaluationSettings, measure: Measure) -> Plan:
    """The same measurement with each of the seeds."""
    return [Measurement(protocol, chosen, seed, measure) for seed in settings.seeds_of(settings.seeds)], []


def sentence_settings(task: EvaluationTask, settings: EvaluationSettings) -> dict[str, Any]:
    """Settings of a protocol that splits texts into sentences. English is left out, as in older records."""
    return {"max_length": settings.max_length} | ({} if task.language == "en" else {"language": task.language})


def check_protocols(names: Iterable[str], protocols: Iterable[str]) -> None:
    """Refuse a protocol that does not exist, and name those that do."""
    for name in names:
        if name not in protocols:
            near = difflib.get_close_matches(name, protocols, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"There is no protocol {name!r}.{hint} Known protocols: {', '.join(protocols)}.")


def plan(
    experiments: Mapping[str, Experiment], system: System, task: EvaluationTask, settings: EvaluationSettings
) -> Plan:
    """The measurements of a system on a task, without repeats, and a line for each protocol that does not run."""
    measurements: list[Measurement] = []
    left_out: list[str] = []
    for name, experiment in experiments.items():
        if experiment.tasks is not None and not isinstance(task, experiment.tasks):
            wanted = " or ".join(kind.kind for kind in experiment.tasks)
            left_out.append(f"{name} does not run on {task.name}: it takes {wanted}, and {task.name} has {task.kind}.")
        elif reason := experiment.refuses(system):
            left_out.append(f"{name} does not run with {system.name}: it takes an encoder {reason}.")
        else:
            planned, lines = experiment.plan(task, settings)
            planned = planned + experiment.beside(system, planned)
            measurements += [one for one in planned if one not in measurements]
            left_out += lines
    return measurements, left_out
