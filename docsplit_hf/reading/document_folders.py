"""Folders, patterns and single files of documents (PDF, Word, mail, ...) as data sets."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .characters import replace_lone_surrogates
from .files.collected import collected_failures
from .files.finding import ALL_FILES, files_in
from .files.load_files import load_files, relative_name, write_failures
from .files.options import FileOptions
from .origins import FILE_COLUMN, PLACES_COLUMN

if TYPE_CHECKING:
    from datasets import Dataset

# Endings of files that hold a document, and no table of texts. Files of other kinds are recognized by their content.
DOCUMENT_ENDINGS = (
    ".pdf", ".docx", ".docm", ".doc", ".odt", ".rtf", ".pptx", ".ppt", ".xlsx", ".xls", ".html", ".htm", ".xhtml",
    ".eml", ".msg", ".epub", ".zip",
)  # fmt: skip
# A folder with .txt files and these is a folder of .txt files, such as one with a README.md.
MARKUP_ENDINGS = (".md", ".markdown", ".rst")
TABLE_ENDINGS = (".jsonl", ".json", ".csv", ".tsv", ".parquet", ".gz")
DOCUMENT_COLUMNS = ("text", FILE_COLUMN, PLACES_COLUMN)
FAILED = "failed.csv"  # in the folder of a command's results


def is_pattern(source: str | Path) -> bool:
    """Whether a source is a pattern such as ``inbox/**/*.pdf``, and no file or folder of that name."""
    return glob.has_magic(str(source)) and not Path(source).exists()


def holds_documents(source: str | Path) -> bool:
    """Whether a source is a pattern of files, a document, or a folder with documents at any depth."""
    path = Path(source)
    if is_pattern(path):
        return True
    if path.is_file():
        return path.suffix.lower() in (*DOCUMENT_ENDINGS, *MARKUP_ENDINGS)
    others = False
    texts = False
    for file in files_in(path, ALL_FILES, left_out=Counter()):
        ending = file.suffix.lower()
        if ending in DOCUMENT_ENDINGS:
            return True
        texts = texts or ending == ".txt"
        others = others or ending not in (".txt", *TABLE_ENDINGS)
    return others and not texts


def name_of_document(file: Path, source: Path) -> str:
    """Name a file of a source as data sets do: by its path below the folder, or as it was given.

    Names that are not in UTF-8, which have lone surrogates here, get replacement characters: no table holds them.
    """
    return replace_lone_surrogates(relative_name(file, source if source != file and source.is_dir() else None))


def label_of_document(name: str) -> str | None:
    """Return the first sub-folder of a file below a folder; None without one."""
    folder, slash, _ = name.partition("/")
    return folder if slash else None


def load_document_folder(source: Path, encoding: str | None = None) -> Dataset:
    """Load documents with the columns ``text``, ``file``, ``places``, and ``label``, the first sub-folder or None."""
    import datasets

    rows = load_files(source, FileOptions(encoding=encoding), labels=False)
    labels = [label_of_document(name) if source.is_dir() else None for name in rows[FILE_COLUMN]]
    return rows.add_column("label", labels, feature=datasets.Value("string"))


@contextmanager
def list_of_failures(folder: str | Path) -> Iterator[None]:
    """List the files that are not read within the context in ``failed.csv`` in a folder, and print their number."""
    with collected_failures() as failures:
        yield
    if failures:
        path = Path(folder) / FAILED
        path.parent.mkdir(parents=True, exist_ok=True)
        write_failures(failures, path)
        print(f"Files that could not be read: {len(failures):,}, listed with their reasons in {path}.")
