import numpy as np
import pytest
from scipy.optimize import check_grad, minimize
from scipy.special import expit, log_softmax, softmax

from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.ensemble.explaining import explain
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.problem import Problem
from docsplit_hf.fitting.ensemble.scoring import prepare_experts
from docsplit_hf.fitting.experts import log_linear_pool
from docsplit_hf.fitting.experts.log_linear_pool import (
    DEFAULT_SHARPNESS,
    given_proportions,
    log_shift,
    most_probable_weights,
    pool,
    spread_of_scores,
)

from ..ensemble.stores import ABOUT_CONTENT, NAMES, make_keys, make_store, make_texts, score

TARGETS = np.eye(2)[[0, 0, 0, 1]]
UNEQUAL = np.repeat([0, 1, 2], [240, 45, 15])


def unequal_store(noise=4.0):
    """Four examples of each label, and 300 documents, mostly fruit; with less noise the proportions gain nothing."""
    labels = np.arange(12) % 3
    store = KNNDatastore(make_keys(labels, 1, noise), labels, NAMES, make_texts(labels, 1))
    store.add_documents(make_keys(UNEQUAL, 2, noise), make_texts(UNEQUAL, 2))
    return store


def test_the_shift_is_from_the_examples_to_all_texts():
    proportions = np.array([0.5, 0.5])
    np.testing.assert_allclose(log_shift(proportions, TARGETS, False), np.log([0.5 / 0.75, 0.5 / 0.25]))
    of_equal = np.repeat(np.eye(2), 2, axis=0)
    np.testing.assert_allclose(log_shift(np.array([0.9, 0.1]), of_equal, True), np.log([0.7 / 0.5, 0.3 / 0.5]))
    assert not log_shift(np.array([0.75, 0.25]), TARGETS, True).any()


def test_unbalanced_examples_are_not_shifted_by_an_estimate():
    unequal = np.repeat(np.eye(3), [6, 4, 3], axis=0)
    nearly = np.repeat(np.eye(3), [5, 5, 4], axis=0)
    proportions = np.array([0.7, 0.2, 0.1])
    assert not log_shift(proportions, unequal, True).any() and log_shift(proportions, nearly, True)[0] > 0
    assert log_shift(proportions, unequal, False).any()


def test_the_proportions_of_the_documents_are_found_printed_and_used():
    store = unequal_store()
    fitted = fit_experts(Problem(store.snapshot, ABOUT_CONTENT), show_progress=False)
    found = fitted.report.proportions
    assert found["fruit"] > 0.45 and found["predator"] < 0.3 and sum(found.values()) == pytest.approx(1, abs=1e-5)
    assert f"All texts, estimated: {found['fruit']:.0%} fruit" in str(fitted.report)
    shares = []
    for wanted in ("uniform", "estimated", dict(zip(NAMES, [240, 45, 15], strict=True))):
        store.fitted = fit_experts(Problem(store.snapshot, class_proportions=wanted), show_progress=False).to_state()
        shares.append(score(store).probabilities[:, 0].mean())
    assert shares[0] < shares[1] < shares[2]


def test_without_documents_nothing_is_shifted():
    fitted = fit_experts(Problem(make_store(13, 0).snapshot), show_progress=False)
    assert not fitted.ensemble.learned.shift.any() and "estimated" not in str(fitted.report)


def test_the_explanation_adds_up_with_estimated_proportions():
    store = unequal_store()
    store.fitted = fit_experts(Problem(store.snapshot), show_progress=False).to_state()
    answers = score(store)
    ready = prepare_experts(store.snapshot)
    for row, label in enumerate(answers.probabilities.argmax(1).tolist()):
        said = explain(answers, ready.ensemble, row, label)
        against = NAMES.index(said["against"])
        odds = np.log(answers.probabilities[row, label] / answers.probabilities[row, against])
        assert sum(said["experts"].values()) == pytest.approx(odds, abs=1e-6)


@pytest.mark.parametrize(
    "wanted, message",
    [
        ("equal", "'estimated', 'uniform' or a number by label, got 'equal'"),
        ({"fruit": 1}, "lacks 'mineral'"),
        ({"fruit": -1, "mineral": 1, "predator": 1}, "must be numbers from 0"),
        ({"fruit": 0, "mineral": 0, "predator": 0}, "must be numbers from 0"),
    ],
)
def test_other_proportions_are_refused(wanted, message):
    with pytest.raises(ValueError, match=message):
        fit_experts(Problem(make_store().snapshot, class_proportions=wanted), show_progress=False)


def test_a_proportion_of_0_becomes_a_small_one():
    assert given_proportions(dict(zip(NAMES, [1, 1, 0], strict=True)), NAMES)[2] == pytest.approx(1e-4, rel=1e-3)


def make_scores(count, multi_label=False, useful=(1.0, 0.7, 0.0), classes=3, seed=0):
    """Logits of experts with a spread of 1, some more informative than others."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, count)
    targets = rng.integers(0, 2, (count, classes)).astype(float) if multi_label else np.eye(classes)[labels]
    scores = np.stack([u * (targets - targets.mean()) + rng.standard_normal(targets.shape) for u in useful])
    return scores / spread_of_scores(scores, multi_label)[:, None, None], targets


def test_the_pool_is_the_softmax_of_the_sum():
    scores, _ = make_scores(20)
    weights = np.array([0.5, 2.0, 0.0])
    np.testing.assert_allclose(pool(scores, weights, False), softmax(0.5 * scores[0] + 2 * scores[1], axis=1))
    np.testing.assert_allclose(pool(scores, weights, True), expit(0.5 * scores[0] + 2 * scores[1]))
    np.testing.assert_allclose(pool(scores[:1], np.ones(1), False), softmax(scores[0], axis=1))
    product = np.prod([softmax(s, axis=1) ** w for s, w in zip(scores, weights, strict=True)], axis=0)
    np.testing.assert_allclose(pool(scores, weights, False), product / product.sum(1, keepdims=True))


@pytest.mark.parametrize("multi_label", [False, True])
def test_the_spread_ignores_shifts_that_softmax_ignores(multi_label):
    scores = make_scores(50, multi_label)[0]
    np.testing.assert_allclose(spread_of_scores(7 * scores, multi_label), 7, rtol=1e-6)
    moved = scores + np.random.default_rng(1).standard_normal((3, 50, 1))
    assert multi_label or np.allclose(spread_of_scores(moved, multi_label), 1)
    assert spread_of_scores(np.zeros((1, 2, 3)), multi_label) > 0


@pytest.mark.parametrize("multi_label", [False, True])
def test_the_gradient_is_that_of_the_loss(multi_label, monkeypatch):
    seen = []

    def spy(loss, start, **options):
        seen.append((loss, start))
        return minimize(loss, start, **options)

    monkeypatch.setattr("scipy.optimize.minimize", spy)
    most_probable_weights(*make_scores(40, multi_label), np.array([0.5, 0.3, 0.2]), multi_label)
    loss, start = seen[0]
    for point in (start, start + [0.3, -0.1, 0.2, 0.5]):
        scale = np.abs(loss(point)[1]).max()
        assert check_grad(lambda x: loss(x)[0], lambda x: loss(x)[1], point) < 1e-5 * max(scale, 1)


def test_no_examples_keep_the_prior_and_few_change_only_the_sharpness():
    prior = np.array([0.2, 0.2, 0.25, 0.35])
    none = most_probable_weights(np.zeros((4, 0, 3)), np.zeros((0, 3)), prior, False)
    np.testing.assert_allclose(none, DEFAULT_SHARPNESS * prior, rtol=1e-4)
    scores, targets = make_scores(2, useful=(3.0, 0.0, 0.0))
    prior = np.array([0.2, 0.3, 0.5])
    few = most_probable_weights(scores, targets, prior, False)
    np.testing.assert_allclose(few / few.sum(), prior, atol=0.12)


def test_an_example_with_count_two_equals_two_examples_and_a_shift_is_added():
    scores, targets = make_scores(40)
    prior = np.array([0.2, 0.3, 0.5])
    shift = np.array([1.0, 0.0, -1.0])
    repeated_scores = np.concatenate([scores, scores[:, :10]], axis=1)
    repeated_targets = np.concatenate([targets, targets[:10]])
    counts = np.where(np.arange(40) < 10, 2.0, 1.0)[:, None]
    found = most_probable_weights(scores, targets, prior, False, shift, counts)
    expected = most_probable_weights(repeated_scores, repeated_targets, prior, False, shift)
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    many = np.concatenate([np.tile(shift, (1, 40, 1)), scores])  # an expert equal to the shift is left out
    assert most_probable_weights(many, targets, np.full(4, 0.25), False, 5 * shift)[0] < 0.05


def test_a_strong_prior_lets_only_the_sharpness_be_chosen(monkeypatch):
    monkeypatch.setattr(log_linear_pool, "PRIOR_STRENGTH", 1e7)
    scores, targets = make_scores(2_000)
    prior = np.array([0.2, 0.3, 0.5])
    found = most_probable_weights(scores, targets, prior, False)
    np.testing.assert_allclose(found / found.sum(), prior, atol=1e-3)


def test_many_examples_give_maximum_likelihood_and_no_weight_to_an_uninformative_expert():
    scores, targets = make_scores(20_000)
    found = most_probable_weights(scores, targets, np.full(3, 1 / 3), False)
    likelihood = lambda w: -(log_softmax(np.tensordot(w, scores, 1), axis=1) * targets).sum()  # noqa: E731
    best = minimize(likelihood, np.ones(3), bounds=[(0, None)] * 3).x
    np.testing.assert_allclose(found, best, atol=0.03)
    assert found[2] < 0.06 < found[1] < found[0]
    scores, targets = make_scores(20_000, multi_label=True)
    found = most_probable_weights(scores, targets, np.full(3, 1 / 3), True)
    assert found[2] < 0.06 < found[1] < found[0]


def test_the_spread_of_a_constant_expert_is_infinite():
    scores = np.random.default_rng(0).standard_normal((3, 8, 4))
    scores[1] = 7
    unit = spread_of_scores(scores, multi_label=False)
    assert np.isinf(unit[1]) and np.isfinite(unit[[0, 2]]).all()
    assert not (scores / unit[:, None, None])[1].any()
