"""The learned prior of the sharpness: features, spreads, and the coefficients in the package."""

import numpy as np
import pytest

from docsplit_hf.fitting.ensemble.prior_sharpness import (
    TEXTS_OF_TYPICAL_SPREAD,
    Evidence,
    LearnedSharpness,
    features,
    learned_sharpness,
    prior_sharpness,
    robust_spreads,
)
from docsplit_hf.fitting.experts.log_linear_pool import LARGEST_SHARPNESS, LEAST_SHARPNESS
from docsplit_hf.fitting.experts.registry import EXPERTS

LABELS = 3
EXPERT_COUNT = 2


def make_evidence(held_out=0, sample=50, agree=True):
    """Two experts that always agree, or never do, with confident logits."""
    rng = np.random.default_rng(0)
    best = rng.integers(0, LABELS, sample)
    others = best if agree else (best + 1) % LABELS
    targets = np.eye(LABELS)[np.arange(held_out) % LABELS]
    return Evidence(
        prior=np.full(EXPERT_COUNT, 1 / EXPERT_COUNT),
        sample=3 * np.stack([np.eye(LABELS)[best], np.eye(LABELS)[others]]),
        held_out=3 * np.stack([targets] * EXPERT_COUNT),
        targets=targets,
        neighbor_label_proportions=targets,
        examples=max(held_out, LABELS),
        has_documents=True,
        name_reliability=0.0,
        edge_agreement=1.0 if agree else 0.0,
    )


def test_fractions_are_one_if_all_is_right_and_zero_at_chance():
    found = features(make_evidence())
    assert found["agreement"] == pytest.approx(1) and found["fold_accuracy"] == found["fold_trust"] == 0
    assert features(make_evidence(agree=False))["agreement"] == pytest.approx(-1 / (LABELS - 1))
    trust = 30 / (30 + 10)
    measured = features(make_evidence(held_out=30))
    assert measured["fold_trust"] == measured["fold_accuracy"] == measured["purity"] == pytest.approx(trust)


def test_the_logarithm_of_the_sharpness_is_linear_and_limited():
    evidence = make_evidence()
    learned = LearnedSharpness({}, {"one": 0.5, "log_labels": 1.0}, {})
    assert prior_sharpness(evidence, learned) == pytest.approx(LABELS * np.exp(0.5))
    assert prior_sharpness(make_evidence(held_out=6), learned) == 1  # which has coefficients of its own
    assert prior_sharpness(evidence, learned._replace(without_held_out_texts={"one": 99.0})) == LARGEST_SHARPNESS
    assert prior_sharpness(evidence, learned._replace(without_held_out_texts={"one": -99.0})) == LEAST_SHARPNESS


@pytest.mark.parametrize("held_out", [0, 30])
def test_experts_that_agree_are_trusted_more_than_those_that_contradict_each_other(held_out):
    learned = learned_sharpness()
    sharpness = [prior_sharpness(make_evidence(held_out, agree=agree), learned) for agree in (True, False)]
    if held_out:  # what is measured on many held-out texts counts more than agreement
        assert max(sharpness) < 5 * min(sharpness)
    else:
        assert sharpness[0] > 2 * sharpness[1]


def test_coefficients_are_of_known_features_and_experts():
    learned = learned_sharpness()
    names = features(make_evidence()).keys()
    assert learned.with_held_out_texts.keys() <= names and learned.without_held_out_texts.keys() <= names
    assert learned.typical_spreads.keys() <= EXPERTS.keys()
    assert all(spread > 0 for spread in learned.typical_spreads.values())


def test_spreads_of_few_texts_are_averaged_with_typical_ones():
    typical = {"naive_bayes": 2.0}
    measured = np.array([4.0, np.inf, 3.0])
    none, few, many = (
        robust_spreads(measured, texts, ["naive_bayes", "naive_bayes", "teacher"], typical) for texts in (0, 5, 10**9)
    )
    np.testing.assert_allclose(none, [2, 2, 3])
    np.testing.assert_allclose(few, [np.sqrt((5 * 16 + TEXTS_OF_TYPICAL_SPREAD * 4) / 10), np.sqrt(2), 3])
    np.testing.assert_allclose(many, [4, 0, 3], atol=1e-3)
