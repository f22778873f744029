"""The papers' experiments as protocols: what each measures, on which tasks and systems, and with which seeds."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..tasks.loading import ClassificationTask, CorpusTask, EvaluationTask, PairTask
from .few_shot import sample_per_class
from .measures import MEASURES
from .parts_of_speech import load_spacy
from .probe import FEWEST_TO_HOLD_OUT
from .settings import EvaluationSettings
from .subject import SpacyPipeline, Subject, document_encoder, encoding_options, language_of

if TYPE_CHECKING:
    from ..systems.loading import System

ANY_TASK = (ClassificationTask, PairTask, CorpusTask)
NO_SEED = 0  # of what has nothing random in it, so that another --seed does not measure it again
SPLIT_INTO_SENTENCES = ("half_documents", "redundancy")
HOLDING_OUT = ("full", "knn", "decoupled")
KINDS = {ClassificationTask: "texts with labels", PairTask: "pairs of documents", CorpusTask: "texts alone"}


@dataclass(frozen=True)
class Measurement:
    """What becomes one record: a protocol with its settings and a seed.

    Args:
        protocol: As in the records. ``curve`` is ``few_shot`` there.
        settings: What the numbers depend on, beside system, task and seed.
        seed: Of this repeat.

    Example:

        >>> Measurement("full", {"probe": "mlp"}, 0).protocol
        'full'
    """

    protocol: str
    settings: dict[str, Any]
    seed: int


Planned = tuple[list[Measurement], list[str]]  # what is measured, and lines on what cannot be


@dataclass(frozen=True)
class Protocol:
    """An experiment of the papers.

    Args:
        description: What it measures.
        tasks: The kinds of task that it runs on.
        measurements: From a task and the settings to what is to be measured, and lines on what cannot be.
        needs_weights: Whether it runs with encoders only whose weights are here.

    Example:

        >>> PROTOCOLS["citation"].tasks == (PairTask,)
        True
    """

    description: str
    tasks: tuple[type, ...]
    measurements: Callable[[EvaluationTask, EvaluationSettings], Planned]
    needs_weights: bool = False


def check_protocols(names: Sequence[str]) -> None:
    """Refuse a protocol that there is not.

    Args:
        names: Names of protocols.

    Raises:
        ValueError: If a name is unknown, with those that there are.

    Example:

        >>> check_protocols(["ful"])
        Traceback (most recent call last):
        ValueError: There is no protocol 'ful'. Did you mean 'full'? Known protocols: full, few_shot, curve, knn, \
decoupled, citation, half_documents, redundancy, attention.
    """
    for name in names:
        if name not in PROTOCOLS:
            near = difflib.get_close_matches(name, PROTOCOLS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"There is no protocol {name!r}.{hint} Known protocols: {', '.join(PROTOCOLS)}.")


def plan(
    names: Sequence[str], system: System | SpacyPipeline, task: EvaluationTask, settings: EvaluationSettings
) -> Planned:
    """What protocols measure of a system on a task.

    Args:
        names: Names of protocols.
        system: The system.
        task: The task.
        settings: How.

    Returns:
        The measurements, none of them twice, and a line for each that cannot be made.

    Raises:
        ValueError: If a protocol is unknown.

    Example:

        >>> from docsplit_hf.experiments.systems.loading import load_system
        >>> plan(["citation"], load_system("tfidf"), CorpusTask("mine", ["A text."]), EvaluationSettings())
        ([], ['citation does not run on mine: it takes pairs of documents, and mine has texts alone.'])
    """
    check_protocols(names)
    if isinstance(system, SpacyPipeline):
        measurement = Measurement("nouns_and_verbs", {"spacy_pipeline": system.name}, NO_SEED)
        return ([measurement] if "redundancy" in names else []), []
    measurements: list[Measurement] = []
    left_out: list[str] = []
    for name in dict.fromkeys(names):
        protocol = PROTOCOLS[name]
        if type(task) not in protocol.tasks:
            wanted = " or ".join(KINDS[kind] for kind in protocol.tasks)
            left_out.append(
                f"{name} does not run on {task.name}: it takes {wanted}, and {task.name} has {KINDS[type(task)]}."
            )
        elif protocol.needs_weights and (reason := _why_not(name, system)):
            left_out.append(f"{name} does not run with {system.name}: it takes an encoder {reason}.")
        else:
            planned, lines = protocol.measurements(task, settings)
            measurements += [one for one in planned if one not in measurements]
            left_out += lines
    return measurements, left_out


def measure(subject: Subject, measurement: Measurement) -> dict[str, float]:
    """Carry out a measurement.

    Args:
        subject: The system on the task.
        measurement: What.

    Returns:
        The metrics, shares from 0 to 1 (R and attention as they are).

    Raises:
        ValueError: If the system gives NaN, or the task has too little to measure.

    Example:

        >>> from docsplit_hf.experiments.systems.loading import load_system
        >>> labels = np.array([0, 1] * 4)
        >>> texts = ["all good", "all bad"] * 4
        >>> task = ClassificationTask("mine", texts, labels, texts, labels, ["pro", "contra"])
        >>> measurement = Measurement("full", {"probe": "logistic"}, 0)
        >>> measure(Subject(load_system("tfidf"), task), measurement)["accuracy"]
        1.0
    """
    return MEASURES[measurement.protocol](subject, measurement.settings, measurement.seed)


def _why_not(name: str, system: System) -> str | None:
    encoder = document_encoder(system)
    if encoder is None:
        return "whose weights are here"
    if name == "decoupled" and (encoder.instruction or encoder.projection is not None):
        return "without an instruction and without dense layers behind it"
    if name == "decoupled" and encoding_options(system).get("long_documents") == "average":
        return "that cuts long documents (--long_documents truncate)"
    return None


def _over_seeds(protocol: str, *fields: str) -> Callable[[EvaluationTask, EvaluationSettings], Planned]:
    """Once a seed, with these of the settings."""

    def measurements(task: EvaluationTask, settings: EvaluationSettings) -> Planned:
        chosen = {field: getattr(settings, field) for field in fields}
        if (
            protocol in SPLIT_INTO_SENTENCES and language_of(task) != "en"
        ):  # the same texts may be a task of no language
            chosen["language"] = language_of(task)
        if protocol in HOLDING_OUT:
            chosen |= _how_equal_texts_are_held_out(task)
        return [Measurement(protocol, chosen, seed) for seed in settings.seeds_of(settings.seeds)], []

    return measurements


def _few_shot(task: ClassificationTask, settings: EvaluationSettings) -> Planned:
    shots = settings.shots_of(task.name)
    try:
        sample_per_class(task.train_labels, shots, settings.seed, task.label_names)
    except ValueError as error:  # of one rare class; the other protocols take it
        return [], [f"few_shot does not run on {task.name}: {error}"]
    return _at_shots(shots, task, settings), []


def _curve(task: ClassificationTask, settings: EvaluationSettings) -> Planned:
    smallest = int(np.unique(task.train_labels, return_counts=True)[1].min())
    possible = [shots for shots in settings.curve_shots if shots <= smallest]
    beyond = [str(shots) for shots in settings.curve_shots if shots > smallest]
    line = f"curve leaves {', '.join(beyond)} examples per class out on {task.name}: its smallest class has {smallest}."
    measurements = [one for shots in possible for one in _at_shots(shots, task, settings)]
    return measurements, [line] if beyond else []


def _at_shots(shots: int, task: ClassificationTask, settings: EvaluationSettings) -> list[Measurement]:
    chosen = {"shots": shots, "probe": settings.few_shot_probe, "max_length": settings.max_length}
    if shots * len(np.unique(task.train_labels)) >= FEWEST_TO_HOLD_OUT:
        chosen |= _how_equal_texts_are_held_out(task)
    return [Measurement("few_shot", chosen, seed) for seed in settings.seeds_of(settings.repeats)]


def _how_equal_texts_are_held_out(task: ClassificationTask) -> dict[str, str]:
    """Nothing where no text is repeated: records from before equal texts were held out together are still right."""
    return {"equal_texts": "together"} if len(set(task.train_inputs)) < len(task.train_inputs) else {}


def _attention(task: EvaluationTask, settings: EvaluationSettings) -> Planned:
    name = settings.spacy_pipeline
    chosen = {
        "spacy_pipeline": name,
        "spacy_version": SpacyPipeline(load_spacy(name)).name,
        "max_length": settings.max_length,
    }
    return [Measurement("attention", chosen, NO_SEED)], []


PROTOCOLS = {
    "full": Protocol(
        "a probe on frozen features, the whole training set",
        (ClassificationTask,),
        _over_seeds("full", "probe", "max_length"),
    ),
    "few_shot": Protocol("the same with a few examples per class", (ClassificationTask,), _few_shot),
    "curve": Protocol("few_shot over the number of examples", (ClassificationTask,), _curve),
    "knn": Protocol("nearest neighbors on frozen features", (ClassificationTask,), _over_seeds("knn", "max_length")),
    "decoupled": Protocol(
        "the encoder fine-tuned, mixed with its neighbors",
        (ClassificationTask,),
        _over_seeds("decoupled", "max_length"),
        needs_weights=True,
    ),
    "citation": Protocol("whether one paper cites another", (PairTask,), _over_seeds("citation", "max_length")),
    "half_documents": Protocol(
        "given one half of a text, find the other", ANY_TASK, _over_seeds("half_documents", "max_length")
    ),
    "redundancy": Protocol(
        "how much texts repeat themselves: nouns and verbs, sentences",
        ANY_TASK,
        _over_seeds("redundancy", "max_length"),
    ),
    "attention": Protocol("what the first token looks at, by part of speech", ANY_TASK, _attention, needs_weights=True),
}
