"""Audit of a snapshot by its fitted experts, corrections from an audit, and inputs for cleanlab."""

from __future__ import annotations

import logging
from collections import Counter
from typing import NamedTuple

import numpy as np
from tqdm.auto import tqdm

from ...arrays.snapshot import Snapshot
from ...reading.characters import on_one_line
from ..ensemble.held_out_scores import are_texts
from ..ensemble.scoring import prepare_experts
from ..experts.corpus import id_numbers, texts_in
from ..experts.linear_probe import MANY_LABELS
from ..experts.text_vectors import unit
from .findings import (
    DuplicateGroup,
    confused_labels,
    duplicate_groups,
    nearest_examples,
    outliers,
    suspect_labels,
)
from .report import Audit, Duplicates, LabelIssue, Labels, Outlier

logger = logging.getLogger(__name__)

SHOWN_CHARACTERS = 200  # of each text
# Reasons why no fold held out an example; the second is for fits of many labels, which hold out enough examples only.
ONLY_TEXT = "were never held out, as the only text of their label"
ENOUGH_OTHERS = "were not held out, as enough others were"


def audit_snapshot(snapshot: Snapshot, show_progress: bool = True) -> Audit:
    """Audit the examples of a snapshot, as ``KNNClassifierPipeline.audit`` describes."""
    answers = out_of_fold(snapshot)
    ids = snapshot.rows["id"].to_pylist()
    labels = _labels_of(snapshot)
    texts = [on_one_line(text[: 2 * SHOWN_CHARACTERS])[:SHOWN_CHARACTERS] for text in texts_in(snapshot.rows)]
    vectors = unit(snapshot.keys.astype(np.float32))
    with tqdm(total=3, desc="Auditing", unit="step", disable=not show_progress) as progress:
        nearest = nearest_examples(vectors)
        progress.update()
        groups = duplicate_groups(snapshot.rows)
        progress.update()
        suspects, wrong = suspect_labels(answers.labels, answers.rows, answers.probabilities, nearest)
        progress.update()
    closeness = nearest.closeness()
    best = answers.probabilities.argmax(1)
    confused = [] if snapshot.multi_label else confused_labels(answers.labels[answers.rows], best, answers.names)
    return Audit(
        examples=len(ids),
        checked=len(answers.rows),
        not_checked=answers.missing,
        wrong_labels=round(wrong, 1),
        label_issues=[
            LabelIssue(
                id=ids[suspect.row],
                given=labels[suspect.row],
                suggested=_named(suspect.suggested, answers.names),
                apply=suspect.sure,
                probability=suspect.probability,
                near_given=suspect.near_given,
                near_suggested=suspect.near_suggested,
                text=texts[suspect.row],
            )
            for suspect in suspects
        ],
        duplicates=[_duplicates(group, ids, labels, texts) for group in groups],
        outliers=[
            Outlier(id=ids[row], label=labels[row], closeness=float(closeness[row]), remove=False, text=texts[row])
            for row in outliers(closeness).tolist()
        ],
        confused_labels=confused,
    )


def _named(numbers: int | list[int], names: list[str]) -> Labels:
    """The name of a label by its number, or the names of several."""
    return [names[number] for number in numbers] if isinstance(numbers, list) else names[numbers]


def _duplicates(group: DuplicateGroup, ids: list[str], labels: list[Labels], texts: list[str]) -> Duplicates:
    """Describe a group of duplicates; of exact copies with equal labels all but the first are marked for removal."""
    ids_of_group = [ids[row] for row in group.rows]
    labels_of_group = [labels[row] for row in group.rows]
    labels_differ = any(label != labels_of_group[0] for label in labels_of_group)
    return Duplicates(
        ids=ids_of_group,
        labels=labels_of_group,
        labels_differ=labels_differ,
        exact=group.exact,
        similarity=group.similarity,
        remove=ids_of_group[1:] if group.exact and not labels_differ else [],
        text=texts[group.rows[0]],
    )


def _labels_of(snapshot: Snapshot) -> list[Labels]:
    """Name of the label of each example, or list of names."""
    numbers = [np.flatnonzero(row).tolist() for row in snapshot.labels] if snapshot.multi_label else snapshot.labels
    return [_named(number, snapshot.label_names) for number in numbers]


class OutOfFold(NamedTuple):
    """Answers to m examples by experts that were fitted without them; relabeling does not change them."""

    rows: np.ndarray  # int64 (m,), ascending
    probabilities: np.ndarray  # float32 (m, C), over the labels that were fitted
    names: list[str]  # of the labels that were fitted
    labels: np.ndarray  # of all N examples, by these names: int64 (N,), -1 for other labels; or bool (N, C)
    missing: dict[str, int]  # number of examples without an answer, by reason


def out_of_fold(snapshot: Snapshot) -> OutOfFold:
    """Match the out-of-fold answers of the fitted experts with the present examples of a snapshot."""
    ready = prepare_experts(snapshot)
    if ready is None:
        raise ValueError("An audit needs fitted experts: call fit() first.")
    held_out = ready.fitted.held_out
    if len(held_out.ids) and not held_out.ids.any():
        raise ValueError(
            "The weights were chosen on held-out texts, and audits need folds of examples: call fit() without texts."
        )
    labels, have_other_label = _labels_by(ready.ensemble.labels, snapshot)
    ids = id_numbers(snapshot.rows, snapshot.keys)
    reasons = {
        "came after fit()": ~np.isin(ids, ready.ensemble.ids),
        "describe a label": ~are_texts(snapshot),
        "have a label that came after fit()": have_other_label,
        ENOUGH_OTHERS if len(ready.ensemble.labels) > MANY_LABELS else ONLY_TEXT: ~np.isin(ids, held_out.ids),
    }
    has_answer = np.ones(len(ids), bool)
    missing = {}
    for reason, applies in reasons.items():
        missing[reason] = int((has_answer & applies).sum())
        has_answer &= ~applies
    rows = np.flatnonzero(has_answer)
    order = np.argsort(held_out.ids, kind="stable")
    place = order[np.searchsorted(held_out.ids, ids[rows], sorter=order)]
    return OutOfFold(
        rows=rows,
        probabilities=held_out.probabilities[place],
        names=ready.ensemble.labels,
        labels=labels,
        missing={reason: count for reason, count in missing.items() if count},
    )


def _labels_by(names: list[str], snapshot: Snapshot) -> tuple[np.ndarray, np.ndarray]:
    """Number the labels of all examples by ``names``, -1 for others; and whether each example has another, ``(N,)``."""
    columns = np.array([snapshot.label_names.index(name) for name in names])
    if snapshot.multi_label:
        have_other_label = np.delete(snapshot.labels, columns, axis=1).any(1)
        return snapshot.labels[:, columns], have_other_label
    used = np.unique(snapshot.labels)
    if len(used) < 2:
        raise ValueError(
            f"All {len(snapshot.labels)} examples have the label {snapshot.label_names[used[0]]!r}: add some of other "
            "labels."
        )
    numbers = np.full(len(snapshot.label_names), -1)
    numbers[columns] = np.arange(len(columns))
    labels = numbers[snapshot.labels]
    return labels, labels < 0


def corrections(audit: Audit, snapshot: Snapshot) -> tuple[dict[str, Labels], list[str]]:
    """Turn an audit, possibly edited, into changes, except those that would leave a label without examples.

    Returns:
        The new label or labels of examples, by id, and the ids of examples to remove.

    Raises:
        ValueError: If the audit does not fit the examples.
    """
    known = dict(zip(snapshot.rows["id"].to_pylist(), _labels_of(snapshot), strict=True))
    _check_audit(audit, snapshot, known)
    counts = Counter(name for label in known.values() for name in _names(label))
    kept: dict[str, str] = {}
    for row_id, label in [*audit.new_labels.items(), *((row_id, []) for row_id in audit.to_remove)]:
        old = _names(known[row_id])
        new = _names(label)
        last_of = [name for name in old if counts[name] == 1 and name not in new]
        if last_of:
            kept[row_id] = last_of[0]
        else:
            counts.update(new)
            counts.subtract(old)
            known[row_id] = label
    if kept:
        which = ", ".join(f"{row_id!r} of {name!r}" for row_id, name in kept.items())
        logger.warning("Not changed, as a label would lose its last example: %s. Add examples of these labels.", which)
    new_labels = {row_id: label for row_id, label in audit.new_labels.items() if row_id not in kept}
    return new_labels, [row_id for row_id in audit.to_remove if row_id not in kept]


def _check_audit(audit: Audit, snapshot: Snapshot, known: dict[str, Labels]) -> None:
    """Raise ValueError if the audit is of other examples; ``known`` are the present labels by id."""
    given = {issue.id: issue.given for issue in audit.label_issues}
    given |= {
        row_id: label for group in audit.duplicates for row_id, label in zip(group.ids, group.labels, strict=False)
    }
    given |= {outlier.id: outlier.label for outlier in audit.outliers}
    for row_id in [*audit.new_labels, *audit.to_remove]:
        if row_id not in known:
            found = "no example has that id"
        elif row_id in given and given[row_id] != known[row_id]:
            found = f"that example has the label {known[row_id]!r}, and {given[row_id]!r} in the audit"
        else:
            continue
        raise ValueError(
            f"The audit is not of these examples, or was applied already: {row_id!r}, {found}. Nothing was changed. "
            "Audit them again."
        )
    unknown = {name for label in audit.new_labels.values() for name in _names(label)} - {*snapshot.label_names}
    if unknown:
        raise ValueError(f"The audit suggests labels that no example has: {', '.join(sorted(unknown))}.")


def _names(label: Labels) -> list[str]:
    """Convert one label to a list of one."""
    return [label] if isinstance(label, str) else label
