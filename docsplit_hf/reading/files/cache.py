"""A cache of the texts of files, by the content of the files."""

from __future__ import annotations

import logging
import os
import zlib
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from uuid import uuid4

from ...content_hash import sha256_of_file, sha256_of_json
from .failures import NOT_KEPT, FailedFile
from .options import FileOptions
from .places import FileText, decode_result, encode_result

logger = logging.getLogger(__name__)

READER_VERSION = 5  # to raise when a text may come out differently
LIBRARIES = ("charset-normalizer", "olefile", "pypdfium2", "python-calamine", "selectolax", "striprtf", "xberg")
# Options that change no text; a file that failed by one of them is read again under another one.
LIMITS = ("seconds", "max_memory_bytes", "max_bytes")


class Cache:
    """A folder with a compressed JSON file for each file that was read, with its checksum.

    A key has the content of the file, the ending of its name, the options, and the versions of the readers.
    """

    def __init__(self, folder: Path, options: FileOptions) -> None:
        settings = {name: value for name, value in asdict(options).items() if name not in LIMITS}
        libraries = LIBRARIES if options.ocr is None else (*LIBRARIES, options.ocr)
        versions = {name: _version(name) for name in libraries}
        self.folder = folder
        self.settings = sha256_of_json([READER_VERSION, settings, versions], sort_keys=True)

    def find(self, path: Path) -> FileText | FailedFile | None:
        """The text or the failure of a file with this content; None if it was not kept, or is damaged."""
        place = self._place(sha256_of_file(path), path)
        try:
            return decode_result(zlib.decompress(place.read_bytes()))[1]
        except FileNotFoundError:
            return None
        except (zlib.error, ValueError) as error:  # zlib checks the content by Adler-32
            logger.warning(f"{place} is damaged and is made anew: {error}.")
            return None

    def keep(self, digest: str, path: Path, result: FileText | FailedFile) -> None:
        """Keep a text or a failure that another run would have as well; the file is complete or not there."""
        if isinstance(result, FailedFile) and result.reason in NOT_KEPT:
            return
        place = self._place(digest, path)
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = unfinished(place)
        temporary.write_bytes(zlib.compress(encode_result(digest, result), level=1))
        os.replace(temporary, place)

    def _place(self, digest: str, path: Path) -> Path:
        """The file of a content."""
        key = sha256_of_json([digest, path.suffix.lower(), self.settings])
        return self.folder / key[:2] / f"{key[2:]}.json.z"


def unfinished(path: Path) -> Path:
    """A name under which a file is written before it is renamed."""
    return path.with_name(f"{path.name}.{uuid4().hex}.tmp")


def _version(name: str) -> str:
    """The installed version of a library, or that there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "none"
