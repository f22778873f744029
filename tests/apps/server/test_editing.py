"""Editor: no edit is lost or made elsewhere when the disk is full or the folder is moved."""

import shutil
from functools import partial

import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.apps.server.editing import Editor, change_examples
from docsplit_hf.apps.server.errors import Refused
from docsplit_hf.apps.server.schemas import ExamplesRequest
from docsplit_hf.apps.server.served_folders import ServedFolder
from docsplit_hf.apps.server.states import Encoders

from .full_disk import filled, largest_file, small_disk

ADDED = {"add": [{"id": "late", "text": "A new text of the river.", "label": "river"}]}


@pytest.fixture
def open_editor():
    """Function that opens an editor of a folder; all of them are closed at the end."""
    opened = []

    def open_editor_of(folder):
        opened.append(Editor(ServedFolder("subjects", folder, Encoders())))
        return opened[-1]

    yield open_editor_of
    for editor in opened:
        editor.close()


def edit(editor, body):
    return editor.change(partial(change_examples, body=ExamplesRequest(**body), most_labels=1_000), "anna")


def ids_in(folder):
    return KNNDatastore.from_pretrained(folder).ids


def test_an_edit_that_could_not_be_saved_is_not_made_later(folder, open_editor):
    editor = open_editor(folder)
    before = ids_in(folder)
    with largest_file(600), pytest.raises(OSError, match="too large"):
        edit(editor, ADDED)
    assert editor.classifier.state.datastore.ids == before
    reopened = open_editor(folder)
    assert ids_in(folder) == before
    assert edit(reopened, ADDED)["ids"] == ["late"]
    assert ids_in(folder) == [*before, "late"]


def test_an_edit_that_was_saved_and_not_acknowledged_is_made_once(folder, open_editor):
    before = ids_in(folder)
    body = ADDED | {"remove": ["0"]}
    answer = edit(open_editor(folder), body)  # as by a crash: the client got no answer
    assert edit(open_editor(folder), body) == answer | {"removed": 0}
    assert ids_in(folder) == [*before[1:], "late"]


def test_edits_on_a_full_disk(fitted_folder, tmp_path, open_editor):
    with small_disk(tmp_path / "disk", 2**23) as disk:
        folder = shutil.copytree(fitted_folder, disk / "subjects")
        before = ids_in(folder)
        editor = open_editor(folder)
        body = {"add": [{"id": "late", "text": "A text of the river. " * 500, "label": "river"}]}
        with filled(disk):
            for _ in range(3):
                with pytest.raises(OSError, match="No space left"):
                    edit(editor, body)
            open_editor(folder).close()
        assert ids_in(folder) == before
        assert edit(editor, body)["ids"] == ["late"]
        assert ids_in(folder) == [*before, "late"]


def test_nothing_is_made_where_a_folder_was(folder, open_editor):
    editor = open_editor(folder)
    aside = folder.rename(folder.with_name("aside"))
    for left in (lambda: None, folder.mkdir):  # an empty folder, as where a disk was mounted
        left()
        with pytest.raises(Refused, match="is not in its place"):
            edit(editor, ADDED)
        assert not folder.exists() or not list(folder.iterdir())
    folder.rmdir()
    aside.rename(folder)
    assert edit(editor, ADDED)["ids"] == ["late"]


def test_a_folder_that_takes_the_place_of_another_gets_its_edits(folder, open_editor):
    new = shutil.copytree(folder, folder.with_name("new"))
    editor = open_editor(folder)
    before = ids_in(folder)
    edit(editor, {"remove": ["0"]})
    old = folder.rename(folder.with_name("old"))
    new.rename(folder)
    assert edit(editor, ADDED)["ids"] == ["late"]
    assert ids_in(folder) == [*before, "late"]
    assert ids_in(old) == before[1:]


def test_an_equal_folder_is_another_one(folder, open_editor):
    editor = open_editor(folder)
    old = folder.rename(folder.with_name("old"))
    shutil.copytree(old, folder)
    assert edit(editor, ADDED)["ids"] == ["late"]
    assert "late" in ids_in(folder)
    assert "late" not in ids_in(old)


def test_a_change_of_a_version_that_was_replaced_meanwhile_is_refused(folder, open_editor):
    first, second = open_editor(folder), open_editor(folder)

    def while_another_program_saves(pipe):
        edit(second, ADDED)
        return change_examples(pipe, ExamplesRequest(remove=["0"]), most_labels=1_000)

    with pytest.raises(Refused, match="replaced by another program: try again"):
        first.change(while_another_program_saves, "anna")
    assert {"0", "late"} <= set(ids_in(folder))
    assert edit(first, {"remove": ["0"]})["removed"] == 1
    assert "0" not in ids_in(folder)
