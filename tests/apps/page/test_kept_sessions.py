"""Texts of a visitor are found only with the key of their browser, also after a restart."""

import secrets

import pytest
from huggingface_hub import constants

from docsplit_hf.apps.page.changes import add_texts, give_label, suggested_text
from docsplit_hf.apps.page.kept_sessions import KEPT_CHANGES, TEXTS, KeptSessions
from docsplit_hf.apps.page.sessions import PageLimits
from docsplit_hf.apps.page.uploads import LabeledTexts
from docsplit_hf.apps.page.views import answer

from ...end_to_end.forked import kill_script, start_script

GIVEN = LabeledTexts(["The team won.", "The choir sang.", "A long river."], ["sport", "music", None])


@pytest.fixture
def new_server(shared, tmp_path, monkeypatch):
    """Makes the sessions of a server that starts, with the same disk each time."""
    monkeypatch.setattr(constants, "HF_HOME", str(tmp_path))
    return lambda **limits: KeptSessions(shared, PageLimits(**limits))


@pytest.fixture
def key():
    return secrets.token_urlsafe(32)


def test_texts_survive_a_restart_and_answers_are_equal(new_server, key, tmp_path):
    server = new_server()
    with server.changing(key) as session:
        add_texts(session, GIVEN)
    assert server[key] is session
    again = new_server()[key]
    assert again.counts() == (2, 2, 1)
    assert answer(again, "A song.").probabilities == pytest.approx(answer(session, "A song.").probabilities, abs=1e-6)
    assert new_server()[secrets.token_urlsafe(32)].counts() == (0, 0, 0)
    folder = next((tmp_path / "docsplit_hf" / "pages").iterdir())
    assert key not in folder.name and folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("key", [None, "", "../../evil", ["a"] * 50])
def test_an_invalid_key_is_refused(new_server, key):
    with pytest.raises(ValueError, match="still loading"):
        new_server()[key]


def states(tmp_path):
    return sorted((tmp_path / "docsplit_hf" / "pages").glob("*/*/datastore/manifest.json"))


def test_changes_are_undone_one_by_one(new_server, key, tmp_path):
    server = new_server()
    with server.changing(key) as session:
        add_texts(session, GIVEN)
    with server.changing(key) as session:
        give_label(session, "The team won.", "music")
    assert server.undo(key).counts() == (2, 2, 1)
    assert new_server()[key].labels == ["sport", "music"]  # on the disk, too
    assert server.undo(key).counts() == (0, 0, 0)
    with pytest.raises(ValueError, match="nothing to undo"):
        server.undo(key)
    assert new_server()[key].counts() == (0, 0, 0) and not states(tmp_path)


def test_undo_brings_a_suggestion_back_and_restores_whether_a_fit_is_due(new_server, key):
    server = new_server()
    texts = [f"A river of number {number}." for number in range(12)]
    with server.changing(key) as session:
        add_texts(session, LabeledTexts([*GIVEN.texts, *texts], [*GIVEN.labels, *[None] * 12]))
    given = []
    for _ in range(2):
        given.append(suggested_text(session)["text"])
        with server.changing(key) as session:
            give_label(session, given[-1], "music", learn_now=False)
    assert server.undo(key).stale and suggested_text(session)["text"] == given[1]
    assert not server.undo(key).stale and suggested_text(session)["text"] == given[0]
    assert session.counts() == (2, 2, 13)


def test_a_failed_change_is_rolled_back(new_server, key):
    server = new_server()
    with server.changing(key) as session:
        add_texts(session, GIVEN)
    with pytest.raises(KeyboardInterrupt), server.changing(key) as session:
        session.pipe.remove_examples(session.store.ids)
        raise KeyboardInterrupt
    assert session.counts() == server[key].counts() == new_server()[key].counts() == (2, 2, 1)


def test_damaged_texts_cause_a_warning_and_a_new_key(new_server, shared, key, tmp_path):
    from docsplit_hf.apps.page.events import Events  # which imports gradio

    with new_server().changing(key) as session:
        add_texts(session, GIVEN)
    [state] = states(tmp_path)
    state.write_text("{}")
    events = Events(shared, PageLimits())
    with pytest.warns(UserWarning, match="Your earlier texts cannot be opened"):
        opened = events.opened(key)
    new_key = opened["key"]
    assert len(new_key) > 40 and new_key != key and opened["status"].startswith("No texts yet")
    assert events.opened(new_key)["key"] == new_key


def add(server, key, text="A long river."):
    with server.changing(key) as session:
        add_texts(session, LabeledTexts([text], [None]))


def test_beyond_the_limits_what_was_used_least_recently_is_forgotten(new_server, tmp_path):
    server = new_server(sessions=2)
    keys = [secrets.token_urlsafe(32) for _ in range(3)]
    for number in range(KEPT_CHANGES + 2):
        add(server, keys[0], f"Text {number}.")
    assert len(server[keys[0]].earlier) == KEPT_CHANGES
    add(server, keys[1])
    server[keys[0]].counts()  # reading counts as use
    add(server, keys[2])
    assert len(states(tmp_path)) == 2
    assert [new_server()[key].counts()[2] for key in keys] == [KEPT_CHANGES + 2, 0, 1]


VISITS = """
import sys
from huggingface_hub import constants
from docsplit_hf.apps.page.changes import add_texts
from docsplit_hf.apps.page.kept_sessions import KeptSessions
from docsplit_hf.apps.page.sessions import PageLimits, SharedModel
from docsplit_hf.apps.page.uploads import LabeledTexts

constants.HF_HOME = sys.argv[1]
server = KeptSessions(SharedModel(), PageLimits())
for number in range(1_000):
    with server.changing(sys.argv[3]) as session:
        add_texts(session, LabeledTexts([f"Text {number} of {sys.argv[2]}."], [None]))
"""


@pytest.mark.slow
def test_a_server_killed_while_writing_leaves_the_last_complete_state(server, new_server, key, tmp_path):
    (tmp_path / "visits.py").write_text(VISITS)
    least = 0
    for name in ("one", "two", "three"):
        log = tmp_path / f"{name}.log"
        process = start_script(tmp_path / "visits.py", tmp_path, name, key, log=log)
        written = [state.read_bytes() for state in states(tmp_path)]

        def writes(written=written):
            return [state.read_bytes() for state in states(tmp_path)] != written

        kill_script(process, writes, log)
        texts = new_server()[key].counts()[2]
        assert texts > least
        least = texts
    add(new_server(), key)
    assert new_server()[key].counts()[2] == least + 1


def test_texts_of_an_earlier_version_are_opened_and_replaced(new_server, key, tmp_path):
    add(new_server(), key)
    [state] = states(tmp_path)
    [folder] = (tmp_path / "docsplit_hf" / "pages").iterdir()
    old = (folder / TEXTS).rename(folder / "01764363104000000000")
    (old / "reading.json").write_text('{"long_documents": "passages", "passage_length": 128, "kept": []}')
    server = new_server()
    assert server[key].counts() == (0, 0, 1)
    add(server, key, "A short river.")
    assert states(tmp_path) == [state] and new_server()[key].counts() == (0, 0, 2)


def test_labels_that_were_not_learned_before_a_restart_are_learned_after_it(new_server, key):
    server = new_server()
    with server.changing(key) as session:
        add_texts(session, GIVEN)
    with server.changing(key) as session:
        give_label(session, "A long river.", "music", learn_now=False)
    assert session.stale and new_server()[key].stale
