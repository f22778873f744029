from transformers import pipeline

from docsplit_hf import load_example_texts
from docsplit_hf.classification.ensemble.surest_error import MOVED, describe_surest_error

WRONG = {"Melt the butter in": "cooking", "The home team scored": "sport"}  # of the example texts, and what is right


def test_a_wrong_label_that_moves_the_share_is_named_until_it_is_right():
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
    assert report.answered[str(found["error"])] == found["share"] < found["share_without"] - MOVED
    assert f"is to example '{found['id']}': labeled '{found['labeled']}', answered" in str(report)
    pipe.relabel(right)
    after = pipe.fit(show_progress=False)
    assert after.surest_error is None and "check its label" not in str(after)
    assert after.answered[str(found["error"])] >= found["share_without"]


def test_a_text_that_is_no_example_has_no_id():
    found = {"id": None, "labeled": "a", "answered": "b", "score": 0.98, "error": 0.1, "share": 0.27}
    line = describe_surest_error(found | {"share_without": 0.75})
    assert line == (
        "\nThe surest wrong answer is to a held-out text: labeled 'a', answered 'b' with score 0.98. Without it, 75% "
        "would be answered at 10%, in place of 27%: check its label."
    )
    assert describe_surest_error(None) == ""
