"""A folder of files as a data set."""

import csv
import glob
import logging
import os
import sys
from pathlib import Path

import pytest

from docsplit_hf import load_files
from docsplit_hf.reading.files.failures import EMPTY
from docsplit_hf.reading.files.finding import find_files, is_hidden
from docsplit_hf.reading.source import find_text_files

from .sample_files import make_docx, make_mail, make_pdf, make_zip, paragraph

pytest.importorskip("pypdfium2", reason="The extra files is not installed.")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "files"
    for path, content in (
        ("lease/a.pdf", make_pdf(["Rent.", "Keys."])),
        ("lease/deep/b.docx", make_docx(paragraph("Deposit."))),
        ("loan/c.txt", b"Interest."),
        ("loan/=d.txt", b""),
        ("loan/.hidden.txt", b"hidden"),
        ("loan/~$c.docx", b"lock file of Word"),
    ):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


@pytest.fixture
def load(tmp_path):
    return lambda source, **options: load_files(source, cache_dir=tmp_path / "cache", show_progress=False, **options)


def test_a_folder_has_texts_files_places_and_labels(folder, load, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="docsplit_hf"):
        rows = load(folder, failed_file=tmp_path / "failed.csv")
    assert rows["file"] == ["lease/a.pdf", "lease/deep/b.docx", "loan/c.txt"]
    assert rows["label"] == ["lease", "lease", "loan"]
    assert rows["text"] == ["Rent.\nKeys.", "Deposit.", "Interest."]
    assert rows["places"] == [
        [
            {"kind": "page", "name": "1", "start": 0, "end": 5},
            {"kind": "page", "name": "2", "start": 6, "end": 11},
        ],
        [],
        [],
    ]
    assert "1 of 4 files are not read" in caplog.text and "2 hidden or of the system" in caplog.text
    with open(tmp_path / "failed.csv", newline="") as file:
        [failed] = csv.DictReader(file)
    assert failed["file"] == "loan/=d.txt" and failed["reason"] == EMPTY and failed["remedy"]


def test_parts_that_are_left_out_are_counted_and_named(tmp_path, load, caplog):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.eml").write_bytes(make_mail("Hello.", [("a.png", b"\x89PNG\x00"), ("b.png", b"\x89PNG\x00")]))
    load(tmp_path / "in")
    assert "2 unknown format" in caplog.text and "a.eml, attachment: a.png: unknown format" in caplog.text


def test_a_second_load_gives_the_same_data_set(folder, load):
    first = load(folder)
    second = load(folder)
    assert first[:] == second[:] and first.cache_files == second.cache_files


def test_labels_are_the_first_sub_folders_of_a_folder(folder, load):
    assert load(folder / "lease")["label"] == [None, "deep"]
    assert load([folder / "loan" / "c.txt", folder / "lease" / "a.pdf"])["label"] == [None, None]
    (folder / "top.txt").write_text("In no sub-folder.")
    assert set(load(folder)["label"]) == {None, "lease", "loan"}


def test_a_formula_in_the_name_of_a_file_is_guarded(folder, load, tmp_path):
    (folder / "=cmd.txt").write_bytes(b"")
    load(folder, failed_file=tmp_path / "failed.csv")
    assert "'=cmd.txt" in (tmp_path / "failed.csv").read_text()


def test_files_that_all_fail_are_an_error(tmp_path, load):
    (tmp_path / "a.txt").write_bytes(b"")
    with pytest.raises(ValueError, match=r"None of 1 files can be read. The first: .*a\.txt: empty"):
        load([tmp_path / "a.txt"])


def test_patterns_are_found_and_links_out_of_the_folder_are_not(folder, tmp_path, caplog):
    assert [path.name for path in find_files(f"{folder}/**/*.docx")] == ["b.docx"]
    assert find_files(folder / "loan" / "c.txt") == [folder / "loan" / "c.txt"]
    (tmp_path / "outside.txt").write_text("secret")
    (folder / "out.txt").symlink_to(tmp_path / "outside.txt")
    (folder / "in.txt").symlink_to(folder / "loan" / "c.txt")
    (folder / "circle").symlink_to(folder)
    found = [path.relative_to(folder).as_posix() for path in find_files(folder)]
    assert found == ["in.txt", "lease/a.pdf", "lease/deep/b.docx", "loan/=d.txt", "loan/c.txt"]
    assert "2 links that leave the folder" in caplog.text
    assert find_files(f"{folder}/**/*.txt") == [folder / name for name in found if name.endswith(".txt")]
    assert f"Left out of {folder}/**/*.txt: 2 links that leave the folder" in caplog.text
    with pytest.raises(FileNotFoundError, match="There is no file in"):
        find_files(tmp_path / "nothing")


@pytest.mark.parametrize(
    "pattern",
    ["*.txt", "*/*", "**", "**/*", "**/*.txt", "l*/**/*.[tp]*", "**/deep/**/*.docx", "**/**/*.txt", "l*", "nothing/*"],
)
def test_a_pattern_finds_what_the_shell_finds(pattern, folder, monkeypatch):
    (folder / "[old]").mkdir()
    (folder / "[old]" / "e.txt").write_text("Read.")
    monkeypatch.chdir(folder)
    for start in ("", f"{folder}/"):
        matches = {Path(match) for match in glob.glob(start + pattern, recursive=True)}
        expected = sorted(path for path in matches if path.is_file() and not is_hidden(path.name))
        if expected:
            assert find_files(start + pattern) == expected
        else:
            with pytest.raises(FileNotFoundError, match="There is no file in"):
                find_files(start + pattern)
    assert find_files("[old]/*.txt") == [Path("[old]/e.txt")]


def test_patterns_do_not_go_in_circles_or_outside(tmp_path):
    """The links lead to the folder above, to a folder elsewhere, and to themselves."""
    inbox = tmp_path / "inbox"
    (inbox / "a" / "b").mkdir(parents=True)
    (inbox / "a" / "b" / "c.txt").write_text("Read.")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "d.txt").write_text("Not read.")
    (inbox / "a" / "up").symlink_to(inbox)
    (inbox / "a" / "b" / "up").symlink_to(inbox / "a")
    (inbox / "out").symlink_to(tmp_path / "private")
    (inbox / "self.txt").symlink_to("self.txt")
    (inbox / ".hidden").mkdir()
    (inbox / ".hidden" / "e.txt").write_text("Not read.")
    expected = [inbox / "a" / "b" / "c.txt"]
    for pattern in ("inbox", "inbox/**/*.txt", "inbox/**", "inbox/**/**/*", "inb*/**/*.txt"):
        assert find_files(tmp_path / pattern) == expected
    assert find_text_files(inbox) == expected
    assert find_files(inbox / "out" / "*") == [inbox / "out" / "d.txt"]  # a link that the user names may lead out
    for pattern in ("inbox/*/d.txt", "inbox/*/../../private/d.txt"):
        with pytest.raises(FileNotFoundError):
            find_files(tmp_path / pattern)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text on other systems")
def test_names_that_are_no_utf_8(folder, load, tmp_path):
    (folder / "loan" / os.fsdecode(b"\xffa.txt")).write_bytes(b"Read.")
    (folder / "loan" / os.fsdecode(b"\xffb.txt")).write_bytes(b"")
    rows = load(folder, failed_file=tmp_path / "failed.csv")
    assert rows["file"][-1] == "loan/\ufffda.txt" and rows["text"][-1] == "Read."
    assert "loan/\ufffdb.txt" in (tmp_path / "failed.csv").read_text()


def test_dropped_lines_and_replaced_characters_are_counted(tmp_path, load, caplog):
    pages = [f"ACME Inc.\nText {letter} one.\nText {letter} two." for letter in "abcde"]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.pdf").write_bytes(make_pdf(pages))
    (tmp_path / "in" / "a.zip").write_bytes(make_zip({"b.pdf": make_pdf(pages)}))
    (tmp_path / "in" / "c.eml").write_bytes(
        b"Subject: One\nFrom: a\nContent-Type: text/plain; charset=utf-8\n\n\xef\xbb\xbfa\xff"
    )
    with caplog.at_level(logging.INFO, logger="docsplit_hf"):
        load(tmp_path / "in")
    assert "repeat at the top or bottom of pages: 8." in caplog.text
    assert "replaced by U+FFFD: 1." in caplog.text
