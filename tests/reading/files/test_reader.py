"""Reading many files: order, cache, and what is left after a process is killed."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from docsplit_hf.reading.files.cache import Cache
from docsplit_hf.reading.files.failures import DAMAGED, EMPTY, NOT_ACCESSIBLE, UnreadableFile
from docsplit_hf.reading.files.options import FileOptions
from docsplit_hf.reading.files.places import FileText
from docsplit_hf.reading.files.reader import read_file, read_files
from docsplit_hf.reading.files.workers import Worker

from .apart import read_apart, start_apart
from .sample_files import make_docx, make_pdf, paragraph

pytest.importorskip("pypdfium2", reason="The extra files is not installed.")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(60):
        if number % 3 == 0:
            (folder / f"{number:03d}.pdf").write_bytes(make_pdf([f"Page one of {number}.", f"Page two of {number}."]))
        elif number % 3 == 1:
            (folder / f"{number:03d}.docx").write_bytes(make_docx(paragraph(f"Word {number}.")))
        else:
            (folder / f"{number:03d}.txt").write_text(f"Text {number}." if number % 6 == 2 else "")
    return folder


def files_of(folder):
    return sorted(folder.iterdir())


def no_worker(*_):
    raise AssertionError("a file is read, not found in the cache")


def test_one_file_is_read_with_its_places(folder):
    found = read_file(folder / "003.pdf")
    assert found.text == "Page one of 3.\nPage two of 3." and [place.name for place in found.places] == ["1", "2"]


def test_an_error_names_the_file_the_reason_and_the_remedy(folder):
    (folder / "cut.pdf").write_bytes(make_pdf(["A page."])[:60])
    with pytest.raises(UnreadableFile, match=r"cut\.pdf is not read: damaged .* Open it in its program") as caught:
        read_file(folder / "cut.pdf")
    assert caught.value.reason == DAMAGED and caught.value.file == str(folder / "cut.pdf") and caught.value.remedy


@pytest.mark.parametrize("processes", [1, 3])
def test_results_come_in_the_order_of_the_files(folder, processes):
    paths = [*files_of(folder), folder / "missing.txt"]
    results = list(read_files(paths, processes=processes, show_progress=False))
    assert [getattr(result, "file", None) or result.text.split()[-1] for result in results[:5]] == [
        "0.", "1.", "2.", "3.", "4."
    ]  # fmt: skip
    failed = [result for result in results if not isinstance(result, FileText)]
    assert {result.reason for result in failed} == {EMPTY, NOT_ACCESSIBLE} and len(failed) == 11
    assert failed[-1].file == str(folder / "missing.txt")


def test_a_second_run_reads_no_file_again(folder, tmp_path, monkeypatch):
    paths = files_of(folder)
    first = list(read_files(paths, cache_dir=tmp_path / "cache", show_progress=False))
    assert first == list(read_files(paths, show_progress=False))
    monkeypatch.setattr(Worker, "read", no_worker)
    assert list(read_files(paths, cache_dir=tmp_path / "cache", show_progress=False)) == first
    copy = folder / "copy.pdf"
    copy.write_bytes((folder / "000.pdf").read_bytes())
    assert list(read_files([copy], cache_dir=tmp_path / "cache", show_progress=False)) == first[:1]


def test_another_content_or_option_is_read_again(folder, tmp_path, monkeypatch):
    path = folder / "000.pdf"
    [first] = read_files([path], cache_dir=tmp_path / "cache", show_progress=False)
    path.write_bytes(make_pdf(["Another page."]))
    [second] = read_files([path], cache_dir=tmp_path / "cache", show_progress=False)
    assert (first.text, second.text) == ("Page one of 0.\nPage two of 0.", "Another page.")
    monkeypatch.setattr(Worker, "read", no_worker)
    with pytest.raises(AssertionError, match="not found in the cache"):
        list(read_files([path], FileOptions(encoding="cp1252"), cache_dir=tmp_path / "cache", show_progress=False))
    assert list(read_files([path], FileOptions(seconds=3), cache_dir=tmp_path / "cache", show_progress=False)) == [
        second
    ]


@pytest.mark.parametrize("damage", [lambda content: content[:-3], lambda content: b"", lambda content: content[::-1]])
def test_a_damaged_entry_of_the_cache_is_made_anew(folder, tmp_path, damage):
    path = folder / "000.pdf"
    [first] = read_files([path], cache_dir=tmp_path / "cache", show_progress=False)
    [entry] = [entry for entry in (tmp_path / "cache").rglob("*") if entry.is_file()]
    content = entry.read_bytes()
    entry.write_bytes(damage(content))
    assert list(read_files([path], cache_dir=tmp_path / "cache", show_progress=False)) == [first]
    assert entry.read_bytes() == content


def test_workers_end_when_the_reading_is_left(folder, monkeypatch):
    workers = []
    make = Worker.__init__
    monkeypatch.setattr(Worker, "__init__", lambda self: (workers.append(self), make(self))[1])
    results = read_files(files_of(folder), processes=2, show_progress=False)
    next(results)
    processes = [worker.process for worker in workers]
    results.close()
    assert processes and all(process.poll() is not None for process in processes if process is not None)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("lines", [9, *(pytest.param(lines, marks=pytest.mark.slow) for lines in (1, 40))])
def test_a_killed_run_is_continued(folder, tmp_path, lines):
    cache = tmp_path / "cache"
    killed = start_apart(files_of(folder), FileOptions(), cache)
    for _ in range(lines):
        killed.stdout.readline()
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    killed.stdout.close()
    kept = len(list(cache.rglob("*.json.z")))
    assert kept
    resumed = read_apart(files_of(folder), FileOptions(), cache)
    assert resumed.results == list(read_files(files_of(folder), show_progress=False))


@pytest.mark.skipif(sys.platform != "linux", reason="processes are listed in /proc")
def test_a_worker_ends_when_its_parent_is_killed(folder):
    killed = start_apart(files_of(folder), FileOptions())
    killed.stdout.readline()
    children = [int(pid) for pid in Path(f"/proc/{killed.pid}/task/{killed.pid}/children").read_text().split()]
    children += [
        int(pid)
        for task in Path(f"/proc/{killed.pid}/task").iterdir()
        for pid in (task / "children").read_text().split()
    ]
    killed.kill()
    killed.wait()
    killed.stdout.close()
    until = time.monotonic() + 20
    while any(_is_running(pid) for pid in children) and time.monotonic() < until:
        time.sleep(0.1)
    assert children and not any(_is_running(pid) for pid in children)


def _is_running(pid):
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_options_that_cannot_be_are_refused():
    for wrong in ({"seconds": 0}, {"max_pages": -1}, {"ocr": "other"}, {"encoding": "no-such"}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong.values()))}"):
            FileOptions(**wrong)


def test_keys_of_the_cache_depend_on_the_version_of_the_reader(tmp_path, monkeypatch):
    before = Cache(tmp_path, FileOptions()).settings
    monkeypatch.setattr("docsplit_hf.reading.files.cache.READER_VERSION", 0)
    assert Cache(tmp_path, FileOptions()).settings != before
