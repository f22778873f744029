"""Fit of the experts of a datastore: prepare, learn, weigh, measure."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from ..label_tree import Hierarchy, label_paths
from .corpus import Corpus, make_corpus
from .fitted_experts import Ensemble
from .held_out_scores import (
    HeldOut,
    are_texts,
    folds_of,
    one_hot,
    scores_by_folds,
    scores_of_held_out,
    voters_in_corpus,
)
from .log_linear_pool import ClassProportions, given_proportions
from .measuring import Source, measure
from .registry import EXPERTS, MIN_RELIABILITY, fit_all, reliability_of_teacher, training_data
from .report import HELD_OUT_TEXTS, versions_mislead
from .teacher_expert import fit_teacher
from .vector_experts import DEFAULT_EXAMPLE_WEIGHT, choose_example_weight, names_as_vectors
from .version_groups import VersionCounts, count_versions, fraction_of_versions, version_groups
from .weighing import weigh

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...arrays.snapshot import Snapshot
    from .expert import TrainingData
    from .fitted_experts import FittedExperts
    from .held_out_scores import Voters
    from .teacher_expert import TeacherAnswers

logger = logging.getLogger(__name__)

FOLDS_OF_EXAMPLES = "folds of the examples"
NOTHING_TO_HOLD_OUT = "nothing to hold out"


def fit_experts(
    snapshot: Snapshot,
    experts: Sequence[str] | None = None,
    held_out: HeldOut | None = None,
    has_head: bool = False,
    show_progress: bool = True,
    make: Callable[[Snapshot], Corpus] = make_corpus,
    embed_names: Callable[[tuple[str, ...]], np.ndarray] | None = None,
    class_proportions: ClassProportions = "estimated",
    left_out: int = 0,
    version_fraction: float | None = None,
    teacher: TeacherAnswers | None = None,
    hierarchy: Hierarchy | None = None,
) -> FittedExperts:
    """Fit experts on all texts of a datastore, and choose their weights on held-out texts or folds of the examples.

    Args:
        snapshot: The datastore.
        experts: The names of the experts. None: all that can be fitted.
        held_out: Labeled texts that are no examples, to choose the weights on. None: folds of the examples.
        has_head: Whether a trained classification head also gives logits.
        show_progress: Whether to show a progress bar.
        make: A function that makes the corpus of a snapshot.
        embed_names: A function that embeds C label names, ``(C, H)``. None: the expert "names" is left out.
        class_proportions: The label proportions among all texts: ``"estimated"``, ``"uniform"`` or given by label.
        left_out: The number of documents that the caller left out of the snapshot, for the report.
        version_fraction: The fraction of all texts that are versions of another one, with those that were left out.
            None: of the texts of the snapshot.
        teacher: Answers of a decision model about documents, for the labels that have examples.
        hierarchy: The tree of the labels, as ``label_paths`` takes it. It changes no probability.

    Returns:
        The fitted experts with their weights, the report and the guarantees.

    Raises:
        TypeError: If ``experts`` is a string, or ``hierarchy`` is none.
        ValueError: If there are no examples, all have one label, or no expert can be fitted.
    """
    labels = _fitted_labels(snapshot)
    paths = _paths(labels.names, hierarchy, snapshot.multi_label)
    proportions = given_proportions(class_proportions, labels.names)
    wanted = _known_experts(experts)
    with tqdm(total=2, desc="Fitting experts", unit="step", disable=not show_progress) as progress:
        prepared = _prepare(
            snapshot,
            labels,
            wanted,
            make(snapshot),
            has_head,
            proportions,
            embed_names,
            by_folds=held_out is None,
            teacher=teacher,
            version_fraction=version_fraction,
        )
        progress.total += prepared.fold_count
        progress.update()
        ensemble = _learn(prepared, labels, proportions, are_known=held_out is not None)
        progress.update()
        if held_out is None:
            scores = scores_by_folds(
                prepared.data,
                prepared.voters,
                prepared.folds,
                prepared.groups,
                prepared.experts,
                proportions,
                prepared.example_weight,
                progress,
            )
        else:
            scores = scores_of_held_out(ensemble, snapshot, held_out, labels.columns)
    weighing = weigh(prepared.data, ensemble, scores, snapshot, proportions, on_held_out_texts=held_out is not None)
    source = Source(
        measured_on=_measured_on(held_out, len(scores.targets)),
        is_held_out_texts=held_out is not None,
        class_proportions=class_proportions if isinstance(class_proportions, str) else "given",
        left_out=left_out,
        versions=prepared.versions,
        version_fraction=prepared.version_fraction,
        paths=paths,
    )
    return measure(prepared.data, weighing, snapshot, source)


def _paths(names: list[str], hierarchy: Hierarchy | None, multi_label: bool) -> list[list[str]]:
    """Paths of the labels; if a text may have several, they are no tree."""
    if not multi_label:
        return label_paths(names, hierarchy)
    if hierarchy:
        raise ValueError("hierarchy is for one label per text: probabilities of several labels do not add up.")
    return []


def _measured_on(held_out: HeldOut | None, texts: int) -> str:
    """Describe the texts that experts are measured on, for the report."""
    if held_out is not None:
        return HELD_OUT_TEXTS
    return FOLDS_OF_EXAMPLES if texts else NOTHING_TO_HOLD_OUT


class _Labels(NamedTuple):
    """Labels that have examples, sorted by name."""

    names: list[str]
    columns: np.ndarray  # int64 (C,): their numbers among all labels


def used_labels(snapshot: Snapshot) -> list[str]:
    """Names of the labels that have examples, sorted."""
    used = np.flatnonzero(snapshot.labels.any(0)) if snapshot.multi_label else np.unique(snapshot.labels)
    return sorted(snapshot.label_names[column] for column in used)


def _fitted_labels(snapshot: Snapshot) -> _Labels:
    multi_label = snapshot.multi_label
    names = used_labels(snapshot)
    columns = np.array([snapshot.label_names.index(name) for name in names], np.int64)
    some_have_none = bool(multi_label and not snapshot.labels[:, columns].all())
    _check_labels(names, len(snapshot.keys), some_have_none)
    return _Labels(names, columns)


class _Prepared(NamedTuple):
    """Training data, and the folds of the examples with their neighbors."""

    data: TrainingData
    experts: list[str]
    example_weight: float
    folds: np.ndarray | None  # int64 (n,): -1 for examples that are never held out; None if held-out texts are given
    groups: np.ndarray  # int64 (n,): equal for examples that are versions of one text
    voters: Voters  # neighbors of the examples
    versions: VersionCounts  # of the examples; none if held-out texts are given
    version_fraction: float  # of all texts

    @property
    def fold_count(self) -> int:
        """Number of folds."""
        return 0 if self.folds is None else int(self.folds.max()) + 1


def _prepare(
    snapshot: Snapshot,
    labels: _Labels,
    wanted: list[str],
    corpus: Corpus,
    has_head: bool,
    proportions: np.ndarray | None,
    embed_names: Callable[[tuple[str, ...]], np.ndarray] | None,
    by_folds: bool,
    teacher: TeacherAnswers | None,
    version_fraction: float | None,
) -> _Prepared:
    # In the order of the corpus, so that rounding does not depend on the order in which examples were added.
    order = np.argsort(corpus.rows)
    rows = corpus.rows[order]
    targets = one_hot(snapshot.labels, labels.columns)[order]
    groups = None
    folds = None
    versions = VersionCounts()
    if by_folds:
        groups = version_groups(corpus, corpus.rows, snapshot.labels)
        folds = folds_of(snapshot, corpus.rows, groups)[order]
        versions = count_versions(corpus, rows, targets, groups)
    groups_of_texts = corpus.text_numbers if groups is None else groups
    is_text = are_texts(snapshot)[order]
    fitted_teacher = None if teacher is None else fit_teacher(teacher, snapshot, corpus, groups_of_texts)
    if fitted_teacher is not None:
        reliability = reliability_of_teacher(fitted_teacher, corpus, rows, targets, is_text)
        if reliability < MIN_RELIABILITY:  # even a small weight costs accuracy, and folds of few examples miss it
            logger.info("The answers of the teacher are not used: neither examples nor other experts confirm them.")
            fitted_teacher = None
    experts = _possible_experts(
        wanted, corpus, snapshot.multi_label, embed_names is not None, fitted_teacher is not None
    )
    example_weight = DEFAULT_EXAMPLE_WEIGHT
    is_tuned = any(EXPERTS[name].tunes_example_weight for name in experts)
    has_documents = len(rows) < len(corpus.ids)
    if is_tuned and has_documents and folds is not None and (folds >= 0).any():
        example_weight = choose_example_weight(corpus, rows, targets, folds, proportions)
    label_name_vectors = None
    if any(EXPERTS[name].needs_label_names for name in experts):
        label_name_vectors = names_as_vectors(embed_names(tuple(labels.names)), corpus.document_vectors.mean)
    if version_fraction is None:
        version_fraction = fraction_of_versions(corpus)
    data = training_data(
        corpus,
        rows,
        targets,
        snapshot.multi_label,
        example_weight,
        has_head=has_head,
        label_name_vectors=label_name_vectors,
        is_text=is_text,
        teacher=fitted_teacher,
        versions_mislead=versions_mislead(version_fraction, versions.agreeing),
    )
    return _Prepared(
        data=data,
        experts=experts,
        example_weight=example_weight,
        folds=folds,
        groups=groups_of_texts[rows],
        voters=voters_in_corpus(snapshot, corpus, order, groups),
        versions=versions,
        version_fraction=version_fraction,
    )


def _learn(prepared: _Prepared, labels: _Labels, proportions: np.ndarray | None, are_known: bool) -> Ensemble:
    data = prepared.data
    return Ensemble(
        experts=prepared.experts,
        labels=labels.names,
        multi_label=data.multi_label,
        temperature=prepared.voters.temperature,
        document_vote=1.0 if data.multi_label else 1 / prepared.example_weight,
        document_vectors=data.corpus.document_vectors,
        vectorizer=data.corpus.vectorizer,
        learned=fit_all(data, prepared.experts, proportions, are_known),
        ids=data.corpus.ids,
    )


def _check_labels(names: list[str], examples: int, some_have_none: bool) -> None:
    if not examples:
        raise ValueError("No labeled examples yet: add_examples(texts, labels), or add_labels({label: description}).")
    if len(names) < 2 and not (names and some_have_none):
        found = f"have the label {names[0]!r}" if names else "have no label"
        raise ValueError(f"All {examples} examples {found}: there is nothing to tell apart. Add some of other labels.")


def _known_experts(wanted: Sequence[str] | None) -> list[str]:
    if isinstance(wanted, str):
        raise TypeError(f"Expected a list of experts, got one string: pass [{wanted!r}].")
    experts = list(EXPERTS if wanted is None else dict.fromkeys(wanted))
    for name in experts:
        if name not in EXPERTS:
            raise ValueError(f"There is no expert {name!r}: choose among {', '.join(EXPERTS)}.")
    if not experts:
        raise ValueError(f"No expert is left: choose among {', '.join(EXPERTS)}.")
    return experts


def _possible_experts(
    wanted: list[str], corpus: Corpus, multi_label: bool, has_label_names: bool, has_teacher: bool
) -> list[str]:
    has_words = corpus.words is not None
    unmet = {name: EXPERTS[name].unmet_need(has_words, multi_label, has_label_names, has_teacher) for name in wanted}
    possible = [name for name, need in unmet.items() if need is None]
    if not possible:
        reasons = "; ".join(f"{name!r} needs {need}" for name, need in unmet.items())
        raise ValueError(f"No expert can be fitted here: {reasons}. Name others, or none for all.")
    return possible
