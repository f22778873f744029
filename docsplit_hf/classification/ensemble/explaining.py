"""Explanations of answers: contributions of experts and words to the log odds of a label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..prediction import Explanation, WordWeight
from .registry import EXPERTS

if TYPE_CHECKING:
    from .fitted_experts import FittedExperts, ScoredTexts

MAX_WORDS = 5
CLASS_PROPORTIONS = "class proportions"  # named beside the experts
AFTER_FIT = "This label came after fit(): only the neighbors know it. Call fit() again, and all experts will."


def explain(scored: ScoredTexts, fitted: FittedExperts, row: int, label: int) -> Explanation:
    """Explain why text ``row`` has a label, by its number among all labels, rather than the next best one.

    Args:
        scored: The scored texts.
        fitted: The experts that scored them.
        row: The number of the text.
        label: The number of the label.

    Returns:
        The next best label, ``against``; the contribution of each of the ``experts``, and of the label proportions
        ("class proportions"), to the log odds of the two; and the ``words`` that contribute most. Of a label that came
        after ``fit``, a ``note`` instead.
    """
    place = np.flatnonzero(scored.columns == label)
    if not len(place):
        return Explanation(against=None, experts={}, words=[], note=AFTER_FIT)
    scores = scored.weighted_logits[:, row]
    shift = fitted.ensemble.learned.shift
    own = int(place[0])
    other = None
    if not fitted.multi_label:
        pooled = scores.sum(0) + shift
        pooled[own] = -np.inf
        other = int(pooled.argmax())
    odds = scores[:, own] - (0 if other is None else scores[:, other])
    contributions = dict(zip(fitted.experts, odds.tolist(), strict=True))
    if other is not None and shift.any():
        contributions[CLASS_PROPORTIONS] = float(shift[own] - shift[other])
    return Explanation(
        against=None if other is None else fitted.labels[other],
        experts=contributions,
        words=_top_words(scored, fitted, row, own, other),
    )


def _top_words(scored: ScoredTexts, fitted: FittedExperts, row: int, own: int, other: int | None) -> list[WordWeight]:
    """The words that contribute most, by the first expert whose scores are sums over words."""
    if scored.words is None:
        return []
    words = scored.words[[row]]
    for name, weight in fitted.settings.weights.items():
        learned = fitted.ensemble.learned.by_expert[name]
        contributions = EXPERTS[name].word_contributions(learned, weight, words, own, other)
        if contributions is not None:
            break
    else:
        return []
    best = np.argsort(-contributions, kind="stable")[:MAX_WORDS]
    terms = fitted.ensemble.vectorizer.get_feature_names_out()
    return [
        WordWeight(word=str(terms[words.indices[i]]), weight=float(contributions[i]))
        for i in best
        if contributions[i] > 0
    ]
