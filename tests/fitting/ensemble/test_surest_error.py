import numpy as np

from docsplit_hf.classifier.knn_datastore import KNNDatastore
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.guarantees import describe_surest_error
from docsplit_hf.fitting.ensemble.held_out_metrics import LEAST_GAIN
from docsplit_hf.fitting.ensemble.problem import Problem

from .stores import NAMES, make_keys, make_texts


def test_a_wrong_label_that_costs_many_answers_is_named_until_it_is_corrected():
    labels = np.arange(60) % 3
    given = labels.copy()
    given[7] = 0
    store = KNNDatastore(make_keys(labels, 1), given, NAMES, make_texts(labels, 1))
    report = fit_experts(Problem(store.snapshot), show_progress=False).report
    found = report.surest_error
    assert (found["id"], found["labeled"], found["answered"]) == ("7", NAMES[0], NAMES[labels[7]])
    assert report.answered[str(found["error"])] == found["share"] < found["share_without"] - LEAST_GAIN
    assert f"is to example '7': labeled '{NAMES[0]}', answered" in str(report)
    store.relabel({"7": NAMES[labels[7]]})
    after = fit_experts(Problem(store.snapshot), show_progress=False).report
    assert after.surest_error is None and "check its label" not in str(after)
    assert after.answered[str(found["error"])] >= found["share_without"]


def test_a_text_that_is_no_example_has_no_id():
    found = {"id": None, "labeled": "a", "answered": "b", "score": 0.98, "error": 0.1, "share": 0.27}
    line = describe_surest_error(found | {"share_without": 0.75})
    assert line == (
        "\nThe most confident wrong answer is to a held-out text: labeled 'a', answered 'b' with score 0.98. "
        "Without it, 75% would be answered at 10%, instead of 27%: check its label."
    )
    assert describe_surest_error(None) == ""
