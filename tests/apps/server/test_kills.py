"""A server that is killed under load while it is edited, and the checks that would notice a lost edit."""

import shutil

import pytest

from benchmarks.release import served_edits
from benchmarks.release.served_edits import Expected, Observed, check_answers, check_folder, labels_in, run
from docsplit_hf.apps.server.states import version_on_disk

from .processes import ForkedServer


@pytest.mark.slow
def test_kills_under_load(server, fitted_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(served_edits, "ServerProcess", ForkedServer)
    record = run(fitted_folder, tmp_path, edits=8, fits=1, kills=2, seed=0)
    assert (record["edits"], record["fits"], record["kills"]) == (8, 1, 2)
    assert record["answers"] > 0
    assert record["versions_seen"] > 1
    assert record["lost_or_doubled"] == record["mixed"] == record["unlike_the_pipeline"] == []


def test_the_checks_notice_what_they_are_for(fitted_folder, tmp_path):
    folder = shutil.copytree(fitted_folder, tmp_path / "subjects")
    labels = labels_in(folder)
    addition = {"add": [{"id": "added-1", "label": "river", "text": "a"}]}
    for pending, lost in ((None, {}), (addition, {})):
        expected = Expected(labels | lost, pending)
        check_folder(folder, expected)
        assert expected.problems == []
    lost = Expected(labels | {"added-0": "river"})
    check_folder(folder, lost)
    assert "Missing: ['added-0']" in lost.problems[0]
    relabeled = Expected(labels | {"0": "another"})
    check_folder(folder, relabeled)
    assert len(relabeled.problems) == 1
    observed = Observed()
    observed.add("1", "a", {"river": 0.5})
    observed.add("1", "a", {"river": 0.5 + 1e-7})
    assert observed.mixed == []
    observed.add("1", "a", {"river": 0.51})
    assert len(observed.mixed) == 1
    observed.add(version_on_disk(folder), "The river.", {"river": 0.1, "engine": 0.1, "garden": 0.8})
    assert len(check_answers(folder, observed)) == 1
