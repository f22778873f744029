"""Auditing the examples of one snapshot by what was fitted on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tqdm.auto import tqdm

from ...text.characters import on_one_line
from ..experts.corpus import texts_in
from ..experts.document_vectors import unit
from .audit import Audit, ConfusedLabels, Duplicates, LabelIssue, Labels, Outlier
from .confused_labels import confused_labels
from .duplicate_groups import duplicate_groups
from .label_issues import doubts_of
from .nearest_examples import nearest_examples
from .out_of_fold import out_of_fold
from .outliers import outliers

if TYPE_CHECKING:
    from ..store.snapshot import Snapshot

SHOWN_CHARACTERS = 200


def audit_snapshot(snapshot: Snapshot, show_progress: bool = True) -> Audit:
    """Audit as ``KNNClassifierPipeline.audit`` says."""
    answers = out_of_fold(snapshot)
    ids, labels = snapshot.rows["id"].to_pylist(), labels_of(snapshot)
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


def labels_of(snapshot: Snapshot) -> list[Labels]:
    """The names of the label, or of the labels, of each row."""
    names = np.array(snapshot.label_names, dtype=object)
    if snapshot.multi_label:
        return [names[row].tolist() for row in snapshot.labels]
    return names[snapshot.labels].tolist()
