"""Folders that earlier versions saved are read, and the next save has today's names."""

import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.arrays.fitted_state import FittedState
from docsplit_hf.fitting.ensemble.fitted_ensemble import Fit
from docsplit_hf.storage.datastore_files import FITTED_ARRAYS, FITTED_DEFAULTS, FITTED_SETTINGS
from tests.fitting.ensemble.stores import fitted_store, score

LATER_SETTINGS = {*FITTED_DEFAULTS, "measured_for", "accuracy_interval", "out_of_scope", "novelty", "lost"}
LATER_ARRAYS = {"proportion_draws", "held_out_is_counted"}


def with_earlier_names(state, is_first_version):
    """The state with the names that earlier versions saved."""
    of_settings = {new: old for old, new in FITTED_SETTINGS.items()}
    of_arrays = {new: old for old, new in FITTED_ARRAYS.items()}
    settings = {}
    for name, value in state.settings.items():
        if not (is_first_version and name in LATER_SETTINGS):
            settings[of_settings.get(name, name)] = value
    settings["measured"] = [
        record | {"expert": record["expert"].replace("ensemble", "mixture")} for record in settings["measured"]
    ]
    arrays = {}
    for name, array in state.arrays.items():
        if not (is_first_version and name in LATER_ARRAYS):
            arrays[of_arrays.get(name, name)] = array
    return FittedState(settings, arrays, state.vocabulary)


@pytest.mark.parametrize("is_first_version", [True, False])
def test_a_folder_of_an_earlier_version_answers_as_before(is_first_version, tmp_path):
    store = fitted_store(60, 0)
    expected = score(store)
    new = store.fitted
    store.fitted = with_earlier_names(new, is_first_version)
    store.save_pretrained(tmp_path / "old")
    loaded = KNNDatastore.from_pretrained(tmp_path / "old")
    np.testing.assert_array_equal(score(loaded).probabilities, expected.probabilities)
    fit = Fit.from_state(loaded.fitted)
    assert (fit.guarantees.importance_weights() == 1).all() and fit.guarantees.novelty_limit() == 0.99
    assert "ensemble" in str(fit.report)
    loaded.save_pretrained(tmp_path / "new")
    again = KNNDatastore.from_pretrained(tmp_path / "new").fitted
    assert again.arrays.keys() == new.arrays.keys()
    assert is_first_version or again.settings == new.settings


def test_several_labels_of_the_first_version_have_a_threshold_of_a_half(tmp_path):
    store = fitted_store(multi_label=True)
    store.fitted = with_earlier_names(store.fitted, is_first_version=True)
    store.save_pretrained(tmp_path)
    assert Fit.from_state(KNNDatastore.from_pretrained(tmp_path).fitted).thresholds == [0.5] * 3
