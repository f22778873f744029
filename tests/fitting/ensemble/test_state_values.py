"""Checks of saved folders: each corrupted number is refused, or answers remain probabilities."""

import copy
import hashlib
import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.ensemble.report import FitReport
from docsplit_hf.fitting.ensemble.scoring import prepare_experts
from docsplit_hf.storage.manifest import file_name, render_manifest

from .stores import fitted_store, score

WITHOUT_RANGE = {"ids", "held_out_ids", "held_out_labels", "held_out_is_counted", "proportion_draws"}
ALL_EXPERTS = ("one label", {}), ("several labels", {"multi_label": True})
CORRUPTIONS = {
    "negative": lambda array: -np.abs(array) - 1,
    "one negative": lambda array: _with_first(array, -0.5),
    "one NaN": lambda array: _with_first(array, np.nan),
    "one infinite": lambda array: _with_first(array, np.inf),
    "one huge": lambda array: _with_first(array, 3e38),
    "huge": lambda array: np.full_like(array, 3e38),
    "large": lambda array: np.full_like(array, 1e12),
    "zero": np.zeros_like,
    "tiny": lambda array: np.full_like(array, 1e-38),
    "doubled": lambda array: array * 2,
    "of another type": lambda array: array.astype(np.int64),
    "of another shape": lambda array: array[:-1],
    "empty": lambda array: array[:0],
}
FROM_A_FOLDER = "one NaN"  # the others are shown to the checks without a file, which are the same
VALUES = -1, -0.5, 0, 0.0, 1e300, 2**70, True, None, "x", [], {}, [-1.0], [1e300], {"x": -1}, {"x": "y"}, [None]


def _with_first(array, value):
    changed = array.copy()
    changed.reshape(-1)[:1] = value
    return changed


@pytest.fixture(scope="module", params=ALL_EXPERTS, ids=lambda param: param[0])
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    fitted_store(**request.param[1]).save_pretrained(folder)
    return folder


def signed(folder, change_settings=None, change_arrays=None):
    """The folder with other settings or arrays, and checksums that fit."""
    data = folder / "datastore"
    manifest = json.loads((data / "manifest.json").read_text())
    if change_settings is not None:
        change_settings(manifest["fitted"])
    if change_arrays is not None:
        arrays = load_file(data / manifest["files"]["fitted"]["name"])
        change_arrays(arrays)
        save_file(arrays, data / "new")
        content = (data / "new").read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        name = file_name("fitted", sha256)
        (data / "new").rename(data / name)
        manifest["files"]["fitted"] = {"name": name, "bytes": len(content), "sha256": sha256}
    (data / "manifest.json").write_bytes(render_manifest(manifest))


def check_opening(folder, name):
    """Open the folder and score texts, as ``check_scoring`` does."""
    return check_scoring(lambda: KNNDatastore.from_pretrained(folder), name)


def check_state(store, name, settings, arrays):
    """Score texts by another fitted state, as ``check_scoring`` does."""
    before = store.fitted

    def changed_store():
        store.fitted = replace(before, settings=settings, arrays=arrays)
        return store

    is_refused = check_scoring(changed_store, name)
    store.fitted = before
    return is_refused


def check_scoring(open_store, name):
    """Score texts: either an error names the corrupted value, or all answers are probabilities."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy warns of a number that was not checked
        try:
            store = open_store()
            answers = score(store)
        except ValueError as error:
            # Where sizes contradict each other, the other one may be named.
            assert name in str(error) or re.search(r"fitted-|manifest|fit it: \w+ is ", str(error)), error
            assert "again" in str(error)
            return True
    assert np.isfinite(answers.weighted_logits).all()
    assert ((answers.probabilities >= 0) & (answers.probabilities <= 1 + 1e-6)).all()
    fitted = prepare_experts(store.snapshot).fitted
    assert np.isfinite(
        fitted.guarantees.novelty(answers.closeness if answers.closeness is not None else np.zeros(9))
    ).all()
    if not fitted.ensemble.multi_label:
        fitted.guarantees.answered_fraction(0.1)
    str(FitReport.of(store.fitted.settings))
    return False


@pytest.fixture
def restored(folder):
    """The folder, restored after the test."""
    manifest = folder / "datastore" / "manifest.json"
    before = manifest.read_bytes()
    files = {path.name for path in manifest.parent.iterdir()}
    yield folder
    manifest.write_bytes(before)
    for path in manifest.parent.iterdir():
        if path.name not in files:
            path.unlink()


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_each_corrupted_array_is_refused_by_its_name_or_harmless(corruption, folder, restored):
    refused = []
    manifest = (folder / "datastore" / "manifest.json").read_bytes()
    store = KNNDatastore.from_pretrained(folder)
    names = store.fitted.arrays.keys()
    for name in names:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of casts
            array = store.fitted.arrays[name]
            changed = CORRUPTIONS[corruption](array.astype(np.float32))
            changed = changed if array.dtype.kind == "f" else changed.astype(array.dtype)
        if corruption == FROM_A_FOLDER:
            (folder / "datastore" / "manifest.json").write_bytes(manifest)
            signed(folder, change_arrays=lambda arrays, name=name, changed=changed: arrays.update({name: changed}))
            is_refused = check_opening(folder, name)
        else:
            is_refused = check_state(store, name, store.fitted.settings, store.fitted.arrays | {name: changed})
        if is_refused:
            refused.append(name)
    assert refused, "nothing was refused: is anything checked?"
    if corruption in ("one NaN", "one infinite", "one huge", "huge", "of another type", "of another shape"):
        assert {*names} - WITHOUT_RANGE - {"components"} <= {*refused}  # components are empty here


def test_each_corrupted_setting_is_refused_by_its_name_or_harmless(folder, restored):
    manifest = (folder / "datastore" / "manifest.json").read_bytes()
    store = KNNDatastore.from_pretrained(folder)
    settings = store.fitted.settings
    refused = 0
    for name, value in settings.items():
        changes = [*VALUES]
        if isinstance(value, dict) and value:
            changes += [value | {next(iter(value)): one} for one in (-1.0, 1e300, 2**70, None, "x", [])]
        if isinstance(value, list) and value:
            changes += [[one, *value[1:]] for one in (-1.0, 1e300, 2**70, None, [], {})]
            changes.append([*value, value[0]])
        changes = [wrong for wrong in changes if wrong != value or type(wrong) is not type(value)]
        for wrong in changes:
            refused += check_state(store, name, settings | {name: copy.deepcopy(wrong)}, store.fitted.arrays)
        (folder / "datastore" / "manifest.json").write_bytes(manifest)
        signed(folder, lambda fitted, name=name, wrong=changes[-1]: fitted.update({name: wrong}))
        check_opening(folder, name)
    assert refused > 200


@pytest.mark.parametrize("written", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_does_not_support_are_refused_with_the_name_of_the_manifest(written, folder, restored):
    signed(folder, lambda fitted: fitted.update(temperature=float(written.replace("Infinity", "inf"))))
    assert written in (folder / "datastore" / "manifest.json").read_text()
    with pytest.raises(ValueError, match="manifest.json.*again"):
        KNNDatastore.from_pretrained(folder)
