"""The experiments by name, what they plan together, and carrying out what is planned."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from ..systems.load_system import System
from ..taggers.parts_of_speech import Tagger
from ..tasks.task import EvaluationTask
from . import (
    attention,
    citation,
    decoupled,
    few_shot,
    half_documents,
    length,
    neighbors,
    passage_citation,
    probe,
    redundancy,
)
from .experiment import Evaluation, Measurement, Plan
from .settings import EvaluationSettings

PROTOCOLS = {
    "full": probe.FULL,
    "few_shot": few_shot.FEW_SHOT,
    "curve": few_shot.CURVE,
    "knn": neighbors.KNN,
    "length": length.LENGTH,
    "decoupled": decoupled.DECOUPLED,
    "retrieval_vectors": decoupled.RETRIEVAL_VECTORS,
    "neighbors_sweep": decoupled.NEIGHBORS_SWEEP,
    "citation": citation.CITATION,
    "passage_citation": passage_citation.PASSAGE_CITATION,
    "half_documents": half_documents.HALF_DOCUMENTS,
    "redundancy": redundancy.REDUNDANCY,
    "attention": attention.ATTENTION,
}
# The half of redundancy that a tagger measures in the place of a system.
BY_TAGGER = {"nouns_and_verbs": redundancy.NOUNS_AND_VERBS}
PARTS = BY_TAGGER | {"length_read": length.LENGTH_READ}  # of a protocol that plans them


def check_protocols(names: Sequence[str]) -> None:
    """Refuse a protocol that does not exist, and name those that do."""
    for name in names:
        if name not in PROTOCOLS:
            near = difflib.get_close_matches(name, PROTOCOLS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"There is no protocol {name!r}.{hint} Known protocols: {', '.join(PROTOCOLS)}.")


def plan(names: Sequence[str], system: System | Tagger, task: EvaluationTask, settings: EvaluationSettings) -> Plan:
    """What protocols measure of a system on a task, nothing twice, and a line for each that cannot be measured."""
    check_protocols(names)
    experiments = {name: PROTOCOLS[name] for name in names}
    if isinstance(system, Tagger):
        experiments = BY_TAGGER if "redundancy" in names else {}
    measurements: list[Measurement] = []
    left_out: list[str] = []
    for name, experiment in experiments.items():
        if type(task) not in experiment.tasks:
            wanted = " or ".join(kind.kind for kind in experiment.tasks)
            left_out.append(f"{name} does not run on {task.name}: it takes {wanted}, and {task.name} has {task.kind}.")
        elif reason := experiment.refuses(system):
            left_out.append(f"{name} does not run with {system.name}: it takes an encoder {reason}.")
        else:
            planned, lines = experiment.plan(task, settings)
            measurements += [one for one in planned if one not in measurements]
            left_out += lines
    return measurements, left_out


def measure(evaluation: Evaluation, measurement: Measurement) -> dict[str, float]:
    """The metrics of one repeat: shares from 0 to 1, but for R and attention."""
    protocol, settings, seed = measurement
    return (PROTOCOLS | PARTS)[protocol].measure(evaluation, settings, seed)
