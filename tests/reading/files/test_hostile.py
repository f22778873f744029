"""Hostile and damaged files: each is refused with a reason, in time and memory, and nothing is fetched or written."""

import functools
import io
import os
import sys
import time
import zipfile
import zlib

import pytest

from docsplit_hf.reading.files.failures import (
    CRASHED,
    DAMAGED,
    EMPTY,
    NESTED_TOO_DEEP,
    NOT_A_FILE,
    NOT_ACCESSIBLE,
    SCANNED,
    TIMED_OUT,
    TOO_LARGE,
    TOO_MANY_PAGES,
    TOO_MUCH_MEMORY,
    UNKNOWN_FORMAT,
    UNPACKS_TOO_LARGE,
    XML_ENTITIES,
    FailedFile,
)
from docsplit_hf.reading.files.options import FileOptions
from docsplit_hf.reading.files.reader import read_files

from .apart import read_apart
from .sample_files import (
    TYPE,
    assemble_pdf,
    make_docx,
    make_epub,
    make_mail,
    make_odt,
    make_pdf,
    make_pptx,
    make_xlsx,
    make_zip,
    paragraph,
)

pytest.importorskip("pypdfium2", reason="The extra files is not installed.")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits of memory are those of POSIX")

ENTITIES = (
    '<!DOCTYPE x [<!ENTITY a "lol lol lol lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">'
    '<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]>'
)
OUTSIDE = '<!DOCTYPE x [<!ENTITY secret SYSTEM "file:///etc/passwd">]>'
SHEET = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{0}</sheetData></worksheet>'


def with_member(content, name, member):
    """A zip file with one member replaced."""
    source = zipfile.ZipFile(io.BytesIO(content))
    return make_zip({info: source.read(info) for info in source.namelist()} | {name: member})


def nested(depth):
    """A zip file in a zip file, and so on."""
    content = make_zip({"a.txt": "deep"})
    for _ in range(depth):
        content = make_zip({"inner.zip": content})
    return content


def lying_zip():
    """A zip file whose member is much larger than it declares."""
    content = bytearray(make_zip({"word/document.xml": b"A" * 50_000_000, "[Content_Types].xml": "<Types/>"}))
    size = (50_000_000).to_bytes(4, "little")
    return bytes(content).replace(size, (100).to_bytes(4, "little"))


def overlapping_zip():
    """A zip file whose 3,000 members are the same 10 MB, as in Fifield's bomb."""
    data = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = data.compress(bytes(10_000_000)) + data.flush()
    checksum = zlib.crc32(bytes(10_000_000)).to_bytes(4, "little")
    sizes = checksum + len(packed).to_bytes(4, "little") + (10_000_000).to_bytes(4, "little")
    local = b"PK\x03\x04\x14\x00\x00\x00\x08\x00\x00\x00\x00\x00" + sizes + b"\x06\x00\x00\x00a00000" + packed
    directory = b""
    for number in range(3000):
        name = b"a%05d" % number
        directory += b"PK\x01\x02\x14\x00\x14\x00\x00\x00\x08\x00\x00\x00\x00\x00" + sizes
        directory += b"\x06\x00" + bytes(16) + name
    end = b"PK\x05\x06" + bytes(4) + b"\xb8\x0b" * 2 + len(directory).to_bytes(4, "little")
    return local + directory + end + len(local).to_bytes(4, "little") + b"\x00\x00"


def looping_pdf():
    """A PDF file whose tree of pages is a circle."""
    return assemble_pdf(
        [b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [2 0 R 2 0 R 2 0 R] /Count 3000 >>"]
    )


def pdf_of_looping_forms():
    """A PDF file whose page draws a form that draws itself."""
    form = b"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /F 3 0 R >> >> /Length 11 >>"
    page = (
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 5 0 R /Resources << /XObject << /F 3 0 R >> >> >>"
    )
    return assemble_pdf(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
            form + b"\nstream\n/F Do /F Do\nendstream",
            page + b" >>",
            b"<< /Length 5 >>\nstream\n/F Do\nendstream",
        ]
    )


def pdf_with_bomb():
    """A PDF file whose page is 200 MB of spaces when it is unpacked."""
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(b" " * 1_000_000) for _ in range(200)) + packer.flush()
    return assemble_pdf(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R >>",
            b"<< /Length %d /Filter [/FlateDecode] >>\nstream\n" % len(packed) + packed + b"\nendstream",
        ]
    )


def mails_in_mails(depth):
    """A mail in a mail, and so on."""
    content = make_mail("deep")
    for _ in range(depth):
        content = make_mail("outer", [("inner.eml", content)])
    return content


def ole(stream):
    """The beginning of a file of Microsoft's old container, with nothing behind it."""
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + stream


@functools.cache
def hostile_files():
    """The content of each file by its name, and the reasons with which it may be refused."""
    return {
        "bomb.zip": (make_zip({"a.txt": bytes(20_000_000)}), {UNPACKS_TOO_LARGE}),
        "many.zip": (make_zip({f"{n}.txt": b"x" * 900_000 for n in range(120)}), {UNPACKS_TOO_LARGE}),
        "overlapping.zip": (overlapping_zip(), {UNPACKS_TOO_LARGE, DAMAGED}),
        "nested.zip": (nested(10), {NESTED_TOO_DEEP}),
        "nested_bomb.zip": (make_zip({"b.zip": make_zip({"a.txt": bytes(20_000_000)})}), {UNPACKS_TOO_LARGE}),
        "members.zip": (make_zip({f"{n}": "x" for n in range(25_000)}), {TOO_MANY_PAGES}),
        "lying.docx": (lying_zip(), {DAMAGED, UNPACKS_TOO_LARGE}),
        "bomb.docx": (make_docx("<w:p/>" + " " * 20_000_000), {UNPACKS_TOO_LARGE}),
        "bomb.xlsx": (
            with_member(make_xlsx({"a": [["b"]]}), "xl/worksheets/sheet1.xml", SHEET.format(" " * 20_000_000)),
            {UNPACKS_TOO_LARGE},
        ),
        "bomb.odt": (make_odt(" " * 20_000_000), {UNPACKS_TOO_LARGE}),
        "bomb.epub": (make_epub(["<p>" + "a" * 20_000_000]), {UNPACKS_TOO_LARGE}),
        "bomb.eml": (make_mail("x", [("b.zip", make_zip({"a.txt": bytes(20_000_000)}))]), {UNPACKS_TOO_LARGE}),
        "entities.odt": (make_odt("<text:p>&c;</text:p>", doctype=ENTITIES), {XML_ENTITIES}),
        "outside.odt": (make_odt("<text:p>&secret;</text:p>", doctype=OUTSIDE), {XML_ENTITIES}),
        "entities.docx": (
            with_member(make_docx(""), "word/document.xml", ENTITIES + "<x><p><t>&c;</t></p></x>"),
            {XML_ENTITIES},
        ),
        "entities.pptx": (
            with_member(make_pptx(["a"]), "ppt/slides/slide0.xml", OUTSIDE + "<x><p><t>&secret;</t></p></x>"),
            {XML_ENTITIES},
        ),
        "deep.docx": (make_docx("<w:p>" * 5_000 + "</w:p>" * 5_000), {NESTED_TOO_DEEP}),
        "far_cell.xlsx": (
            with_member(
                make_xlsx({"a": [["b"]]}),
                "xl/worksheets/sheet1.xml",
                SHEET.format('<row><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'),
            ),
            {CRASHED, TOO_MUCH_MEMORY, TIMED_OUT, DAMAGED},
        ),
        "deep.html": (b"<html>" + b"<div>" * 300_000 + b"x", {TIMED_OUT, CRASHED, TOO_MUCH_MEMORY}),
        "deep.rtf": (b"{\\rtf1 " + b"{" * 1_000_000, {EMPTY, TIMED_OUT, DAMAGED}),
        "loop.pdf": (looping_pdf(), {EMPTY, DAMAGED, TIMED_OUT}),
        "forms.pdf": (pdf_of_looping_forms(), {EMPTY, DAMAGED, TIMED_OUT, CRASHED}),
        "bomb.pdf": (pdf_with_bomb(), {EMPTY, TOO_MUCH_MEMORY, CRASHED, TIMED_OUT}),
        "pages.pdf": (make_pdf(["page"] * 10_000), {TOO_MANY_PAGES}),
        "scan.pdf": (make_pdf(["", ""], picture_on=(0, 1)), {SCANNED}),
        "cut.pdf": (make_pdf(["A page."] * 5)[:300], {DAMAGED, EMPTY}),
        "noise.pdf": (b"%PDF-1.7\n" + bytes(range(256)) * 400, {DAMAGED}),
        "cut.docx": (make_docx(paragraph("x") * 1_000)[:-60], {DAMAGED}),
        "not_xml.docx": (with_member(make_docx(""), "word/document.xml", "<w:p>"), {DAMAGED}),
        "no_body.docx": (make_zip({"[Content_Types].xml": "<Types/>", "word/x.xml": "<x/>"}), {DAMAGED}),
        "no_slide.pptx": (make_zip({"[Content_Types].xml": "<Types/>", "ppt/x.xml": "<x/>"}), {DAMAGED}),
        "no_book.epub": (make_zip({"mimetype": "application/epub+zip", "META-INF/container.xml": "<x/>"}), {DAMAGED}),
        "cut.msg": (ole(bytes(600)), {DAMAGED, UNKNOWN_FORMAT}),
        "empty.txt": (b"", {EMPTY}),
        "blank.html": (b"<html><script>alert(1)</script></html>", {EMPTY}),
        "empty.zip": (make_zip({}), {EMPTY}),
        "picture.png": (b"\x89PNG\r\n\x1a\n" + bytes(100), {UNKNOWN_FORMAT}),
        "program": (b"\x7fELF" + bytes(200), {UNKNOWN_FORMAT}),
        "mails.eml": (mails_in_mails(12), {NESTED_TOO_DEEP}),
        "long.txt": (b"word " * 5_000_000, {TOO_LARGE}),
    }  # fmt: skip


OPTIONS = FileOptions(seconds=5, max_unpacked_bytes=100_000_000)


def test_forty_hostile_files_are_refused_in_time_and_memory(tmp_path):
    refused = hostile_files()
    assert len(refused) == 40
    paths = []
    for name, (content, _) in refused.items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(content)
    good = tmp_path / "good.txt"
    good.write_text("It is read, whatever came before.")
    before = set(tmp_path.rglob("*"))
    done = read_apart([*paths, good], OPTIONS)
    reasons = {path.name: getattr(result, "reason", result) for path, result in zip(paths, done.results, strict=False)}
    wrong = {name: reason for name, reason in reasons.items() if reason not in refused[name][1]}
    assert not wrong
    assert all(result.remedy and result.file == str(path) for path, result in zip(paths, done.results, strict=False))
    assert done.results[-1].text == "It is read, whatever came before."
    assert max(done.seconds) < 30
    assert done.largest_kilobytes < 1_000_000
    assert set(tmp_path.rglob("*")) == before


def one(path, **options):
    [result] = read_files([path], FileOptions(**options), processes=1, show_progress=False)
    return result.reason


def test_a_file_of_a_terabyte_is_refused_before_it_is_read(tmp_path):
    """The file is sparse. To read it would take minutes."""
    path = tmp_path / "large.pdf"
    with open(path, "wb") as file:
        file.write(b"%PDF-1.4")
        os.truncate(path, 10**12)
    started = time.monotonic()
    assert one(path) == TOO_LARGE
    assert time.monotonic() - started < 60


def test_what_is_no_file_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")  # opening it would wait for a writer
    assert one(tmp_path / "pipe.txt") == NOT_A_FILE
    assert one("/dev/zero") == NOT_A_FILE
    assert one(tmp_path / "missing.txt") == NOT_ACCESSIBLE
    assert one(tmp_path) == NOT_A_FILE


def test_paths_in_archives_write_and_read_nothing(tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    content = make_zip({"../escaped.txt": "one", "/etc/escaped.txt": "two", "..\\escaped.txt": "three"})
    (tmp_path / "sub").mkdir()
    path = tmp_path / "sub" / "a.zip"
    path.write_bytes(content)
    [found] = read_files([path], processes=1, show_progress=False)
    assert found.text == "one\ntwo\nthree"
    assert {file.name for file in tmp_path.rglob("*")} == {"secret.txt", "sub", "a.zip"}
    relation = f'<Relationship Id="r9" Type="{TYPE}/footnotes" Target="../../../secret.txt"/>'
    path.write_bytes(make_docx(paragraph("body"), relation))
    [found] = read_files([path], processes=1, show_progress=False)
    assert found.text == "body"


def test_macros_scripts_and_addresses_are_ignored(tmp_path, monkeypatch):
    relation = f'<Relationship Id="r9" Type="{TYPE}/footnotes" Target="http://127.0.0.1:1/x" TargetMode="External"/>'
    word = make_docx(paragraph("body"), relation, **{"word/vbaProject.bin": "Sub AutoOpen()"})
    action = b"<< /Type /Catalog /Pages 2 0 R /OpenAction << /S /Launch /F (touch) >> >>"
    pdf = make_pdf(["A page."]).replace(b"<< /Type /Catalog /Pages 2 0 R >>", action)
    page = b'<html><img src="http://127.0.0.1:1/x"><link href="http://127.0.0.1:1/y"><iframe src="file:///etc/passwd">'
    for name, content in (("a.docm", word), ("a.pdf", pdf), ("a.html", page + b"</iframe><p>body")):
        (tmp_path / name).write_bytes(content)
    results = list(read_files([tmp_path / name for name in ("a.docm", "a.pdf", "a.html")], show_progress=False))
    assert [result.text for result in results] == ["body", "A page.", "body"]


def test_a_slow_file_is_ended_and_the_rest_goes_on(tmp_path):
    slow = tmp_path / "slow.html"
    slow.write_bytes(hostile_files()["deep.html"][0])
    fast = tmp_path / "fast.txt"
    fast.write_text("fast")
    first, second = read_files([slow, fast], FileOptions(seconds=1), processes=1, show_progress=False)
    assert isinstance(first, FailedFile) and first.reason == TIMED_OUT and "seconds" in first.remedy
    assert second.text == "fast"
