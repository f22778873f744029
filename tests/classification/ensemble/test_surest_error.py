from transformers import pipeline

from docsplit_hf import load_example_texts
from docsplit_hf.classification.ensemble.surest_error import LEAST_GAIN, describe_surest_error

# Beginnings of wrongly labeled example texts, with the right labels.
WRONG = {
    "Melt the butter in": "cooking",
    "The home team scored": "sport",
}


def test_a_wrong_label_that_costs_many_answers_is_named_until_it_is_corrected():
    labeled = load_example_texts().dropna()
    pipe = pipeline("docsplit-knn")
    ids = pipe.add_examples(labeled["text"], labeled["label"])
    right = {
        row_id: label
        for row_id, text in zip(ids, labeled["text"], strict=True)
        for begin, label in WRONG.items()
        if text.startswith(begin)
    }
    report = pipe.fit(show_progress=False)
    found = report.surest_error
    assert found["answered"] == right[found["id"]] != found["labeled"]
    assert report.answered[str(found["error"])] == found["share"] < found["share_without"] - LEAST_GAIN
    assert f"is to example '{found['id']}': labeled '{found['labeled']}', answered" in str(report)
    pipe.relabel(right)
    after = pipe.fit(show_progress=False)
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
