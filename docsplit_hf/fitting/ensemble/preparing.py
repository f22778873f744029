"""Preparation of a fit: training data, versions of one text, folds of the examples, and their neighbors."""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np

from ...reading.versions import groups_of_pairs
from ..experts.expert import Corpus, Guess, TrainingData, log_likelihoods_by
from ..experts.label_names_expert import EVIDENCE_OF_ONE_TOPIC, names_as_vectors, only_topic
from ..experts.linear_probe import MANY_LABELS
from ..experts.log_linear_pool import given_proportions
from ..experts.registry import EXPERTS, MIN_RELIABILITY
from ..experts.teacher_expert import LEAST_AGREEMENT, MAX_EVIDENCE, fit_teacher, probe_logits
from ..experts.vector_experts import DEFAULT_EXAMPLE_WEIGHT, Topics, choose_example_weight
from ..label_tree import label_paths
from .held_out_scores import Voters, are_texts, folds_of, one_hot, voters_in_corpus
from .problem import Problem
from .report import SIGNIFICANT_DEVIATIONS, versions_mislead

logger = logging.getLogger(__name__)

MOST_COMPARED = 50  # examples of a label, in the mean; more show by themselves what tells labels apart


class VersionCounts(NamedTuple):
    """Counts of examples that are versions of another example, and of their labels."""

    examples: int = 0  # that are versions of another one
    groups: int = 0  # of such examples
    contradictory: int = 0  # groups with different labels; 0 if labels do not differ more often than by chance
    agreeing: int = 0  # groups with one label; 0 if labels are not equal more often than by chance


class Prepared(NamedTuple):
    """Training data, and the folds of the examples with their neighbors."""

    data: TrainingData
    folds: np.ndarray | None  # int64 (n,): -1 for examples that are never held out; None if held-out texts are given
    groups: np.ndarray  # int64 (n,): equal for examples that are versions of one text
    voters: Voters  # neighbors of the examples
    versions: VersionCounts  # of the examples; none if held-out texts are given
    version_fraction: float  # of all texts
    paths: list[list[str]]  # of the labels from the top of their tree; none if a text may have several


def prepare_fit(problem: Problem) -> Prepared:
    """Prepare a fit."""
    # Both first, as they may be invalid.
    proportions = given_proportions(problem.class_proportions, problem.labels)
    snapshot = problem.snapshot
    paths = [] if snapshot.multi_label else label_paths(problem.labels, problem.hierarchy)
    corpus = problem.corpus
    # In the order of the corpus, so that rounding does not depend on the order in which examples were added.
    order = np.argsort(corpus.rows)
    rows = corpus.rows[order]
    targets = one_hot(snapshot.labels, problem.columns)[order]
    groups = None
    folds = None
    versions = VersionCounts()
    if problem.held_out is None:
        groups = version_groups(corpus, corpus.rows, snapshot.labels)
        folds = folds_of(snapshot, corpus.rows, groups)[order]
        versions = count_versions(corpus, rows, targets, groups)
    groups_of_texts = corpus.text_numbers if groups is None else groups
    is_text = are_texts(snapshot)[order]
    teacher = _teacher(problem, rows, targets, is_text, groups_of_texts)
    experts = _possible_experts(problem, has_teacher=teacher is not None)
    example_weight = DEFAULT_EXAMPLE_WEIGHT
    has_folds = folds is not None and (folds >= 0).any()
    is_chosen = has_folds and len(problem.labels) <= MANY_LABELS
    if Topics.name in experts and len(rows) < len(corpus.ids) and is_chosen:
        example_weight = choose_example_weight(corpus, rows, targets, folds, proportions)
    names = None
    if any(EXPERTS[name].needs_label_names for name in experts):
        topic = only_topic(problem.labels)
        vectors = names_as_vectors(problem.name_embeddings, corpus.document_vectors.mean, topic)
        cosines = corpus.document_vectors.embeddings_of(corpus.vectors) @ vectors.T
        names = Guess(
            vectors=vectors,
            log_likelihoods=log_likelihoods_by(cosines, rows, targets),
            prior_evidence=0.0 if topic is None else EVIDENCE_OF_ONE_TOPIC,
        )
    version_fraction = fraction_of_versions(problem.with_left_out or corpus)
    are_few = len(rows) <= MOST_COMPARED * len(problem.labels)
    compared = None
    if versions_mislead(version_fraction, versions.agreeing) and are_few and not snapshot.multi_label:
        compared = problem.with_left_out
    data = TrainingData(
        corpus=corpus,
        experts=experts,
        rows=rows,
        compared=compared,
        compared_rows=(compared or corpus).rows[order],
        targets=targets,
        is_text=is_text,
        multi_label=snapshot.multi_label,
        has_head=problem.has_head,
        example_weight=example_weight,
        proportions=proportions,
        misleading_versions=0.0 if versions.agreeing else version_fraction,
        names=names,
        teacher=teacher,
        soft_labels=np.zeros((len(corpus.vectors), targets.shape[1]), np.float32),
        centers=np.zeros((targets.shape[1], 0), np.float32),
    )
    return Prepared(
        data=data,
        folds=folds,
        groups=groups_of_texts[rows],
        voters=voters_in_corpus(snapshot, corpus, order, groups),
        versions=versions,
        version_fraction=version_fraction,
        paths=paths,
    )


def _teacher(
    problem: Problem, rows: np.ndarray, targets: np.ndarray, is_text: np.ndarray, groups: np.ndarray
) -> Guess | None:
    """Probe fitted on a teacher's answers, if examples or other experts confirm them."""
    if problem.teacher is None:
        return None
    corpus = problem.corpus
    probe = fit_teacher(problem.teacher, problem.snapshot, corpus, groups)
    if probe is None:
        return None
    likelihoods = log_likelihoods_by(probe_logits(probe, corpus.vectors), rows, targets)
    evidence = float(np.clip(problem.teacher.agreement - LEAST_AGREEMENT, -MAX_EVIDENCE, MAX_EVIDENCE))
    teacher = Guess(probe, likelihoods, evidence)
    if teacher.reliability(is_text, targets.shape[1]) < MIN_RELIABILITY:
        # Even a small weight costs accuracy, and folds of few examples miss it.
        logger.info("The answers of the teacher are not used: neither examples nor other experts confirm them.")
        return None
    return teacher


def _possible_experts(problem: Problem, has_teacher: bool) -> list[str]:
    unmet = {
        name: EXPERTS[name].unmet_need(
            has_words=problem.corpus.words is not None,
            multi_label=problem.snapshot.multi_label,
            has_label_names=problem.name_embeddings is not None,
            has_teacher=has_teacher,
        )
        for name in problem.wanted_experts
    }
    possible = [name for name, need in unmet.items() if need is None]
    if not possible:
        reasons = "; ".join(f"{name!r} needs {need}" for name, need in unmet.items())
        raise ValueError(f"No expert can be fitted here: {reasons}. Name others, or none for all.")
    return possible


def version_groups(corpus: Corpus, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Number the groups of versions among the N texts of a corpus, int64 ``(N,)``.

    Examples count for the size of a group, and documents only connect them. If all texts of a label are versions of one
    another, only equal texts stay together in their group: otherwise the label would never be held out.

    Args:
        corpus: The texts.
        rows: Places of the examples, int64 ``(n,)``.
        labels: Their labels, int64 ``(n,)``; or bool ``(n, C)`` if a text may have several.
    """
    numbers = corpus.text_numbers
    examples_of_text = np.bincount(numbers[rows], minlength=int(numbers.max(initial=-1)) + 1)
    groups = groups_of_pairs(corpus.versions, examples_of_text)[numbers]
    strata = labels if labels.ndim == 1 else np.zeros(len(rows), np.int64)
    is_divided = np.zeros(len(numbers), bool)
    for stratum in np.unique(strata):
        own = rows[strata == stratum]
        if len(np.unique(numbers[own])) > 1 and (groups[own] == groups[own[0]]).all():
            is_divided |= groups == groups[own[0]]
    return np.where(is_divided, groups.max(initial=0) + 1 + numbers, groups)


def fraction_of_versions(corpus: Corpus) -> float:
    """Return the fraction of the texts of a corpus that are versions of another one; copies of one text are none.

    Versions share much of their words, or are much nearer to one another than to other texts, as paraphrases are.
    """
    return float((np.diff(corpus.same.indptr) > 0)[corpus.text_numbers].mean())


def count_versions(corpus: Corpus, rows: np.ndarray, targets: np.ndarray, groups: np.ndarray) -> VersionCounts:
    """Count versions among the examples at ``rows`` ``(n,)``, with ``targets`` ``(n, C)``, 0 or 1.

    ``groups`` ``(N,)``: as by ``version_groups``. Copies of one text are no versions.
    """
    numbers = corpus.text_numbers[rows]
    _, own = np.unique(groups[rows], return_inverse=True)
    group_of_text = own[np.unique(numbers, return_index=True)[1]]
    is_group = np.bincount(group_of_text) > 1
    is_version = is_group[own]
    if not is_version.any():
        return VersionCounts()
    _, label_sets = np.unique(targets > 0, axis=0, return_inverse=True)
    sizes = np.bincount(own)[is_group]
    counts = np.zeros((len(is_group), label_sets.max() + 1))
    np.add.at(counts, (own, label_sets), 1)
    counts = counts[is_group]
    equal_labels = (counts * (counts - 1)).sum(1) / (sizes * (sizes - 1))  # fraction of the pairs of each group
    of_all = np.bincount(label_sets)
    chance = (of_all * (of_all - 1)).sum() / (len(rows) * (len(rows) - 1))
    standard_error = np.sqrt(chance * (1 - chance) / len(sizes))
    deviation = equal_labels.mean() - chance
    is_significant = abs(deviation) > SIGNIFICANT_DEVIATIONS * standard_error
    return VersionCounts(
        examples=int(is_version.sum()),
        groups=len(sizes),
        contradictory=int((equal_labels < 1).sum()) if is_significant and deviation < 0 else 0,
        agreeing=int((equal_labels == 1).sum()) if is_significant and deviation > 0 else 0,
    )
