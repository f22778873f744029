"""Errors within a worker become failures with a reason."""

import sys

import pytest

from docsplit_hf.reading.files import worker
from docsplit_hf.reading.files.failures import DAMAGED, MISSING_LIBRARY, REMEDIES, TOO_MUCH_MEMORY
from docsplit_hf.reading.files.options import FileOptions
from docsplit_hf.reading.files.worker import read_in_this_process

from .sample_files import make_pdf


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.pdf"
    path.write_bytes(make_pdf(["A page."]))
    return str(path)


def test_a_missing_library_is_named_with_the_line_that_installs_it(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    _, failure = read_in_this_process(path, FileOptions())
    assert failure.reason == MISSING_LIBRARY and "pypdfium2" in failure.detail and ".[files]" in failure.remedy


@pytest.mark.parametrize(
    ("error", "reason"), [(MemoryError(), TOO_MUCH_MEMORY), (RecursionError("deep"), DAMAGED), (OSError("x"), DAMAGED)]
)
def test_errors_of_libraries_are_failures_of_the_file(path, monkeypatch, error, reason):
    def fail(*_):
        raise error

    monkeypatch.setattr(worker, "read_text", fail)
    digest, failure = read_in_this_process(path, FileOptions())
    assert failure.reason == reason and failure.remedy == REMEDIES[reason] and len(digest) == 64
