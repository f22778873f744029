"""Most confident wrong answer to a held-out text, if many more texts would be answered without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import numpy as np

from .corpus import id_numbers
from .schema import Fraction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...arrays.snapshot import Snapshot
    from .guarantees import Guarantees

LEAST_GAIN = 0.1  # in the fraction of answered texts, for the error to be reported


class SurestError(TypedDict):
    """The most confident wrong answer to a held-out text."""

    id: str | None  # of the example; None if the text is no example
    labeled: str  # its label
    answered: str  # the wrong answer
    score: Fraction  # probability of the wrong answer
    error: Fraction  # the error rate at which the gain is largest
    share: Fraction  # of texts answered at that error rate
    share_without: Fraction  # the same fraction if this text were not held out


def surest_error(
    guarantees: Guarantees, labels: Sequence[str], snapshot: Snapshot, errors: Sequence[float]
) -> SurestError | None:
    """Find the most confident wrong answer, and the error rate at which its removal gains most answers.

    None if the gain is below ``LEAST_GAIN``, or texts may have several labels.
    """
    held_out = guarantees.held_out
    if guarantees.multi_label or held_out.right.all():
        return None
    wrong = np.flatnonzero(~held_out.right)
    surest = int(wrong[guarantees.held_out_confidence()[wrong].argmax()])
    without = guarantees.without(surest)
    if not len(without.held_out.ids):
        return None
    gains = [without.answered_fraction(error) - guarantees.answered_fraction(error) for error in errors]
    error = errors[int(np.argmax(gains))]
    if max(gains) < LEAST_GAIN:
        return None
    return SurestError(
        id=_id_of(snapshot, int(held_out.ids[surest])),
        labeled=labels[int(held_out.labels[surest].argmax())],
        answered=labels[int(held_out.probabilities[surest].argmax())],
        score=float(held_out.probabilities[surest].max()),
        error=error,
        share=guarantees.answered_fraction(error),
        share_without=without.answered_fraction(error),
    )


def describe_surest_error(found: SurestError | None) -> str:
    """Describe the error in a line for the report; empty if there is none."""
    if found is None:
        return ""
    text = "a held-out text" if found["id"] is None else f"example {found['id']!r}"
    return (
        f"\nThe most confident wrong answer is to {text}: labeled {found['labeled']!r}, answered {found['answered']!r} "
        f"with score {found['score']:.2f}. Without it, {found['share_without']:.0%} would be answered at "
        f"{found['error']:.0%}, instead of {found['share']:.0%}: check its label."
    )


def _id_of(snapshot: Snapshot, number: int) -> str | None:
    """Find the id of an example by its hash; None for 0, or if the example was removed."""
    rows = np.flatnonzero(id_numbers(snapshot.rows, snapshot.keys) == number) if number else []
    return snapshot.rows["id"][int(rows[0])].as_py() if len(rows) else None
