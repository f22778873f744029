"""A folder that files are sorted into one after another: kills between all steps, moves, names that a person takes."""

import json
import os

import pytest

from docsplit_hf.classifier.sorting import sorted_folder as module
from docsplit_hf.classifier.sorting.sorted_files import MANIFEST, read_sorted
from docsplit_hf.classifier.sorting.sorted_folder import SortedFolder
from docsplit_hf.classifier.sorting.undo_sorting import undo_sorting

LABELS = ("invoice", "a/b")


def make_files(folder, count=6):
    folder.mkdir(exist_ok=True)
    paths = [folder / f"scan {i}.pdf" for i in range(count)]
    for i, path in enumerate(paths):
        path.write_text(f"content {i}")
    return paths


def plan(folder, paths):
    answers = [{"label": (*LABELS, None)[i % 3], "score": 0.5} for i in range(len(paths))]
    return list(folder.plan(paths, answers, LABELS).values())


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def put_new(folder, paths):
    folder.put(plan(folder, paths))


class Killed(BaseException):
    """A process that ends."""


@pytest.mark.parametrize("step", ["copy_file", "fsync", "move_to", "flush"])
def test_after_a_kill_at_any_step_each_file_is_there_once(step, tmp_path, monkeypatch):
    paths = make_files(tmp_path / "inbox")
    owner = {"copy_file": module, "fsync": os, "move_to": module.InsideFolder, "flush": module.InsideFolder}[step]
    for after in range(6):
        calls = iter(range(100))
        original = getattr(owner, step)

        def killed(*arguments, after=after, calls=calls, original=original):
            if next(calls) >= after:
                raise Killed
            return original(*arguments)

        with (
            monkeypatch.context() as patched,
            pytest.raises(Killed),
            SortedFolder.opened(tmp_path / "sorted") as folder,
        ):
            patched.setattr(owner, step, killed)
            put_new(folder, paths)
            raise Killed  # all were there already
    with SortedFolder.opened(tmp_path / "sorted") as folder:
        put_new(folder, paths)
    found = contents(tmp_path / "sorted")
    manifest = found.pop(MANIFEST)
    assert sorted(found.values()) == [f"content {i}" for i in range(6)]
    assert {json.loads(line)["target"] for line in manifest.splitlines()} == set(found)
    assert undo_sorting(tmp_path / "sorted").removed == 6 and contents(tmp_path / "sorted") == {}


def test_an_incomplete_line_is_cut_off_and_a_full_disk_leaves_none(tmp_path, monkeypatch):
    paths = make_files(tmp_path / "inbox", 2)
    with SortedFolder.opened(tmp_path / "sorted") as folder:
        folder.put(plan(folder, paths[:1]))
        with monkeypatch.context() as patched, pytest.raises(OSError, match="full"):
            patched.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("full")))
            folder.append(plan(folder, paths[1:]))
    manifest = tmp_path / "sorted" / MANIFEST
    before = manifest.read_text()
    assert before.count("\n") == 1
    manifest.write_text(before + before[: len(before) // 2])
    with SortedFolder.opened(tmp_path / "sorted") as folder:
        assert len(folder.entries) == 1
    assert manifest.read_text() == before


def test_moves_are_found_with_the_labels_of_their_folders_and_undone(tmp_path):
    paths = make_files(tmp_path / "inbox")
    out = tmp_path / "sorted"
    with SortedFolder.opened(out) as folder:
        folder.put(plan(folder, paths))
        (out / "mine").mkdir()
        (out / "mine" / "note.txt").write_text("content 1")  # like a file that is still in its place
        (out / "invoice" / "scan 0.pdf").rename(out / "a_b" / "renamed.pdf")
        (out / "_unsure" / "scan 2.pdf").rename(out / "mine" / "scan 2.pdf")
        (out / "invoice" / "scan 3.pdf").unlink()
        moves = folder.moves(LABELS)
        assert {(move.target, move.label) for move in moves} == {("a_b/renamed.pdf", "a/b"), ("mine/scan 2.pdf", None)}
        folder.append([module.replace(move.entry, target=move.target, label=move.label) for move in moves])
        assert folder.moves(LABELS) == []
    targets = {entry.target for entry in read_sorted(out / MANIFEST)}
    assert {"a_b/renamed.pdf", "mine/scan 2.pdf"} <= targets and len(targets) == 6
    undone = undo_sorting(out)
    assert (undone.removed, undone.missing) == (5, 1) and contents(out) == {"mine/note.txt": "content 1"}


def test_a_file_of_a_person_is_not_overwritten_and_a_changed_one_waits(tmp_path, monkeypatch):
    paths = make_files(tmp_path / "inbox", 3)
    out = tmp_path / "sorted"
    with SortedFolder.opened(out) as folder:
        planned = plan(folder, paths)
        (out / "invoice").mkdir()
        (out / "invoice" / "scan 0.pdf").write_text("of a person")
        paths[1].write_text("changed")
        paths[2].unlink()
        assert [entry.target for entry in folder.put(planned)] == ["invoice/scan 0.pdf"]
    found = contents(out)
    assert found.pop(MANIFEST) and found == {"invoice/scan 0.pdf": "of a person", "invoice/scan 0 (2).pdf": "content 0"}


def test_a_folder_in_use_is_refused(tmp_path):
    out = tmp_path / "sorted"
    with SortedFolder.opened(out):
        with pytest.raises(ValueError, match="Another process sorts"), SortedFolder.opened(out):
            pass
        with pytest.raises(ValueError, match="stop it first"):
            undo_sorting(out)
