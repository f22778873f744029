"""EditLog: each line is whole, on the disk, and in the folder that is served."""

import json
import os

import pytest

from docsplit_hf.apps.server.edit_log import EditContent, EditLog, LoggedExample

from .full_disk import largest_file


def test_log_in_memory_and_on_disk(tmp_path):
    log = EditLog(tmp_path)
    edit = log.begin("key", "digest", "anna", EditContent(kind="fit"))
    log.finish(edit, {"version": "1"})
    cut = log.begin(None, "digest", "anna", EditContent(kind="examples", removed=("a",)))
    log.close()
    again = EditLog(tmp_path)
    assert again.finished("key")[1] == {"version": "1"}
    assert again.finished(None) is None
    assert again.unfinished == [cut]
    assert again.begin(None, "", "", EditContent(kind="fit")).number == 3
    again.close()
    (tmp_path / "edits.jsonl").write_text('{"step": "moved"}\n')
    with pytest.raises(ValueError, match="Line 1 of .* is not one of the edit log"):
        EditLog(tmp_path)


def test_lines_end_only_where_the_log_ends_them(tmp_path):
    text = "one\u2028two\x85three\x0bfour\nfive"
    log = EditLog(tmp_path)
    content = EditContent("examples", added=(LoggedExample("a", text, None, "river"),))
    log.finish(log.begin("key", "digest", "anna", content), {"ids": ["a"]})
    begun = log.begin(None, "digest", "anna", content)
    log.close()
    again = EditLog(tmp_path)
    assert again.finished("key")[1] == {"ids": ["a"]}
    assert again.unfinished == [begun]
    again.close()


def test_a_line_that_the_disk_has_no_room_for_is_cut_off(tmp_path):
    log = EditLog(tmp_path)
    log.finish(log.begin("key", "digest", "anna", EditContent(kind="fit")), {"version": "1"})
    before = log.path.read_bytes()
    with largest_file(len(before) + 50), pytest.raises(OSError, match="File too large"):
        log.begin(None, "digest", "anna", EditContent(kind="fit"))
    assert log.path.read_bytes() == before
    assert log.unfinished == []
    begun = log.begin(None, "digest", "anna", EditContent(kind="fit"))
    log.close()
    again = EditLog(tmp_path)
    assert again.unfinished == [begun]
    again.close()


def test_nothing_is_glued_to_a_torn_line(tmp_path):
    log = EditLog(tmp_path)
    with log.path.open("a") as file:  # as if it could not be cut off
        file.write('{"step": "beg')
    begun = log.begin("key", "digest", "anna", EditContent(kind="fit"))
    assert json.loads(log.path.read_text())["number"] == begun.number
    log.close()


def test_an_edit_is_withdrawn_without_any_room(tmp_path):
    log = EditLog(tmp_path)
    log.finish(log.begin("key", "digest", "anna", EditContent(kind="fit")), {"version": "1"})
    before = log.path.read_bytes()
    edit = log.begin(None, "digest", "anna", EditContent(kind="fit"))
    with largest_file(1):
        log.withdraw(edit)
    assert log.path.read_bytes() == before
    assert log.unfinished == []
    log.close()


def test_a_log_is_locked_until_it_is_closed(tmp_path):
    log = EditLog(tmp_path)
    with pytest.raises(BlockingIOError):
        EditLog(tmp_path)
    assert log.is_in_place()
    os.replace(log.path, tmp_path / "old.jsonl")
    assert not log.is_in_place()
    new = EditLog(tmp_path)
    assert not log.is_in_place()
    log.close()
    new.close()
