"""Sorted files removed again, and those that stay."""

import json
import os

import pytest

from docsplit_hf.classifier.sorting.sorted_files import MANIFEST, read_sorted
from docsplit_hf.classifier.sorting.sorted_folder import sort_files
from docsplit_hf.classifier.sorting.undo_sorting import undo_sorting

from .inboxes import contents, make_files


def sort_as_before(answers, paths, out, link):
    """Sort files; with ``link`` the folder is as earlier versions made it, whose option --link made hard links."""
    done = sort_files(answers, paths, out)
    if link:
        lines = [json.loads(line) for line in (out / MANIFEST).read_text().splitlines()]
        for line in lines:
            (out / line["target"]).unlink()
            os.link(line["source"], out / line["target"])
        (out / MANIFEST).write_text("".join(f"{json.dumps(line | {'link': 'hard'})}\n" for line in lines))
    return done


@pytest.mark.parametrize("link", [False, True])
def test_files_are_sorted_and_undone(link, tmp_path):
    answers, paths = make_files(tmp_path / "inbox")
    before = contents(tmp_path / "inbox")
    out = tmp_path / "sorted"
    done = sort_as_before(answers, paths, out, link)
    assert done.files == 12 and done.missing == 0 and done.known == 0 and sum(done.by_folder.values()) == 12
    assert done.by_folder == {"Lease": 2, "_": 1, "_failed": 1, "_unsure": 2, "a_b": 3, "invoice": 3}
    entries = [json.loads(line) for line in (out / MANIFEST).read_text().splitlines()]
    for entry, answer, source in zip(entries, answers, paths, strict=True):
        target = out / entry["target"]
        assert entry["source"] == source.resolve().as_posix() and target.read_bytes() == source.read_bytes()
        assert (entry["label"], entry["score"], entry["page"]) == (answer["label"], answer["score"], answer["page"])
        assert target.stat().st_mtime_ns == source.stat().st_mtime_ns
        assert target.samefile(source) == link
    undone = undo_sorting(out)
    assert (undone.removed, undone.changed, undone.missing) == (12, [], 0)
    assert list(out.iterdir()) == [] and contents(tmp_path / "inbox") == before


@pytest.mark.parametrize("link", [False, True])
def test_undoing_keeps_what_a_person_has_changed(link, tmp_path):
    answers, paths = make_files(tmp_path / "inbox")
    out = tmp_path / "sorted"
    sort_as_before(answers, paths, out, link)
    targets = sorted(path for path in out.rglob("*") if path.parent != out and not path.is_dir())
    changed, gone, moved = targets[:3]
    changed.unlink()
    changed.write_text("edited")
    gone.unlink()
    moved.rename(out / "kept by hand.pdf")
    (out / "invoice" / "mine.txt").write_text("mine")
    undone = undo_sorting(out)
    name = changed.relative_to(out).as_posix()
    assert undone.changed == [name] and undone.removed == 9 and undone.missing == 2
    left = {path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir()}
    assert left == {name, "kept by hand.pdf", "invoice/mine.txt", MANIFEST}
    changed.unlink()
    assert undo_sorting(out).missing == 1 and not (out / MANIFEST).exists()


@pytest.mark.parametrize("link", [False, True])
def test_undoing_keeps_what_is_the_last_copy(link, tmp_path):
    """One original is deleted, one edited (as a new file), one became a link to its copy, and one a pipe."""
    answers, paths = make_files(tmp_path / "inbox")
    out = tmp_path / "sorted"
    sort_as_before(answers, paths, out, link)
    copies = {entry.source: out / entry.target for entry in read_sorted(out / MANIFEST)}
    first, second, third, fourth = (copies[path.resolve().as_posix()] for path in paths[:4])
    before = {copy: copy.read_bytes() for copy in (first, second, third, fourth)}
    paths[0].unlink()
    content = paths[1].read_bytes()
    paths[1].unlink()
    paths[1].write_bytes(content[::-1])
    paths[2].unlink()
    paths[2].symlink_to(third)
    paths[3].unlink()
    os.mkfifo(paths[3])
    undone = undo_sorting(out)
    assert sorted(undone.without_original) == sorted(copy.relative_to(out).as_posix() for copy in before)
    assert (undone.removed, undone.changed, undone.missing) == (8, [], 0)
    assert {copy: copy.read_bytes() for copy in before} == before
    paths[0].write_bytes(before[first])  # restored from a backup
    undone = undo_sorting(out)
    assert undone.removed == 1 and len(undone.without_original) == 3 and not first.exists()


def test_undoing_after_the_originals_are_deleted_loses_nothing(tmp_path):
    answers, paths = make_files(tmp_path / "inbox")
    out = tmp_path / "sorted"
    sort_files(answers, paths, out)
    (tmp_path / "inbox").rename(tmp_path / "deleted")
    before = contents(out)
    undone = undo_sorting(out)
    assert undone.removed == 0 and len(undone.without_original) == 12
    assert contents(out) == before


def test_reports_are_removed_unless_they_were_changed_or_are_the_users(tmp_path):
    answers, paths = make_files(tmp_path / "inbox")
    out = tmp_path / "sorted"
    out.mkdir()
    for name in ("answers.csv", "failed.csv"):
        (out / name).write_text("mine")
    sort_files(answers, paths, out, reports=["answers.csv"])
    assert undo_sorting(out).removed == 12
    assert contents(out) == {"failed.csv": b"mine"}
    sort_files(answers, paths, out, reports=["failed.csv"])
    (out / "failed.csv").write_text("edited")
    assert undo_sorting(out).changed == ["failed.csv"]
    assert contents(out) == {"failed.csv": b"edited"}


@pytest.mark.parametrize(
    "change",
    [{"target": target} for target in ("../x.pdf", "/etc/passwd", "x.pdf", "a/../../x", "a//x")]
    + [{"source": None}, {"source": None, "target": "x.pdf"}, {"target": "answers.csv"}, {"sha256": 3}],
)
def test_a_manifest_from_a_stranger_cannot_name_files_elsewhere(change, tmp_path):
    answers, paths = make_files(tmp_path / "inbox")
    out = tmp_path / "sorted"
    sort_files(answers, paths, out)
    lines = (out / MANIFEST).read_text().splitlines()
    lines[3] = json.dumps(json.loads(lines[3]) | change)
    (out / MANIFEST).write_text("\n".join(lines))
    before = contents(tmp_path)
    with pytest.raises(ValueError, match="Line 4 of .* names the file"):
        undo_sorting(out)
    assert contents(tmp_path) == before


def test_names_in_no_encoding_are_sorted_and_undone(tmp_path):
    source = os.fsencode(tmp_path) + b"/scan \xff.pdf"
    with open(source, "wb") as file:
        file.write(b"content")
    path = next(tmp_path.glob("scan*.pdf"))
    out = tmp_path / "sorted"
    sort_files([{"label": "x", "score": 1.0}], [path], out)
    assert [file.name for file in (out / "x").iterdir()] == ["scan _.pdf"]
    assert undo_sorting(out).removed == 1 and path.read_bytes() == b"content"
