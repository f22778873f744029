"""pipe.audit() and pipe.apply_audit()."""

import copy
import functools
import logging
from dataclasses import replace

import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.audit import audit_snapshot as auditing
from docsplit_hf.fitting.audit.audit_snapshot import audit_snapshot, corrections, out_of_fold
from docsplit_hf.fitting.audit.report import Audit, Duplicates, LabelIssue, Outlier
from docsplit_hf.fitting.ensemble import held_out_scores
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.fitted_ensemble import Fit
from docsplit_hf.fitting.ensemble.problem import HeldOut, Problem
from docsplit_hf.fitting.experts.corpus import id_numbers

from ..ensemble.stores import NAMES, fitted_store, make_keys, make_queries, make_store, make_texts

WRONG = {"4": "predator", "20": "fruit", "35": "fruit"}  # 4 is a mineral, 20 and 35 are predators


def spoiled_store(examples=60, multi_label=False):
    """Three labels are wrong; examples 60 and 61 are copies of 0 and 7, 62 of 9 with another label."""
    return copy.deepcopy(fit_spoiled(examples, multi_label))


@functools.cache
def fit_spoiled(examples, multi_label):
    store = make_store(examples, 0, multi_label=multi_label)
    labels = [[int(n)] if multi_label else int(n) for n in np.arange(examples) % 3]
    for row_id, name in WRONG.items():
        labels[int(row_id)] = [NAMES.index(name)] if multi_label else NAMES.index(name)
    texts = make_texts(np.arange(examples) % 3)
    copied = [texts[0], f"{texts[7]} again", texts[9]]
    given = [labels[0], labels[7], [1] if multi_label else 1]
    keys = np.concatenate([store.keys, store.keys[[0, 7, 9]]])
    spoiled = KNNDatastore(keys, labels + given, NAMES, texts + copied)
    spoiled.fitted = fit_experts(Problem(spoiled.snapshot), show_progress=False).to_state()
    return spoiled


def marked(audit):
    """The audit with all suggested labels accepted."""
    return replace(audit, label_issues=[replace(issue, apply=True) for issue in audit.label_issues])


def more_of(store, count=1, label="fruit"):
    """Add examples after fit."""
    numbers = [NAMES.index(label)] * count
    return store.add(make_keys(numbers, 77), numbers, make_texts(numbers, 78))


def test_an_audit_is_found_and_applied(untrained):
    untrained.datastore = spoiled_store()  # with made-up keys: an untrained encoder tells no labels apart
    audit = marked(untrained.audit(show_progress=False))
    assert set(WRONG) <= set(audit.new_labels) and audit.to_remove == ["60"]
    assert untrained.apply_audit(audit) == (audit.new_labels, ["60"])
    untrained.fit(experts=["classifier", "naive_bayes", "neighbors", "topics"], show_progress=False)
    assert not set(WRONG) & set(marked(untrained.audit(show_progress=False)).new_labels)


def test_an_audit_is_applied_completely_or_not_at_all(untrained):
    untrained.datastore = spoiled_store()
    audit = marked(untrained.audit(show_progress=False))
    before = untrained.datastore.snapshot
    gone = replace(audit, outliers=[Outlier("?", "fruit", 0.1, True, "")])
    unknown = replace(audit, label_issues=[replace(audit.label_issues[0], suggested="lake")])
    for wrong, message in ((gone, "'\\?', no example has that id"), (unknown, "labels that no example has: lake")):
        with pytest.raises(ValueError, match=message):
            untrained.apply_audit(wrong)
        assert untrained.datastore.snapshot is before
    untrained.apply_audit(audit)
    with pytest.raises(ValueError, match="was applied already.*Nothing was changed"):
        untrained.apply_audit(audit)


def test_audits_without_out_of_fold_answers_are_refused(untrained, pipe, texts):
    with pytest.raises(ValueError, match="No labeled examples yet"):
        untrained.audit()
    untrained.add_examples(texts[:6], ["a", "b"] * 3)
    with pytest.raises(ValueError, match=r"call fit\(\) first"):
        untrained.audit()
    untrained.datastore = fitted_store(12, 0)
    untrained.datastore.remove([str(i) for i in range(12) if i % 3])
    with pytest.raises(ValueError, match="All 4 examples have the label 'fruit'"):
        untrained.audit()
    with pytest.raises(ValueError, match=r"was trained on all of them.*docsplit fit"):
        pipe.audit()


def audit(store):
    return audit_snapshot(store.snapshot, show_progress=False)


def test_wrong_labels_and_copies_are_found():
    store = spoiled_store()
    found = audit(store)
    right = {row_id: NAMES[int(row_id) % 3] for row_id in WRONG}
    new_labels = marked(found).new_labels
    assert right.items() <= new_labels.items() and len(new_labels) <= 5 and 1 < found.wrong_labels < 5
    assert [issue.given for issue in found.label_issues if issue.id in WRONG]
    assert {("0", "60"), ("7", "61"), ("9", "62")} == {tuple(group.ids) for group in found.duplicates}
    of = {group.ids[0]: group for group in found.duplicates}
    assert of["0"].exact and of["0"].remove == ["60"] and not of["0"].labels_differ
    assert not of["7"].exact and of["7"].similarity < 1 and of["7"].remove == []
    assert of["9"].labels_differ and of["9"].labels == ["fruit", "mineral"] and of["9"].remove == []
    assert (found.examples, found.checked, found.not_checked) == (63, 63, {})
    sure = {issue.id for issue in found.label_issues if issue.apply}
    assert sure == set(found.new_labels) and len(sure) <= found.wrong_labels
    clean = audit(fitted_store(60, 0))
    assert clean.new_labels == {} and clean.wrong_labels < 1


def test_multi_label_examples_are_audited():
    found = audit(spoiled_store(90, multi_label=True))
    right = {row_id: [NAMES[int(row_id) % 3]] for row_id in WRONG}
    assert right.items() <= found.new_labels.items() and found.confused_labels == []
    assert {"0", "7", "9"} == {group.ids[0] for group in found.duplicates}
    issue = next(issue for issue in found.label_issues if issue.id == "4")
    assert issue.given == ["predator"] and 0 <= issue.probability < 0.5


def test_examples_added_after_fit_are_counted_and_compared():
    store = spoiled_store()
    store.add(store.keys[:1], ["fruit"], store.texts[:1], ids=["late"])
    more_of(store)
    found = audit(store)
    assert found.not_checked == {"came after fit()": 2} and found.checked == 63
    assert ["0", "60", "late"] in [group.ids for group in found.duplicates]


def test_confused_labels_and_outliers_are_named():
    store = spoiled_store()
    store.relabel(
        {str(row): NAMES[(row // 3) % 2] for row in range(0, 60) if row % 3 < 2}
    )  # fruit or mineral at random
    pairs = [{pair.first, pair.second} for pair in audit(store).confused_labels]
    assert pairs[0] == {"fruit", "mineral"}
    far = -np.sum(store.keys[:3], axis=0, keepdims=True)
    store.add(far, ["fruit"], ["nothing like the others"], ids=["far"])
    assert audit(store).outliers[0].id == "far" and not audit(store).outliers[0].remove


LABELS = ["river", "engine", "moon"]
NOTHING = Audit(6, 6, {}, 0, [], [], [], [])


def snapshot_of(labels):
    return KNNDatastore([[float(i), 1] for i in range(len(labels))], labels, LABELS).snapshot


def issue(row_id, given, suggested):
    return LabelIssue(row_id, given, suggested, True, 0, 0, 9, "")


def test_a_label_keeps_its_last_example(caplog):
    labels = [0, 0, 0, 1, 1, 2]
    audit = replace(NOTHING, label_issues=[issue(i, "engine", "river") for i in "34"] + [issue("5", "moon", "river")])
    with caplog.at_level(logging.WARNING):
        assert corrections(audit, snapshot_of(labels)) == ({"3": "river"}, [])
    assert "its last example: " in caplog.text and "'4' of 'engine', '5' of 'moon'" in caplog.text


def test_removed_examples_count_as_well():
    copies = Duplicates(["0", "1", "2"], ["river"] * 3, False, True, 1.0, ["0", "1", "2"], "")
    audit = replace(NOTHING, duplicates=[copies], outliers=[Outlier("5", "moon", 0.1, True, "")])
    assert corrections(audit, snapshot_of([0, 0, 0, 1, 1, 2])) == ({}, ["0", "1"])
    both = replace(audit, label_issues=[issue("3", "engine", "moon")])  # so moon has another one
    assert corrections(both, snapshot_of([0, 0, 0, 1, 1, 2])) == ({"3": "moon"}, ["0", "1", "5"])


def test_answers_follow_their_examples_after_changes():
    store = fitted_store(30, 0)
    held_out = Fit.from_state(store.fitted).held_out
    of = dict(zip(held_out.ids.tolist(), held_out.probabilities, strict=True))
    store.remove(["3", "11"])
    store.relabel({"5": "fruit"})
    more_of(store, 2)
    found = out_of_fold(store.snapshot)
    assert found.rows.tolist() == list(range(28)) and found.missing == {"came after fit()": 2}
    own = id_numbers(store.snapshot.rows, store.keys)[:28]
    np.testing.assert_array_equal(found.probabilities, [of[number] for number in own.tolist()])
    assert found.names == NAMES and np.array_equal(found.labels, store.labels)


def test_examples_without_an_answer_are_counted_by_reason():
    keys = np.random.default_rng(0).standard_normal((12, 4))
    labels = ["a"] * 5 + ["b"] * 5 + ["single", "described"]
    store = KNNDatastore(keys, labels, [], [f"text {i}" for i in range(12)], ids=[*map(str, range(11)), "label:x"])
    store.fitted = fit_experts(Problem(store.snapshot), show_progress=False).to_state()
    store.add([[0] * 4], ["brand new"], ["more"])
    store.relabel({"2": "brand new"})
    found = out_of_fold(store.snapshot)
    assert found.missing == {
        "came after fit()": 1,
        "describe a label": 1,
        "have a label that came after fit()": 1,
        "were never held out, as the only text of their label": 1,
    }
    assert len(found.rows) == 9 and sum(found.missing.values()) + 9 == len(store)


def test_of_many_labels_the_examples_that_are_not_held_out_are_counted(monkeypatch):
    for module in (auditing, held_out_scores):
        monkeypatch.setattr(module, "MANY_LABELS", 2)
    monkeypatch.setattr(held_out_scores, "ENOUGH_HELD_OUT", 13)
    found = out_of_fold(fitted_store(60, 0).snapshot)
    assert 13 <= len(found.rows) < 30 and found.missing == {auditing.ENOUGH_OTHERS: 60 - len(found.rows)}


def test_experts_fitted_on_held_out_texts_cannot_audit():
    store = fitted_store(30, 0)
    labels, keys, texts = make_queries()
    store.fitted = fit_experts(
        Problem(store.snapshot, held_out=HeldOut(keys, texts, labels, None)), show_progress=False
    ).to_state()
    with pytest.raises(ValueError, match=r"chosen on held-out texts.*call fit\(\) without texts"):
        out_of_fold(store.snapshot)
