"""Choice of the weights of the experts, and estimate of the label proportions, by held-out scores."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..experts.expert import Corpus, TrainingData
from ..experts.log_linear_pool import (
    DEFAULT_SHARPNESS,
    is_class_balanced,
    log_shift,
    most_probable_weights,
    pool,
    spread_of_scores,
)
from ..experts.registry import features_of_corpus, prior_weights
from ..rejection import estimate_out_of_scope_fraction, familiarity, importance_weights
from .fitted_ensemble import Ensemble
from .guarantees import HeldOutAnswers
from .held_out_scores import HeldOutScores
from .label_proportions import Proportions, estimate_proportions
from .prior_sharpness import Evidence, learned_sharpness, prior_sharpness, robust_spreads
from .problem import Problem
from .scoring import PreparedExperts, score_all, score_features


class Weights(NamedTuple):
    """Weights of the logits of E experts."""

    spreads: np.ndarray  # (E,): standard deviation of the logits of each expert
    for_scaled_logits: np.ndarray  # (E,): weights of the logits after division by the spreads

    @property
    def of_logits(self) -> np.ndarray:
        """Weights of the unscaled logits, ``(E,)``."""
        return self.for_scaled_logits / self.spreads

    @property
    def relative(self) -> np.ndarray:
        """Weights of the scaled logits, normalized to a sum of 1, ``(E,)``."""
        return self.for_scaled_logits / max(self.for_scaled_logits.sum(), 1e-12)


class Prior(NamedTuple):
    """What is known of the weights before the labels of held-out texts are compared with the scores."""

    weights: np.ndarray  # (E,): prior weights of the scaled logits; they sum to 1
    sharpness: float  # prior mode of the sum of the weights
    spreads: np.ndarray  # (E,): standard deviation of the logits of each expert


class Weighing(NamedTuple):
    """Ensemble with its weights, and the held-out scores on which they were chosen."""

    # With the label proportions that the weights were chosen for, and with their ``shift``: the log-prior correction of
    # the logits (Saerens et al. 2002).
    ensemble: Ensemble
    weights: Weights
    scores: HeldOutScores
    proportions: Proportions  # among all texts; no draws if the held-out texts already have these proportions
    out_of_scope: float  # estimated fraction of documents of labels without examples

    def log_likelihood(self) -> float:
        """Sum of the log likelihoods of the labels of the held-out texts, without a shift for label proportions.

        With several labels per text: of their means over the labels.
        """
        probabilities = held_out_probabilities(self.scores, self.weights, self.ensemble.multi_label)
        targets = self.scores.targets
        logs = np.log(probabilities.clip(1e-12)) * targets
        if self.ensemble.multi_label:
            return float((logs + np.log((1 - probabilities).clip(1e-12)) * (1 - targets)).sum() / targets.shape[1])
        return float(logs.sum())


def weigh(problem: Problem, data: TrainingData, ensemble: Ensemble, scores: HeldOutScores) -> Weighing:
    """Choose the weights of the experts; then estimate label proportions by documents, and choose the weights again."""
    on_held_out_texts = problem.held_out is not None
    importance = 1.0 if data.multi_label or on_held_out_texts else _importance_weights(scores)
    sample = None
    if not data.has_head:  # documents have no logits of a head
        soft_labels = ensemble.learned.soft_labels
        features = features_of_corpus(data.corpus, soft_labels, data.multi_label, data.corpus.sample)
        sample = score_all(ensemble.learned.by_expert, ensemble.experts, features)
    prior = prior_of_weights(data, ensemble, scores, sample)
    weights = choose_weights(data, ensemble, scores, prior, importance)
    no_draws = np.zeros((0, data.targets.shape[1]), np.float32)
    proportions = Proportions(ensemble.learned.proportions, no_draws)
    is_measurable = len(scores.targets) > 0 and not data.multi_label and not data.has_head
    can_estimate_from_documents = data.has_documents and is_measurable
    out_of_scope = 0.0
    if can_estimate_from_documents:
        out_of_scope = out_of_scope_fraction(problem, ensemble, scores.counted(), weights)
    if data.proportions is not None and not data.multi_label:
        proportions = Proportions(data.proportions, data.proportions[None])
    elif can_estimate_from_documents and not on_held_out_texts and is_class_balanced(data.targets):
        if out_of_scope:  # other labels distort the proportions among the documents
            proportions = Proportions(data.targets.mean(0, dtype=np.float64), no_draws)
        else:
            proportions = _estimated_proportions(data, sample, scores.counted(), weights)
        learned = ensemble.learned._replace(
            proportions=proportions.likeliest.astype(np.float32),
            shift=log_shift(proportions.likeliest, data.targets, are_estimated=False).astype(np.float32),
        )
        ensemble = replace(ensemble, learned=learned)
        scores = scores._replace(shift=np.tile(learned.shift, (len(scores.targets), 1)))
        weights = choose_weights(data, ensemble, scores, prior, _importance_weights(scores))
    return Weighing(
        ensemble=_with_weights(ensemble, weights, compares_with_documents=out_of_scope > 0),
        weights=weights,
        scores=scores,
        proportions=proportions,
        out_of_scope=out_of_scope,
    )


def _with_weights(ensemble: Ensemble, weights: Weights, compares_with_documents: bool) -> Ensemble:
    """Give an ensemble the weights of its logits."""
    by_expert = dict(zip(ensemble.experts, weights.of_logits.tolist(), strict=True))
    return replace(ensemble, weights=by_expert, compares_with_documents=compares_with_documents)


def prior_of_weights(data: TrainingData, ensemble: Ensemble, scores: HeldOutScores, sample: np.ndarray | None) -> Prior:
    """Choose the prior of the weights by the scores, of held-out texts and of a ``sample`` ``(E, S, C)``."""
    weights = prior_weights(ensemble.experts, data)
    if data.multi_label or data.has_head:
        measured = scores.scores if len(scores.targets) else sample
        return Prior(weights, DEFAULT_SHARPNESS, spread_of_scores(measured, data.multi_label))
    texts = len(scores.targets)
    spreads = spread_of_scores(scores.scores if texts else sample, False)
    if not texts and data.has_documents:
        texts = sample.shape[1]
    spreads = robust_spreads(spreads, texts, ensemble.experts, learned_sharpness().typical_spreads)
    scale = spreads[:, None, None]
    evidence = Evidence(
        prior=weights,
        sample=sample / scale,
        held_out=scores.scores / scale,
        targets=scores.targets,
        neighbor_label_proportions=scores.neighbor_label_proportions,
        examples=len(data.targets),
        has_documents=data.has_documents,
        name_reliability=data.reliability(data.names),
        edge_agreement=_edge_agreement(data.corpus, ensemble.learned.soft_labels),
    )
    return Prior(weights, prior_sharpness(evidence, learned_sharpness()), spreads)


def choose_weights(
    data: TrainingData, ensemble: Ensemble, scores: HeldOutScores, prior: Prior, importance: np.ndarray | float
) -> Weights:
    """Choose the weights of the experts by held-out scores.

    ``importance``: the importance weights of the held-out texts, ``(m, 1)``, or 1.
    """
    weights = prior.sharpness * prior.weights
    if len(scores.targets):
        scaled = scores.scores / prior.spreads[:, None, None]
        weights = most_probable_weights(
            scaled, scores.targets, prior.weights, data.multi_label, scores.shift, importance, prior.sharpness
        )
    # The spread is infinite for an expert with constant logits: weight 0.
    return Weights(prior.spreads, np.where(np.isfinite(prior.spreads), weights, 0.0))


def held_out_probabilities(
    scores: HeldOutScores, weights: Weights, multi_label: bool, shift: np.ndarray | float = 0.0
) -> np.ndarray:
    """Probabilities of the held-out texts by the ensemble, ``(m, C)``; m may be 0."""
    if not len(scores.targets):
        return np.zeros(scores.targets.shape)
    return pool(scores.scores, weights.of_logits, multi_label, shift)


def held_out_answers(
    scores: HeldOutScores, probabilities: np.ndarray, compare_with_documents: bool = False
) -> HeldOutAnswers:
    """Collect the answers to the held-out texts.

    ``compare_with_documents``: whether familiarity also compares closeness to documents.
    """
    to_documents = scores.to_documents if compare_with_documents else None
    familiar = familiarity(probabilities, scores.neighbor_label_proportions, scores.closeness, to_documents)
    return HeldOutAnswers(
        ids=scores.ids,
        probabilities=probabilities.astype(np.float32),
        labels=scores.targets > 0,
        familiarity=familiar.astype(np.float32),
        is_counted=scores.is_counted,
    )


def out_of_scope_fraction(problem: Problem, ensemble: Ensemble, scores: HeldOutScores, weights: Weights) -> float:
    """Estimate the fraction of documents of labels without examples; 0 if chance may explain it."""
    snapshot = problem.snapshot
    corpus = problem.corpus
    if not snapshot.document_count:
        return 0.0
    weighted = _with_weights(ensemble, weights, compares_with_documents=False)
    documents = snapshot.documents.take(corpus.sampled_documents())
    scored = score_features(
        PreparedExperts(
            snapshot=snapshot,
            ensemble=weighted,
            places=corpus.documents,
            columns=weighted.label_columns(snapshot.label_names),
        ),
        documents.keys,
        None if corpus.words is None else corpus.words[corpus.sample],
        corpus.style[corpus.sample],
        None,
        passages=documents.passages,
        exclude_copies=True,
        with_closeness=True,
    )
    held_out = held_out_answers(scores, held_out_probabilities(scores, weights, ensemble.multi_label, scores.shift))
    importance = importance_weights(held_out.labels, np.zeros((0, len(ensemble.labels))))
    return estimate_out_of_scope_fraction(scored.familiarity(), held_out.familiarity, importance)


def _estimated_proportions(
    data: TrainingData, sample: np.ndarray, scores: HeldOutScores, weights: Weights
) -> Proportions:
    """Estimate label proportions among all texts, examples and documents, by the scores of a sample of documents."""
    estimate = estimate_proportions(
        np.tensordot(weights.of_logits, scores.scores, 1),
        scores.targets,
        np.tensordot(weights.of_logits, sample, 1),
    )
    counts = data.targets.sum(0, dtype=np.float64)
    total = len(data.corpus.ids)
    documents = total - len(data.rows)
    return Proportions(
        likeliest=(documents * estimate.likeliest + counts) / total,
        draws=(documents * estimate.draws + counts) / total,
    )


def _edge_agreement(corpus: Corpus, soft_labels: np.ndarray) -> float:
    """Weighted fraction of the edges of the graph that join texts with the same likeliest label; 0 without edges."""
    edges = corpus.graph.tocoo()
    if not len(edges.data):
        return 0.0
    labels = soft_labels.argmax(1)
    return float(np.average(labels[edges.row] == labels[edges.col], weights=edges.data))


def _importance_weights(scores: HeldOutScores) -> np.ndarray:
    """Importance weights of the held-out examples, by the shift of their labels, ``(m, 1)``; the mean is 1."""
    importance = np.exp((scores.shift * scores.targets).sum(1, keepdims=True, dtype=np.float64))
    return importance / importance.mean() if len(importance) else importance
