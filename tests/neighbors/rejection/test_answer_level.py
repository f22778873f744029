import numpy as np
import pytest
from scipy.stats import binom

from docsplit_hf.neighbors.rejection.answer_level import CERTAINTY, answer_level, least_error


def draw(count, seed, hardest=0.4):
    """Texts whose share of errors grows from 0 at confidence 1 to ``hardest`` at 0."""
    rng = np.random.default_rng(seed)
    confidence = rng.random(count)
    return confidence, rng.random(count) >= hardest * (1 - confidence)


@pytest.mark.parametrize("error", [0.05, 0.1])
def test_the_promise_holds_in_nine_of_ten_draws(error):
    """Above a level t the true share of errors is hardest (1 - t) / 2."""
    levels = np.array([answer_level(*draw(1000, seed), error) for seed in range(400)])
    broken = np.sum(0.4 * (1 - levels[np.isfinite(levels)]) / 2 > error)
    assert broken <= binom.ppf(0.999, 400, 1 - CERTAINTY)
    assert np.isfinite(levels).mean() > 0.3  # and it promises something


@pytest.mark.parametrize("count", [20, 44, 45, 200])
def test_where_all_is_right_the_least_error_decides(count):
    confidence = np.linspace(0.5, 1, count)
    right, least = np.ones(count, bool), least_error(count)
    assert answer_level(confidence, right, least * 1.001) == confidence[0]
    assert answer_level(confidence, right, least * 0.999) == np.inf
    assert (1 - least) ** count == pytest.approx(1 - CERTAINTY)


def test_equal_confidence_has_an_equal_fate():
    confidence = np.repeat([0.9, 0.6], 100)
    right = np.repeat([True, False], 100)
    assert answer_level(confidence, right, 0.05) == 0.9
    assert answer_level(confidence, right[::-1], 0.05) == np.inf


def test_no_confidence_is_no_answer():
    assert answer_level(np.repeat([0.9, 0.0], 100), np.ones(200, bool), 0.05) == 0.9


def test_novel_texts_do_not_end_the_test_of_the_others():
    """One in a hundred has confidence 0: the others are all right, and all are answered, whatever is promised."""
    rng = np.random.default_rng(0)
    confidence = np.where(np.arange(600) % 100 == 0, 0, rng.uniform(0.5, 1, 600))
    expected = confidence[confidence > 0].min()
    for error in (0.01, 0.05, 0.2):
        assert answer_level(confidence, np.ones(600, bool), error) == expected


def test_a_few_wrong_labels_anywhere_do_not_silence_it():
    answered = []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        answered.append(np.isfinite(answer_level(rng.random(3000), rng.random(3000) > 0.02, 0.05)))
    assert np.mean(answered) > 0.8


def test_nothing_promises_nothing():
    assert answer_level(np.zeros(0), np.zeros(0, bool), 0.5) == np.inf and least_error(0) == 1
