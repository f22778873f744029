"""Fit of the experts of a datastore, with weights chosen by folds of the examples or on held-out texts."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ..arrays.row_table import encode_known_labels
from ..arrays.snapshot import Snapshot, rows_of_texts
from ..encoding.text_embedder import TextEmbedder
from ..fitting.ensemble.fit_experts import fit_experts, weigh_experts
from ..fitting.ensemble.fitted_ensemble import SUGGESTED_SETTING, Fit
from ..fitting.ensemble.held_out_metrics import measure_ensemble
from ..fitting.ensemble.held_out_scores import are_texts
from ..fitting.ensemble.lacking_labels import lacking_labels, may_lack_labels
from ..fitting.ensemble.problem import HeldOut, Problem, used_labels
from ..fitting.ensemble.report import FitReport
from ..fitting.ensemble.scoring import PreparedExperts
from ..fitting.experts.corpus import KeptCorpus, texts_in
from ..fitting.experts.label_names_expert import readable_names
from ..fitting.experts.log_linear_pool import ClassProportions
from ..fitting.experts.registry import EXPERTS
from ..fitting.experts.teacher_expert import TEACHER_ANSWERS, TEACHER_SETTING, TeacherSetting
from ..fitting.experts.text_vectors import unit
from ..fitting.experts.vector_experts import MIN_LOG_LIKELIHOOD_GAIN
from ..fitting.label_tree import HIERARCHY_SETTING, Hierarchy, remembered_hierarchy
from ..reading.inputs import check_lengths, joined_texts, texts_and_pairs
from ..reading.labels import names_of_labels
from ..reading.versions import group_versions
from .active_learning import FITTED_STATE_LOCK, suggested_before
from .knn_datastore import KNNDatastore
from .teaching import answered_documents, answers_of_teacher, check_teacher, remembered_answers

logger = logging.getLogger(__name__)

COLLAPSED_COSINE = 0.9999  # of any two texts; raw BERT has 0.9, and its embeddings are still useful
MAX_COMPARED_TEXTS = 200  # examples, and documents


def fit_datastore(
    embedder: TextEmbedder,
    datastore: KNNDatastore,
    held_out_texts: Any = None,
    held_out_labels: Sequence[Any] | None = None,
    experts: Sequence[str] | None = None,
    show_progress: bool = False,
    corpus: KeptCorpus | None = None,
    class_proportions: ClassProportions = "estimated",
    teacher: Mapping[str, Any] | Literal[False] | None = None,
    hierarchy: Hierarchy | None = None,
) -> FitReport:
    """Fit the experts of a datastore, as ``KNNClassifierPipeline.fit`` describes, and keep them in the datastore."""
    has_head = embedder.model.config.num_labels > 0
    if (held_out_texts is None) != (held_out_labels is None):
        raise ValueError("Give held-out texts and their labels, or neither.")
    if held_out_texts is None and has_head:
        raise ValueError(
            "A trained classifier has seen its examples: pass held-out texts and their labels, "
            "fit(held_out_texts=texts, held_out_labels=labels)."
        )
    snapshot = datastore.snapshot
    check_teacher(teacher, snapshot, has_head)
    known_hierarchy = hierarchy
    if hierarchy is None and datastore.fitted is not None:
        known_hierarchy = datastore.fitted.settings.get(HIERARCHY_SETTING)
        hierarchy = remembered_hierarchy(datastore.fitted.settings, used_labels(snapshot))
    held_out = None if held_out_texts is None else _held_out(embedder, snapshot, held_out_texts, held_out_labels)
    _warn_of_one_vector(embedder, snapshot)
    problem = Problem(
        snapshot=snapshot,
        experts=experts,
        held_out=held_out,
        has_head=has_head,
        class_proportions=class_proportions,
        hierarchy=hierarchy,
        kept_corpus=corpus or KeptCorpus(),
    )
    if any(EXPERTS[name].needs_label_names for name in problem.wanted_experts) and not snapshot.multi_label:
        of_names = embedder.embed(readable_names(problem.labels)).retrieval_embeddings
        problem = replace(problem, name_embeddings=of_names)
    answers = None
    if teacher is None:
        answers = remembered_answers(snapshot, problem.labels)
    elif teacher is not False:
        without_teacher = PreparedExperts.of(snapshot, fit_experts(problem, show_progress))
        answers = answers_of_teacher(teacher, without_teacher)
    problem = replace(problem, teacher=answers)
    fitted = _fit_without_misleading_documents(problem, show_progress)
    state = fitted.to_state()
    settings = dict(state.settings)
    arrays = dict(state.arrays)
    if answers is not None:
        settings[TEACHER_SETTING] = TeacherSetting(documents=answers.documents, agreement=answers.agreement)
        arrays[TEACHER_ANSWERS] = answers.probabilities
    if known_hierarchy is not None:
        is_mapping = isinstance(known_hierarchy, Mapping)
        settings[HIERARCHY_SETTING] = dict(known_hierarchy) if is_mapping else known_hierarchy
    with FITTED_STATE_LOCK:
        settings[SUGGESTED_SETTING] = suggested_before(datastore.fitted)
        datastore.fitted = replace(state, settings=settings, arrays=arrays)
    report = fitted.report
    if report.out_of_scope:
        logger.info(report.describe_out_of_scope())
    if report.lacking:
        logger.warning(report.describe_left_out())
    return report


def _fit_without_misleading_documents(problem: Problem, show_progress: bool) -> Fit:
    """Fit on all texts; if documents mislead the experts, on the examples.

    Where many texts are versions of one another, and not known to share a label, the groups of documents follow texts,
    not labels: held-out examples must be answered clearly better with documents. Elsewhere they must be answered
    clearly better without them; if they are few and documents lack a label, better. Label descriptions alone need
    documents.
    """
    fitted = fit_experts(problem, show_progress)
    report = fitted.report
    # Fewer documents than examples hardly mislead.
    if problem.held_out is not None or report.documents <= report.examples:
        return fitted
    is_misled = report.versions_mislead and bool(are_texts(problem.snapshot).any())
    may_lack = may_lack_labels(problem, report)
    needed = 0.0 if may_lack else MIN_LOG_LIKELIHOOD_GAIN
    # Without documents, the log likelihood cannot be above 0.
    if not is_misled and fitted.log_likelihood >= -needed:
        return fitted
    has_teacher = "teacher" in fitted.ensemble.experts
    snapshot = problem.snapshot
    documents = answered_documents(snapshot, problem.teacher) if has_teacher else None
    without = replace(
        problem,
        snapshot=replace(snapshot, documents=documents),
        left_out=report.documents,
        with_left_out=problem.corpus,
        teacher=problem.teacher if has_teacher else None,
        kept_corpus=KeptCorpus(),
    )
    prepared, weighing = weigh_experts(without, show_progress=False)
    gain = weighing.log_likelihood() - fitted.log_likelihood
    is_better = gain >= -MIN_LOG_LIKELIHOOD_GAIN if is_misled else gain > MIN_LOG_LIKELIHOOD_GAIN
    lacking: dict[str, float] = {}
    if may_lack and not is_better and gain > 0:
        lacking = lacking_labels(problem, fitted, without, weighing.ensemble)
    return measure_ensemble(replace(without, lacking=lacking), prepared, weighing) if is_better or lacking else fitted


def _warn_of_one_vector(embedder: TextEmbedder, snapshot: Snapshot) -> None:
    """Warn if different texts, of at most 200 examples and 200 documents, have nearly equal embeddings."""
    vectors = []
    for rows in (snapshot, snapshot.documents):
        if rows is not None:
            texts = rows.rows["text"].slice(0, MAX_COMPARED_TEXTS).to_pylist()
            places = [row for row, text in enumerate(texts) if text is None or texts.index(text) == row]
            vectors.append(np.asarray(rows.keys[np.array(places, np.int64)], np.float64))
    joined = unit(np.concatenate(vectors))
    cosine = (joined @ joined.T).min(initial=1.0)
    if len(joined) > 1 and cosine > COLLAPSED_COSINE:
        logger.warning(
            "The encoder %s gives nearly one vector for all texts: the least cosine of a sample is %.6f. Answers "
            "depend on words alone. The encoder may be untrained or damaged, or made for another pooling. Try the one "
            "that ships: pipeline('docsplit-knn').",
            embedder.model.config.name_or_path or type(embedder.model).__name__,
            cosine,
        )


def _warn_of_versions(held_out: list[str], examples: list[str]) -> None:
    """Warn if held-out texts are versions of examples."""
    groups = group_versions(held_out + examples)
    versions = int(np.isin(groups[: len(held_out)], groups[len(held_out) :]).sum())
    if versions:
        logger.warning(
            "%d of %d held-out texts are versions of examples, such as drafts. If later texts are not, the measured "
            "accuracy is too high: hold versions out together (docsplit_hf.group_versions finds them).",
            versions,
            len(held_out),
        )


def _held_out(embedder: TextEmbedder, snapshot: Snapshot, texts: Any, labels: Sequence[Any]) -> HeldOut:
    """Embed held-out texts, except those that are among the examples."""
    texts, pairs = texts_and_pairs(texts)
    numbers = encode_known_labels(names_of_labels(labels), snapshot.label_names, snapshot.multi_label)
    check_lengths(texts, numbers)
    kept = np.flatnonzero(rows_of_texts(snapshot.rows, texts, pairs) < 0)
    if not len(kept):
        raise ValueError(f"All {len(texts)} held-out texts are among the examples: fit on others, or on none (folds).")
    if known := len(texts) - len(kept):
        logger.warning("%d of %d held-out texts are among the examples, and left out.", known, len(texts))
    texts = [texts[i] for i in kept]
    pairs = [pairs[i] for i in kept]
    _warn_of_versions(joined_texts(texts, pairs), texts_in(snapshot.rows))
    predictions = embedder.embed(texts, pairs)
    return HeldOut(
        embeddings=predictions.retrieval_embeddings,
        texts=joined_texts(texts, pairs),
        labels=numbers[kept],
        logits=predictions.logits,
    )
