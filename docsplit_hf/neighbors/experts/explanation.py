"""Why the experts gave an answer: what each of them counted, and the words that spoke most for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .experts import SHIFT
from .fitted_experts import ask_experts
from .word_weights import SHARPNESS

if TYPE_CHECKING:
    from ...models.inference.reader import Predictions
    from .fitted_experts import Answers, FittedExperts, ReadyExperts


MOST_WORDS = 5
ALIKE = 1e-6  # of probabilities: copies of a passage differ by rounding


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


def passage_probabilities(
    ready: ReadyExperts, predictions: Predictions, texts: list[str], row: int
) -> np.ndarray | None:
    """What the experts would say of each passage of a text, ``(p, L)``; None for a text of one passage.

    A trained classifier says of each what it says of the whole text.
    """
    passages = predictions.passages
    if passages is None or passages.counts[row] == 1:
        return None
    embeddings, spans = passages.of(row)
    parts = [texts[row][start:end] for start, end in spans]
    has_head = predictions.logits.shape[1] > 0
    logits = np.repeat(predictions.logits[[row]], len(parts), axis=0) if has_head else None
    return ask_experts(ready, embeddings, parts, logits).probabilities


def deciding_passage(probabilities: np.ndarray, spans: np.ndarray, text: str, label: int) -> dict[str, Any]:
    """The passage of which they are surest, the first of equals: where it stands, in characters, and its words."""
    of_label = probabilities[:, label]
    start, end = spans[np.flatnonzero(of_label >= of_label.max() - ALIKE)[0]].tolist()
    return {"start": start, "end": end, "text": text[start:end]}
