"""What the experts said of examples that they had not learned from, and of which ones they said nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..experts.check_state import check_state
from ..experts.corpus import id_numbers
from ..experts.fitted_experts import FittedExperts
from ..experts.held_out_scores import LABEL_ID

if TYPE_CHECKING:
    from ..store.snapshot import Snapshot


class OutOfFold(NamedTuple):
    """The answers to m of the examples; they stay true when an example gets another label."""

    rows: np.ndarray  # int64 (m,), ascending
    probabilities: np.ndarray  # float32 (m, C), of the labels that were fitted
    names: list[str]  # of these
    labels: np.ndarray  # of all N examples by these: int64 (N,), -1 for another one, or bool (N, C)
    missing: dict[str, int]  # how many examples have no answer, by the reason


def out_of_fold(snapshot: Snapshot) -> OutOfFold:
    """The out-of-fold answers to the examples that are there, whatever their labels are by now."""
    if snapshot.fitted is None:
        raise ValueError("Nothing was fitted, so there is nothing to audit by: call fit() first.")
    check_state(snapshot.fitted, snapshot)
    fitted = FittedExperts.from_state(snapshot.fitted)
    held_out = fitted.held_out
    if len(held_out.ids) and not held_out.ids.any():
        raise ValueError(
            "The experts were chosen on held-out texts, so nothing is known of the examples themselves: call fit() "
            "without texts, which holds out folds of the examples."
        )
    labels, is_new = _by_names(snapshot, fitted.labels)
    ids = id_numbers(snapshot.rows, snapshot.keys)
    is_known, is_held_out = np.isin(ids, fitted.ids), np.isin(ids, held_out.ids)
    described = np.array([row_id.startswith(LABEL_ID) for row_id in snapshot.rows["id"].to_pylist()])
    reasons = {
        "came after fit()": ~is_known,
        "describe a label": described,
        "have a label that came after fit()": is_new,
    }
    reasons["were never held out, as the only text of their label"] = ~is_held_out
    left, missing = np.ones(len(ids), bool), {}
    for reason, applies in reasons.items():
        if count := int((left & applies).sum()):
            missing[reason] = count
        left &= ~applies
    rows = np.flatnonzero(left)
    order = np.argsort(held_out.ids, kind="stable")
    place = order[np.searchsorted(held_out.ids, ids[rows], sorter=order)]
    return OutOfFold(rows, held_out.probabilities[place], fitted.labels, labels, missing)


def _by_names(snapshot: Snapshot, names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """The labels of all examples by the names that were fitted, and which examples have another one, bool ``(N,)``."""
    columns = np.array([snapshot.label_names.index(name) for name in names])
    if snapshot.multi_label:
        return snapshot.labels[:, columns], np.delete(snapshot.labels, columns, axis=1).any(1)
    used = np.unique(snapshot.labels)
    if len(used) < 2:
        raise ValueError(
            f"All {len(snapshot.labels)} examples have the label {snapshot.label_names[used[0]]!r}: there is nothing "
            "to tell apart. Add some of other labels."
        )
    numbers = np.full(len(snapshot.label_names), -1)
    numbers[columns] = np.arange(len(columns))
    labels = numbers[snapshot.labels]
    return labels, labels < 0
