"""A system on a task: the features that protocols measure, each made when it is first asked for, and once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...models.inference.encoder import DocumentEncoder
from ...text.paper_tasks import TASKS
from ..systems.loading import EncoderSystem
from ..tasks.loading import EvaluationTask
from .half_documents import half_texts

if TYPE_CHECKING:
    from spacy.language import Language

    from ..systems.features import Features
    from ..systems.loading import System


class PairFeatures(NamedTuple):
    """Features of both documents of each pair, ``(P, D)``, and whether one cites the other, int64 ``(P,)``."""

    first: Features
    second: Features
    labels: np.ndarray


class Subject:
    """A system on a task.

    Args:
        system: The system.
        task: The task.
        checkpoint: Where the system's encoder is, to be fine-tuned: a folder, or a name on the Hub. None: nowhere.

    Example:

        >>> from docsplit_hf.experiments.systems.loading import load_system
        >>> from docsplit_hf.experiments.tasks.loading import ClassificationTask
        >>> labels = np.array([0, 1])
        >>> task = ClassificationTask("mine", ["good", "bad"], labels, ["good"], labels[:1], ["pro", "contra"])
        >>> train, test = Subject(load_system("tfidf"), task).classification_features
        >>> train.shape, test.shape
        ((2, 2), (1, 2))
    """

    def __init__(self, system: System | SpacyPipeline, task: EvaluationTask, checkpoint: str | None = None) -> None:
        self.system = system
        self.task = task
        self.checkpoint = checkpoint

    @cached_property
    def classification_features(self) -> tuple[Features, Features]:
        """Of the training and the test texts of a ``ClassificationTask``, ``(N, D)`` and ``(M, D)``.

        Of two texts with the vectors u and v it is (u, v, |u - v|, u * v), as in InferSent (Conneau et al. 2017).
        """
        task = self.task
        if task.train_pairs is None or task.test_pairs is None:
            train, test = self.system.features(task.train_texts, task.test_texts)
            return train, test
        both, first, second = self.system.features(
            [*task.train_texts, *task.train_pairs], task.test_texts, task.test_pairs
        )
        count = len(task.train_texts)
        return combine_pairs(both[:count], both[count:]), combine_pairs(first, second)

    @cached_property
    def citation_features(self) -> tuple[PairFeatures, PairFeatures]:
        """Of the training and the test pairs of a ``PairTask``. What is fitted is fitted on the training documents."""
        train_ids = list(dict.fromkeys(key for *ids, _ in self.task.train for key in ids))
        known = set(train_ids)
        other_ids = [key for key in self.task.documents if key not in known]
        texts = [[self.task.documents[key] for key in keys] for keys in (train_ids, other_ids) if keys]
        features = _stack(self.system.features(*texts))
        row = {key: number for number, key in enumerate([*train_ids, *other_ids])}
        train, test = (
            PairFeatures(
                features[[row[first] for first, _, _ in pairs]],
                features[[row[second] for _, second, _ in pairs]],
                np.array([label for _, _, label in pairs], dtype=np.int64),
            )
            for pairs in (self.task.train, self.task.test)
        )
        return train, test

    def half_features(self, seed: int) -> tuple[Features, Features]:
        """Of the two halves of each text, ``(N, D)`` each. What is fitted is fitted on all halves."""
        first, second = half_texts(self.task.corpus().texts, seed, language_of(self.task))
        [both] = self.system.features([*first, *second])
        return both[: len(first)], both[len(first) :]


def language_of(task: EvaluationTask) -> str:
    """The language by which the texts of a task are split into sentences.

    Args:
        task: The task.

    Returns:
        The two-letter code; English for files of one's own.

    Example:

        >>> from docsplit_hf.experiments.tasks.loading import CorpusTask
        >>> language_of(CorpusTask("IFLYTEK", [])), language_of(CorpusTask("mine", []))
        ('zh', 'en')
    """
    return TASKS[task.name].language if task.name in TASKS else "en"


class SpacyPipeline:
    """A pipeline of spaCy in the place of a system: how often words come again does not depend on what embeds them.

    Args:
        nlp: The pipeline.

    Example:

        >>> import spacy
        >>> SpacyPipeline(spacy.blank("en")).name
        'spaCy en_pipeline 0.0.0'
    """

    def __init__(self, nlp: Language) -> None:
        self.nlp = nlp
        self.name = f"spaCy {nlp.meta['lang']}_{nlp.meta['name']} {nlp.meta['version']}"
        self.fingerprint = f"{self.name}: {' '.join(nlp.pipe_names)}"


def document_encoder(system: System | SpacyPipeline) -> DocumentEncoder | None:
    """The encoder whose weights are here.

    Args:
        system: A system.

    Returns:
        The encoder; None for word counts and endpoints.

    Example:

        >>> from docsplit_hf.experiments.systems.loading import load_system
        >>> document_encoder(load_system("tfidf")) is None
        True
    """
    encoder = system.encoder if isinstance(system, EncoderSystem) else None
    encoder = getattr(encoder, "encoder", encoder)  # one with options has it inside
    return encoder if isinstance(encoder, DocumentEncoder) else None


def encoding_options(system: System | SpacyPipeline) -> dict[str, Any]:
    """How an encoder is asked to embed.

    Args:
        system: A system.

    Returns:
        The options of ``DocumentEncoder.encode`` that were decided: ``bf16`` and ``long_documents``, or none.

    Example:

        >>> from docsplit_hf.experiments.systems.loading import load_system
        >>> encoding_options(load_system("tfidf"))
        {}
    """
    return getattr(getattr(system, "encoder", None), "options", {})


def combine_pairs(first: Features, second: Features) -> Features:
    """One vector for two: (u, v, |u - v|, u * v).

    Args:
        first: u, ``(N, D)``, dense or sparse.
        second: v, of the same shape.

    Returns:
        ``(N, 4 D)``, dense or sparse as they were.

    Example:

        >>> combine_pairs(np.array([[1.0]]), np.array([[3.0]]))
        array([[1., 3., 2., 3.]])
    """
    if isinstance(first, np.ndarray):
        return np.hstack([first, second, np.abs(first - second), first * second])
    from scipy.sparse import hstack

    return hstack([first, second, abs(first - second), first.multiply(second)]).tocsr()


def _stack(parts: list[Features]) -> Features:
    if isinstance(parts[0], np.ndarray):
        return np.vstack(parts)
    from scipy.sparse import vstack

    return vstack(parts).tocsr()
