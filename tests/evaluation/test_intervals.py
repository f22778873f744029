import math

import numpy as np
import pytest

from docsplit_hf.evaluation.intervals import accuracy_interval, summarize_repeats


def test_the_interval_of_ten_repeats_is_that_of_the_tables_of_students_t():
    values = [0.70, 0.72, 0.71, 0.69, 0.73, 0.70, 0.74, 0.71, 0.72, 0.68]
    summary = summarize_repeats(values)
    margin = 2.262 * np.std(values, ddof=1) / math.sqrt(10)  # t(0.975, 9) of the tables
    assert summary["high"] - summary["mean"] == pytest.approx(margin, rel=1e-3)
    assert summary["mean"] - summary["low"] == pytest.approx(margin, rel=1e-3)


def test_the_interval_holds_the_truth_in_95_of_100_experiments():
    draws = np.random.default_rng(0).normal(0.6, 0.05, size=(2000, 5))
    covered = [summary["low"] <= 0.6 <= summary["high"] for summary in map(summarize_repeats, draws)]
    assert 0.93 < np.mean(covered) < 0.97


def test_one_repeat_has_no_interval_and_none_is_refused():
    summary = summarize_repeats([0.5])
    assert summary["mean"] == 0.5
    assert all(math.isnan(summary[name]) for name in ("std", "low", "high"))
    with pytest.raises(ValueError, match="no repeats"):
        summarize_repeats([])


def test_an_accuracy_of_1_is_not_certain():
    low, high = accuracy_interval(1.0, 20)
    assert (round(low, 3), high) == (0.839, 1.0)
    assert accuracy_interval(0.5, 10_000)[1] == pytest.approx(0.5098, abs=1e-4)


@pytest.mark.parametrize(("accuracy", "examples"), [(82.0, 100), (-0.1, 10), (0.5, 0)])
def test_what_is_no_accuracy_is_refused(accuracy, examples):
    with pytest.raises(ValueError, match="from 0 to 1"):
        accuracy_interval(accuracy, examples)
