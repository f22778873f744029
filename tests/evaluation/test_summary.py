import math

import numpy as np
import pytest
from scipy import stats

from docsplit_hf.experiments.report.summary import summarize, summarize_records


def test_mean_deviation_and_interval_are_scipys_and_one_repeat_has_no_spread():
    values = [0.71, 0.74, 0.69, 0.8]
    summary = summarize(values)
    low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert summary.mean == pytest.approx(np.mean(values)) and summary.std == pytest.approx(np.std(values, ddof=1))
    assert (summary.mean - summary.interval, summary.mean + summary.interval) == pytest.approx((low, high))
    alone = summarize([0.5])
    assert alone.mean == 0.5 and math.isnan(alone.std) and math.isnan(alone.interval)


def test_seeds_go_together_and_settings_do_not_and_a_metric_may_be_missing():
    record = {"system": "A", "task": "B", "protocol": "few_shot", "metrics": {"accuracy": 0.5}}
    records = [record | {"settings": {"shots": shots}, "seed": seed} for shots in (5, 1) for seed in (0, 1, 2)]
    records[-1] = records[-1] | {"metrics": {"accuracy": 0.8, "macro_f1": 1}}
    cells = summarize_records(records)
    assert [(cell.settings["shots"], cell.seeds) for cell in cells] == [(5, (0, 1, 2)), (1, (0, 1, 2))]
    assert cells[1].metrics["accuracy"].mean == pytest.approx(0.6) and cells[1].metrics["macro_f1"].repeats == 1
    assert summarize_records([]) == []


def test_an_interval_over_documents_goes_with_its_metric():
    record = {"system": "A", "task": "B", "protocol": "attention", "settings": {}, "seed": 0}
    [cell] = summarize_records([record | {"metrics": {"noun": 0.5, "noun_interval": 0.1, "verb": 0.2}}])
    assert set(cell.metrics) == {"noun", "verb"} and cell.metrics["noun"].documents == 0.1
    assert math.isnan(cell.metrics["verb"].documents) and math.isnan(cell.metrics["noun"].interval)
