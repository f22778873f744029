"""pipe.audit() and what applies it; what it finds is tested in audit/."""

from dataclasses import replace

import pytest

from docsplit_hf.neighbors.audit.audit import Outlier
from docsplit_hf.neighbors.pipeline import audit_snapshot

from .audit.stores import WRONG, marked, spoiled_store
from .experts.stores import make_texts


@pytest.fixture
def spoiled(untrained):
    labels = ["fruit", "mineral", "animal"] * 15
    texts = make_texts([0, 1, 2] * 15)
    untrained.add_examples([*texts, texts[0]], [*labels, "fruit"], allow_duplicates=True)
    untrained.fit(show_progress=False)
    return untrained


def test_an_audit_is_found_and_applied(untrained):
    untrained.datastore = spoiled_store()  # of another encoder, since one that is not trained says nothing
    audit = marked(untrained.audit(show_progress=False))
    assert set(WRONG) <= set(audit.new_labels) and audit.to_remove == ["60"]
    assert untrained.apply_audit(audit) == (audit.new_labels, ["60"])
    untrained.fit(show_progress=False)
    assert not set(WRONG) & set(marked(untrained.audit(show_progress=False)).new_labels)
    assert len(untrained.datalab_inputs().data) == 62


def test_an_audit_is_applied_whole_or_not_at_all(untrained):
    untrained.datastore = spoiled_store()
    audit, before = marked(untrained.audit(show_progress=False)), untrained.datastore.snapshot
    gone = replace(audit, outliers=[Outlier("?", "fruit", 0.1, True, "")])
    unknown = replace(audit, label_issues=[replace(audit.label_issues[0], suggested="lake")])
    for wrong, message in ((gone, "'\\?', no example has that id"), (unknown, "labels that no example has: lake")):
        with pytest.raises(ValueError, match=message):
            untrained.apply_audit(wrong)
        assert untrained.datastore.snapshot is before
    untrained.apply_audit(audit)
    with pytest.raises(ValueError, match="was applied already.*Nothing was changed"):
        untrained.apply_audit(audit)


def test_what_changes_meanwhile_does_not_mix(spoiled, monkeypatch):
    before = spoiled.audit(show_progress=False)

    def audit_late(snapshot, show_progress):
        spoiled.relabel(dict.fromkeys(spoiled.datastore.ids, "fruit"))
        spoiled.remove_examples(spoiled.datastore.ids[:30])
        return audit_snapshot(snapshot, show_progress)

    monkeypatch.setattr("docsplit_hf.neighbors.pipeline.audit_snapshot", audit_late)
    assert spoiled.audit(show_progress=False) == before


@pytest.mark.parametrize("method", ["audit", "datalab_inputs"])
def test_what_cannot_be_audited_is_refused(method, untrained, pipe, texts):
    with pytest.raises(ValueError, match="No labeled examples yet"):
        getattr(untrained, method)()
    untrained.add_examples(texts[:6], ["a", "b"] * 3)
    with pytest.raises(ValueError, match=r"call fit\(\) first"):
        getattr(untrained, method)()
    with pytest.raises(ValueError, match=r"was trained on all of them.*--no_training"):
        getattr(pipe, method)()
