"""The experts by name: what they learn together, and what they say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from .corpus import spread_labels
from .expert import Asked, Expert, Lesson
from .log_linear_pool import log_shift, pool, spread_of_scores
from .neighbor_expert import Neighbors
from .vector_experts import EXAMPLE_WEIGHTS, Classifier, Names, Topics, belief_in_names, centers_of, fit_topics
from .word_experts import Vocabulary, Words

if TYPE_CHECKING:
    from .corpus import Corpus

EXPERTS: dict[str, Expert] = {
    "classifier": Classifier(),
    "words": Words(),
    "neighbors": Neighbors(),
    "topics": Topics(),
    "vocabulary": Vocabulary(),
    "names": Names(),
}
ROUNDS = 3  # in which experts learn from documents; from the second on, from what the mixture says of these
ROUND_SHARPNESS = 1.0  # with which it says so
SOFT = "soft"  # (N, C): the labels that the texts of the corpus vote with
PROPORTIONS = "proportions"  # (C,): of the labels among all texts
SHIFT = "shift"  # (C,): added to what the experts say together, as the examples have other proportions


def prior_weights(experts: Sequence[str], lesson: Lesson) -> np.ndarray:
    """The proportions of some of the experts before any example is held out, which add up to 1."""
    weights = np.array([EXPERTS[name].prior(lesson) for name in experts])
    return weights / weights.sum()


def first_lesson(
    corpus: Corpus,
    rows: np.ndarray,
    targets: np.ndarray,
    several: bool,
    has_head: bool = False,
    example_weight: float = EXAMPLE_WEIGHTS[0],
    names: np.ndarray | None = None,
    is_text: np.ndarray | None = None,
) -> Lesson:
    """Before anything is known of the documents: the examples ``rows`` have the labels ``targets`` ``(n, C)``."""
    weights, labels = np.ones(len(corpus.vectors), np.float32), targets.shape[1]
    weights[rows] = example_weight
    soft, centers = np.zeros((len(corpus.vectors), labels), np.float32), np.zeros((labels, 0), np.float32)
    belief = 0.0 if names is None else belief_in_names(corpus, rows, targets, names, is_text)
    return Lesson(corpus, rows, targets, several, has_head, weights, soft, centers, names, is_text, belief)


def fit_all(lesson: Lesson, experts: Sequence[str], proportions: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """What experts learn from a first lesson; ``proportions`` of the labels ``(C,)``, or None to estimate them.

    Labels come to the documents along the graph, by names, and by topic. Then the mixture itself is asked about these,
    and what it says is learned from, half and half with what was known: alone it would confirm its own errors.
    """
    corpus, rows, targets, several = lesson[:4]
    spread = soft = spread_labels(corpus.graph, rows, targets, several)
    if "names" in experts and lesson.belief > 0.5:
        spread = with_names(lesson, spread)
    if several:
        lesson = lesson._replace(soft=spread)
    else:
        soft = fit_topics(corpus.whitened, rows, spread, lesson.weights, proportions)
        lesson = _with_soft_labels(lesson, soft)
    learned = {SOFT: spread}
    for name in experts:
        learned |= EXPERTS[name].fit(lesson)
    asked = [name for name in experts if not (name == "classifier" and lesson.has_head)]
    posterior = soft
    if asked and not several and len(rows) < len(corpus.ids):
        weights = ROUND_SHARPNESS * prior_weights(asked, lesson)
        for turn in range(ROUNDS):
            scores = ask_all(learned, asked, asked_of_corpus(corpus, learned[SOFT], several))
            posterior = pool(scores, weights / spread_of_scores(scores, False), False).astype(np.float32)
            posterior[rows] = targets
            if turn == ROUNDS - 1:  # it is asked for the proportions alone
                break
            lesson = _with_soft_labels(lesson, (soft + posterior) / 2)
            learned[SOFT] = (lesson.soft + learned[SOFT]) / 2
            for name in asked:
                if EXPERTS[name].learns_from_documents:
                    learned |= EXPERTS[name].fit(lesson)
    found = posterior.mean(0, dtype=np.float64) if proportions is None else proportions
    shift = np.zeros(len(found)) if several else log_shift(found, targets, proportions is None)
    return learned | {SHIFT: shift.astype(np.float32), PROPORTIONS: found.astype(np.float32)}


def ask_all(learned: Mapping[str, np.ndarray], experts: Sequence[str], asked: Asked) -> np.ndarray:
    """The logits of texts by each of the experts, float64 ``(E, N, C)``."""
    return np.stack([np.asarray(EXPERTS[name].score(learned, asked), dtype=np.float64) for name in experts])


def with_names(lesson: Lesson, spread: np.ndarray) -> np.ndarray:
    """Labels that were spread from the examples, ``(N, C)``, times what names say, as far as they are believed."""
    pair, corpus = ("neighbors", "names"), lesson.corpus
    asked = Asked(corpus.vectors, corpus.whitened, corpus.words, spread, None, False)
    scores = ask_all(EXPERTS["names"].fit(lesson), pair, asked)
    weights = prior_weights(pair, lesson) / spread_of_scores(scores, False)
    soft = pool(scores, weights / weights[0], False).astype(np.float32)
    soft[lesson.rows] = lesson.targets
    return soft


def _with_soft_labels(lesson: Lesson, soft: np.ndarray) -> Lesson:
    return lesson._replace(soft=soft, centers=centers_of(lesson.corpus.whitened, soft, lesson.weights))


def asked_of_corpus(corpus: Corpus, soft: np.ndarray, several: bool, rows: np.ndarray | slice = slice(None)) -> Asked:
    """Texts of the corpus, whose neighbors are those in its graph: no search has to be made for them."""
    graph = corpus.graph[rows]
    shares = (graph @ soft) / np.maximum(graph.sum(1), 1e-30)[:, None]
    words = None if corpus.words is None else corpus.words[rows]
    return Asked(corpus.vectors[rows], corpus.whitened[rows], words, shares, None, several)
