"""What a visitor added is found again by their browser's key, also after a restart, and by nobody else."""

import secrets

import pytest
from huggingface_hub import constants

from docsplit_hf.demo.changes import add_texts, give_label, keep_label, suggested_text
from docsplit_hf.demo.sessions import STEPS, KeptSessions, Limits
from docsplit_hf.demo.uploads import Texts
from docsplit_hf.demo.views import answer

GIVEN = Texts(["The team won.", "The choir sang.", "A long river."], ["sport", "music", None])


@pytest.fixture
def new_server(shared, tmp_path, monkeypatch):
    """Makes the sessions of a server that starts, with the same disk each time."""
    monkeypatch.setattr(constants, "HF_HOME", str(tmp_path))
    return lambda **limits: KeptSessions(shared, Limits(**limits))


@pytest.fixture
def key():
    return secrets.token_urlsafe(32)


def test_texts_outlive_a_restart_and_answer_as_before(new_server, key, tmp_path):
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
def test_what_is_no_key_finds_nothing(new_server, key):
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


def test_an_undone_label_is_asked_for_again_and_what_was_not_learned_is_known(new_server, key):
    server, texts = new_server(), [f"A river of number {number}." for number in range(12)]
    with server.changing(key) as session:
        add_texts(session, Texts([*GIVEN.texts, *texts], [*GIVEN.labels, *[None] * 12]))
    given = []
    for _ in range(2):
        given.append(suggested_text(session)["text"])
        with server.changing(key) as session:
            give_label(session, given[-1], "music", learn_now=False)
    assert server.undo(key).stale and suggested_text(session)["text"] == given[1]
    assert not server.undo(key).stale and suggested_text(session)["text"] == given[0]
    assert session.counts() == (2, 2, 13)


def test_a_change_that_fails_leaves_all_as_it_was(new_server, key):
    server = new_server()
    with server.changing(key) as session:
        add_texts(session, GIVEN)
    with pytest.raises(KeyboardInterrupt), server.changing(key) as session:
        session.pipe.remove_examples(session.store.ids)
        raise KeyboardInterrupt
    assert session.counts() == server[key].counts() == new_server()[key].counts() == (2, 2, 1)


def test_texts_that_cannot_be_opened_are_told_of_and_a_new_key_is_given(new_server, shared, key):
    from docsplit_hf.demo.events import Events  # which imports gradio

    with new_server().changing(key) as session:
        add_texts(session, GIVEN)
    (new_server().steps(key)[-1] / "datastore" / "manifest.json").write_text("{}")
    events = Events(shared, Limits())
    with pytest.warns(UserWarning, match="Your earlier texts cannot be opened"):
        opened = events.opened(key)
    new_key = opened["key"]
    assert len(new_key) > 40 and new_key != key and opened["status"].startswith("No texts yet")
    assert events.opened(new_key)["key"] == new_key


def test_a_visitor_has_few_states_on_the_disk_and_the_oldest_visitor_goes(new_server, key, tmp_path):
    server = new_server(sessions=2)
    for number in range(STEPS + 2):
        with server.changing(key) as session:
            add_texts(session, Texts([f"Text {number}."], [None]))
    assert len(server.steps(key)) == STEPS
    for _ in range(2):
        with server.changing(secrets.token_urlsafe(32)) as session:
            add_texts(session, GIVEN)
    assert len(list((tmp_path / "docsplit_hf" / "pages").iterdir())) == 2
    assert server[key].counts() == (0, 0, 0)
