import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docsplit_hf import KNNDatastore
from docsplit_hf.arrays.row_table import DESCRIPTION_ID_PREFIX
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.held_out_metrics import MIN_EXAMPLES_FOR_THRESHOLD, label_thresholds
from docsplit_hf.fitting.ensemble.problem import HeldOut, Problem
from docsplit_hf.fitting.ensemble.report import LARGEST_CLASS, WORD_COUNTS
from docsplit_hf.fitting.experts.registry import EXPERTS

from .stores import NAMES, fitted_store, make_keys, make_queries, make_store, make_texts, score

EVERYTHING = [name for name, expert in EXPERTS.items() if not (expert.needs_label_names or expert.needs_teacher)]


def fit(store, experts=None, **options):
    return fit_experts(Problem(store.snapshot, experts, **options), show_progress=False)


def test_settings_and_report_of_a_small_datastore():
    settings = fit(make_store())
    assert settings.report.labels == NAMES and settings.ensemble.multi_label is False
    assert (settings.report.examples, settings.report.documents) == (12, 60)
    assert settings.report.measured_on == "folds of the examples"
    assert list(settings.ensemble.weights) == list(settings.report.shares) == EVERYTHING
    assert sum(settings.report.shares.values()) == pytest.approx(1)
    assert [record["expert"] for record in settings.report.measured] == [
        *EVERYTHING,
        "ensemble",
        WORD_COUNTS,
        LARGEST_CLASS,
    ]
    report = str(settings.report)
    assert "12 examples of 3 labels and 60 documents" in report and all(name in report for name in EVERYTHING)


def test_a_fit_is_reproducible():
    first, second = (fitted_store().fitted for _ in range(2))
    assert first.settings == second.settings and first.vocabulary == second.vocabulary
    assert all(np.array_equal(first.arrays[name], second.arrays[name]) for name in first.arrays)


def test_one_example_of_each_label_has_the_prior_weights():
    for documents in (60, 0):
        settings = fit(make_store(3, documents))
        assert settings.report.measured == [] and settings.report.measured_on == "nothing to hold out"
        priors = [0.2, 0.2, 0.25, 0.35, 0.08] if documents else [0.45, 0.05, 0.05, 0.45, 0.08]
        shares = settings.report.shares
        assert 0 < shares.pop("style") < 1e-5
        np.testing.assert_allclose(list(shares.values()), np.array(priors) / sum(priors), rtol=1e-5)
        assert all(np.isfinite(weight) for weight in settings.ensemble.weights.values())
    assert (score(fitted_store(3)).probabilities.argmax(1) == make_queries()[0]).mean() > 0.7


@given(seed=st.integers(0, 1000))
@settings(max_examples=2, derandomize=True)
def test_one_regression_answers_if_all_experts_are_worthless(seed):
    of_texts = np.arange(60) % 3
    labels = np.random.default_rng(seed).permutation(of_texts)
    store = KNNDatastore(make_keys(of_texts, 1), labels, NAMES, make_texts(of_texts, 1))
    found = fit(store)
    used = {name for name, weight in found.ensemble.weights.items() if weight > 0}
    frequencies = found.report.texts * np.log(3)
    assert (
        len(used) <= 1 and used <= {"classifier", "word_regression", "style"} or found.log_likelihood + frequencies >= 1
    )


def test_several_experts_answer_if_they_are_worth_something():
    assert len({name for name, weight in fit(make_store(60)).ensemble.weights.items() if weight > 0}) > 2


def test_descriptions_of_labels_are_learned_from_and_never_held_out():
    store = make_store(3)
    store.remove(["0", "1", "2"])
    labels = np.arange(3)
    store.add(make_keys(labels), NAMES, make_texts(labels), ids=[f"{DESCRIPTION_ID_PREFIX}{name}" for name in NAMES])
    assert fit(store).report.measured == []
    more = np.zeros(3, int)
    store.add(make_keys(more, 1), more, make_texts(more, 1))
    assert fit(store).report.measured[0]["accuracy"] in (0, 1 / 3, 2 / 3, 1)  # of three, not of six


def test_a_label_without_examples_is_not_fitted():
    store = make_store()
    keys = make_keys([0])
    store.add(keys, ["a new one"], ["a text"])
    store.remove(["12"])
    assert store.label_names[3] == "a new one" and fit(store).report.labels == NAMES
    store.fitted = fit_experts(Problem(store.snapshot), show_progress=False).to_state()
    found = score(store).probabilities
    assert found.shape == (9, 4) and not found[:, 3].any()


def test_held_out_texts_choose_the_weights():
    """A head that is always right gets a larger weight than one that guesses."""
    store = make_store()
    labels, keys, texts = make_queries(300)
    others = np.random.default_rng(1).permutation(300)
    keys = keys[others]
    texts = [texts[i] for i in others]
    right = 3 * np.eye(3)[labels].astype(np.float32)
    guessed = np.random.default_rng(0).permutation(right)
    shares = []
    for logits in (right, guessed):
        settings = fit(store, held_out=HeldOut(keys, texts, labels, logits), has_head=True)
        assert settings.report.measured_on == "held-out texts"
        shares.append(settings.report.shares["classifier"])
    assert shares[0] > shares[1] + 0.2
    fitted = fit_experts(Problem(store.snapshot, None, HeldOut(keys, texts, labels, right), True), show_progress=False)
    assert fitted.ensemble.learned.by_expert["classifier"] == {}
    store.fitted = fitted.to_state()
    assert (score(store, right[:9]).probabilities.argmax(1) == labels[:9]).all()


def test_several_labels_have_thresholds():
    settings = fit(make_store(60, multi_label=True))
    assert settings.ensemble.multi_label and len(settings.thresholds) == 3
    assert all(0 < threshold < 1 for threshold in settings.thresholds)
    assert fit(make_store()).thresholds is None


@pytest.mark.parametrize("multi_label", [False, True])
def test_one_of_two_labels_is_rare(multi_label):
    rng = np.random.default_rng(0)
    labels = [0] * 20 + [1]
    given = [[label] for label in labels] if multi_label else labels
    store = KNNDatastore(rng.standard_normal((21, 4)), given, ["often", "once"], [f"text {i}" for i in range(21)])
    settings = fit(store)
    assert settings.report.labels == ["often", "once"] and len(settings.report.measured)


ERRORS = {
    "no examples": (lambda: KNNDatastore.empty(4), {}, "No labeled examples yet: add_examples"),
    "one label": (
        lambda: KNNDatastore(np.eye(4), [0] * 4, NAMES),
        {},
        "All 4 examples have the label 'fruit': there is nothing to tell apart",
    ),
    "no label at all": (
        lambda: KNNDatastore(np.eye(4), [[]] * 4, NAMES, multi_label=True),
        {},
        "All 4 examples have no label",
    ),
    "words without texts": (
        lambda: make_store(texts=False),
        {"experts": ["naive_bayes"]},
        "No expert can be fitted here: 'naive_bayes' needs texts with words",
    ),
    "topics of several labels": (
        lambda: make_store(multi_label=True), {"experts": ["topics"]}, "'topics' needs one label per text",
    ),
    "held-out texts of other labels": (
        lambda: KNNDatastore(np.eye(4, 16), [0, 1] * 2, NAMES, ["a"] * 4),
        {"held_out": HeldOut(np.ones((1, 16), np.float32), ["x"], np.array([2]), None)},
        "No held-out text has a label that the examples have",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_a_datastore_that_cannot_be_fitted_is_refused(case):
    make, options, message = ERRORS[case]
    with pytest.raises(ValueError, match=message):
        fit(make(), **options)


def test_texts_without_any_word():
    store = KNNDatastore(make_keys(np.arange(12) % 3), np.arange(12) % 3, NAMES, ["?"] * 12)
    assert list(fit(store).ensemble.weights) == ["classifier", "neighbors", "topics"]


def f1_score(targets, predicted):
    return 2 * (targets * predicted).sum() / max(targets.sum() + predicted.sum(), 1)


def best_f1(probabilities, targets):
    cuts = [0.0, *np.unique(probabilities), 2.0]
    return max(f1_score(targets, probabilities >= cut) for cut in cuts)


@given(st.integers(0, 10_000), st.booleans())
def test_no_other_threshold_is_better(seed, rounded):
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, 2, (40, 3))
    probabilities = rng.random((40, 3)) * 0.7 + targets * 0.3
    probabilities = probabilities.round(1) if rounded else probabilities
    thresholds = label_thresholds(probabilities, targets)
    assert ((0 <= thresholds) & (thresholds <= 1)).all()
    for threshold, p, y in zip(thresholds, probabilities.T, targets.T, strict=True):
        if min(y.sum(), (1 - y).sum()) >= MIN_EXAMPLES_FOR_THRESHOLD:
            assert f1_score(y, p >= threshold) == pytest.approx(best_f1(p, y))


def test_a_label_of_few_examples_has_the_threshold_of_all():
    rng = np.random.default_rng(0)
    targets = (rng.random((60, 3)) < [0.5, 0.03, 0.99]).astype(int)
    probabilities = rng.random((60, 3))
    first, second, third = label_thresholds(probabilities, targets)
    assert second == third != first
    all_probabilities = probabilities.ravel()
    all_targets = targets.ravel()
    best = best_f1(all_probabilities, all_targets)
    assert f1_score(all_targets, all_probabilities >= second) == pytest.approx(best)


def test_without_examples_the_threshold_is_a_half():
    assert label_thresholds(np.zeros((0, 2)), np.zeros((0, 2))).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("multi_label", [False, True])
def test_the_log_likelihood_is_that_of_the_held_out_answers(multi_label):
    store = make_store(30, 0, multi_label=multi_label)
    fitted = fit_experts(Problem(store.snapshot), show_progress=False)
    probabilities = fitted.held_out.probabilities.astype(np.float64)
    labels = fitted.held_out.labels
    expected = np.log(probabilities[labels]).sum()
    if multi_label:  # of each text, the mean over the labels
        expected = (expected + np.log(1 - probabilities[~labels]).sum()) / len(store.label_names)
    # Within the shift for the frequencies of the labels in each fold, which the answers have and it has not.
    assert fitted.log_likelihood == pytest.approx(expected, rel=0.01) and expected < 0
