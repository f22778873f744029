"""No edit is lost or made elsewhere when the disk is full or the folder is moved."""

import shutil
from functools import partial

import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.apps.server.editing import change_examples, edit
from docsplit_hf.apps.server.errors import Refused
from docsplit_hf.apps.server.schemas import ExamplesRequest
from docsplit_hf.apps.server.served_folders import ServedFolder
from docsplit_hf.apps.server.states import Encoders

from .full_disk import filled, largest_file, small_disk

ADDED = {"add": [{"id": "late", "text": "A new text of the river.", "label": "river"}]}


def opened(folder):
    return ServedFolder("subjects", folder, Encoders())


def edited(classifier, body):
    return edit(classifier, partial(change_examples, body=ExamplesRequest(**body), most_labels=1_000), "anna")


def ids_in(folder):
    return KNNDatastore.from_pretrained(folder).ids


def test_an_edit_that_could_not_be_saved_is_not_made_later(folder):
    classifier = opened(folder)
    before = ids_in(folder)
    with largest_file(600), pytest.raises(OSError, match="too large"):
        edited(classifier, ADDED)
    assert classifier.state.pipe.datastore.ids == before
    reopened = opened(folder)
    assert ids_in(folder) == before
    assert edited(reopened, ADDED)["ids"] == ["late"]
    assert ids_in(folder) == [*before, "late"]


def test_an_edit_that_was_saved_and_not_acknowledged_is_made_once(folder):
    before = ids_in(folder)
    body = ADDED | {"remove": ["0"]}
    answer = edited(opened(folder), body)  # as by a crash: the client got no answer
    assert edited(opened(folder), body) == answer | {"removed": 0}
    assert ids_in(folder) == [*before[1:], "late"]


def test_a_text_without_an_id_is_added_once(folder):
    before = ids_in(folder)
    body = {"add": [{"text": "A new text of the river.", "label": "river"}], "remove": before[-1:]}
    answer = edited(opened(folder), body)
    assert edited(opened(folder), body) == answer | {"removed": 0}
    assert ids_in(folder) == [*before[:-1], *answer["ids"]]
    assert answer["ids"] != before[-1:]  # or the same request would remove the text that it has added


def test_edits_on_a_full_disk(fitted_folder, tmp_path):
    with small_disk(tmp_path / "disk", 2**23) as disk:
        folder = shutil.copytree(fitted_folder, disk / "subjects")
        before = ids_in(folder)
        classifier = opened(folder)
        body = {"add": [{"id": "late", "text": "A text of the river. " * 500, "label": "river"}]}
        with filled(disk):
            for _ in range(3):
                with pytest.raises(OSError, match="No space left"):
                    edited(classifier, body)
            opened(folder)
        assert ids_in(folder) == before
        assert edited(classifier, body)["ids"] == ["late"]
        assert ids_in(folder) == [*before, "late"]


def test_nothing_is_made_where_a_folder_was(folder):
    classifier = opened(folder)
    aside = folder.rename(folder.with_name("aside"))
    for left in (lambda: None, folder.mkdir):  # an empty folder, as where a disk was mounted
        left()
        with pytest.raises(Refused, match="is not in its place"):
            edited(classifier, ADDED)
        assert not folder.exists() or not list(folder.iterdir())
    folder.rmdir()
    aside.rename(folder)
    assert edited(classifier, ADDED)["ids"] == ["late"]


def test_a_folder_that_takes_the_place_of_another_gets_its_edits(folder):
    new = shutil.copytree(folder, folder.with_name("new"))
    classifier = opened(folder)
    before = ids_in(folder)
    edited(classifier, {"remove": ["0"]})
    old = folder.rename(folder.with_name("old"))
    new.rename(folder)
    assert edited(classifier, ADDED)["ids"] == ["late"]
    assert ids_in(folder) == [*before, "late"]
    assert ids_in(old) == before[1:]


def test_an_equal_folder_is_another_one(folder):
    classifier = opened(folder)
    old = folder.rename(folder.with_name("old"))
    shutil.copytree(old, folder)
    assert edited(classifier, ADDED)["ids"] == ["late"]
    assert "late" in ids_in(folder)
    assert "late" not in ids_in(old)


def test_a_change_of_a_version_that_was_replaced_meanwhile_is_refused(folder):
    first, second = opened(folder), opened(folder)

    def while_another_program_saves(pipe):
        edited(second, ADDED)
        return change_examples(pipe, ExamplesRequest(remove=["0"]), most_labels=1_000)

    with pytest.raises(Refused, match="replaced by another program: try again"):
        edit(first, while_another_program_saves, "anna")
    assert {"0", "late"} <= set(ids_in(folder))
    assert edited(first, {"remove": ["0"]})["removed"] == 1
    assert "0" not in ids_in(folder)
