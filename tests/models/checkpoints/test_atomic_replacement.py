import json
import sys

import pytest

from docsplit_hf.models.checkpoints.atomic_replacement import (
    JOURNAL,
    STAGING,
    finish_replacement,
    locked,
    replaced_at_once,
)

from ...end_to_end.forked import finish_script, start_script

OLD = {"config.json": "old", "old.json": "old", "notes.txt": "mine", "datastore/manifest.json": "old"}
NEW = {"config.json": "new", "new/new.json": "new", "notes.txt": "mine", "datastore/manifest.json": "new"}


def write(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def content(folder):
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def replace(folder):
    with replaced_at_once(folder, "datastore/manifest.json", lambda folder: ["old.json", "config.json"]) as staging:
        write(staging, {name: text for name, text in NEW.items() if text == "new"})


# In the n-th folder the process ends at once before the n-th step that the disk sees, told by Python's audit events.
DIES = """
import os, sys
from pathlib import Path
os.fsync = lambda descriptor: None  # it is the process that dies, and not the machine
from tests.models.checkpoints.test_atomic_replacement import replace
for number, folder in enumerate(sys.argv[1:], start=1):
    child = os.fork()
    if not child:
        steps = 0
        def step(event, arguments):
            global steps
            changes = event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir")
            if changes or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
                steps += 1
                if steps == number:
                    os._exit(9)
        sys.addaudithook(step)
        replace(Path(folder))
        os._exit(0)
    print(code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if code == 0:
        break
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_process_that_ends_at_any_step_leaves_the_old_or_the_new_and_nothing_else(server, tmp_path):
    script, log = tmp_path / "script.py", tmp_path / "log"
    script.write_text(DIES)
    folders = [tmp_path / str(step) for step in range(60)]
    for folder in folders:
        write(folder, OLD)
    codes = [int(code) for code in finish_script(start_script(script, *folders, log=log), log).split()]
    killed = len(codes) - 1
    assert codes == [9] * killed + [0] and killed > 15
    for folder in folders[: len(codes)]:
        finish_replacement(folder)
    seen = [content(folder) for folder in folders[: len(codes)]]
    moment = seen.index(NEW)
    assert seen == [OLD] * moment + [NEW] * (len(codes) - moment) and 0 < moment < killed


def test_without_locks_what_was_begun_to_be_moved_is_finished(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows
    write(tmp_path, {**OLD, **{f"{STAGING}/{name}": text for name, text in NEW.items() if text == "new"}})
    finish_replacement(tmp_path)
    assert (tmp_path / STAGING).is_dir() and (tmp_path / "config.json").read_text() == "old"  # maybe a live process
    moved = sorted(name for name, text in NEW.items() if text == "new")
    write(tmp_path, {f"{STAGING}/{JOURNAL}": json.dumps({"move": moved, "delete": ["old.json"]})})
    finish_replacement(tmp_path)
    assert content(tmp_path) == NEW


def test_an_error_leaves_what_was_there(tmp_path):
    write(tmp_path, OLD)
    with pytest.raises(KeyboardInterrupt), replaced_at_once(tmp_path, "config.json") as staging:
        write(staging, NEW)
        raise KeyboardInterrupt
    assert content(tmp_path) == OLD and not (tmp_path / STAGING).exists()


@pytest.mark.parametrize("name", ["../outside", "/outside"])
def test_a_journal_that_names_a_file_elsewhere_is_refused(name, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    name = str(outside) if name.startswith("/") else name
    write(tmp_path / "folder", {f"{STAGING}/{JOURNAL}": json.dumps({"move": [], "delete": [name]})})
    with pytest.raises(ValueError, match="which is not in .*: delete"):
        finish_replacement(tmp_path / "folder")
    assert outside.read_text() == "mine"


@pytest.mark.parametrize("name", ["folder", "file"])
def test_one_at_a_time(name, tmp_path):
    pytest.importorskip("fcntl", reason="Windows has none")
    (tmp_path / "folder").mkdir()
    with locked(tmp_path / name) as is_locked:
        assert is_locked
        with pytest.raises(BlockingIOError), locked(tmp_path / name, wait=False):
            pass
    with locked(tmp_path / name, wait=False) as is_locked:
        assert is_locked
