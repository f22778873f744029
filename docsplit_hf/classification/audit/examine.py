"""The audit of one snapshot by what was fitted on it, and what of it is applied."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from ...datastore.row_table import rows_at
from ...text.characters import on_one_line
from ..ensemble.corpus import id_numbers, texts_in, unit
from ..ensemble.held_out_scores import LABEL_ID
from ..ensemble.scoring import ready_experts
from .findings import confused_labels, doubts_of, duplicate_groups, nearest_examples, outliers
from .report import Audit, ConfusedLabels, Duplicates, LabelIssue, Labels, Outlier

if TYPE_CHECKING:
    from datasets import Dataset

    from ...datastore.snapshot import Snapshot

logger = logging.getLogger(__name__)

SHOWN_CHARACTERS = 200


def audit_snapshot(snapshot: Snapshot, show_progress: bool = True) -> Audit:
    """Audit as ``KNNClassifierPipeline.audit`` says."""
    answers = out_of_fold(snapshot)
    ids, labels = snapshot.rows["id"].to_pylist(), _labels_of(snapshot)
    texts = [on_one_line(text[: 2 * SHOWN_CHARACTERS])[:SHOWN_CHARACTERS] for text in texts_in(snapshot.rows)]
    vectors = unit(snapshot.keys.astype(np.float32))

    def named(label: int | list[int]) -> Labels:
        return [answers.names[one] for one in label] if isinstance(label, list) else answers.names[label]

    with tqdm(total=3, desc="Auditing", unit="step", disable=not show_progress) as progress:
        nearest = nearest_examples(vectors)
        progress.update()
        groups = duplicate_groups(snapshot.rows, vectors)
        progress.update()
        doubts, wrong = doubts_of(answers.labels, answers.rows, answers.probabilities, nearest)
        progress.update()
    issues = [
        LabelIssue(ids[row], labels[row], named(suggested), *evidence, texts[row])
        for row, suggested, *evidence in doubts
    ]
    copies = []
    for rows, similarity, exact in groups:
        of_group, own = [ids[row] for row in rows], [labels[row] for row in rows]
        differ = any(label != own[0] for label in own)
        remove = of_group[1:] if exact and not differ else []
        copies.append(Duplicates(of_group, own, differ, exact, similarity, remove, texts[rows[0]]))
    closeness = nearest.closeness()
    far = [Outlier(ids[i], labels[i], float(closeness[i]), False, texts[i]) for i in outliers(closeness).tolist()]
    confused = []
    if not snapshot.multi_label:
        pairs = confused_labels(answers.labels[answers.rows], answers.probabilities.argmax(1), len(answers.names))
        confused = [ConfusedLabels(named(first), named(second), *rest) for first, second, *rest in pairs]
    return Audit(len(ids), len(answers.rows), answers.missing, round(wrong, 1), issues, copies, far, confused)


def _labels_of(snapshot: Snapshot) -> list[Labels]:
    """The names of the label, or of the labels, of each row."""
    names = np.array(snapshot.label_names, dtype=object)
    if snapshot.multi_label:
        return [names[row].tolist() for row in snapshot.labels]
    return names[snapshot.labels].tolist()


class OutOfFold(NamedTuple):
    """What the experts said of m examples that they had not learned from; it holds when labels change."""

    rows: np.ndarray  # int64 (m,), ascending
    probabilities: np.ndarray  # float32 (m, C), of the labels that were fitted
    names: list[str]  # of these
    labels: np.ndarray  # of all N examples by these: int64 (N,), -1 for another one, or bool (N, C)
    missing: dict[str, int]  # how many examples have no answer, by the reason


def out_of_fold(snapshot: Snapshot) -> OutOfFold:
    """The out-of-fold answers to the examples that are there, whatever their labels are by now."""
    if (ready := ready_experts(snapshot)) is None:
        raise ValueError("Nothing was fitted, so there is nothing to audit by: call fit() first.")
    fitted, held_out = ready.fitted, ready.fitted.held_out
    if len(held_out.ids) and not held_out.ids.any():
        raise ValueError("The experts were chosen on held-out texts: call fit() without texts, which holds out folds.")
    labels, is_new = _labels_by(fitted.labels, snapshot)
    ids = id_numbers(snapshot.rows, snapshot.keys)
    described = np.array([row_id.startswith(LABEL_ID) for row_id in snapshot.rows["id"].to_pylist()])
    reasons = {
        "came after fit()": ~np.isin(ids, fitted.ids),
        "describe a label": described,
        "have a label that came after fit()": is_new,
        "were never held out, as the only text of their label": ~np.isin(ids, held_out.ids),
    }
    left, missing = np.ones(len(ids), bool), {}
    for reason, applies in reasons.items():
        if count := int((left & applies).sum()):
            missing[reason] = count
        left &= ~applies
    rows = np.flatnonzero(left)
    order = np.argsort(held_out.ids, kind="stable")
    place = order[np.searchsorted(held_out.ids, ids[rows], sorter=order)]
    return OutOfFold(rows, held_out.probabilities[place], fitted.labels, labels, missing)


def _labels_by(names: list[str], snapshot: Snapshot) -> tuple[np.ndarray, np.ndarray]:
    """The labels of all examples, numbered by ``names``, and which examples have another one, bool ``(N,)``."""
    columns = np.array([snapshot.label_names.index(name) for name in names])
    if snapshot.multi_label:
        return snapshot.labels[:, columns], np.delete(snapshot.labels, columns, axis=1).any(1)
    used = np.unique(snapshot.labels)
    if len(used) < 2:
        name = snapshot.label_names[used[0]]
        raise ValueError(f"All {len(snapshot.labels)} examples have the label {name!r}: add some of other labels.")
    numbers = np.full(len(snapshot.label_names), -1)
    numbers[columns] = np.arange(len(columns))
    labels = numbers[snapshot.labels]
    return labels, labels < 0


def corrections(audit: Audit, snapshot: Snapshot) -> tuple[dict[str, Labels], list[str]]:
    """What an audit, maybe edited, changes now: new labels by id, and ids to remove. A label keeps its last example."""
    known = dict(zip(snapshot.rows["id"].to_pylist(), _labels_of(snapshot), strict=True))
    given = {issue.id: issue.given for issue in audit.label_issues}
    given |= {one: label for group in audit.duplicates for one, label in zip(group.ids, group.labels, strict=False)}
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
    if unknown := {name for label in audit.new_labels.values() for name in _names(label)} - {*snapshot.label_names}:
        raise ValueError(f"The audit suggests labels that no example has: {', '.join(sorted(unknown))}.")
    counts = Counter(name for label in known.values() for name in _names(label))
    kept: dict[str, str] = {}
    for row_id, label in [*audit.new_labels.items(), *((row_id, []) for row_id in audit.to_remove)]:
        old, new = _names(known[row_id]), _names(label)
        if last := [name for name in old if counts[name] == 1 and name not in new]:
            kept[row_id] = last[0]
        else:
            counts.update(new)
            counts.subtract(old)
            known[row_id] = label
    if kept:
        which = ", ".join(f"{row_id!r} of {name!r}" for row_id, name in kept.items())
        logger.warning("Left out, as a label would lose its last example: %s. Add examples of these labels.", which)
    labels = {row_id: label for row_id, label in audit.new_labels.items() if row_id not in kept}
    return labels, [row_id for row_id in audit.to_remove if row_id not in kept]


def _names(label: Labels) -> list[str]:
    return [label] if isinstance(label, str) else label


class DatalabInputs(NamedTuple):
    """The m examples that ``fit`` held out, as cleanlab's Datalab takes them.

    Attributes:
        data: With the columns ``id``, ``text`` and ``label``: a ``ClassLabel``, or a list of numbers where a text may
            have several labels.
        pred_probs: The out-of-fold probabilities, ``(m, C)``.
        features: The embeddings, ``(m, D)``.
    """

    data: Dataset
    pred_probs: np.ndarray
    features: np.ndarray


def datalab_inputs(snapshot: Snapshot) -> DatalabInputs:
    """The inputs that ``KNNClassifierPipeline.datalab_inputs`` gives."""
    from datasets import ClassLabel, Dataset

    answers = out_of_fold(snapshot)
    rows, probabilities, labels = answers.rows, answers.probabilities, answers.labels[answers.rows]
    table = rows_at(snapshot.rows, rows)
    columns = {"id": table["id"].to_pylist(), "text": texts_in(table)}
    features = snapshot.keys[rows].astype(np.float32)
    if snapshot.multi_label:
        used = labels.any(0)  # Datalab counts the labels that it sees
        columns["label"] = [np.flatnonzero(row).tolist() for row in labels[:, used]]
        return DatalabInputs(Dataset.from_dict(columns), probabilities[:, used], features)
    data = Dataset.from_dict(columns | {"label": labels}).cast_column("label", ClassLabel(names=answers.names))
    return DatalabInputs(data, probabilities / probabilities.sum(1, keepdims=True), features)
