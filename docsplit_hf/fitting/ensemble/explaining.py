"""Explanations of answers: contributions of experts and words to the log odds of a label."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

import numpy as np

from ...reading.characters import words_of
from ...reading.files.places import Place
from ...reading.origins import Origin
from ..experts.registry import EXPERTS
from ..prediction import Explanation, WordWeight
from .fitted_ensemble import Ensemble
from .scoring import Scores

MAX_EXPLAINED_WORDS = 5
LEAST_DESCRIBED = 0.05  # contribution to the log odds: what makes a label less than 1.05 times as likely is not told
LEAST_OF_A_WORD = 0.01  # contribution of a word; those with less have no effect to speak of
MOST_TIMES = 1000.0  # told of evidence that makes a label more likely still
# What experts read, in plain words; of the others, and of the class proportions, the name says it.
EVIDENCE = {
    "classifier": "meaning",
    "topics": "meaning",
    "neighbors": "labels of similar texts",
    "naive_bayes": "words",
    "word_regression": "words",
    "style": "how it is written",
}
CLASS_PROPORTIONS = "class proportions"  # contribution of the shift, beside those of the experts
ADDED_AFTER_FIT = (
    "This label was added after fit(), and only neighbors predict it. Call fit() again to use all experts."
)


def explain(scored: Scores, ensemble: Ensemble, row: int, label: int) -> Explanation:
    """Explain why a text has a label rather than the next best one.

    Args:
        scored: The scored texts.
        ensemble: The experts that scored them.
        row: The number of the text among the scored ones.
        label: The number of the label among all labels of the datastore.

    Returns:
        The next best label, ``against``; the contribution of each of the ``experts``, and of the label proportions
        ("class proportions"), to the log odds of the two labels, and the same in plain words, ``summary``; the
        ``words`` that speak most for the label, and ``words_against``; and what speaks for it in how the text is
        written, ``style``, or against it, ``style_against``. For a label added after ``fit``, a ``note`` instead.
    """
    compared = _compared(scored, ensemble, row, label)
    if compared is None:
        return Explanation(against=None, experts={}, words=[], words_against=[], note=ADDED_AFTER_FIT)
    column, against = compared
    scores = scored.weighted_logits[:, row]
    shift = ensemble.learned.shift
    log_odds = scores[:, column] - (0 if against is None else scores[:, against])
    contributions = dict(zip(ensemble.experts, log_odds.tolist(), strict=True))
    if against is not None and shift.any():
        contributions[CLASS_PROPORTIONS] = float(shift[column] - shift[against])
    next_best = None if against is None else ensemble.labels[against]
    explanation = Explanation(
        against=next_best,
        experts=contributions,
        summary=_summary(ensemble.labels[column], next_best, contributions),
        words=_top_words(scored, ensemble, row, column, against, sign=1),
        words_against=_top_words(scored, ensemble, row, column, against, sign=-1),
    )
    for field, said, sign, first, second in (
        ("style", "For it", 1, column, against),
        ("style_against", "Against it", -1, against, column),
    ):
        described = [
            words
            for name, contribution in contributions.items()
            if scored.style is not None and name in EXPERTS and sign * contribution >= LEAST_DESCRIBED
            for words in EXPERTS[name].described(ensemble.learned.by_expert[name], scored.style[row], first, second)
        ]
        if described:
            explanation[field] = described
            explanation["summary"] += f" {said} in how it is written: {'; '.join(described)}."
    return explanation


def _summary(label: str, against: str | None, contributions: Mapping[str, float]) -> str:
    """Say what makes a label more likely, what makes it less likely, and how many times."""
    total_of: defaultdict[str, float] = defaultdict(float)
    for name, contribution in contributions.items():
        total_of[EVIDENCE.get(name, name.replace("_", " "))] += contribution

    def listed(sign: int) -> str:
        found = [
            f"{evidence} ({min(np.exp(sign * total_of[evidence]), MOST_TIMES):,.1f} times)"
            for evidence in sorted(total_of, key=lambda evidence: -sign * total_of[evidence])
            if sign * total_of[evidence] >= LEAST_DESCRIBED
        ]
        return ", ".join(found)

    compared = "or not" if against is None else f"rather than {against!r}"
    log_odds = sum(contributions.values())
    times = f"{min(np.exp(abs(log_odds)), MOST_TIMES):,.1f}"
    odds = f"{times} to 1" if log_odds >= 0 else f"1 to {times}"
    sentences = [f"{label!r} {compared}: odds of {odds}."]
    for said, found in (("More", listed(1)), ("Less", listed(-1))):
        if found:
            sentences.append(f"{said} likely by {found}.")
    return " ".join(sentences)


def _compared(scored: Scores, ensemble: Ensemble, row: int, label: int) -> tuple[int, int | None] | None:
    """The columns of a label and of the next best one; None for a label that was added after ``fit``."""
    places = np.flatnonzero(scored.columns == label)
    if not len(places):
        return None
    column = int(places[0])
    if ensemble.multi_label:
        return column, None
    logits = scored.weighted_logits[:, row].sum(0) + ensemble.learned.shift
    logits[column] = -np.inf
    return column, int(logits.argmax())


def _top_words(
    scored: Scores, ensemble: Ensemble, row: int, column: int, against: int | None, sign: int
) -> list[WordWeight]:
    """Find the words that speak most for a label, with the sign 1, or most against it, with -1."""
    if scored.words is None:
        return []
    contributions = _word_contributions(scored, ensemble, row, column, against, ensemble.weights)
    terms = scored.words.row(row).indices
    best = np.argsort(-sign * contributions, kind="stable")[:MAX_EXPLAINED_WORDS]
    return [
        WordWeight(word=ensemble.terms[terms[i]], weight=float(contributions[i]))
        for i in best
        if sign * contributions[i] >= LEAST_OF_A_WORD
    ]


def _word_contributions(
    scored: Scores,
    ensemble: Ensemble,
    row: int,
    column: int,
    against: int | None,
    weights: Mapping[str, float],
) -> np.ndarray:
    """Contribution of each word of a text, by all experts with scores that are sums over words."""
    words = scored.words.row(row)
    total = np.zeros(len(words.indices))
    for name, weight in weights.items():
        learned = ensemble.learned.by_expert[name]
        contributions = EXPERTS[name].word_contributions(learned, weight, words, column, against)
        if contributions is not None:
            total += contributions
    return total


def deciding_place(scored: Scores, ensemble: Ensemble, row: int, label: int, text: str, origin: Origin) -> Place | None:
    """Find the page or other place of a text whose words speak most for a label, rather than for the next best one.

    A word on several pages contributes to each by how often it is there. None if no expert counts words, or the label
    was added after ``fit``.
    """
    compared = _compared(scored, ensemble, row, label)
    if compared is None or scored.words is None:
        return None
    # Equal weights, if the experts that count words have none.
    for weights in (ensemble.weights, dict.fromkeys(ensemble.weights, 1.0)):
        contributions = _word_contributions(scored, ensemble, row, *compared, weights)
        if contributions.any():
            break
    else:
        return None
    vocabulary = ensemble.tfidf.columns
    contribution_of = dict(zip(scored.words.row(row).indices.tolist(), contributions.tolist(), strict=True))
    counts = [Counter(words_of(text[place.start : place.end])) for place in origin.places]
    totals = Counter(word for count in counts for word in count.elements())
    sums = [
        sum(contribution_of.get(vocabulary.get(word), 0.0) * (times / totals[word]) for word, times in count.items())
        for count in counts
    ]
    return origin.places[int(np.argmax(sums))]
