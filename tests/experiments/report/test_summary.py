import math

import numpy as np
import pytest
from scipy import stats

from docsplit_hf.experiments.report.summary import summarize, summarize_records


def test_mean_deviation_and_interval_are_scipys():
    values = [0.71, 0.74, 0.69, 0.8]
    summary = summarize(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert summary.mean == pytest.approx(np.mean(values)) and summary.std == pytest.approx(np.std(values, ddof=1))
    assert (summary.mean - summary.interval, summary.mean + summary.interval) == pytest.approx((low, high))


def test_one_repeat_has_no_spread():
    summary = summarize([0.5])
    assert summary.mean == 0.5 and math.isnan(summary.std) and math.isnan(summary.interval)


def test_seeds_go_together_and_settings_do_not():
    record = {"system": "A", "task": "B", "protocol": "few_shot", "metrics": {"accuracy": 0.5}}
    records = [record | {"settings": {"shots": shots}, "seed": seed} for shots in (1, 5) for seed in (0, 1, 2)]
    cells = summarize_records(records)
    assert [(cell.settings["shots"], cell.seeds) for cell in cells] == [(1, (0, 1, 2)), (5, (0, 1, 2))]


def test_a_metric_that_some_repeats_lack_is_averaged_over_the_others():
    record = {"system": "A", "task": "B", "protocol": "attention", "settings": {}}
    records = [
        record | {"seed": 0, "metrics": {"noun": 0.2}},
        record | {"seed": 1, "metrics": {"noun": 0.4, "verb": 1}},
    ]
    [cell] = summarize_records(records)
    assert cell.metrics["noun"].mean == pytest.approx(0.3) and cell.metrics["verb"].repeats == 1
