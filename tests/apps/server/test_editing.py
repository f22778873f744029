"""Editor: no edit is lost, made twice or made elsewhere when the disk is full or the folder is moved."""

import shutil

import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.apps.server.edit_log import EditContent, EditRequest, LoggedExample
from docsplit_hf.apps.server.editing import Editor
from docsplit_hf.apps.server.errors import Refused
from docsplit_hf.apps.server.served_folders import ServedFolder
from docsplit_hf.apps.server.settings import ServerLimits
from docsplit_hf.apps.server.states import Encoders

from .full_disk import filled, largest_file, small_disk

ADDED = EditContent("examples", (LoggedExample("late", "A new text of the river.", None, "river"),))
REQUEST = EditRequest("anna", "key", "digest")


@pytest.fixture
def open_editor():
    """Function that opens an editor of a folder; all of them are closed at the end."""
    opened = []

    def open_editor_of(folder):
        opened.append(Editor(ServedFolder("subjects", folder, Encoders()), ServerLimits()))
        return opened[-1]

    yield open_editor_of
    for editor in opened:
        editor.close()


def ids_in(folder):
    return KNNDatastore.from_pretrained(folder).ids


def test_an_edit_that_could_not_be_saved_is_not_made_later(folder, open_editor):
    editor = open_editor(folder)
    before = ids_in(folder)
    with largest_file(600), pytest.raises(OSError, match="too large"):  # the log has room, the classifier has not
        editor.change(ADDED, None, REQUEST)
    assert (folder / "edits.jsonl").read_bytes() == b""
    editor.close()
    reopened = open_editor(folder)
    assert ids_in(folder) == before
    assert reopened.change(ADDED, None, REQUEST)["ids"] == ["late"]
    assert ids_in(folder) == [*before, "late"]


def test_an_edit_that_was_saved_and_not_acknowledged_is_made_once(folder, open_editor):
    editor = open_editor(folder)
    before = ids_in(folder)
    removal = EditContent("examples", ADDED.added, removed=("0",))
    answer = editor.change(removal, None, REQUEST)
    editor.close()  # as by a crash: the client got no answer
    again = open_editor(folder).change(removal, None, REQUEST)
    assert again == answer | {"repeated": True}
    assert ids_in(folder) == [*before[1:], "late"]


def test_edits_on_a_full_disk(fitted_folder, tmp_path, open_editor):
    with small_disk(tmp_path / "disk", 2**23) as disk:
        folder = shutil.copytree(fitted_folder, disk / "subjects")
        before = ids_in(folder)
        editor = open_editor(folder)
        changes = EditContent("examples", (LoggedExample("late", "A text of the river. " * 500, None, "river"),))
        with filled(disk):
            for _ in range(3):
                with pytest.raises(OSError, match="No space left"):
                    editor.change(changes, None, REQUEST)
            assert (folder / "edits.jsonl").read_bytes() == b""
            editor.close()
            open_editor(folder).close()
        again = open_editor(folder)
        assert ids_in(folder) == before
        assert again.change(changes, None, REQUEST)["ids"] == ["late"]
        again.close()
        assert ids_in(folder) == [*before, "late"]
        assert len((folder / "edits.jsonl").read_text().splitlines()) == 1


def test_nothing_is_made_where_a_folder_was(folder, open_editor):
    editor = open_editor(folder)
    aside = folder.rename(folder.with_name("aside"))
    for left in (lambda: None, folder.mkdir):  # an empty folder, as where a disk was mounted
        left()
        with pytest.raises(Refused, match="is not in its place"):
            editor.change(ADDED, None, REQUEST)
        assert not folder.exists() or not list(folder.iterdir())
    folder.rmdir()
    assert (aside / "edits.jsonl").read_bytes() == b""
    aside.rename(folder)
    assert editor.change(ADDED, None, REQUEST)["ids"] == ["late"]


def test_a_folder_that_takes_the_place_of_another_gets_its_edits(folder, open_editor):
    new = shutil.copytree(folder, folder.with_name("new"))
    editor = open_editor(folder)
    before = ids_in(folder)
    editor.change(EditContent("examples", removed=("0",)), None, EditRequest("anna", None, "digest"))
    old = folder.rename(folder.with_name("old"))
    new.rename(folder)
    log_before = (old / "edits.jsonl").read_bytes()
    assert editor.change(ADDED, None, REQUEST)["ids"] == ["late"]
    assert ids_in(folder) == [*before, "late"]
    assert ids_in(old) == before[1:]
    assert (old / "edits.jsonl").read_bytes() == log_before
    open_editor(old)  # nobody holds its lock


def test_an_equal_folder_is_another_one(folder, open_editor):
    """The version is the same, so only the file tells."""
    editor = open_editor(folder)
    old = folder.rename(folder.with_name("old"))
    shutil.copytree(old, folder)
    assert editor.change(ADDED, None, REQUEST)["ids"] == ["late"]
    assert "late" in ids_in(folder)
    assert "late" not in ids_in(old)
    assert (old / "edits.jsonl").read_bytes() == b""
