"""Choice of the weights of the experts, and estimate of the label proportions, by held-out scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...datastore.row_table import rows_at, take_passages
from ..rejection import estimate_out_of_scope_fraction, familiarity, text_counts
from .corpus import texts_in
from .fitted_experts import ensemble_probabilities, score_by_expert
from .guarantees import HeldOutAnswers
from .label_proportions import Proportions, estimate_proportions
from .log_linear_pool import (
    DEFAULT_SHARPNESS,
    SHARPNESS_OF_SINGLE_EXAMPLES,
    fit_weights,
    is_drawn_by_label,
    log_shift,
    pool,
    sharpness_by_agreement,
    spread_of_scores,
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
    scaled: np.ndarray  # (E,): weights of the logits after division by the spreads

    @property
    def of_logits(self) -> np.ndarray:
        """Weights of the unscaled logits, ``(E,)``."""
        return self.scaled / self.spreads

    @property
    def relative(self) -> np.ndarray:
        """Scaled weights, normalized to a sum of 1, ``(E,)``."""
        return self.scaled / max(self.scaled.sum(), 1e-12)


class Weighing(NamedTuple):
    """Ensemble with its weights, and the held-out scores on which they were chosen."""

    ensemble: Ensemble  # with the label proportions and the shift that the weights were chosen for
    weights: Weights
    scores: HeldOutScores
    proportions: Proportions  # of the labels among all texts; without draws if the held-out texts have them
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

    ``given_proportions`` ``(C,)`` are those of the labels among all texts; None: unknown. ``on_held_out_texts``: the
    scores are of held-out texts, a sample of all texts, and not of folds of the examples.
    """
    counts = 1.0 if data.multi_label or on_held_out_texts else _counts(scores)
    weights = choose_weights(data, ensemble, scores, counts)
    no_draws = np.zeros((0, data.targets.shape[1]), np.float32)
    proportions = Proportions(ensemble.learned.proportions, no_draws)
    is_measurable = len(scores.targets) > 0 and not data.multi_label and not data.has_head
    has_comparable_documents = data.has_documents and is_measurable
    out_of_scope = 0.0
    if has_comparable_documents:
        out_of_scope = out_of_scope_fraction(snapshot, ensemble, scores, weights)
    if given_proportions is not None and not data.multi_label:
        proportions = Proportions(given_proportions, given_proportions[None])
    elif has_comparable_documents and not on_held_out_texts and is_drawn_by_label(data.targets):
        if out_of_scope:  # other labels distort the proportions among the documents
            proportions = Proportions(data.targets.mean(0, dtype=np.float64), no_draws)
        else:
            proportions = _estimated_proportions(data, ensemble, scores, weights)
        learned = ensemble.learned._replace(
            proportions=proportions.likeliest.astype(np.float32),
            shift=log_shift(proportions.likeliest, data.targets, True).astype(np.float32),
        )
        ensemble = ensemble._replace(learned=learned)
        scores = scores._replace(shift=np.tile(learned.shift, (len(scores.targets), 1)))
        weights = choose_weights(data, ensemble, scores, _counts(scores))
    return Weighing(
        ensemble=ensemble,
        weights=weights,
        scores=scores,
        proportions=proportions,
        out_of_scope=out_of_scope,
    )


def choose_weights(
    data: TrainingData, ensemble: Ensemble, scores: HeldOutScores, counts: np.ndarray | float
) -> Weights:
    """Choose the weights of the experts by held-out scores; each held-out text represents ``counts`` ``(m, 1)`` texts.

    Where documents are available, the agreement of two independent experts gives the prior of the sharpness.
    """
    experts = ensemble.experts
    prior = prior_weights(experts, data)
    # Unreliable experts agree with others by chance only, which would give too low a sharpness.
    reliable = [name for name in experts if EXPERTS[name].reliability(data) >= MIN_RELIABILITY]
    pair = next((pair for pair in INDEPENDENT_PAIRS if set(pair) <= set(reliable)), None)
    has_comparable_scores = not data.multi_label and not data.has_head
    is_held_out = len(scores.targets) > 0
    is_compared = has_comparable_scores and data.has_documents and pair is not None
    sample = None
    if is_compared or not is_held_out:
        sample = _scores_of_sample(data, ensemble)
    spreads = spread_of_scores(scores.scores if is_held_out else sample, data.multi_label)
    sharpness = DEFAULT_SHARPNESS
    if is_compared:
        one, other = (experts.index(name) for name in pair)
        scaled_sample = sample / spreads[:, None, None]
        sharpness = sharpness_by_agreement(scaled_sample, prior, ensemble.learned.shift, one, other)
    elif has_comparable_scores and not data.has_documents and not is_held_out:
        sharpness = SHARPNESS_OF_SINGLE_EXAMPLES
    weights = sharpness * prior
    if is_held_out:
        scaled_scores = scores.scores / spreads[:, None, None]
        weights = fit_weights(scaled_scores, scores.targets, prior, data.multi_label, scores.shift, counts, sharpness)
    # An uninformative expert gets weight 0.
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
    """Collect the answers to the held-out texts; ``compare_with_documents``: in their familiarity."""
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
    known = held_out_answers(scores, held_out_probabilities(scores, weights, ensemble.multi_label, scores.shift))
    counts = text_counts(known.labels, np.zeros((0, len(ensemble.labels))))
    return estimate_out_of_scope_fraction(familiar, known.familiarity, counts)


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


def _counts(scores: HeldOutScores) -> np.ndarray:
    """Number of texts that each held-out example represents, ``(m, 1)``; the mean is 1."""
    counts = np.exp((scores.shift * scores.targets).sum(1, keepdims=True, dtype=np.float64))
    return counts / counts.mean() if len(counts) else counts
