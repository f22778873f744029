"""The surest wrong answer to a held-out example, where it alone decides how many texts get an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .corpus import id_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...datastore.snapshot import Snapshot
    from .scoring import FittedExperts

MOVED = 0.1  # the least share of texts by which one label changes what is answered, so that it is worth a line


def surest_error(fitted: FittedExperts, snapshot: Snapshot, errors: Sequence[float]) -> dict[str, Any] | None:
    """The surest wrong held-out answer, and what is answered without it, at the error where it counts most.

    ``id``, None of a text that is no example; ``labeled``, ``answered`` and ``score``; ``error``, and the shares of the
    texts with an answer, ``share`` and ``share_without``. None where no error counts that much, or texts have several
    labels.
    """
    held_out = fitted.held_out
    if fitted.several or held_out.right.all():
        return None
    wrong = np.flatnonzero(~held_out.right)
    surest = wrong[fitted.held_out_confidence()[wrong].argmax()]
    others = np.arange(len(held_out.ids)) != surest
    without = fitted._replace(held_out=type(held_out)(*(array[others] for array in held_out)))
    if not len(without.held_out.ids):
        return None
    gains = [without.share_answered(error) - fitted.share_answered(error) for error in errors]
    error = errors[int(np.argmax(gains))]
    if max(gains) < MOVED:
        return None
    return {
        "id": _id_of(snapshot, int(held_out.ids[surest])),
        "labeled": fitted.labels[int(held_out.labels[surest].argmax())],
        "answered": fitted.labels[int(held_out.probabilities[surest].argmax())],
        "score": float(held_out.probabilities[surest].max()),
        "error": error,
        "share": fitted.share_answered(error),
        "share_without": without.share_answered(error),
    }


def describe_surest_error(found: dict[str, Any] | None) -> str:
    """The same as a line; empty where there is none."""
    if found is None:
        return ""
    text = "a held-out text" if found["id"] is None else f"example {found['id']!r}"
    return (
        f"\nThe surest wrong answer is to {text}: labeled {found['labeled']!r}, answered {found['answered']!r} with "
        f"score {found['score']:.2f}. Without it, {found['share_without']:.0%} would be answered at "
        f"{found['error']:.0%}, in place of {found['share']:.0%}: check its label."
    )


def _id_of(snapshot: Snapshot, number: int) -> str | None:
    rows = np.flatnonzero(id_numbers(snapshot.rows, snapshot.keys) == number) if number else []
    return snapshot.rows["id"][int(rows[0])].as_py() if len(rows) else None
