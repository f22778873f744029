import json
import os
import shutil
import sys

import pytest
from huggingface_hub import constants

from docsplit_hf import KNNDatastore, finish_save
from docsplit_hf.encoders.checkpoints.atomic_replacement import (
    JOURNAL,
    STAGING,
    locked,
    recover_own_save,
    replaced_at_once,
)
from docsplit_hf.encoders.checkpoints.checkpoint import find_checkpoint

from ...end_to_end.forked import finish_script, start_script

REPLACE = os.replace
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
from tests.encoders.checkpoints.test_atomic_replacement import replace
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
def test_a_process_killed_at_any_step_leaves_the_old_or_the_new_files(server, tmp_path):
    script = tmp_path / "script.py"
    log = tmp_path / "log"
    script.write_text(DIES)
    folders = [tmp_path / str(step) for step in range(60)]
    for folder in folders:
        write(folder, OLD)
    codes = [int(code) for code in finish_script(start_script(script, *folders, log=log), log).split()]
    killed = len(codes) - 1
    assert codes == [9] * killed + [0] and killed > 15
    for folder in folders[: len(codes)]:
        recover_own_save(folder)
    seen = [content(folder) for folder in folders[: len(codes)]]
    moment = seen.index(NEW)
    assert seen == [OLD] * moment + [NEW] * (len(codes) - moment) and 0 < moment < killed


def test_without_locks_a_save_that_moved_files_is_finished(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as on Windows
    write(tmp_path, {**OLD, **{f"{STAGING}/{name}": text for name, text in NEW.items() if text == "new"}})
    recover_own_save(tmp_path)
    assert (tmp_path / STAGING).is_dir() and (tmp_path / "config.json").read_text() == "old"  # maybe a live process
    (tmp_path / STAGING).rename(tmp_path / "of others")
    write(tmp_path / "killed", OLD)
    killed(tmp_path / "killed")
    recover_own_save(tmp_path / "killed")
    assert content(tmp_path / "killed") == NEW


def test_an_error_leaves_the_old_files(tmp_path):
    write(tmp_path, OLD)
    with pytest.raises(KeyboardInterrupt), replaced_at_once(tmp_path, "config.json") as staging:
        write(staging, NEW)
        raise KeyboardInterrupt
    assert content(tmp_path) == OLD and not (tmp_path / STAGING).exists()


def killed(folder, moved=1):
    """A folder as a process leaves it that dies after it moved a file, or several."""
    kept = []

    class Killed(BaseException):
        pass

    def move(source, target, **options):
        if len(kept) == moved + 1:  # of the journal, and of the files
            raise Killed
        kept.append(target)
        REPLACE(source, target, **options)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(os, "replace", move)
        replace(folder)


def test_the_next_load_or_save_finishes_an_interrupted_save_of_this_user(tmp_path):
    for name in ("load", "save"):
        write(tmp_path / name, OLD)
        killed(tmp_path / name)
        assert content(tmp_path / name)["config.json"] == "new"
        assert content(tmp_path / name)["datastore/manifest.json"] == "old"
    assert recover_own_save(tmp_path / "load")
    replace(tmp_path / "save")
    assert content(tmp_path / "load") == content(tmp_path / "save") == NEW


def copied(folder, monkeypatch):
    other = folder.with_name("copy")
    shutil.copytree(folder, other)
    return other


def archived(folder, monkeypatch):
    archive = shutil.make_archive(folder.with_name("archive"), "tar", folder)
    shutil.unpack_archive(archive, folder.with_name("unpacked"), filter="data")
    return folder.with_name("unpacked")


def on_another_machine(folder, monkeypatch):
    monkeypatch.setattr(constants, "HF_HOME", str(folder.with_name("home")))
    return folder


def of_another_user(folder, monkeypatch):
    user = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: user)
    return folder


def with_a_changed_journal(folder, monkeypatch):
    path = folder / STAGING / JOURNAL
    journal = json.loads(path.read_text())
    path.write_text(json.dumps({**journal, "delete": ["notes.txt"]}))
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="there are no owners as here")
@pytest.mark.parametrize("change", [copied, archived, on_another_machine, of_another_user, with_a_changed_journal])
def test_a_save_of_others_is_refused_until_finish_save_is_called(change, tmp_path, monkeypatch):
    write(tmp_path / "folder", OLD)
    killed(tmp_path / "folder")
    folder = change(tmp_path / "folder", monkeypatch)
    before = content(folder)
    for call in (recover_own_save, replace, find_checkpoint, KNNDatastore.from_pretrained):
        with pytest.raises(ValueError, match=r"half old and half new.*docsplit_hf\.finish_save\('"):
            call(folder)
        assert content(folder) == before
    finish_save(folder)
    finished = dict(NEW)
    if change is with_a_changed_journal:
        finished = {name: text for name, text in {**NEW, "old.json": "old"}.items() if name != "notes.txt"}
    assert content(folder) == finished


def test_an_incomplete_save_of_others_is_left_and_the_old_files_are_read(tmp_path, caplog):
    write(tmp_path, {**OLD, f"{STAGING}/config.json": "half"})
    before = content(tmp_path)
    assert recover_own_save(tmp_path)
    assert content(tmp_path) == before and "that this user did not begin: it is left there" in caplog.text
    replace(tmp_path)  # which is what the user wants
    assert content(tmp_path) == NEW


def test_a_missing_file_is_named_before_any_is_moved(tmp_path):
    write(tmp_path, OLD)
    killed(tmp_path)
    (tmp_path / STAGING / "new" / "new.json").unlink()
    before = content(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"new/new\.json is missing"):
        finish_save(tmp_path)
    assert content(tmp_path) == before


def test_a_link_among_saved_files_is_refused_before_any_is_replaced(tmp_path):
    write(tmp_path / "folder", OLD)
    (tmp_path / "outside").write_text("mine")
    (tmp_path / "folder" / "new").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="new is a link or a file where a folder should be"):
        replace(tmp_path / "folder")
    (tmp_path / "folder" / "new").unlink()
    assert content(tmp_path / "folder") == OLD


@pytest.mark.parametrize("name", ["../outside", "/outside"])
def test_a_journal_that_names_a_file_elsewhere_is_refused(name, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    name = str(outside) if name.startswith("/") else name
    write(tmp_path / "folder", {f"{STAGING}/{JOURNAL}": json.dumps({"move": [], "delete": [name]})})
    for call in (recover_own_save, finish_save):
        with pytest.raises(ValueError, match="which is not in the folder: .*outside.* delete .saving in it"):
            call(tmp_path / "folder")
    assert outside.read_text() == "mine"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"move": 3, "delete": []}', '{"delete": []}', "[" * 10**5])
def test_a_damaged_journal_is_named(text, tmp_path):
    write(tmp_path, {**OLD, f"{STAGING}/{JOURNAL}": text})
    with pytest.raises(ValueError, match=r"journal\.json is not a journal of a save"):
        recover_own_save(tmp_path)


@pytest.mark.parametrize("name", ["folder", "file"])
def test_a_lock_is_exclusive(name, tmp_path):
    pytest.importorskip("fcntl", reason="Windows has none")
    (tmp_path / "folder").mkdir()
    with locked(tmp_path / name) as is_locked:
        assert is_locked
        with pytest.raises(BlockingIOError), locked(tmp_path / name, wait=False):
            pass
    with locked(tmp_path / name, wait=False) as is_locked:
        assert is_locked
