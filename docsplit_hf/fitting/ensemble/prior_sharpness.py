"""Prior sharpness of the ensemble: its logarithm is a linear function of features that are known before any answer.

The coefficients are in prior_sharpness.json. ``benchmarks/quality/learned_prior/train.py`` learned them from many data
sets: some for ensembles with held-out scores, others for those without.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..experts.log_linear_pool import LARGEST_SHARPNESS, LEAST_SHARPNESS, log_softmax

COEFFICIENTS = Path(__file__).with_name("prior_sharpness.json")
HALF_TRUSTED_TEXTS = 10  # held-out texts with which measurements on folds count half
TEXTS_OF_TYPICAL_SPREAD = 5  # the typical spread counts as that of so many texts
LEAST_POOLED_SPREAD = 1e-2


class Evidence(NamedTuple):
    """What is known of a data set before any test label; logits are divided by their spreads."""

    prior: np.ndarray  # (E,): prior weights of the experts; they sum to 1
    sample: np.ndarray  # (E, S, C): logits of documents, or of examples if there are no documents
    held_out: np.ndarray  # (E, m, C): logits of held-out examples; m may be 0
    targets: np.ndarray  # (m, C), 0 or 1
    neighbor_label_proportions: np.ndarray  # (m, C)
    examples: int
    has_documents: bool
    name_reliability: float  # from 0 to 1; 0 without names
    edge_agreement: float  # weighted fraction of the edges of the graph that join texts of one propagated label


class LearnedSharpness(NamedTuple):
    """What was learned: coefficients by feature, and the typical spread of each expert's logits."""

    with_held_out_texts: dict[str, float]
    without_held_out_texts: dict[str, float]
    typical_spreads: dict[str, float]


@cache
def learned_sharpness() -> LearnedSharpness:
    """Read the coefficients."""
    return LearnedSharpness(**json.loads(COEFFICIENTS.read_text(encoding="utf-8")))


def prior_sharpness(evidence: Evidence, learned: LearnedSharpness) -> float:
    """Sharpness (inverse temperature) to start from: the sum of the weights of logits with a spread of 1."""
    coefficients = learned.with_held_out_texts if len(evidence.targets) else learned.without_held_out_texts
    values = features(evidence)
    logarithm = sum(coefficient * values[name] for name, coefficient in coefficients.items())
    return float(np.clip(np.exp(logarithm), LEAST_SHARPNESS, LARGEST_SHARPNESS))


def robust_spreads(spreads: np.ndarray, texts: int, experts: Sequence[str], typical: Mapping[str, float]) -> np.ndarray:
    """Average squared spreads ``(E,)``, measured on some texts, with those that are typical of the experts.

    Logits of ten texts may be equal by chance, and those of other texts would be divided by almost 0. Infinite spreads,
    of constant logits, count as 0. Experts without a typical spread keep theirs.
    """
    measured = np.where(np.isfinite(spreads), spreads, 0.0)
    found = spreads.copy()
    for number, (name, own) in enumerate(zip(experts, measured, strict=True)):
        if name in typical:
            squares = texts * own**2 + TEXTS_OF_TYPICAL_SPREAD * typical[name] ** 2
            found[number] = np.sqrt(squares / (texts + TEXTS_OF_TYPICAL_SPREAD))
    return found


def features(evidence: Evidence) -> dict[str, float]:
    """Features of a data set by name. Fractions are scaled so that chance is 0; those of m held-out texts shrink."""
    labels = evidence.sample.shape[2]
    pooled = np.tensordot(evidence.prior, evidence.sample, 1)
    texts = len(evidence.targets)
    trust = texts / (texts + HALF_TRUSTED_TEXTS)
    fold_accuracy = 0.0
    fold_gain = 0.0
    purity = 0.0
    if texts:
        of_folds = np.tensordot(evidence.prior, evidence.held_out, 1)
        is_right = of_folds.argmax(1) == evidence.targets.argmax(1)
        gains = (log_softmax(of_folds, axis=1) * evidence.targets).sum(1) + np.log(labels)
        fold_gain = trust * float(gains.mean())
        fold_accuracy = trust * _above_chance(float(is_right.mean()), labels)
        of_target = (evidence.neighbor_label_proportions * evidence.targets).sum(1)
        purity = trust * _above_chance(float(of_target.mean()), labels)
    return {
        "one": 1.0,
        "log_examples_per_label": float(np.log(evidence.examples / labels)),
        "log_labels": float(np.log(labels)),
        "has_documents": float(evidence.has_documents),
        "name_reliability": evidence.name_reliability,
        "agreement": _above_chance(_agreement(evidence.sample, evidence.prior), labels),
        "log_pooled_spread": _log_spread(pooled),
        "fold_accuracy": fold_accuracy,
        "fold_gain": fold_gain,
        "fold_trust": trust,
        "purity": purity,
        "edge_agreement": evidence.edge_agreement,
        "prediction_entropy": _prediction_entropy(pooled),
    }


def _above_chance(fraction: float, labels: int) -> float:
    """Scale a fraction so that chance is 0, and 1 stays 1."""
    return (fraction - 1 / labels) / (1 - 1 / labels)


def _agreement(scores: np.ndarray, prior: np.ndarray) -> float:
    """Fraction of texts on which two experts have the same best label; pairs count by the product of their priors.

    So unreliable label names, whose prior is small, do not lower it. Chance for a single expert.
    """
    experts, texts, labels = scores.shape
    if experts < 2:
        return 1 / labels
    votes = np.zeros((texts, labels))
    for weight, best in zip(prior, scores.argmax(2), strict=True):
        votes[np.arange(texts), best] += weight
    with_itself = np.square(prior).sum()
    return float((np.square(votes).sum(1).mean() - with_itself) / max(1 - with_itself, 1e-12))


def _log_spread(pooled: np.ndarray) -> float:
    """Logarithm of the standard deviation of logits ``(S, C)``, which is low if experts contradict each other."""
    centered = pooled - pooled.mean(1, keepdims=True)
    return float(np.log(max(np.sqrt(np.square(centered).mean()), LEAST_POOLED_SPREAD)))


def _prediction_entropy(pooled: np.ndarray) -> float:
    """Entropy of the labels with the highest logits ``(S, C)``, as a fraction of the largest entropy."""
    texts, labels = pooled.shape
    proportions = np.bincount(pooled.argmax(1), minlength=labels) / texts
    return float(-(proportions * np.log(proportions.clip(1e-12))).sum() / np.log(labels))
