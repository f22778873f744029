"""Why the experts gave an answer: what each of them counted, and the words that spoke most for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .experts import SHIFT
from .word_weights import SHARPNESS

if TYPE_CHECKING:
    from .fitted_experts import Answers, FittedExperts

MOST_WORDS = 5


def explain(answers: Answers, fitted: FittedExperts, row: int, label: int) -> dict[str, Any]:
    """Why text ``row`` has the label of number ``label`` among all labels, rather than the next best one.

    ``experts``: what each adds to the log odds of the two labels, and with them ``class proportions``, how much more
    often there is the one than the other; they add up to those of the mixture. ``words``: the words that add most of
    it, best first; ``against``: the other label, None where a text may have several. Of a label that came after
    ``fit`` there is nothing to say.
    """
    place = np.flatnonzero(answers.columns == label)
    if not len(place):
        return {"against": None, "experts": {}, "words": []}  # it came after fit: the neighbors alone know it
    scores, own, other, shift = answers.scores[:, row], int(place[0]), None, fitted.learned[SHIFT]
    if not fitted.several:
        pooled = scores.sum(0) + shift
        pooled[own] = -np.inf
        other = int(pooled.argmax())
    odds = scores[:, own] - (0 if other is None else scores[:, other])
    experts = dict(zip(fitted.experts, odds.tolist(), strict=True))
    if other is not None and shift.any():
        experts["class proportions"] = float(shift[own] - shift[other])
    return {
        "against": None if other is None else fitted.labels[other],
        "experts": experts,
        "words": _words(answers, fitted, row, own, other),
    }


def _words(answers: Answers, fitted: FittedExperts, row: int, own: int, other: int | None) -> list[dict[str, Any]]:
    if answers.words is None or "words" not in fitted.experts:
        return []
    counts, weights = answers.words[[row]], fitted.learned["word_weights"]
    against = 0 if other is None else weights[other, counts.indices]
    factor = fitted.settings["weights"]["words"] * SHARPNESS
    odds = factor * counts.data * (weights[own, counts.indices] - against)
    best = [i for i in np.argsort(-odds, kind="stable")[:MOST_WORDS] if odds[i] > 0]
    terms = fitted.vectorizer.get_feature_names_out()
    return [{"word": str(terms[counts.indices[i]]), "weight": float(odds[i])} for i in best]
