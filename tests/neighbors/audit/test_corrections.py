import logging
from dataclasses import replace

import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.neighbors.audit.audit import Audit, Duplicates, LabelIssue, Outlier
from docsplit_hf.neighbors.audit.corrections import corrections

NAMES = ["river", "engine", "moon"]
NOTHING = Audit(6, 6, {}, 0, [], [], [], [])


def snapshot_of(labels):
    return KNNDatastore([[float(i), 1] for i in range(len(labels))], labels, NAMES).snapshot


def issue(row_id, given, suggested):
    return LabelIssue(row_id, given, suggested, True, 0, 0, 9, "")


def test_a_label_keeps_its_last_example(caplog):
    labels = [0, 0, 0, 1, 1, 2]
    audit = replace(NOTHING, label_issues=[issue(i, "engine", "river") for i in "34"] + [issue("5", "moon", "river")])
    with caplog.at_level(logging.WARNING):
        assert corrections(audit, snapshot_of(labels)) == ({"3": "river"}, [])
    assert "its last example: " in caplog.text and "'4' of 'engine', '5' of 'moon'" in caplog.text


def test_what_is_removed_counts_as_well():
    copies = Duplicates(["0", "1", "2"], ["river"] * 3, False, True, 1.0, ["0", "1", "2"], "")
    audit = replace(NOTHING, duplicates=[copies], outliers=[Outlier("5", "moon", 0.1, True, "")])
    assert corrections(audit, snapshot_of([0, 0, 0, 1, 1, 2])) == ({}, ["0", "1"])
    both = replace(audit, label_issues=[issue("3", "engine", "moon")])  # so moon has another one
    assert corrections(both, snapshot_of([0, 0, 0, 1, 1, 2])) == ({"3": "moon"}, ["0", "1", "5"])


@pytest.mark.parametrize("suggested", [[], ["river"]])
def test_each_of_several_labels_keeps_its_last_example(suggested):
    snapshot = snapshot_of([[0], [0, 1], [1]])
    audit = replace(
        NOTHING, label_issues=[issue("1", ["river", "engine"], suggested), issue("2", ["engine"], ["moon"])]
    )
    assert corrections(audit, snapshot) == ({"1": suggested}, [])
