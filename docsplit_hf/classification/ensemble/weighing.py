"""Choice of the weights of the experts, and estimate of the label proportions, by held-out scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...datastore.row_table import rows_at, take_passages
from ..rejection import estimate_out_of_scope_fraction, familiarity, importance_weights
from .corpus import texts_in
from .fitted_experts import ensemble_probabilities, score_by_expert
from .guarantees import HeldOutAnswers
from .label_proportions import Proportions, estimate_proportions
from .log_linear_pool import (
    DEFAULT_SHARPNESS,
    EXAMPLES_TO_JUDGE,
    LEAST_GAIN_OVER_CHANCE,
    LEAST_SHARPNESS,
    SHARPNESS_OF_SINGLE_EXAMPLES,
    fit_weights,
    is_class_balanced,
    log_likelihood_gain,
    log_shift,
    pool,
    sharpness_by_agreement,
    spread_of_scores,
    weights_of_best_regression,
)
from .neighbor_expert import closeness_to_examples, places_of_documents
from .registry import EXPERTS, INDEPENDENT_PAIRS, MIN_RELIABILITY, features_of_corpus, prior_weights, score_all

if TYPE_CHECKING:
    from ...datastore.snapshot import Snapshot
    from .corpus import Corpus
    from .expert import TrainingData
    from .fitted_experts import Ensemble
    from .held_out_scores import HeldOutScores

SAMPLED_DOCUMENTS = 1_000  # at most; documents on which experts are compared without labels


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


class Weighing(NamedTuple):
    """Ensemble with its weights, and the held-out scores on which they were chosen."""

    # With the label proportions that the weights were chosen for, and with their ``shift``: the log-prior correction of
    # the logits (Saerens et al. 2002).
    ensemble: Ensemble
    weights: Weights
    scores: HeldOutScores
    proportions: Proportions  # among all texts; no draws if the held-out texts already have these proportions
    out_of_scope: float  # estimated fraction of documents of labels without examples

    @property
    def has_out_of_scope_documents(self) -> bool:
        """Whether some documents are of labels without examples."""
        return self.out_of_scope > 0

    def probabilities(self) -> np.ndarray:
        """Probabilities of the held-out texts, ``(m, C)``."""
        return held_out_probabilities(self.scores, self.weights, self.ensemble.multi_label, self.scores.shift)


def weigh(
    data: TrainingData,
    ensemble: Ensemble,
    scores: HeldOutScores,
    snapshot: Snapshot,
    given_proportions: np.ndarray | None,
    on_held_out_texts: bool,
) -> Weighing:
    """Choose the weights of the experts; then estimate label proportions by documents, and choose the weights again.

    ``given_proportions`` ``(C,)`` are those of the labels among all texts; None: unknown.
    ``on_held_out_texts``: True if scored on separate held-out texts, False for cross-validation folds.
    """
    importance = 1.0 if data.multi_label or on_held_out_texts else _importance_weights(scores)
    weights = choose_weights(data, ensemble, scores, importance)
    no_draws = np.zeros((0, data.targets.shape[1]), np.float32)
    proportions = Proportions(ensemble.learned.proportions, no_draws)
    is_measurable = len(scores.targets) > 0 and not data.multi_label and not data.has_head
    can_estimate_from_documents = data.has_documents and is_measurable
    out_of_scope = 0.0
    if can_estimate_from_documents:
        out_of_scope = out_of_scope_fraction(snapshot, ensemble, scores, weights)
    if given_proportions is not None and not data.multi_label:
        proportions = Proportions(given_proportions, given_proportions[None])
    elif can_estimate_from_documents and not on_held_out_texts and is_class_balanced(data.targets):
        if out_of_scope:  # other labels distort the proportions among the documents
            proportions = Proportions(data.targets.mean(0, dtype=np.float64), no_draws)
        else:
            proportions = _estimated_proportions(data, ensemble, scores, weights)
        learned = ensemble.learned._replace(
            proportions=proportions.likeliest.astype(np.float32),
            shift=log_shift(proportions.likeliest, data.targets, are_estimated=False).astype(np.float32),
        )
        ensemble = ensemble._replace(learned=learned)
        scores = scores._replace(shift=np.tile(learned.shift, (len(scores.targets), 1)))
        weights = choose_weights(data, ensemble, scores, _importance_weights(scores))
    return Weighing(
        ensemble=ensemble,
        weights=weights,
        scores=scores,
        proportions=proportions,
        out_of_scope=out_of_scope,
    )


def choose_weights(
    data: TrainingData, ensemble: Ensemble, scores: HeldOutScores, importance: np.ndarray | float
) -> Weights:
    """Choose the weights of the experts by held-out scores.

    ``importance``: the importance weights of the held-out texts, ``(m, 1)``, or 1. If there are documents, the
    agreement of two independent experts sets the prior of the sharpness (inverse temperature). If the ensemble is
    hardly better than the label frequencies, the best regression on the examples replaces it.
    """
    experts = ensemble.experts
    prior = prior_weights(experts, data)
    # Unreliable experts agree with others by chance only, which would give too low a sharpness.
    reliable = [name for name in experts if EXPERTS[name].reliability(data) >= MIN_RELIABILITY]
    pair = next((pair for pair in INDEPENDENT_PAIRS if set(pair) <= set(reliable)), None)
    has_single_label_logits = not data.multi_label and not data.has_head
    has_held_out_scores = len(scores.targets) > 0
    use_agreement = has_single_label_logits and data.has_documents and pair is not None
    sample = None
    if use_agreement or not has_held_out_scores:
        sample = _scores_of_sample(data, ensemble)
    spreads = spread_of_scores(scores.scores if has_held_out_scores else sample, data.multi_label)
    sharpness = DEFAULT_SHARPNESS
    if use_agreement:
        one, other = (experts.index(name) for name in pair)
        scaled_sample = sample / spreads[:, None, None]
        sharpness = sharpness_by_agreement(scaled_sample, prior, ensemble.learned.shift, one, other)
    elif has_single_label_logits and not data.has_documents and not has_held_out_scores:
        sharpness = SHARPNESS_OF_SINGLE_EXAMPLES
    weights = sharpness * prior
    if has_held_out_scores:
        scaled = scores.scores / spreads[:, None, None]
        weights = fit_weights(scaled, scores.targets, prior, data.multi_label, scores.shift, importance, sharpness)
        regressions = [number for number, name in enumerate(experts) if EXPERTS[name].is_regression]
        if has_single_label_logits and regressions and len(scores.targets) >= EXAMPLES_TO_JUDGE:
            gain = log_likelihood_gain(scaled, scores.targets, weights, scores.shift, importance)
            if gain < LEAST_GAIN_OVER_CHANCE:
                low_sharpness = max(float(weights.sum()), LEAST_SHARPNESS)  # that of the ensemble, which is low
                weights = weights_of_best_regression(
                    scaled, scores.targets, regressions, scores.shift, importance, low_sharpness
                )
    # The spread is infinite for an expert with constant logits: weight 0.
    return Weights(spreads, np.where(np.isfinite(spreads), weights, 0.0))


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
    )


def out_of_scope_fraction(snapshot: Snapshot, ensemble: Ensemble, scores: HeldOutScores, weights: Weights) -> float:
    """Estimate the fraction of documents of labels without examples; 0 if chance may explain it."""
    documents = snapshot.documents
    if documents is None or not len(documents.keys):
        return 0.0
    places = places_of_documents(snapshot, ensemble.ids)
    rows = np.argsort(places.of_all, kind="stable")  # in the order of the corpus, independent of input order
    rows = rows[places.of_all[rows] >= 0]
    sampled = np.sort(np.random.default_rng(0).permutation(len(rows))[:SAMPLED_DOCUMENTS])
    rows = rows[sampled]
    embeddings = documents.keys[rows]
    scored = score_by_expert(
        snapshot,
        ensemble,
        places,
        embeddings,
        texts_in(rows_at(documents.rows, rows)),
        None,
        passages=take_passages(documents.passages, rows),
        exclude_copies=True,
    )
    columns = ensemble.label_columns(snapshot.label_names)
    probabilities = ensemble_probabilities(scored, ensemble, columns, weights.of_logits)
    mean = ensemble.document_vectors.mean
    near = closeness_to_examples(scored.nearest, embeddings, mean)
    familiar = familiarity(probabilities, scored.neighbor_label_proportions, near)
    held_out = held_out_answers(scores, held_out_probabilities(scores, weights, ensemble.multi_label, scores.shift))
    importance = importance_weights(held_out.labels, np.zeros((0, len(ensemble.labels))))
    return estimate_out_of_scope_fraction(familiar, held_out.familiarity, importance)


def _estimated_proportions(
    data: TrainingData, ensemble: Ensemble, scores: HeldOutScores, weights: Weights
) -> Proportions:
    """Estimate label proportions among all texts, examples and documents, by the ensemble's scores of documents."""
    corpus = data.corpus
    documents = _without_labels(corpus)
    sampled = np.sort(np.random.default_rng(0).permutation(documents)[:SAMPLED_DOCUMENTS])
    features = features_of_corpus(corpus, ensemble.learned.soft_labels, False, sampled)
    document_scores = score_all(ensemble.learned.by_expert, ensemble.experts, features)
    estimate = estimate_proportions(
        np.tensordot(weights.of_logits, scores.scores, 1),
        scores.targets,
        np.tensordot(weights.of_logits, document_scores, 1),
    )
    counts = data.targets.sum(0, dtype=np.float64)
    total = len(corpus.ids)
    return Proportions(
        likeliest=(len(documents) * estimate.likeliest + counts) / total,
        draws=(len(documents) * estimate.draws + counts) / total,
    )


def _scores_of_sample(data: TrainingData, ensemble: Ensemble) -> np.ndarray:
    """Logits ``(E, S, C)`` of documents, or of examples if there are no documents."""
    documents = _without_labels(data.corpus)
    rows = documents if len(documents) else data.corpus.rows
    rows = np.sort(np.random.default_rng(0).permutation(rows)[:SAMPLED_DOCUMENTS])
    features = features_of_corpus(data.corpus, ensemble.learned.soft_labels, data.multi_label, rows)
    return score_all(ensemble.learned.by_expert, ensemble.experts, features)


def _without_labels(corpus: Corpus) -> np.ndarray:
    """Places of the documents in the corpus, int64 ``(m,)``."""
    return np.setdiff1d(np.arange(len(corpus.ids)), corpus.rows)


def _importance_weights(scores: HeldOutScores) -> np.ndarray:
    """Importance weights of the held-out examples, by the shift of their labels, ``(m, 1)``; the mean is 1."""
    importance = np.exp((scores.shift * scores.targets).sum(1, keepdims=True, dtype=np.float64))
    return importance / importance.mean() if len(importance) else importance
