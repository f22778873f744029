"""Files sorted into folders by label; kills, changes and undoing."""

import json
import os
import signal
import subprocess
import sys

import pytest

from docsplit_hf.classifier.predict_file import PredictionFiles, check_files
from docsplit_hf.classifier.sorting.manifest import MANIFEST, check_not_inside, read_sorted
from docsplit_hf.classifier.sorting.sorted_folder import TEMPORARY, sort_files
from docsplit_hf.classifier.sorting.undo_sorting import undo_sorting

LABELS = ["invoice", "a/b", "..", "Lease", None]


def make_files(folder, count=12):
    """Files in two folders with the same names, and their answers; every sixth is unsure, one is unreadable."""
    paths = {}
    answers = []
    for i in range(count):
        path = folder / f"in{i % 2}" / f"scan {i // 2}.pdf"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"content {i}".encode() * (i + 1))
        os.utime(path, (1e9 + i, 1e9 + i))
        name = path.relative_to(folder).as_posix()
        paths[name] = path
        score = None if i == 7 else round(0.5 + i / 100, 3)
        label = None if i == 7 else LABELS[i % 5]
        reason = "encrypted" if i == 7 else None
        answers.append({"file": name, "label": label, "score": score, "page": str(i + 1), "reason": reason})
    return answers, list(paths.values())


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


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


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


def test_equal_names_get_numbers_and_are_counted(tmp_path):
    paths = []
    for i in range(4):
        path = tmp_path / str(i) / ("Offer.pdf" if i % 2 else "offer.PDF")
        path.parent.mkdir()
        path.write_text(str(i))
        paths.append(path)
    out = tmp_path / "sorted"
    (out / "x").mkdir(parents=True)
    (out / "x" / "OFFER.pdf").write_text("mine")
    done = sort_files([{"label": "x", "score": 1.0}] * 4, paths, out)
    assert done.renamed == 4
    assert sorted(os.listdir(out / "x")) == [
        "OFFER.pdf", "Offer (3).pdf", "Offer (5).pdf", "offer (2).PDF", "offer (4).PDF",
    ]  # fmt: skip
    undo_sorting(out)
    assert contents(out) == {"x/OFFER.pdf": b"mine"}


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


KILLED = """
import json, os, signal, sys
from pathlib import Path
sys.argv[0] = "docsplit"  # so that the import of docsplit_hf does not wait for transformers
from docsplit_hf.classifier.sorting.sorted_folder import sort_files
answers, paths, out = json.loads(Path(sys.argv[1]).read_text())
last = int(sys.argv[2])
steps = 0

def count(event, arguments):
    global steps
    if event in ("open", "os.mkdir", "os.rename", "os.utime"):
        steps += 1
        if steps == last:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
sort_files(answers, list(map(Path, paths)), Path(out))
print(steps)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_run_that_was_killed_is_finished_without_duplicates(tmp_path):
    """It is killed before one of the calls that open, make, rename or date a file, from the first to the last."""
    answers, paths = make_files(tmp_path / "inbox", count=60)

    def run(out, last, code=0):
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps([answers, list(map(str, paths)), str(out)]))
        finished = subprocess.run([sys.executable, "-c", KILLED, plan, str(last)], stdout=subprocess.PIPE, text=True)
        assert finished.returncode == code
        return finished.stdout

    steps = int(run(tmp_path / "whole", 0).split()[-1])
    whole = contents(tmp_path / "whole") | {MANIFEST: b""}
    half_copied = 0
    for last in range(1, steps + 1, steps // 12):
        out = tmp_path / f"sorted_{last}"
        run(out, last, code=-signal.SIGKILL)
        there = [name for name in contents(out) if "/" in name]
        left_over = [name for name in there if TEMPORARY.fullmatch(name.partition("/")[2])]
        half_copied += len(left_over)
        done = sort_files(answers, paths, out)
        assert done.known >= len(there) - len(left_over) and done.files + done.known == 60
        assert contents(out) | {MANIFEST: b""} == whole
        assert undo_sorting(out).removed == 60 and list(out.iterdir()) == []
    assert half_copied > 0


def test_files_that_came_later_are_sorted_too_and_others_stay(tmp_path):
    answers, paths = make_files(tmp_path / "inbox")
    out = tmp_path / "sorted"
    sort_files(answers[:8], paths[:8], out)
    first = contents(out)
    answers[9]["label"] = "a_b"  # the folder of "a/b" has this name
    answers[0]["label"] = "other"  # another answer moves no file
    done = sort_files(answers, paths, out)
    assert (done.files, done.known, done.missing) == (4, 8, 0)
    assert done.by_folder["a_b (2)"] == 1
    found = contents(out)
    assert {name: found[name] for name in first if name != MANIFEST} == {
        name: content for name, content in first.items() if name != MANIFEST
    }
    assert {entry.source for entry in read_sorted(out / MANIFEST)} == {path.resolve().as_posix() for path in paths}
    assert undo_sorting(out).removed == 12


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


def test_links_in_the_folder_are_not_followed(tmp_path):
    answers, paths = make_files(tmp_path / "inbox")
    out = tmp_path / "sorted"
    out.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (out / "invoice").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="is a link or a file where a folder should be"):
        sort_files(answers, paths, out)
    assert list((tmp_path / "elsewhere").iterdir()) == []


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


def test_folders_that_cannot_take_sorted_files_are_refused(tmp_path):
    _, paths = make_files(tmp_path / "inbox")
    with pytest.raises(ValueError, match="is inside"):
        check_not_inside(tmp_path / "inbox" / "sorted", tmp_path / "inbox")
    with pytest.raises(ValueError, match="is a file"):
        check_not_inside(paths[0], tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match=r"has no manifest\.jsonl"):
        undo_sorting(tmp_path / "inbox")


def test_names_in_no_encoding_are_sorted_and_undone(tmp_path):
    source = os.fsencode(tmp_path) + b"/scan \xff.pdf"
    with open(source, "wb") as file:
        file.write(b"content")
    path = next(tmp_path.glob("scan*.pdf"))
    out = tmp_path / "sorted"
    sort_files([{"label": "x", "score": 1.0}], [path], out)
    assert [file.name for file in (out / "x").iterdir()] == ["scan _.pdf"]
    assert undo_sorting(out).removed == 1 and path.read_bytes() == b"content"


@pytest.mark.parametrize(
    "source, error, problem",
    [
        ("inbx", FileNotFoundError, "There is no file or folder '.*inbx'. Did you mean '.*inbox'"),
        ("nowhere", FileNotFoundError, "There is no file or folder '.*nowhere'"),
        ("table.csv", ValueError, "into which files are sorted, and .*table.csv is a table"),
    ],
)
def test_what_cannot_be_sorted_is_named(source, error, problem, tmp_path):
    (tmp_path / "inbox").mkdir()
    (tmp_path / "table.csv").write_text("text\nA text.\n")
    files = PredictionFiles(tmp_path / source, tmp_path / "out" / "answers.csv", sorted_folder=tmp_path / "out")
    with pytest.raises(error, match=problem):
        check_files(files)


def test_files_that_come_while_others_are_classified_are_left_to_a_later_run(tmp_path):
    """They are found once, or the answers would no longer fit the files."""
    make_files(tmp_path / "inbox")
    files = PredictionFiles(tmp_path / "inbox", tmp_path / "out" / "answers.csv", sorted_folder=tmp_path / "out")
    assert check_files(files)[1] == 12
    (tmp_path / "inbox" / "later.pdf").write_bytes(b"later")
    assert len(list(files.rows())) == len(files.documents) == 12
