import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.neighbors.audit.audit_snapshot import audit_snapshot
from docsplit_hf.neighbors.experts.fit_experts import fit_experts

from ..experts.stores import NAMES, fitted_store, make_store
from .stores import WRONG, marked, more_of, spoiled_store


def audit(store):
    return audit_snapshot(store.snapshot, show_progress=False)


def test_it_finds_what_was_spoiled():
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


def test_only_what_is_sure_is_marked():
    found = audit(spoiled_store(150))
    sure = [issue.id for issue in found.label_issues if issue.apply]
    assert {*found.new_labels} == {*sure} and 0 < len(sure) <= found.wrong_labels < len(found.label_issues) + 1
    clean = audit(fitted_store(60, 0))
    assert clean.new_labels == {} and clean.wrong_labels < 1


def test_after_the_corrections_nothing_of_it_is_left():
    store = spoiled_store()
    found = marked(audit(store))
    store.relabel(found.new_labels)
    store.remove(found.to_remove)
    again = audit(store)
    assert not set(WRONG) & set(again.new_labels) and {g.ids[0] for g in again.duplicates} == {"7", "9"}


def test_of_copies_that_differ_more_none_is_to_be_removed():
    store = spoiled_store()
    store.add(store.keys[[10]], ["mineral"], [f"{store.texts[10]} one two many"], ids=["longer"])
    (group,) = [group for group in audit(store).duplicates if "longer" in group.ids]
    assert group.ids == ["10", "longer"] and not group.labels_differ
    assert group.similarity == pytest.approx(2 * 10 / (10 + 13)) and group.remove == []


def test_without_texts_near_embeddings_are_listed_and_never_removed():
    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    keys = np.where(labels, -1, 1)[:, None] * (np.ones((40, 8)) + 0.01 * rng.standard_normal((40, 8)))
    store = KNNDatastore(keys, labels, ["a", "b"])
    store.fitted = fit_experts(store.snapshot, show_progress=False).to_state()
    found = audit(store)
    assert found.duplicates and found.to_remove == []


def test_several_labels():
    found = audit(spoiled_store(90, several=True))
    right = {row_id: [NAMES[int(row_id) % 3]] for row_id in WRONG}
    assert right.items() <= found.new_labels.items() and found.confused_labels == []
    assert {"0", "7", "9"} == {group.ids[0] for group in found.duplicates}
    issue = next(issue for issue in found.label_issues if issue.id == "4")
    assert issue.given == ["animal"] and 0 <= issue.probability < 0.5


def test_without_texts_the_embeddings_tell():
    store = make_store(60, 0, texts=False)
    keys, labels = store.keys, store.labels.copy()
    labels[4] = 2
    store = KNNDatastore(np.concatenate([keys, keys[:1]]), [*labels, 0], NAMES)
    store.fitted = fit_experts(store.snapshot, show_progress=False).to_state()
    found = audit(store)
    assert marked(found).new_labels["4"] == "mineral" and ["0", "60"] in [group.ids for group in found.duplicates]
    assert found.label_issues[0].text == ""


def test_what_came_after_fit_is_counted_and_may_be_a_copy():
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


def test_what_is_saved_gives_the_same(tmp_path):
    store = spoiled_store()
    store.save_pretrained(tmp_path)
    assert audit(KNNDatastore.from_pretrained(tmp_path)) == audit(store)


REFUSED = {
    "nothing fitted": (lambda: make_store(12, 0), r"Nothing was fitted.*call fit\(\)"),
    "one label is left": (
        lambda: removed(fitted_store(12, 0), [str(i) for i in range(12) if i % 3]),
        "All 4 examples have the label 'fruit'",
    ),
}


def removed(store, ids):
    store.remove(ids)
    return store


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_audited_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        audit(make())
