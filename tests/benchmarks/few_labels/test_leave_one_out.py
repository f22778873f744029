"""Constants are chosen on the other tasks."""

import pandas as pd
from few_labels.leave_one_out import leave_one_out, rows


def test_what_is_best_on_the_others_is_reported():
    scores = {"a": (0.5, 0.9), "b": (0.6, 0.4), "c": (0.6, 0.5)}
    records = [
        {"task": task, "per_label": "5", "system": system, "macro_f1": value}
        for task, both in scores.items()
        for system, value in zip(("ours", "ours#x.Y=1"), both, strict=True)
    ]
    found = leave_one_out(pd.DataFrame(records)).set_index("task")
    assert found["chosen"].to_dict() == {"a": "ours", "b": "x.Y=1", "c": "x.Y=1"}
    assert found["macro_f1"].tolist() == [0.5, 0.4, 0.5]
    assert rows(found.reset_index())[-1] == ("**mean**", "5", "", "46.7", "56.7")
