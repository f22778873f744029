"""Texts of a visitor are found only with the key of their browser, also after a restart."""

import json
import os
import secrets
import threading

import pytest
from huggingface_hub import constants

from docsplit_hf.apps.page.changes import add_texts, give_label, keep_label, suggested_text
from docsplit_hf.apps.page.kept_sessions import (
    KEPT_STATES,
    VISITOR,
    KeptSessions,
    StoredSession,
    deletion_order,
    visitor_of,
)
from docsplit_hf.apps.page.sessions import PageLimits
from docsplit_hf.apps.page.uploads import LabeledTexts
from docsplit_hf.apps.page.views import answer

from ...end_to_end.forked import finish_script, kill_script, start_script

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
        keep_label(session, "The team won.")
    assert server[key] is session
    again = new_server()[key]
    assert again.counts() == (2, 2, 1) and again.kept == session.kept != []
    assert answer(again, "A song.").probabilities == pytest.approx(answer(session, "A song.").probabilities, abs=1e-6)
    assert new_server()[secrets.token_urlsafe(32)].counts() == (0, 0, 0)
    folder = next((tmp_path / "docsplit_hf" / "pages").iterdir())
    assert key not in folder.name and folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("key", [None, "", "../../evil", ["a"] * 50])
def test_an_invalid_key_is_refused(new_server, key):
    with pytest.raises(ValueError, match="still loading"):
        new_server()[key]


def test_changes_are_undone_one_by_one_also_after_a_restart(new_server, key):
    server = new_server()
    with server.changing(key) as session:
        add_texts(session, GIVEN)
    with server.changing(key) as session:
        give_label(session, "The team won.", "music")
    server = new_server()
    assert server.undo(key).counts() == (2, 2, 1)
    assert server.undo(key).counts() == (0, 0, 0)
    with pytest.raises(ValueError, match="nothing to undo"):
        server.undo(key)


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


def test_damaged_texts_cause_a_warning_and_a_new_key(new_server, shared, key):
    from docsplit_hf.apps.page.events import Events  # which imports gradio

    with new_server().changing(key) as session:
        add_texts(session, GIVEN)
    (new_server().steps(key)[-1] / "datastore" / "manifest.json").write_text("{}")
    events = Events(shared, PageLimits())
    with pytest.warns(UserWarning, match="Your earlier texts cannot be opened"):
        opened = events.opened(key)
    new_key = opened["key"]
    assert len(new_key) > 40 and new_key != key and opened["status"].startswith("No texts yet")
    assert events.opened(new_key)["key"] == new_key


def test_old_states_and_the_oldest_session_are_deleted(new_server, key, tmp_path):
    server = new_server(sessions=2)
    for number in range(KEPT_STATES + 2):
        with server.changing(key) as session:
            add_texts(session, LabeledTexts([f"Text {number}."], [None]))
    assert len(server.steps(key)) == KEPT_STATES
    for _ in range(2):
        with server.changing(secrets.token_urlsafe(32)) as session:
            add_texts(session, GIVEN)
    assert len(list((tmp_path / "docsplit_hf" / "pages").iterdir())) == 2
    assert server[key].counts() == (0, 0, 0)


VISITS = """
import contextlib, json, secrets, sys, threading
from pathlib import Path
from huggingface_hub import constants
from docsplit_hf.apps.page.changes import add_texts
from docsplit_hf.apps.page.kept_sessions import KeptSessions
from docsplit_hf.apps.page.sessions import PageLimits, SharedModel
from docsplit_hf.apps.page.uploads import LabeledTexts

constants.HF_HOME = sys.argv[1]
name = sys.argv[2]
threads = int(sys.argv[3])
changes = int(sys.argv[4])
shared_key = sys.argv[5]
server = KeptSessions(SharedModel(), PageLimits(sessions=4))
broken = []

def visit(number):
    key = shared_key if len(shared_key) > 1 else secrets.token_urlsafe(32)
    for change in range(changes):
        try:
            with server.changing(key) as session:
                before = session.counts()[2]
                add_texts(session, LabeledTexts([f"Text {change} of visitor {number} of {name}."], [None]))
                assert session.counts()[2] == before + 1
            if change % 3 == 2 and len(shared_key) == 1:
                with contextlib.suppress(ValueError):  # others came, and there is nothing to undo
                    server.undo(key)
            server[key].counts()
        except Exception as error:
            broken.append(repr(error))

visits = [threading.Thread(target=visit, args=(number,)) for number in range(threads)]
for one in visits: one.start()
for one in visits: one.join()
Path(sys.argv[1], f"{name}.json").write_text(json.dumps(broken))
"""


@pytest.fixture
def start_visits(server, new_server, tmp_path):
    """Starts a process with many visitors at once, each in a thread, or all with one key."""
    (tmp_path / "visits.py").write_text(VISITS)

    def start(name, threads, changes, key="-"):
        log = tmp_path / f"{name}.log"
        return start_script(tmp_path / "visits.py", tmp_path, name, threads, changes, key, log=log), log

    return start


def broken_changes(tmp_path, started):
    for process, log in started:
        finish_script(process, log)
    return [json.loads((tmp_path / f"{name}.json").read_text()) for name in ("one", "two")]


@pytest.mark.slow
def test_many_threads_of_two_processes_break_no_change(start_visits, tmp_path):
    found = broken_changes(tmp_path, [start_visits(name, 6, 4) for name in ("one", "two")])
    assert found == [[], []]
    assert len(list((tmp_path / "docsplit_hf" / "pages").iterdir())) == 4


@pytest.mark.slow
def test_no_change_is_lost_where_threads_and_processes_share_one_key(start_visits, new_server, key, tmp_path):
    found = broken_changes(tmp_path, [start_visits(name, 3, 4, key) for name in ("one", "two")])
    assert found == [[], []]
    assert new_server()[key].counts() == (0, 0, 24)


@pytest.mark.slow
def test_a_server_killed_while_writing_leaves_the_last_complete_state(start_visits, new_server, key, tmp_path):
    pages = tmp_path / "docsplit_hf" / "pages"
    least = 0
    for name in ("one", "two", "three"):
        process, log = start_visits(name, 1, 1_000, key)
        written = {path.name for path in new_server().steps(key)}

        def writes(written=written):
            new = [path for path in new_server().steps(key) if path.name not in written]
            return len(new) > 1 and any(pages.glob("*/unfinished/*"))

        kill_script(process, writes, log)
        texts = new_server()[key].counts()[2]
        assert texts > least
        least = texts
    with new_server().changing(key) as session:
        add_texts(session, GIVEN)
    assert not list(pages.rglob("unfinished")) and not list(pages.rglob("gone-*"))


def visit(server, visitor, count=1):
    """Add a text with each of ``count`` new keys; return the keys."""
    keys = [secrets.token_urlsafe(32) for _ in range(count)]
    token = VISITOR.set(visitor)
    for key in keys:
        with server.changing(key) as session:
            add_texts(session, LabeledTexts(["A long river."], [None]))
    VISITOR.reset(token)
    return keys


def test_a_visitor_with_many_keys_displaces_only_their_own_sessions(new_server):
    server = new_server(sessions=4)
    kept = visit(server, "10.0.0.1") + visit(server, "10.0.0.2")
    new = visit(server, "10.0.0.3", 9)
    assert [len(server.steps(key)) for key in kept] == [2, 2]
    assert [len(server.steps(key)) for key in new] == [0] * 7 + [2] * 2


def test_reading_counts_as_use(new_server):
    server = new_server(sessions=3)
    first, second, third = (visit(server, visitor)[0] for visitor in ("10.0.0.1", "10.0.0.2", "10.0.0.3"))
    server[first].counts()
    visit(server, "10.0.0.4")
    assert [bool(server.steps(key)) for key in (first, second, third)] == [True, False, True]


def test_a_session_being_changed_is_not_deleted(new_server, key):
    server = new_server(sessions=1)
    begun = threading.Event()
    done = threading.Event()

    def change():
        with server.changing(key) as session:
            begun.set()
            done.wait(60)
            add_texts(session, GIVEN)

    changing = threading.Thread(target=change)
    changing.start()
    begun.wait(60)
    visit(server, "10.0.0.2", 3)
    done.set()
    changing.join(60)
    assert new_server()[key].counts() == (2, 2, 1)


def test_disk_space_is_limited_for_all_sessions_and_for_each(new_server, key, tmp_path):
    pages = tmp_path / "docsplit_hf" / "pages"
    server = new_server(disk_megabytes=1)

    def used():
        return sum(path.stat().st_size for path in pages.rglob("*") if path.is_file())

    (kept,) = visit(server, "10.0.0.1")
    for number in range(40):
        token = VISITOR.set("10.0.0.2")
        with server.changing(key if number % 2 else secrets.token_urlsafe(32)) as session:
            add_texts(session, LabeledTexts([f"{number} {os.urandom(4_000).hex()}"], [None]))
        VISITOR.reset(token)
        assert used() <= 10**6
    assert server.steps(kept)
    before = server[key].counts()
    huge = [os.urandom(20_000).hex() for _ in range(20)]
    with (
        pytest.raises(ValueError, match="this page keeps 0.2 MB of a visitor: leave some out"),
        server.changing(key) as session,
    ):
        add_texts(session, LabeledTexts(huge, [None] * 20))
    assert server[key].counts() == new_server()[key].counts() == before


def test_visitors_are_identified_by_address_or_network():
    assert visitor_of("203.0.113.9") == "203.0.113.9" and visitor_of(None) == visitor_of("") == "unknown"
    assert visitor_of("2001:db8::1") == visitor_of("2001:db8::ffff:1") != visitor_of("2001:db8:0:1::1")


def test_deletion_order_by_count_and_by_size(tmp_path):
    few, old, new, large = (
        StoredSession(tmp_path, visitor, used, size)
        for visitor, used, size in [("a", 1, 5), ("b", 3, 1), ("b", 4, 1), ("c", 2, 9)]
    )
    assert deletion_order([few, new, old, large], by_size=False) == [old, new, few, large]
    assert deletion_order([few, new, old, large], by_size=True) == [large, few, old, new]
