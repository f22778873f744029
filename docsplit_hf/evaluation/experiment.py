"""A protocol: the tasks it takes, what it plans for one, and how each measurement is made."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from .evaluation_settings import EvaluationSettings
from .load_system import System
from .task import EvaluationTask

Result = TypeVar("Result")


class Evaluation:
    """A system on a task; ``checkpoint`` is where its encoder is, to be fine-tuned."""

    def __init__(self, system: System, task: EvaluationTask, checkpoint: str | None = None) -> None:
        self.system = system
        self.task = task
        self.checkpoint = checkpoint
        self._results: dict[tuple[Hashable, ...], Any] = {}

    def once(self, compute: Callable[..., Result], *arguments: Hashable) -> Result:
        """What ``compute`` gives for this evaluation and these arguments, computed at the first call only."""
        key = (compute, *arguments)
        if key not in self._results:
            self._results[key] = compute(self, *arguments)
        return self._results[key]


Measure = Callable[[Evaluation, Mapping[str, Any], int], dict[str, float]]


class Measurement(NamedTuple):
    """What becomes one record: a protocol, the settings that its metrics depend on, and the seed of this repeat."""

    protocol: str
    settings: dict[str, Any]
    seed: int
    measure: Measure

    def run(self, evaluation: Evaluation) -> dict[str, float]:
        """The metrics."""
        return self.measure(evaluation, self.settings, self.seed)


Plan = tuple[list[Measurement], list[str]]  # what is measured, and a line for each thing that cannot be


class Experiment(NamedTuple):
    """One protocol. ``refuses`` says which encoder it takes where a system is none such, else None.

    ``beside`` gives what is measured of a system beside what is planned, as rows of their own.
    """

    description: str
    tasks: tuple[type, ...] | None  # None: any
    plan: Callable[[EvaluationTask, EvaluationSettings], Plan]
    refuses: Callable[[System], str | None] = lambda system: None
    beside: Callable[[System, list[Measurement]], list[Measurement]] = lambda system, planned: []


def once_per_seed(protocol: str, chosen: dict[str, Any], settings: EvaluationSettings, measure: Measure) -> Plan:
    """The same measurement with each of the seeds."""
    return [Measurement(protocol, chosen, seed, measure) for seed in settings.seeds_of(settings.seeds)], []


def sentence_settings(task: EvaluationTask, settings: EvaluationSettings) -> dict[str, Any]:
    """Settings of a protocol that splits texts into sentences. English goes without saying, as in older records."""
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
    """What is measured of a system on a task, nothing twice, and a line for each protocol that cannot be."""
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
