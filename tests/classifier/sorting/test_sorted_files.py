"""Files sorted into folders by label: names, kills, later runs, and what is refused."""

import json
import os
import signal
import subprocess
import sys

import pytest

from docsplit_hf.classifier.predict_file import PredictionFiles, check_files
from docsplit_hf.classifier.sorting.sorted_files import MANIFEST, check_not_inside, read_sorted, reason_of
from docsplit_hf.classifier.sorting.sorted_folder import TEMPORARY, sort_files
from docsplit_hf.classifier.sorting.undo_sorting import undo_sorting

from .inboxes import contents, make_files


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


@pytest.mark.parametrize(
    ("words", "against", "expected"),
    [
        ("ab", "", "a, b"),
        ("abcd", "xyzw", "a, b, c; against it: x, y, z"),
        ("", "x", "against it: x"),
        ("", "", None),
    ],
)
def test_the_reason_names_words_for_a_label_and_against_it(words, against, expected):
    explanation = {"words": [{"word": word} for word in words], "words_against": [{"word": word} for word in against]}
    assert reason_of({"label": "kind", "explanation": explanation}) == expected


def test_folders_that_cannot_take_sorted_files_are_refused(tmp_path):
    _, paths = make_files(tmp_path / "inbox")
    with pytest.raises(ValueError, match="is inside"):
        check_not_inside(tmp_path / "inbox" / "sorted", tmp_path / "inbox")
    with pytest.raises(ValueError, match="is a file"):
        check_not_inside(paths[0], tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match=r"has no manifest\.jsonl"):
        undo_sorting(tmp_path / "inbox")


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


def test_links_in_the_folder_are_not_followed(tmp_path):
    answers, paths = make_files(tmp_path / "inbox")
    out = tmp_path / "sorted"
    out.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (out / "invoice").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="is a link or a file where a folder should be"):
        sort_files(answers, paths, out)
    assert list((tmp_path / "elsewhere").iterdir()) == []
