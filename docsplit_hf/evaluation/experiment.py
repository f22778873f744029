"""An experiment of the papers: the tasks it takes, what it plans for one, and how it measures a system on it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ...models.inference.encoder import DocumentEncoder
from ..systems.load_system import EncoderSystem, System
from ..tasks.task import EvaluationTask, language_of

if TYPE_CHECKING:
    from ..taggers.parts_of_speech import Tagger
    from .settings import EvaluationSettings

Result = TypeVar("Result")
NO_SEED = 0  # where nothing is random, so that another --seed does not measure it again


class Measurement(NamedTuple):
    """What becomes one record: a protocol, the settings that its metrics depend on, and the seed of this repeat."""

    protocol: str
    settings: dict[str, Any]
    seed: int


Plan = tuple[list[Measurement], list[str]]  # what is measured, and a line for each thing that cannot be


class Evaluation:
    """A system on a task; ``checkpoint`` is where its encoder is, to be fine-tuned."""

    def __init__(self, system: System | Tagger, task: EvaluationTask, checkpoint: str | None = None) -> None:
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


class Experiment(NamedTuple):
    """One experiment. ``refuses`` says which encoder it takes where a system is none such, else None."""

    description: str
    tasks: tuple[type, ...]
    plan: Callable[[EvaluationTask, EvaluationSettings], Plan]
    measure: Callable[[Evaluation, Mapping[str, Any], int], dict[str, float]]
    refuses: Callable[[System], str | None] = lambda system: None


def once_per_seed(protocol: str, chosen: dict[str, Any], settings: EvaluationSettings) -> Plan:
    """The same measurement with each of the seeds."""
    return [Measurement(protocol, chosen, seed) for seed in settings.seeds_of(settings.seeds)], []


def sentence_settings(task: EvaluationTask, settings: EvaluationSettings) -> dict[str, Any]:
    """Settings of an experiment that splits texts into sentences. English goes without saying, as in older records."""
    language = language_of(task)
    return {"max_length": settings.max_length} | ({} if language == "en" else {"language": language})


def document_encoder(system: System) -> DocumentEncoder | None:
    """The encoder whose weights are here; None for word counts and endpoints."""
    encoder = system.encoder if isinstance(system, EncoderSystem) else None
    encoder = getattr(encoder, "encoder", encoder)  # one with options has it inside
    return encoder if isinstance(encoder, DocumentEncoder) else None


def encoding_options(system: System) -> dict[str, Any]:
    """The options of ``DocumentEncoder.encode`` that were decided: ``bf16`` and ``long_documents``, or none."""
    return getattr(getattr(system, "encoder", None), "options", {})
