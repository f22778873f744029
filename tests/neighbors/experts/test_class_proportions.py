import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.neighbors.experts.class_proportions import given_proportions, log_shift, smoothed
from docsplit_hf.neighbors.experts.explanation import explain
from docsplit_hf.neighbors.experts.fit_experts import fit_experts
from docsplit_hf.neighbors.experts.fit_report import FitReport
from docsplit_hf.neighbors.experts.fitted_experts import ready_experts

from .stores import NAMES, ask, make_keys, make_store, make_texts

TARGETS = np.eye(2)[[0, 0, 0, 1]]
UNEQUAL = np.repeat([0, 1, 2], [240, 45, 15])


def unequal_store(noise=1.0):
    """Four examples of each label, and 300 documents of which most are fruit."""
    labels = np.arange(12) % 3
    store = KNNDatastore(make_keys(labels, 1, noise), labels, NAMES, make_texts(labels, 1))
    store.add_documents(make_keys(UNEQUAL, 2, noise), make_texts(UNEQUAL, 2))
    return store


def test_the_shift_is_from_the_examples_to_all_texts():
    proportions = np.array([0.5, 0.5])
    np.testing.assert_allclose(log_shift(proportions, TARGETS, False), np.log([0.5 / 0.75, 0.5 / 0.25]))
    of_equal = np.repeat(np.eye(2), 2, axis=0)
    np.testing.assert_allclose(log_shift(np.array([0.9, 0.1]), of_equal, True), np.log([0.7 / 0.5, 0.3 / 0.5]))
    assert not log_shift(np.array([0.75, 0.25]), TARGETS, True).any()


def test_examples_that_were_not_drawn_label_by_label_show_the_proportions_themselves():
    unequal, nearly = np.repeat(np.eye(3), [6, 4, 3], axis=0), np.repeat(np.eye(3), [5, 5, 4], axis=0)
    proportions = np.array([0.7, 0.2, 0.1])
    assert not log_shift(proportions, unequal, True).any() and log_shift(proportions, nearly, True)[0] > 0
    assert log_shift(proportions, unequal, False).any()


def test_half_way_to_equal():
    assert smoothed(np.array([0.9, 0.1])).tolist() == [0.7, 0.3]


def test_the_proportions_of_the_documents_are_found_printed_and_used():
    store = unequal_store()
    fitted = fit_experts(store.snapshot, show_progress=False)
    found = fitted.settings["proportions"]
    assert found["fruit"] > 0.45 and found["animal"] < 0.3 and sum(found.values()) == pytest.approx(1, abs=1e-5)
    assert f"All texts, estimated: {found['fruit']:.0%} fruit" in str(FitReport.of(fitted.settings))
    shares = []
    for wanted in ("uniform", "estimated", dict(zip(NAMES, [240, 45, 15], strict=True))):
        store.fitted = fit_experts(store.snapshot, show_progress=False, class_proportions=wanted).to_state()
        shares.append(ask(store).probabilities[:, 0].mean())
    assert shares[0] < shares[1] < shares[2]


def test_without_documents_nothing_is_shifted():
    fitted = fit_experts(make_store(13, 0).snapshot, show_progress=False)
    assert not fitted.learned["shift"].any() and "estimated" not in str(FitReport.of(fitted.settings))


def test_the_explanation_adds_up_with_them():
    store = unequal_store()
    store.fitted = fit_experts(store.snapshot, show_progress=False).to_state()
    answers, ready = ask(store), ready_experts(store.snapshot)
    for row, label in enumerate(answers.probabilities.argmax(1).tolist()):
        said = explain(answers, ready.fitted, row, label)
        against = NAMES.index(said["against"])
        odds = np.log(answers.probabilities[row, label] / answers.probabilities[row, against])
        assert sum(said["experts"].values()) == pytest.approx(odds, abs=1e-6)


@pytest.mark.parametrize(
    "wanted, message",
    [
        ("equal", "'estimated', 'uniform' or a number by label, got 'equal'"),
        ({"fruit": 1}, "says nothing of 'mineral'"),
        ({"fruit": -1, "mineral": 1, "animal": 1}, "must be numbers from 0"),
        ({"fruit": 0, "mineral": 0, "animal": 0}, "must be numbers from 0"),
    ],
)
def test_other_proportions_are_refused(wanted, message):
    with pytest.raises(ValueError, match=message):
        fit_experts(make_store().snapshot, show_progress=False, class_proportions=wanted)


def test_a_label_that_is_never_there_is_nearly_never_answered():
    assert given_proportions(dict(zip(NAMES, [1, 1, 0], strict=True)), NAMES)[2] == pytest.approx(1e-4, rel=1e-3)
