import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.fitting.audit.report import Audit, ConfusedLabels, Duplicates, LabelIssue, Outlier

AUDIT = Audit(
    examples=1_234,
    checked=1_200,
    not_checked={"came after fit()": 34},
    wrong_labels=2.4,
    label_issues=[
        LabelIssue("3", "river", "engine", True, 0.01, 0, 9, "A text."),
        LabelIssue("4", [], ["a", "b"], True, 0, 1, 2, ""),
        LabelIssue("7", "river", "engine", False, 0.6, 3, 5, "A text."),
    ],
    duplicates=[
        Duplicates(["1", "2", "8"], ["river"] * 3, False, True, 1.0, ["2", "8"], "The river."),
        Duplicates(["5", "6"], ["river", "engine"], True, False, 0.8, [], "The engine."),
    ],
    outliers=[Outlier("9", "river", 0.1, True, "?"), Outlier("2", "river", 0.2, True, "!")],
    confused_labels=[ConfusedLabels("river", "engine", 3, 4, 0.25)],
)


def test_marked_corrections():
    assert AUDIT.new_labels == {"3": "engine", "4": ["a", "b"]}
    assert AUDIT.to_remove == ["2", "8", "9"]


@given(st.text(), st.floats(0, 1), st.lists(st.text()), st.booleans())
def test_a_saved_audit_is_read_back(tmp_path_factory, text, number, names, flag):
    path = tmp_path_factory.mktemp("audit") / "report.json"
    text = text.encode(errors="replace").decode()
    names = [name.encode(errors="replace").decode() for name in names]
    issue = LabelIssue(text, names, text, flag, number, 0, 1, text)
    outlier = Outlier(text, names, number, flag, text)
    copies = Duplicates(names, [names, text], flag, flag, number, names, text)
    audit = Audit(1, 0, {text: 1}, number, [issue], [copies], [outlier], [ConfusedLabels(text, text, 1, 2, number)])
    audit.to_json(path)
    assert Audit.from_json(path) == audit


def test_entries_may_be_deleted_and_marked(tmp_path):
    AUDIT.to_json(tmp_path / "report.json")
    content = json.loads((tmp_path / "report.json").read_text())
    content["label_issues"].pop(1)
    content["label_issues"][0]["apply"] = False
    content["label_issues"][1]["apply"] = True
    content["duplicates"][1]["remove"] = ["5"]
    content["outliers"] = []
    (tmp_path / "report.json").write_text(json.dumps(content))
    audit = Audit.from_json(tmp_path / "report.json")
    assert audit.new_labels == {"7": "engine"} and audit.to_remove == ["2", "8", "5"]


def issue(**entries):
    return {"label_issues": [asdict(AUDIT.label_issues[0]) | entries]}


INVALID = [
    (issue(apply="yes"), r"label_issues\[0\]: apply is 'yes', not bool"),
    (issue(suggested=3), r"label_issues\[0\]: suggested is 3, not str"),
    (issue(suggested=None), r"label_issues\[0\]: suggested is None"),
    (issue(suggested=[3]), r"suggested is \[3\], not str | list\[str\]"),
    (issue(near_given=True), "near_given is True, not int"),
    ({"label_issues": 2 * issue()["label_issues"]}, "two label_issues with the same id"),
    ({"removed": []}, "has removed: its fields are examples"),
    ({"outliers": "none"}, "outliers is 'none'"),
    ({"duplicates": [3]}, r"duplicates\[0\] is '3', not an audit or part of one"),
]
FILES = ['{"examples": 3,', "[]", '{"examples": 3}', "\x00"]
MESSAGES = [
    "is not JSON",
    "is '\\[\\]', not an audit or part of one",
    "lacks checked, not_checked",
    "not JSON",
]


@pytest.mark.parametrize(("edit", "message"), [*INVALID, *zip(FILES, MESSAGES, strict=True)], ids=str)
def test_an_invalid_file_is_refused(edit, message, tmp_path):
    AUDIT.to_json(path := tmp_path / "report.json")
    path.write_text(edit if isinstance(edit, str) else json.dumps(json.loads(path.read_text()) | edit))
    with pytest.raises(ValueError, match=f"report.json.*{message}"):
        Audit.from_json(path)
