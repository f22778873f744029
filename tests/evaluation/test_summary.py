import math

import numpy as np
import pytest
from scipy import stats

from docsplit_hf.evaluation.summary import setting, summarize, summarize_records


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
    frame = summarize_records(records)
    assert setting(frame, "shots").tolist() == [5, 1, 1] and setting(frame, "k").tolist() == [None] * 3
    assert frame["metric"].tolist() == ["accuracy", "accuracy", "macro_f1"] and {*frame["seeds"]} == {(0, 1, 2)}
    assert frame["mean"].tolist() == pytest.approx([0.5, 0.6, 1]) and frame["repeats"].tolist() == [3, 3, 1]
    assert summarize_records([]).empty and "mean" in summarize_records([])


def test_an_interval_over_documents_goes_with_its_metric():
    record = {"system": "A", "task": "B", "protocol": "attention", "settings": {}, "seed": 0}
    frame = summarize_records([record | {"metrics": {"noun": 0.5, "noun_interval": 0.1, "verb": 0.2}}])
    assert frame["metric"].tolist() == ["noun", "verb"] and frame["documents"][0] == 0.1
    assert math.isnan(frame["documents"][1]) and math.isnan(frame["interval"][0])
