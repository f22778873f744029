"""Registry of experts; joint fitting and scoring."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple

import numpy as np

from .corpus import propagate_in_folds
from .expert import Corpus, Expert, Features, TrainingData
from .label_names_expert import LabelNames
from .log_linear_pool import log_shift, pool, softmax, spread_of_scores
from .neighbor_expert import Neighbors
from .saved_types import UP_TO_ONE, Array, Range
from .style_expert import Style
from .teacher_expert import Teacher
from .vector_experts import HeadOrProbe, Topics, centers_of, fit_topics, in_batches
from .word_experts import NaiveBayes, WordRegression

ALL_EXPERTS = (HeadOrProbe(), NaiveBayes(), Neighbors(), Topics(), WordRegression(), LabelNames(), Style(), Teacher())
EXPERTS: dict[str, Expert] = {expert.name: expert for expert in ALL_EXPERTS}
MIN_RELIABILITY = 0.5  # of names that refine propagated labels, and of a teacher that is used
SELF_TRAINING_ROUNDS = 3
Start = tuple[np.ndarray, np.ndarray]  # soft labels before any expert is fitted, as ``start_in_folds`` yields them
SELF_TRAINING_SHARPNESS = 1.0  # sum of the weights of the ensemble in these rounds


class Learned(NamedTuple):
    """Fitted arrays: those of each expert, and those that the experts share."""

    # Label distributions by which the texts of the corpus vote as neighbors, float32 (N, C).
    soft_labels: Annotated[np.ndarray, Array(("texts", "labels"), UP_TO_ONE, is_distribution=True)]
    # Added to pooled logits, float32 (C,): logarithms of ratios of the proportions of all texts and of the examples.
    shift: Annotated[np.ndarray, Array(("labels",), Range(-100.0, 100.0))]
    # Of each label among all texts, float32 (C,).
    proportions: Annotated[np.ndarray, Array(("labels",), UP_TO_ONE, is_distribution=True)]
    by_expert: Annotated[dict[str, dict[str, np.ndarray]], None]  # saved as "expert.array"


def prior_weights(experts: Sequence[str], data: TrainingData) -> np.ndarray:
    """Prior weights of E experts, ``(E,)``; they sum to 1."""
    weights = np.array([EXPERTS[name].prior(data) for name in experts])
    return weights / weights.sum()


def start_in_folds(parts: Sequence[TrainingData]) -> Iterator[Start]:
    """Propagate labels of examples to the documents along the graph, then refine them by label names and by topics.

    Yields the soft labels of each part before any expert is fitted, ``(N, C)``: refined by names; and by topics, too,
    which are the same if a text may have several labels.
    """
    for some in in_batches(np.arange(len(parts)), parts[0].targets.shape[1], len(parts[0].corpus.ids)):
        batch = [parts[number] for number in some]
        data = batch[0]
        rows = [part.rows for part in batch]
        propagated = propagate_in_folds(data.corpus.graph, rows, [part.targets for part in batch], data.multi_label)
        for number, part in enumerate(batch):
            if LabelNames.name in part.experts and part.reliability(part.names) > MIN_RELIABILITY:
                propagated[number] = refine_labels(part, propagated[number])
        by_topics = propagated
        if not data.multi_label:
            weights = [part.text_weights for part in batch]
            by_topics = fit_topics(data.corpus.whitened, rows, propagated, weights, data.proportions)
        yield from zip(propagated, by_topics, strict=True)


def fit_all(data: TrainingData, start: Start, are_known: bool = False) -> Learned:
    """Fit experts jointly on soft labels, and again in rounds of self-training.

    With ``are_known`` there is no shift by estimated proportions: the weights will be chosen on texts that have the
    proportions of all texts.
    """
    experts = data.experts
    propagated, soft_labels = start
    data = data._replace(soft_labels=propagated) if data.multi_label else _with_soft_labels(data, soft_labels)
    by_expert = {name: EXPERTS[name].fit(data) for name in experts}
    members = [
        name
        for name in experts
        if EXPERTS[name].joins_self_training and not (EXPERTS[name].uses_head and data.has_head)
    ]
    if members and not data.multi_label and data.has_documents:
        by_expert, propagated, soft_labels = _self_train(data, soft_labels, propagated, by_expert, members)
    if not data.multi_label:
        for name in experts:
            by_expert[name] = EXPERTS[name].learn_from_posterior(data, by_expert[name], soft_labels)
    is_estimated = data.proportions is None
    found = soft_labels.mean(0, dtype=np.float64) if is_estimated else data.proportions
    shift = np.zeros(len(found))
    if not data.multi_label and not (are_known and is_estimated):
        shift = log_shift(found, data.targets, is_estimated)
    return Learned(propagated, shift.astype(np.float32), found.astype(np.float32), by_expert)


def _self_train(
    data: TrainingData,
    topic_labels: np.ndarray,
    voting_labels: np.ndarray,
    by_expert: dict[str, dict[str, np.ndarray]],
    members: Sequence[str],
) -> tuple[dict[str, dict[str, np.ndarray]], np.ndarray, np.ndarray]:
    """Fit experts again on soft labels of the ensemble of ``members``.

    They are averaged with the earlier ones: alone, they would reinforce the errors of the ensemble. Returns the arrays
    by expert, the labels by which texts vote, and the label distributions of the last round, ``(N, C)`` each.
    """
    by_expert = dict(by_expert)
    weights = dict(zip(members, SELF_TRAINING_SHARPNESS * prior_weights(members, data), strict=True))
    fixed = [name for name in members if not (EXPERTS[name].learns_from_documents or name == Neighbors.name)]
    changing = [name for name in members if name not in fixed]
    features = features_of_corpus(data.corpus, voting_labels, False)
    of_fixed = _pooled_logits(fixed, weights, by_expert, features)
    for round_number in range(SELF_TRAINING_ROUNDS):
        posterior = softmax(of_fixed + _pooled_logits(changing, weights, by_expert, features), axis=1)
        posterior[data.rows] = data.targets
        if round_number == SELF_TRAINING_ROUNDS - 1:  # the last round only estimates label proportions
            break
        data = _with_soft_labels(data, (topic_labels + posterior) / 2)
        voting_labels = (data.soft_labels + voting_labels) / 2
        features = features_of_corpus(data.corpus, voting_labels, False)
        for name in members:
            if EXPERTS[name].learns_from_documents:
                by_expert[name] = EXPERTS[name].fit(data)
    return by_expert, voting_labels, posterior


def _pooled_logits(
    experts: Sequence[str],
    weights: Mapping[str, float],
    by_expert: Mapping[str, Mapping[str, np.ndarray]],
    features: Features,
) -> np.ndarray:
    """Sum of the logits of some experts after division by their spreads, float32 ``(N, C)``."""
    pooled = np.zeros(features.neighbor_label_proportions.shape, np.float32)
    for name in experts:
        scores = EXPERTS[name].score(by_expert[name], features)
        pooled += np.float32(weights[name] / spread_of_scores(scores[None], False)[0]) * scores
    return pooled


def refine_labels(data: TrainingData, propagated: np.ndarray) -> np.ndarray:
    """Reweight propagated labels ``(N, C)`` by similarity to label names."""
    pair = (Neighbors.name, LabelNames.name)
    corpus = data.corpus
    features = Features(
        vectors=corpus.vectors,
        whitened=corpus.whitened,
        words=corpus.words,
        style=corpus.style,
        neighbor_label_proportions=propagated,
        head_logits=None,
        multi_label=False,
    )
    by_neighbors = EXPERTS[Neighbors.name].score({}, features)
    by_names = EXPERTS[LabelNames.name].score(EXPERTS[LabelNames.name].fit(data), features)
    scores = np.array([by_neighbors, by_names], dtype=np.float64)
    weights = prior_weights(pair, data) / spread_of_scores(scores, False)
    soft_labels = pool(scores, weights / weights[0], False).astype(np.float32)
    soft_labels[data.rows] = data.targets
    return soft_labels


def _with_soft_labels(data: TrainingData, soft_labels: np.ndarray) -> TrainingData:
    centers = centers_of(data.corpus.whitened, soft_labels, data.text_weights)
    return data._replace(soft_labels=soft_labels, centers=centers)


def features_of_corpus(
    corpus: Corpus, soft_labels: np.ndarray, multi_label: bool, rows: np.ndarray | slice = slice(None)
) -> Features:
    """Features of texts of the corpus; their neighbors come from the graph of the corpus, without a search."""
    graph = corpus.graph[rows]
    return Features(
        vectors=corpus.vectors[rows],
        whitened=corpus.whitened[rows],
        words=None if corpus.words is None else corpus.words[rows],
        style=corpus.style[rows],
        neighbor_label_proportions=(graph @ soft_labels) / np.maximum(graph.sum(1), 1e-30)[:, None],
        head_logits=None,
        multi_label=multi_label,
    )
