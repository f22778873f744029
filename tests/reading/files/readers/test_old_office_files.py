"""Files of Word and PowerPoint 97, which xberg reads in the limited process; hostile ones are named."""

import random
import struct
import sys

import pytest

from docsplit_hf.reading.files.failures import (
    CRASHED,
    DAMAGED,
    EMPTY,
    ENCRYPTED,
    OLD_FORMAT,
    TIMED_OUT,
    TOO_MUCH_MEMORY,
    UNKNOWN_FORMAT,
    UNPACKS_TOO_LARGE,
    Refusal,
)
from docsplit_hf.reading.files.formats import read_text
from docsplit_hf.reading.files.options import FileOptions

from ..apart import read_apart
from ..sample_files import make_doc, make_ole, make_ppt, make_zip

pytest.importorskip("olefile", reason="The extra files is not installed.")

TEXT = "The rent is due.\rOn the first day: \u2013 \u00e4.\r"
SLIDES = [["A title", "The rent is due."], ["Keys", "Two keys.", "No pets."]]
NAMED = {CRASHED, DAMAGED, EMPTY, ENCRYPTED, TIMED_OUT, TOO_MUCH_MEMORY, UNKNOWN_FORMAT}


def refusal(content, **options):
    with pytest.raises(Refusal) as refused:
        read_text(content, "a.doc", FileOptions(**options))
    return refused.value.reason


def test_without_xberg_the_line_that_installs_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xberg", None)
    for content in (make_doc(TEXT), make_ppt(SLIDES)):
        assert refusal(content) == OLD_FORMAT
    found = read_text(make_zip({"old.doc": make_doc(TEXT), "a.txt": "new"}), "a.zip", FileOptions())
    assert found.text == "new" and found.left_out == (("old.doc", OLD_FORMAT),)


def test_a_word_file_is_one_text():
    pytest.importorskip("xberg", reason="The extra old-files is not installed.")
    found = read_text(make_doc(TEXT), "a.doc", FileOptions())
    assert found.text == "The rent is due.\nOn the first day: \u2013 \u00e4." and found.places == ()


def test_a_presentation_is_one_text():
    pytest.importorskip("xberg", reason="The extra old-files is not installed.")
    found = read_text(make_ppt(SLIDES), "a.ppt", FileOptions())
    words = "A title The rent is due. Keys Two keys. No pets."
    assert " ".join(found.text.split()) == words and found.places == ()
    assert refusal(make_ppt(SLIDES), max_unpacked_bytes=10) == UNPACKS_TOO_LARGE


def hostile_files():
    """Files that are cut, noisy, or claim sizes that they do not have; by a name that says how they are made."""
    draw = random.Random(0)
    originals = {"doc": make_doc(TEXT * 50), "ppt": make_ppt(SLIDES * 5)}
    for kind, content in originals.items():
        for length in (8, 512, 600, len(content) // 2, len(content) - 600):
            yield f"cut_at_{length}.{kind}", content[:length]
        for number in range(10):
            noisy = bytearray(content)
            for _ in range(200):
                noisy[draw.randrange(8, len(noisy))] = draw.randrange(256)
            yield f"noisy_{number}.{kind}", bytes(noisy)
        yield f"noise.{kind}", content[:8] + draw.randbytes(100_000)
        yield f"zeros.{kind}", content[:8] + bytes(100_000)
    for offset in (0x18, 0x1C, 0x4C, 0x1A2, 0x1A6):  # the text, its length, and the table of pieces
        claiming = make_doc(TEXT)
        place = claiming.index(struct.pack("<HH", 0xA5EC, 0x00C1)) + offset
        yield f"claims_at_{offset}.doc", claiming[:place] + b"\xff\xff\xff\x7f" + claiming[place + 4 :]
    for kind in (1000, 1006, 4000, 6002):  # records
        claiming = make_ppt(SLIDES)
        place = claiming.index(struct.pack("<H", kind) + b"", 512) + 2
        yield f"claims_{kind}.ppt", claiming[:place] + b"\xff\xff\xff\x7f" + claiming[place + 4 :]
    deep = b""
    for _ in range(300):
        deep = struct.pack("<HHI", 15, 1000, len(deep)) + deep
    yield "deep.ppt", make_ole({"PowerPoint Document": deep, "Current User": bytes(40)})


@pytest.mark.skipif(sys.platform == "win32", reason="limits of memory are those of POSIX")
def test_hostile_files_are_read_or_named_and_nothing_crashes(tmp_path):
    pytest.importorskip("xberg", reason="The extra old-files is not installed.")
    paths = []
    for name, content in hostile_files():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(content)
    good = tmp_path / "good.doc"
    good.write_bytes(make_doc(TEXT))
    done = read_apart([*paths, good], FileOptions(seconds=20))
    reasons = {path.name: getattr(result, "reason", None) for path, result in zip(paths, done.results, strict=False)}
    assert not {name: reason for name, reason in reasons.items() if reason is not None and reason not in NAMED}
    assert sum(1 for reason in reasons.values() if reason is not None) > len(paths) // 3
    assert done.results[-1].text.startswith("The rent is due.")
    assert done.largest_kilobytes < 1_000_000
    assert set(tmp_path.iterdir()) == {*paths, good}
