"""EditLog: each line is whole, on the disk, and in the folder that is served."""

import os

import pytest

from docsplit_hf.apps.server.edit_log import EditContent, EditLog, EditRequest, LoggedExample

from .full_disk import largest_file

FIT = EditContent(kind="fit")
REQUEST = EditRequest("anna", "key", "digest")


@pytest.fixture
def log(tmp_path):
    log = EditLog(tmp_path, "1")
    log.begin(REQUEST, "1", FIT, {"report": "good"})
    yield log
    log.close()


def test_log_in_memory_and_on_disk(tmp_path, log):
    log.begin(EditRequest("anna", None, "digest"), "2", EditContent("examples", removed=("a",)), {})
    log.close()
    again = EditLog(tmp_path, "3")
    assert (again.count, again.answer_to("key"), again.answer_to(None)) == (2, ("digest", {"report": "good"}), None)
    again.close()
    unmade = EditLog(tmp_path, "2")  # the last edit was not saved
    assert unmade.count == 1
    unmade.close()
    (tmp_path / "edits.jsonl").write_text('["moved"]\n')
    with pytest.raises(ValueError, match="Line 1 of .* is not one of the edit log"):
        EditLog(tmp_path, "3")


def test_a_log_of_an_earlier_version_is_read(tmp_path):
    lines = '{"step": "begun", "number": 1, "key": "a", "content": {}}\n{"step": "done", "number": 1, "answer": {}}\n'
    (tmp_path / "edits.jsonl").write_text(lines)
    log = EditLog(tmp_path, "1")
    log.begin(REQUEST, "1", FIT, {})
    log.close()
    assert log.path.read_text().startswith(lines)


def test_lines_end_only_where_the_log_ends_them(tmp_path, log):
    text = "one\u2028two\x85three\x0bfour\nfive"
    content = EditContent("examples", added=(LoggedExample("a", text, None, "river"),))
    log.begin(EditRequest("anna", "other", "digest"), "2", content, {"ids": ["a"]})
    log.close()
    again = EditLog(tmp_path, "3")
    assert again.answer_to("other")[1] == {"ids": ["a"]}
    again.close()


def test_a_line_that_the_disk_has_no_room_for_is_cut_off(tmp_path, log):
    before = log.path.read_bytes()
    with largest_file(len(before) + 50), pytest.raises(OSError, match="File too large"):
        log.begin(EditRequest("anna", None, "digest"), "2", FIT, {})
    assert log.path.read_bytes() == before
    log.begin(EditRequest("anna", None, "digest"), "2", FIT, {})
    log.close()
    again = EditLog(tmp_path, "3")
    assert again.count == 2
    again.close()


def test_nothing_is_glued_to_a_torn_line(tmp_path, log):
    before = log.path.read_text()
    with log.path.open("a") as file:  # as if it could not be cut off
        file.write('{"who": "an')
    log.begin(EditRequest("ben", None, "digest"), "2", FIT, {})
    assert log.path.read_text().startswith(before + '{"who": "ben"')


def test_an_edit_is_withdrawn_without_any_room(log):
    before = log.path.read_bytes()
    request = EditRequest("anna", "new", "digest")
    log.begin(request, "2", FIT, {})
    with largest_file(1):
        log.withdraw(request)
    assert log.path.read_bytes() == before
    assert (log.count, log.answer_to("new")) == (1, None)


def test_a_log_is_locked_until_it_is_closed(tmp_path, log):
    with pytest.raises(BlockingIOError):
        EditLog(tmp_path, "1")
    assert log.is_in_place()
    os.replace(log.path, tmp_path / "old.jsonl")
    assert not log.is_in_place()
    new = EditLog(tmp_path, "1")
    assert not log.is_in_place()
    new.close()
