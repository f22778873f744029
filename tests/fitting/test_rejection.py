"""reject and return_novelty: texts get an answer only if an error rate is guaranteed."""

import copy
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, binomtest

from docsplit_hf.classifier.predict_file import PredictionFiles, classify_file
from docsplit_hf.fitting.ensemble.report import FitReport
from docsplit_hf.fitting.experts.text_vectors import unit
from docsplit_hf.fitting.rejection import (
    GUARANTEE_CONFIDENCE,
    NEAREST_EXAMPLES,
    OUT_OF_SCOPE_SIGNIFICANCE,
    RejectionLimits,
    accuracy_interval,
    closeness,
    confidence,
    confidence_threshold,
    estimate_out_of_scope_fraction,
    familiarity,
    guaranteed_limit,
    importance_weights,
    least_error,
    min_held_out_texts,
    novelty,
    tail_probability,
    texts_needed,
)


def draw(count, seed, hardest=0.4):
    """Texts whose share of errors grows from 0 at confidence 1 to ``hardest`` at 0."""
    rng = np.random.default_rng(seed)
    confidence = rng.random(count)
    return confidence, rng.random(count) >= hardest * (1 - confidence)


@pytest.mark.parametrize("error", [0.05, 0.1])
def test_the_guarantee_holds_for_nine_of_ten_draws(error):
    """Above a threshold t the true error rate is hardest (1 - t) / 2."""
    levels = np.array([confidence_threshold(*draw(1000, seed), error) for seed in range(400)])
    broken = np.sum(0.4 * (1 - levels[np.isfinite(levels)]) / 2 > error)
    assert broken <= binom.ppf(0.999, 400, 1 - GUARANTEE_CONFIDENCE)
    assert np.isfinite(levels).mean() > 0.3  # and the guarantee is not empty


@pytest.mark.parametrize("count", [20, 44, 45, 200])
def test_if_all_answers_are_right_least_error_is_the_limit(count):
    confidence = np.linspace(0.5, 1, count)
    right = np.ones(count, bool)
    least = least_error(np.ones((1, count)))
    assert confidence_threshold(confidence, right, least * 1.001) == confidence[0]
    assert confidence_threshold(confidence, right, least * 0.999) == np.inf
    assert (1 - least) ** count == pytest.approx(1 - GUARANTEE_CONFIDENCE)
    assert confidence_threshold(confidence[:0], right[:0], 0.5) == np.inf and least_error(np.ones((1, 0))) == 1


def test_equal_confidence_is_accepted_together():
    confidence = np.repeat([0.9, 0.6], 100)
    right = np.repeat([True, False], 100)
    assert confidence_threshold(confidence, right, 0.05) == 0.9
    assert confidence_threshold(confidence, right[::-1], 0.05) == np.inf
    assert (
        confidence_threshold(np.repeat([0.9, 0.0], 100), np.ones(200, bool), 0.05) == 0.9
    )  # confidence 0 means no answer


def test_novel_texts_do_not_stop_the_test_of_others():
    """One text in a hundred has confidence 0; the others are right, and all are answered at any error rate."""
    rng = np.random.default_rng(0)
    confidence = np.where(np.arange(600) % 100 == 0, 0, rng.uniform(0.5, 1, 600))
    expected = confidence[confidence > 0].min()
    for error in (0.01, 0.05, 0.2):
        assert confidence_threshold(confidence, np.ones(600, bool), error) == expected


def test_fifty_right_answers_guarantee_an_error_rate_beside_an_unsure_wrong_one():
    """45 right answers guarantee 5 %; a first group with room for an error would take 77."""
    confidence = np.linspace(1, 0.5, 50)
    assert confidence_threshold(confidence, np.arange(50) < 49, 0.05) == confidence[48]
    assert confidence_threshold(confidence, np.arange(50) > 0, 0.05) == np.inf


def test_two_confident_wrong_labels_do_not_end_all_tests():
    confidence = np.linspace(1, 0.5, 400)
    right = np.ones(400, bool)
    right[[0, 10]] = False
    assert np.isfinite(confidence_threshold(confidence, right, 0.05))


def test_the_starts_share_the_probability_of_failure():
    """All answers are wrong at the error rate itself, so any answer breaks the guarantee."""
    answered = 0
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        answered += np.isfinite(confidence_threshold(rng.random(400), rng.random(400) >= 0.1, 0.1))
    assert answered <= binom.ppf(0.999, 1000, 1 - GUARANTEE_CONFIDENCE)


def test_the_forecast_of_texts_is_what_a_guarantee_takes():
    """20 right answers need 45 texts; with an error in ten, no number guarantees 5 %."""
    confidence = np.linspace(1, 0.5, 20)
    equal = np.ones((1, 20))
    assert 45 <= texts_needed(confidence, np.ones(20, bool), 0.05, equal) <= 48
    assert texts_needed(confidence, np.arange(20) % 10 > 0, 0.05, equal) is None
    assert texts_needed(np.zeros(20), np.ones(20, bool), 0.05, equal) is None


def test_a_few_wrong_labels_do_not_reject_everything():
    answered = []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        answered.append(np.isfinite(confidence_threshold(rng.random(3000), rng.random(3000) > 0.02, 0.05)))
    assert np.mean(answered) > 0.8


@pytest.mark.parametrize("wrong, size, error", [(0, 20, 0.05), (3, 20, 0.1), (7, 7, 0.5), (99, 100, 0.98)])
def test_the_tail_of_whole_numbers_is_binomial(wrong, size, error):
    assert tail_probability(wrong, size, error) == pytest.approx(binom.cdf(wrong, size, error))


@pytest.mark.parametrize("error", [0.05, 0.1, 0.3])
def test_equal_counts_change_nothing(error):
    for seed in range(20):
        confidence, right = draw(300, seed)
        plain = confidence_threshold(confidence, right, error)
        for counts in (np.ones((1, 300)), np.full((1, 300), 0.25), np.full((7, 300), 3.0)):
            assert confidence_threshold(confidence, right, error, counts) == plain


def draw_by_label(proportions, of_each, seed, shares_right=(0.99, 0.8)):
    """Equally many texts of an easy and of a hard label, with the same distribution of confidence."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], of_each)
    right = rng.random(len(labels)) < np.array(shares_right)[labels]
    confidence = rng.random(len(labels))
    counts = importance_weights(np.eye(2, dtype=bool)[labels], np.array([proportions]))
    return confidence, right, counts


@pytest.mark.parametrize("hard", [0.2, 0.5, 0.8])
def test_the_guarantee_holds_for_the_proportions_of_all_texts(hard):
    """The guarantee holds if there is no answer where the true error rate is too high."""
    true_error = (1 - hard) * 0.01 + hard * 0.2
    broken = 0
    for seed in range(300):
        given = draw_by_label((1 - hard, hard), 100, seed)
        level = confidence_threshold(given[0], given[1], 0.12, given[2])
        broken += np.isfinite(level) and true_error > 0.12
    assert broken <= binom.ppf(0.999, 300, 1 - GUARANTEE_CONFIDENCE)


def test_without_counts_the_guarantee_fails_for_other_proportions():
    """What the test before would find if balanced labels stood for all texts: 10.5 % of them are wrong, of all 16 %."""
    given = [draw_by_label((0.2, 0.8), 400, seed) for seed in range(100)]
    broken = sum(np.isfinite(confidence_threshold(confidence, right, 0.15)) for confidence, right, _ in given)
    kept = sum(np.isinf(confidence_threshold(confidence, right, 0.15, counts)) for confidence, right, counts in given)
    assert broken > binom.ppf(0.999, 100, 1 - GUARANTEE_CONFIDENCE) and kept >= 85


def test_counts_follow_from_the_proportions():
    targets = np.array([[True, False]] * 3 + [[False, True]])
    np.testing.assert_allclose(importance_weights(targets, np.array([[0.75, 0.25]])), np.ones((1, 4)))
    np.testing.assert_allclose(importance_weights(targets, np.array([[0.5, 0.5]])), [[2 / 3, 2 / 3, 2 / 3, 2]])
    np.testing.assert_array_equal(importance_weights(targets, np.zeros((0, 2))), np.ones((1, 4)))


def test_the_mean_weight_is_1_in_each_draw_where_a_label_has_no_held_out_text():
    targets = np.array([[True, False, False]] * 3 + [[False, True, False]])
    found = importance_weights(targets, np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]))
    np.testing.assert_allclose(found.mean(1), 1)
    np.testing.assert_allclose(found[:, 3] / found[:, 0], [1.5, 3])


@pytest.mark.parametrize("count, share", [(50, 0.9), (30, 0.0), (40, 1.0), (7, 0.5)])
def test_the_interval_with_equal_counts_is_clopper_pearsons(count, share):
    right = np.arange(count) < share * count
    expected = binomtest(int(right.sum()), count).proportion_ci(0.95)
    found = accuracy_interval(right, np.full((3, count), 0.5))
    np.testing.assert_allclose(found, [right.mean(), expected.low, expected.high], atol=1e-8)


def test_uncertain_proportions_widen_the_interval():
    right = np.repeat([True, False, True, False], [48, 2, 35, 15])
    targets = np.repeat(np.eye(2, dtype=bool), 50, axis=0)
    widths = []
    for draws in ([[0.5, 0.5]], [[0.2, 0.8]], [[0.1, 0.9], [0.5, 0.5], [0.3, 0.7]]):
        _, low, high = accuracy_interval(right, importance_weights(targets, np.array(draws)))
        widths.append(high - low)
    assert widths[0] < widths[1] < widths[2]


def test_the_interval_has_no_limit_if_draws_leave_only_wrong_or_only_right_answers():
    """A draw without a label gives its texts no weight; one draw in ten is more than the tail of the interval."""
    right = np.repeat([True, False], 5)
    targets = np.repeat(np.eye(2, dtype=bool), 5, axis=0)
    often = [[0.5, 0.5]] * 9
    low_of_wrong = accuracy_interval(right, importance_weights(targets, np.array([*often, [0.0, 1.0]]))).low
    high_of_right = accuracy_interval(right, importance_weights(targets, np.array([*often, [1.0, 0.0]]))).high
    assert low_of_wrong == 0 and high_of_right == 1


def test_texts_without_weight_prove_nothing():
    """All surest answers are of a label that has no texts by one of the draws."""
    confidence = np.linspace(1, 0.5, 60)
    right = np.ones(60, bool)
    targets = np.repeat(np.eye(2, dtype=bool), [55, 5], axis=0)
    importance = importance_weights(targets, np.array([[0.0, 1.0]]))
    assert confidence_threshold(confidence, right, 0.1, importance) == np.inf
    assert confidence_threshold(confidence, right, 0.1, np.ones((1, 60))) < 1


def test_the_interval_contains_the_true_accuracy():
    """Examples are drawn label by label: the 95 % interval must hold in at least nine of ten draws."""
    proportions = (0.3, 0.7)
    true = 0.3 * 0.99 + 0.7 * 0.8
    held = 0
    for seed in range(300):
        _, right, counts = draw_by_label(proportions, 80, seed)
        _, low, high = accuracy_interval(right, counts)
        held += low <= true <= high
    assert held >= 0.9 * 300


@pytest.mark.parametrize("lost", [0.05, 0.1])
def test_the_limit_of_lost_texts_holds_for_nine_of_ten_draws(lost):
    """Novelty is uniform, so a limit t loses 1 - t of the texts."""
    limits = np.array(
        [guaranteed_limit(np.random.default_rng(seed).random(200), lost, np.ones((1, 200))) for seed in range(400)]
    )
    assert np.sum(1 - limits > lost) <= binom.ppf(0.999, 400, 1 - GUARANTEE_CONFIDENCE)
    assert np.mean(limits < 1) == 1


@pytest.mark.parametrize("lost", [0.05, 0.1, 0.2])
def test_too_few_texts_give_no_novelty_limit(lost):
    fewest = min_held_out_texts(lost)
    for count, is_limited in ((fewest - 1, False), (fewest, True)):
        values = np.linspace(0.1, 0.9, count)
        assert (guaranteed_limit(values, lost, np.ones((1, count))) < 1) == is_limited
    assert guaranteed_limit(values, lost, np.ones((1, count))) == 0.9  # the most novel one is still answered


def test_only_documents_of_other_labels_are_out_of_scope():
    rng = np.random.default_rng(0)
    held_out = rng.beta(5, 2, 150)
    counts = np.ones((1, 150))
    mixed = np.concatenate([rng.beta(5, 2, 600), rng.beta(2, 8, 400)])
    assert estimate_out_of_scope_fraction(mixed, held_out, counts) == pytest.approx(0.4, abs=0.12)
    wrongly = [
        estimate_out_of_scope_fraction(rng.beta(5, 2, 800), rng.beta(5, 2, 100), np.ones((1, 100))) > 0
        for _ in range(200)
    ]
    assert np.sum(wrongly) <= binom.ppf(0.999, 200, OUT_OF_SCOPE_SIGNIFICANCE)


def test_familiarity_beside_documents_stays_below_one_and_keeps_the_order():
    rng = np.random.default_rng(0)
    probabilities, shares = (rng.dirichlet(np.ones(3), 50) for _ in range(2))
    near = rng.uniform(-0.2, 1, 50)
    plain = familiarity(probabilities, shares, near)
    beside = familiarity(probabilities, shares, near, np.full(50, 0.4))
    assert (beside >= 0).all() and (beside <= 1).all()
    same = np.isclose(near, near[0])
    np.testing.assert_allclose(beside[same] / plain[same], np.exp(4 * (max(near[0], 0) - 0.4 - 1)))
    farther = familiarity(probabilities, shares, near, np.full(50, 0.8))
    assert (farther <= beside).all()


def test_closeness_is_the_mean_cosine_of_the_nearest():
    rng = np.random.default_rng(0)
    queries, examples = (unit(rng.standard_normal((count, 8))).astype(np.float32) for count in (6, 30))
    expected = np.sort(queries @ examples.T, axis=1)[:, -NEAREST_EXAMPLES:].mean(1)
    np.testing.assert_allclose(closeness(queries, examples), expected, atol=1e-5)
    np.testing.assert_allclose(closeness(queries, examples[:2]), (queries @ examples[:2].T).mean(1), atol=1e-5)


def test_any_number_of_copies_of_the_query_is_ignored():
    rng = np.random.default_rng(0)
    queries, examples = (unit(rng.standard_normal((count, 8))).astype(np.float32) for count in (3, 30))
    expected = closeness(queries, examples)
    many = np.concatenate([np.repeat(queries, 40, axis=0), examples])
    np.testing.assert_allclose(closeness(queries, many, exclude_copies=True), expected, atol=1e-5)
    assert closeness(queries, queries[:1].repeat(9, axis=0), exclude_copies=True)[0] == 0


def test_novelty_is_the_fraction_of_more_familiar_examples():
    examples = np.linspace(0.1, 0.9, 99)
    np.testing.assert_allclose(novelty(np.array([0.1, 0.5, 0.9, 0.0, 1.0]), examples), [0.99, 0.5, 0.01, 1, 0])
    assert novelty(np.array([0.05]), examples) > novelty(np.array([0.09]), examples) > 0.99  # below them all, in order


def test_a_novel_text_has_no_confidence():
    found = confidence(np.array([[0.2, 0.8], [0.9, 0.1]]), np.array([0.5, 0.995]))
    np.testing.assert_array_equal(found, np.array([0.8, 0], np.float32))


def labels_of(texts):
    """Labels that follow from the texts, so that error rates can be guaranteed."""
    return ["river" if "river" in text else "engine" for text in texts]


@pytest.fixture(scope="module")
def fitted_of_module(untrained_of_module, texts):
    pipe = copy.deepcopy(untrained_of_module)
    pipe.add_examples(texts[:30], labels_of(texts[:30]))
    pipe.add_documents(texts[30:38])
    pipe.fit(show_progress=False)
    return pipe


@pytest.fixture
def fitted(fitted_of_module):
    return copy.deepcopy(fitted_of_module)


def test_a_higher_error_rate_answers_more_texts(fitted, texts):
    plain = fitted(texts[38:])
    counts = []
    for error in (0.2, 0.5, 0.9):
        answers = fitted(texts[38:], reject=error)
        assert [answer["score"] for answer in answers] == [answer["score"] for answer in plain]
        for answer, before in zip(answers, plain, strict=True):
            assert answer["label"] in (None, before["label"])
        counts.append(sum(answer["label"] is not None for answer in answers))
    assert counts == sorted(counts) and counts[-1] > 0


def test_the_most_confident_texts_are_answered(fitted, texts):
    for error in (0.3, 0.5, 0.7, 0.9):
        answers = fitted(texts[38:], reject=error, return_novelty=True)
        level = fitted._experts.fitted.guarantees.confidence_threshold(error)
        for answer in answers:
            accepted = answer["score"] >= level and answer["novelty"] <= 0.99
            assert accepted == (answer["label"] is not None)


def test_an_error_rate_that_cannot_be_guaranteed_is_logged(fitted, texts, caplog):
    assert all(answer["label"] is None for answer in fitted(texts[38:], reject=0.01))
    assert (
        "reject=0.01 cannot be guaranteed. The lowest error that 30 held-out texts can guarantee is 0.0739"
        in caplog.text
    )
    assert "0.01 takes about" in caplog.text
    assert "Here they guarantee 0." in caplog.text or "They guarantee nothing" in caplog.text
    report = str(FitReport.of(fitted.datastore.fitted.settings))
    assert "Share answered at a given error limit (reject): 0% at 1% (takes about " in report
    assert "The lowest error that 30 texts can guarantee is 7.4%" in report


def test_each_label_has_a_threshold_of_its_own(fitted, texts, caplog):
    """Some of 30 held-out texts may guarantee an error of 0.3 for a label; for 0.05 they are too few."""
    plain = fitted(texts[38:], return_novelty=True)
    experts = fitted._experts.fitted
    thresholds = dict(zip(experts.ensemble.labels, experts.guarantees.label_thresholds(0.3), strict=True))
    for answer, before in zip(fitted(texts[38:], reject=RejectionLimits(0.3, each_label=True)), plain, strict=True):
        is_sure = before["score"] >= thresholds[before["label"]] and before["novelty"] <= 0.99
        assert answer["label"] == (before["label"] if is_sure else None)
    assert np.isfinite(list(thresholds.values())).any()
    assert all(answer["label"] is None for answer in fitted(texts[38:], reject=RejectionLimits(0.05, each_label=True)))
    assert "reject=0.05 cannot be guaranteed among the answers with it. That takes 45 held-out" in caplog.text


def test_held_out_answers_are_counted_by_label(fitted):
    report = FitReport.of(fitted.datastore.fitted.settings)
    assert sum(found["answered"] for found in report.by_label) == round(30 * report.answered["0.1"])
    assert "Wrong at 10%" not in str(report)
    wrong = [{"label": "river", "answered": 7, "wrong": 3}, {"label": "library", "answered": 20, "wrong": 1}]
    assert "Wrong at 10%, by label of the answer: river 3 of 7. The limit" in str(replace(report, by_label=wrong))


def keep_one_of_each(pipe):
    store = pipe.datastore
    first = {int(label): row_id for row_id, label in reversed(list(zip(store.ids, store.labels, strict=True)))}
    pipe.remove_examples([row_id for row_id in store.ids if row_id not in first.values()])


def test_a_default_of_the_pipeline_is_checked_like_an_argument(fitted, tmp_path):
    fitted._forward_params = {"reject": RejectionLimits(0.01)}
    assert fitted("a")[0]["label"] is None
    with pytest.raises(ValueError, match="leave out top_k=2"):
        fitted("a", top_k=2)
    source = tmp_path / "new.jsonl"
    target = tmp_path / "answers.jsonl"
    source.write_text('{"text": "a"}\n{"text": " "}\n')
    outcome = classify_file(fitted, PredictionFiles(source, target), show_progress=False)
    assert outcome[:4] == (2, 1, 0, 1)
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert [row["label"] for row in rows] == [None] * 2 and rows[0]["score"] > 0 and rows[1]["score"] is None


@pytest.mark.parametrize("text", ["", "\n", "...", "the"])
def test_a_text_without_content_gets_a_reason_and_no_label(text, fitted, texts):
    answer = fitted([text], reject=0.5)[0]
    assert answer["label"] is None and answer["reason"] == "no content"
    assert all("reason" not in answer for answer in fitted(texts[:4], reject=0.5))


def test_without_reject_texts_without_content_are_counted(fitted, caplog):
    answers = fitted(["...", "The river feeds the valley.", "?!"])
    assert all(answer["label"] and "reason" not in answer for answer in answers)
    assert "2 of 3 texts have no content, such as text 0, '...'" in caplog.text


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_answers_to_a_file_have_the_reason(ending, fitted, tmp_path):
    source = tmp_path / "new.jsonl"
    target = tmp_path / f"answers.{ending}"
    source.write_text('{"text": "..."}\n{"text": " "}\n{"text": "The river feeds the valley."}\n')
    classify_file(fitted, PredictionFiles(source, target), show_progress=False, reject=0.5)
    read = {"csv": pd.read_csv, "jsonl": lambda path: pd.read_json(path, lines=True), "parquet": pd.read_parquet}
    reasons = read[ending](target)["reason"]
    assert reasons[:2].tolist() == ["no content"] * 2 and pd.isna(reasons[2])


ERRORS = {
    "no error at all": (lambda p: p("a", reject=0), ValueError, "between 0 and 1, got 0"),
    "always wrong": (lambda p: p("a", reject=1.0), ValueError, "between 0 and 1, got 1.0"),
    "a word": (lambda p: p("a", reject="5 %"), ValueError, "between 0 and 1, got '5 %'"),
    "not a number": (lambda p: p("a", reject=np.nan), ValueError, "between 0 and 1, got nan"),
    "all known texts lost": (lambda p: RejectionLimits(0.1, novelty=1), ValueError, "novelty must be .* got 1"),
    "novelty as a yes": (lambda p: RejectionLimits(0.1, novelty=True), ValueError, "novelty must be .* got True"),
    "novelty by itself": (lambda p: p("a", novelty=0.05), TypeError, r"any more: write reject=RejectionLimits\("),
    "a label for rejected texts": (lambda p: p("a", reject=0.1, reject_label="?"), TypeError, "has the label None"),
    "several answers": (lambda p: p("a", reject=0.1, top_k=2), ValueError, "leave out top_k=2"),
    "novelty of nothing": (
        lambda p: (keep_one_of_each(p), p.fit(show_progress=False), p("a", return_novelty=True)),
        ValueError, "no held-out answers to measure errors and novelty by",
    ),
    "equation 3": (lambda p: p("a", reject=0.1, method="knn"), ValueError, "fit\\(\\), and leave out method='knn'"),
    "novelty as a number": (lambda p: p("a", return_novelty=2), ValueError, "return_novelty must be True or False"),
    "nothing fitted": (
        lambda p: (setattr(p.datastore, "fitted", None), p("a", reject=0.1)), ValueError, "Only fitted experts can",
    ),
    "one example of each label": (
        lambda p: (keep_one_of_each(p), p.fit(show_progress=False), p("a", reject=0.1)),
        ValueError, "no held-out answers to measure errors",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_invalid_options_are_refused(case, fitted):
    act, error, message = ERRORS[case]
    with pytest.raises(error, match=message):
        act(fitted)


def test_a_text_of_an_unknown_class_is_novel():
    from docsplit_hf.fitting.ensemble.scoring import prepare_experts, score_texts

    from .ensemble.stores import fitted_store, make_queries

    ready = prepare_experts(fitted_store(60).snapshot)
    _, keys, texts = make_queries(60)
    known = score_texts(ready, keys, texts, None, with_closeness=True).familiarity()
    unknown = score_texts(ready, -keys, ["nothing like it"] * 60, None, with_closeness=True).familiarity()
    novelty = ready.fitted.guarantees.novelty
    assert np.median(novelty(known)) < 0.8 < 0.95 < np.median(novelty(unknown))
