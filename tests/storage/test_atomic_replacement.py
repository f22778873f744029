import os

import pytest

from docsplit_hf.storage.atomic_replacement import (
    SAVED,
    STAGING,
    finish_save,
    locked,
    read_one_save,
    replaced_at_once,
    valid_folder,
)

from ..end_to_end.forked import finish_script, start_script

MANIFEST = "datastore/manifest.json"
OTHERS = {"notes.txt": "mine", "tokens.json": "mine"}
OLD = {
    "config.json": "old", "model-00001-of-00002.safetensors": "old", "model.safetensors.index.json": "old",
    "vocab.txt": "old", "code.py": "old", MANIFEST: "old", "datastore/keys-1": "old", **OTHERS,
}  # fmt: skip
# Another encoder; the same one with other examples; and one in a folder without any.
NEW = {
    "config.json": "new", "model.safetensors": "new", "tokenizer.json": "new", "1_Pooling/config.json": "new",
    MANIFEST: "new", "datastore/keys-2": "new", "datastore/keys-1": "old", **OTHERS,
}  # fmt: skip
EDITED = {**OLD, MANIFEST: "new", "datastore/keys-2": "new"}
FIRST = {name: text for name, text in NEW.items() if text != "old"}
CASES = {"another encoder": (OLD, NEW), "an edit": (OLD, EDITED), "the first save": (OTHERS, FIRST)}


def write(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def content(folder):
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def state_of(files):
    """The files of the model, and those that the manifest of the datastore names; none if there is no model yet."""
    if "config.json" not in files:
        return {}
    keys = "datastore/keys-1" if files[MANIFEST] == "old" else "datastore/keys-2"
    shown = {name for name in files if not name.startswith(("datastore/keys", STAGING, SAVED))} - {"code.py", *OTHERS}
    return {name: files[name] for name in (*shown, keys)}


def replace(folder, new):
    """Save; a file of the model or its tokenizer that has not changed is written, too."""
    saved = {name: text for name, text in new.items() if name not in OTHERS and name != "datastore/keys-1"}
    obsolete = [] if "code.py" in new else ["code.py", "never there"]
    with replaced_at_once(folder, lambda _: obsolete) as staging:
        write(staging, saved)


# In the n-th folder the process ends at once before the n-th step that the disk sees, told by Python's audit events.
DIES = """
import os, sys
from pathlib import Path
os.fsync = lambda descriptor: None  # it is the process that dies, and not the machine
from tests.storage.test_atomic_replacement import CASES, replace
for number, folder in enumerate(sys.argv[2:], start=1):
    child = os.fork()
    if not child:
        steps = 0
        def step(event, arguments):
            global steps
            changes = event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "shutil.rmtree")
            if changes or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
                steps += 1
                if steps == number:
                    os._exit(9)
        sys.addaudithook(step)
        replace(Path(folder), CASES[sys.argv[1]][1])
        os._exit(0)
    print(code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if code == 0:
        break
"""


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_process_killed_at_any_step_leaves_the_old_or_the_new_files(case, server, tmp_path, monkeypatch):
    old, new = CASES[case]
    script = tmp_path / "script.py"
    log = tmp_path / "log"
    script.write_text(DIES)
    folders = [tmp_path / str(step) for step in range(120)]
    for folder in folders:
        write(folder, old)
    codes = [int(code) for code in finish_script(start_script(script, case, *folders, log=log), log).split()]
    killed = len(codes) - 1
    assert codes == [9] * killed + [0] and killed > 15
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    states = []
    for folder in folders[: len(codes)]:
        before = content(folder)
        states.append(read_one_save(folder, lambda place: state_of(content(place)))[0])
        assert content(folder) == before  # reading changes nothing
        finish_save(folder)
        assert state_of(content(folder)) == states[-1] and not (folder / SAVED).exists()
        replace(folder, new)
        assert content(folder) == new
    moment = states.index(state_of(new))
    assert states == [state_of(old)] * moment + [state_of(new)] * (len(codes) - moment) and 0 < moment < killed


def test_an_error_leaves_the_old_files(tmp_path):
    write(tmp_path, OLD)
    with pytest.raises(KeyboardInterrupt), replaced_at_once(tmp_path) as staging:
        write(staging, NEW)
        raise KeyboardInterrupt
    assert content(tmp_path) == OLD and not (tmp_path / STAGING).exists()


def test_all_is_on_the_disk_before_the_step_that_needs_it(tmp_path, monkeypatch):
    """A power cut may keep a renaming and lose what was not forced onto the disk before it."""
    write(tmp_path, OLD)
    rename = os.rename
    flushed = []
    moments = []

    def inode(path):
        return path.stat().st_ino

    def note_rename(source, target, **folders):
        moments.append((source, target))
        if (source, target) == (STAGING, SAVED):  # from here on, the new files are the valid ones
            assert {inode(path) for path in [tmp_path / STAGING, *(tmp_path / STAGING).rglob("*")]} <= {*flushed}
        elif (source, target) == (SAVED, STAGING):  # from here on, those in their places
            assert flushed[0] == inode(tmp_path)  # the first renaming, before any of them was moved
            assert {inode((tmp_path / name).parent) for name in FIRST} <= {*flushed[1:]}
        flushed.clear()
        rename(source, target, **folders)

    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_ino))
    monkeypatch.setattr(os, "rename", note_rename)
    replace(tmp_path, NEW)
    assert moments[0] == (STAGING, SAVED) and moments[-1] == (SAVED, STAGING)


def killed(folder, new=NEW):
    """Leave a folder as a process does that dies when its files are complete, and before they are put in place."""

    class Killed(BaseException):
        pass

    def die(*_):
        raise Killed

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr("docsplit_hf.storage.atomic_replacement._put_in_place", die)
        replace(folder, new)


def test_a_save_without_a_tokenizer_leaves_the_one_there(tmp_path):
    write(tmp_path, OLD)
    with replaced_at_once(tmp_path) as staging:
        write(staging, {"config.json": "new", "model.safetensors": "new"})
    assert {name for name in content(tmp_path) if "/" not in name} == {
        "config.json", "model.safetensors", "vocab.txt", "code.py", *OTHERS,
    }  # fmt: skip


def test_where_there_are_no_hard_links_files_are_copied(tmp_path, monkeypatch):
    def no_links(*_, **__):
        raise PermissionError("as on a FAT disk, or a drive of Colab")

    monkeypatch.setattr(os, "link", no_links)
    write(tmp_path, OLD)
    replace(tmp_path, NEW)
    assert content(tmp_path) == NEW


def test_the_next_save_puts_what_a_killed_one_left_in_place(tmp_path):
    write(tmp_path, OLD)
    killed(tmp_path)
    assert content(tmp_path)["config.json"] == "old" and valid_folder(tmp_path) == tmp_path / SAVED
    with replaced_at_once(tmp_path) as staging:
        write(staging, {"more.txt": "newest"})
    assert content(tmp_path) == {**NEW, "code.py": "old", "more.txt": "newest"}


def test_a_folder_where_a_file_goes_is_refused_before_any_is_replaced(tmp_path):
    write(tmp_path, {**OLD, "tokenizer.json/mine.txt": "mine"})
    before = content(tmp_path)
    with pytest.raises(ValueError, match=r"tokenizer\.json is a folder, and a save has a file of that name"):
        replace(tmp_path, NEW)
    assert content(tmp_path) == before


def test_a_link_where_a_folder_goes_is_refused_before_any_is_replaced(tmp_path):
    write(tmp_path / "folder", OLD)
    (tmp_path / "folder" / "1_Pooling").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="1_Pooling is a link or a file where a folder should be"):
        replace(tmp_path / "folder", NEW)
    (tmp_path / "folder" / "1_Pooling").unlink()
    assert content(tmp_path / "folder") == OLD


@pytest.mark.parametrize("name", ["folder", "file"])
def test_a_lock_is_exclusive(name, tmp_path):
    (tmp_path / "folder").mkdir()
    with locked(tmp_path / name):
        with pytest.raises(ValueError, match="^It is in use[.]$"), locked(tmp_path / name, "It is in use."):
            pass
    with locked(tmp_path / name, "It is in use."):
        pass
