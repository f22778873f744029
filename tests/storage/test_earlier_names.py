"""Folders that earlier versions saved are read, and the next save has today's names."""

import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.arrays.fitted_state import FittedState
from docsplit_hf.fitting.ensemble.fitted_ensemble import Fit
from docsplit_hf.storage.earlier_names import (
    EARLIER_ARRAYS,
    EARLIER_EXPERTS,
    EARLIER_SETTINGS,
    LATER_DEFAULTS,
    with_present_names,
)
from tests.fitting.ensemble.stores import fitted_store, score

LATER_SETTINGS = {*LATER_DEFAULTS, "measured_for", "accuracy_interval", "out_of_scope", "novelty", "lost"}
LATER_ARRAYS = {"proportion_draws", "held_out_is_counted"}
OLD_SETTINGS = {new: old for old, new in EARLIER_SETTINGS.items()}
OLD_EXPERTS = {new: old for old, new in EARLIER_EXPERTS.items()}
VERSIONS = ("first", "second", "before two experts were renamed")


def with_earlier_names(state, version):
    """The state with the names that an earlier version saved."""
    settings = dict(state.settings)
    for name in ("weights", "shares"):
        settings[name] = {OLD_EXPERTS.get(expert, expert): value for expert, value in settings[name].items()}
    is_old = version != VERSIONS[2]
    old_experts = OLD_EXPERTS if is_old else {new: old for new, old in OLD_EXPERTS.items() if new != "ensemble"}
    settings["measured"] = [
        record | {"expert": old_experts.get(record["expert"], record["expert"])} for record in settings["measured"]
    ]
    old_arrays = {new: old for old, new in EARLIER_ARRAYS.items() if ("." in old) != is_old}
    is_lacking = {*LATER_SETTINGS, *LATER_ARRAYS} if version == "first" else ()
    return FittedState(
        {
            OLD_SETTINGS.get(name, name) if is_old else name: value
            for name, value in settings.items()
            if name not in is_lacking
        },
        {old_arrays.get(name, name): array for name, array in state.arrays.items() if name not in is_lacking},
        state.vocabulary,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_folder_of_an_earlier_version_answers_as_before(version, tmp_path):
    store = fitted_store(60, 0)
    expected = score(store)
    new = store.fitted
    store.fitted = with_earlier_names(new, version)
    assert {"words", "vocabulary"} <= store.fitted.settings["weights"].keys()
    store.save_pretrained(tmp_path / "old")
    loaded = KNNDatastore.from_pretrained(tmp_path / "old")
    np.testing.assert_array_equal(score(loaded).probabilities, expected.probabilities)
    fit = Fit.from_state(loaded.fitted)
    assert (fit.guarantees.importance_weights() == 1).all() and fit.guarantees.novelty_limit() == 0.99
    assert version == "first" or repr(fit.report) == repr(Fit.from_state(new).report)
    assert all(name in str(fit.report) for name in ("naive_bayes", "word_regression", "ensemble"))
    loaded.save_pretrained(tmp_path / "new")
    again = KNNDatastore.from_pretrained(tmp_path / "new").fitted
    assert again.arrays.keys() == new.arrays.keys()
    assert version == "first" or again.settings == new.settings


def test_the_expert_on_label_names_is_renamed_alone():
    settings = {
        "weights": {"naive_bayes": 0.5, "names": 0.5},
        "measured": [{"expert": "names"}, {"expert": "ensemble"}],
    }
    renamed, arrays = with_present_names(settings, {"names.vectors": np.eye(2), "naive_bayes.weights": np.eye(3)})
    assert renamed["weights"] == {"naive_bayes": 0.5, "label_names": 0.5}
    assert [record["expert"] for record in renamed["measured"]] == ["label_names", "ensemble"]
    assert list(arrays) == ["label_names.vectors", "naive_bayes.weights"]


def test_several_labels_of_the_first_version_have_a_threshold_of_a_half(tmp_path):
    store = fitted_store(multi_label=True)
    store.fitted = with_earlier_names(store.fitted, "first")
    store.save_pretrained(tmp_path)
    assert Fit.from_state(KNNDatastore.from_pretrained(tmp_path).fitted).thresholds == [0.5] * 3
