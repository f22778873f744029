"""Names of folders and files made of labels and file names."""

import random
import sys
import unicodedata

import pytest

from docsplit_hf.classifier.sorting.folder_names import folded, folders_of_labels, free_name, safe_name
from docsplit_hf.storage.inside_folder import is_plain

NASTY = [
    "a/b", "..", ".", "", " ", "a\\b", "C:", "con", "NUL.txt", "aux", "COM1", "a.", "a ", ".hidden", "x\0y", "a\u202eb",
    "…", "ａ／ｂ", "Report…", "\ud800", "a\nb", "x" * 400, "好" * 200, "é" * 130, "contract.pdf", "CON .txt", "﹒",
    "ＣＯＮ",
]  # fmt: skip


@pytest.mark.parametrize("name", NASTY)
def test_any_name_becomes_a_plain_one(name):
    safe = safe_name(name)
    assert is_plain(safe) and "/" not in safe and len(safe.encode()) <= 121
    assert safe_name(safe) == safe and safe.split(".")[0].rstrip().upper() not in ("CON", "NUL", "AUX", "COM1")


def test_random_names_become_plain_ones():
    rng = random.Random(0)
    for _ in range(3000):
        name = "".join(chr(rng.choice([rng.randrange(0x250), rng.randrange(sys.maxunicode)])) for _ in range(4))
        assert is_plain(safe_name(name)) and "/" not in safe_name(name), ascii(name)


def test_a_harmless_name_stays():
    for name in ("Service agreement", "sci.med", "Verträge 2024", "合同", "a.tar.gz"):
        assert safe_name(name) == unicodedata.normalize("NFC", name)


def test_labels_never_share_a_folder():
    labels = ["A/B", "a:b", "A_B", "a_b", "_unsure", "_FAILED", "..", ".", "x" * 300, "x" * 301]
    folders = folders_of_labels(labels)
    assert set(folders) == set(labels) and len({folded(name) for name in folders.values()}) == len(labels)
    assert not {folded(name) for name in folders.values()} & {"_unsure", "_failed"}


def test_a_number_goes_before_the_ending():
    taken = {folded("Offer.PDF"), folded("offer (2).pdf"), "readme"}
    assert free_name("offer.pdf", taken) == "offer (3).pdf"
    assert free_name("README", taken) == "README (2)" and free_name("other.pdf", taken) == "other.pdf"
