import numpy as np
import pytest

from docsplit_hf.classification.ensemble import learned_prior
from docsplit_hf.classification.ensemble.fitting import fit_experts
from docsplit_hf.classification.ensemble.learned_prior import (
    TEXTS_OF_TYPICAL_SPREAD,
    Evidence,
    LearnedNumbers,
    features,
    learned_numbers,
    learned_sharpness,
    robust_spreads,
)
from docsplit_hf.classification.ensemble.registry import EXPERTS

from .stores import make_store

TARGETS = np.eye(4)[np.repeat(np.arange(4), 3)]


def evidence(sample, held_out=None, targets=TARGETS):
    """Evidence with given logits."""
    experts, _, labels = sample.shape
    if held_out is None:
        held_out = np.zeros((experts, 0, labels))
        targets = np.zeros((0, labels))
    return Evidence(
        prior=np.full(experts, 1 / experts),
        sample=sample,
        held_out=held_out,
        targets=targets,
        neighbor_label_proportions=targets,
        examples=20,
        has_documents=True,
        name_reliability=0.5,
        edge_agreement=0.8,
    )


def random_logits(experts=3, texts=200, labels=4):
    return np.random.default_rng(0).standard_normal((experts, texts, labels))


def test_the_numbers_are_those_of_the_features_and_the_experts():
    numbers = learned_numbers()
    assert list(numbers.coefficients) == list(features(evidence(random_logits())))
    assert numbers.typical_spreads.keys() == EXPERTS.keys() and min(numbers.typical_spreads.values()) > 0


def test_agreement_is_that_of_pairs_above_chance():
    sample = random_logits()
    best = sample.argmax(2)
    pairs = [(best[one] == best[other]).mean() for one, other in ((0, 1), (0, 2), (1, 2))]
    assert features(evidence(sample))["agreement"] == pytest.approx((np.mean(pairs) - 1 / 4) / (3 / 4))
    assert features(evidence(np.tile(sample[:1], (3, 1, 1))))["agreement"] == pytest.approx(1)
    assert features(evidence(sample[:1]))["agreement"] == 0
    only_two = evidence(sample)._replace(prior=np.array([0.5, 0.5, 0.0]))
    assert features(only_two)["agreement"] == pytest.approx((pairs[0] - 1 / 4) / (3 / 4))


def test_measurements_on_folds_shrink_with_few_texts():
    found = features(evidence(random_logits(), np.tile(TARGETS, (3, 1, 1))))
    trust = len(TARGETS) / (len(TARGETS) + 10)
    assert found["fold_accuracy"] == found["purity"] == pytest.approx(trust) and found["fold_trust"] == trust
    without = features(evidence(random_logits()))
    assert without["fold_accuracy"] == without["purity"] == without["fold_trust"] == 0


def test_the_entropy_of_equal_and_of_constant_predictions():
    equal = np.eye(4)[np.arange(40) % 4][None]
    assert features(evidence(equal))["prediction_entropy"] == pytest.approx(1)
    assert features(evidence(equal[:, ::4]))["prediction_entropy"] == pytest.approx(0, abs=1e-9)


def test_the_spread_of_pooled_logits_and_their_gain_on_folds():
    held_out = 2 * np.tile(TARGETS, (2, 1, 1))
    found = features(evidence(held_out, held_out))
    deviations = [1.5, -0.5, -0.5, -0.5]
    assert found["log_pooled_spread"] == pytest.approx(np.log(np.sqrt(np.mean(np.square(deviations)))))
    gain = 2 - np.log(np.exp(2) + 3) + np.log(4)
    assert found["fold_gain"] == pytest.approx(gain * len(TARGETS) / (len(TARGETS) + 10))
    contradictory = np.stack([held_out[0], -held_out[0]])
    assert features(evidence(contradictory))["log_pooled_spread"] == pytest.approx(np.log(1e-2))


def test_the_sharpness_is_the_exponential_of_a_sum_in_limits(monkeypatch):
    numbers = LearnedNumbers({"one": 0.5, "name_reliability": -2.0}, {})
    monkeypatch.setattr(learned_prior, "learned_numbers", lambda: numbers)
    assert learned_sharpness(evidence(random_logits())) == pytest.approx(np.exp(0.5 - 2 * 0.5))
    numbers.coefficients["one"] = 99.0
    assert learned_sharpness(evidence(random_logits())) == learned_prior.LARGEST_SHARPNESS
    numbers.coefficients["one"] = -99.0
    assert learned_sharpness(evidence(random_logits())) == learned_prior.LEAST_SHARPNESS


def test_a_spread_of_few_texts_is_near_the_typical_one():
    typical = learned_numbers().typical_spreads["names"]
    measured = np.array([10 * typical])
    np.testing.assert_allclose(robust_spreads(measured, 0, ["names"]), typical)
    np.testing.assert_allclose(robust_spreads(measured, 10**9, ["names"]), measured, rtol=1e-6)
    of_few = robust_spreads(measured, TEXTS_OF_TYPICAL_SPREAD, ["names"])
    np.testing.assert_allclose(np.square(of_few), typical**2 * (100 + 1) / 2)
    assert np.isfinite(robust_spreads(np.array([np.inf]), 3, ["names"])).all()
    assert robust_spreads(np.array([np.inf, 2.0]), 3, ["new", "other"]).tolist() == [np.inf, 2.0]


def test_worthless_experts_are_less_sharp_than_right_ones():
    sample = 3 * np.tile(np.eye(4)[np.arange(200) % 4], (3, 1, 1))
    assert learned_sharpness(evidence(random_logits())) < learned_sharpness(evidence(sample))


def test_a_fit_takes_the_learned_sharpness_where_nothing_is_held_out(monkeypatch):
    store = make_store(3)
    before = fit_experts(store.snapshot, show_progress=False).settings.weights
    numbers = learned_numbers()
    doubled = numbers._replace(coefficients=numbers.coefficients | {"one": numbers.coefficients["one"] + np.log(2)})
    monkeypatch.setattr(learned_prior, "learned_numbers", lambda: doubled)
    after = fit_experts(store.snapshot, show_progress=False).settings.weights
    assert list(after.values()) == pytest.approx([2 * weight for weight in before.values()])
