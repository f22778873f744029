"""Problem: everything that a fit gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...arrays.snapshot import Snapshot
from ...storage.earlier_names import EARLIER_EXPERTS
from ..experts.corpus import KeptCorpus
from ..experts.expert import Corpus
from ..experts.log_linear_pool import ClassProportions
from ..experts.registry import EXPERTS
from ..experts.teacher_expert import TeacherAnswers
from ..label_tree import Hierarchy


class HeldOut(NamedTuple):
    """M labeled texts that are not among the examples."""

    embeddings: np.ndarray  # (M, D)
    texts: list[str]  # pairs of texts are joined
    labels: np.ndarray  # int64 (M,) or bool (M, L), over all labels of the datastore
    logits: np.ndarray | None  # (M, H), of the trained classification head, if there is one


@dataclass(frozen=True, eq=False)
class Problem:
    """A datastore, and what else is known about its labels.

    Attributes:
        snapshot: The examples and documents.
        experts: The names of the experts. None: all that can be fitted.
        held_out: Labeled texts that are no examples, to choose the weights on. None: folds of the examples.
        has_head: Whether a trained classification head also gives logits.
        class_proportions: The label proportions among all texts: ``"estimated"``, ``"uniform"`` or given by label.
        name_embeddings: Embeddings of the names in ``labels``, ``(C, H)``. None: the expert "label_names" is left out.
        teacher: Answers of a decision model about documents, for the labels that have examples.
        hierarchy: The tree of the labels, as ``label_paths`` takes it. It changes no probability.
        left_out: The number of documents that were left out of the snapshot, for the report.
        lacking: The labels that these documents lack, with their fraction of the documents, for the report.
        with_left_out: The corpus with the documents that were left out, some of which may be versions of examples.
            None: none was left out.
        kept_corpus: The corpus of an earlier fit, which is reused if its texts are the same.

    Raises:
        TypeError: If ``experts`` is a string, or ``hierarchy`` is of another type.
        ValueError: If there are no examples, all have one label, or an expert is unknown.
    """

    snapshot: Snapshot
    experts: Sequence[str] | None = None
    held_out: HeldOut | None = None
    has_head: bool = False
    class_proportions: ClassProportions = "estimated"
    name_embeddings: np.ndarray | None = None
    teacher: TeacherAnswers | None = None
    hierarchy: Hierarchy | None = None
    left_out: int = 0
    lacking: Mapping[str, float] = field(default_factory=dict)
    with_left_out: Corpus | None = None
    kept_corpus: KeptCorpus = field(default_factory=KeptCorpus)

    def __post_init__(self) -> None:
        examples = len(self.snapshot.keys)
        if not examples:
            raise ValueError(
                "No labeled examples yet: add_examples(texts, labels), or add_labels({label: description})."
            )
        some_have_none = self.snapshot.multi_label and not self.snapshot.labels[:, self.columns].all()
        if len(self.labels) < 2 and not (self.labels and some_have_none):
            found = f"have the label {self.labels[0]!r}" if self.labels else "have no label"
            raise ValueError(
                f"All {examples} examples {found}: there is nothing to tell apart. Add some of other labels."
            )
        if self.snapshot.multi_label and self.hierarchy:
            raise ValueError("hierarchy is for one label per text: probabilities of several labels do not add up.")
        if isinstance(self.experts, str):
            raise TypeError(f"Expected a list of experts, got one string: pass [{self.experts!r}].")
        for name in self.wanted_experts:
            if name not in EXPERTS:
                now = f" any more, it is {EARLIER_EXPERTS[name]!r}" if EARLIER_EXPERTS.get(name) in EXPERTS else ""
                raise ValueError(f"There is no expert {name!r}{now}: choose among {', '.join(EXPERTS)}.")
        if not self.wanted_experts:
            raise ValueError(f"No expert is left: choose among {', '.join(EXPERTS)}.")

    @property
    def wanted_experts(self) -> list[str]:
        """Names of the experts, each once."""
        return list(EXPERTS if self.experts is None else dict.fromkeys(self.experts))

    @cached_property
    def labels(self) -> list[str]:
        """Names of the labels that have examples, sorted."""
        return used_labels(self.snapshot)

    @cached_property
    def columns(self) -> np.ndarray:
        """Numbers of these labels among all labels, int64 ``(C,)``."""
        return np.array([self.snapshot.label_names.index(name) for name in self.labels], np.int64)

    @cached_property
    def corpus(self) -> Corpus:
        """The texts of the datastore in a canonical order."""
        return self.kept_corpus.make(self.snapshot)


def used_labels(snapshot: Snapshot) -> list[str]:
    """Names of the labels that have examples, sorted."""
    used = np.flatnonzero(snapshot.labels.any(0)) if snapshot.multi_label else np.unique(snapshot.labels)
    return sorted(snapshot.label_names[column] for column in used)
