"""JsonlRangeReader: one .jsonl file for many tasks; datatrove's own readers give a whole file to one of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datatrove.data import Document
from datatrove.pipeline.readers.base import BaseReader

from ..text.line_ranges import lines_between


class JsonlRangeReader(BaseReader):
    """Reads the lines of a ``.jsonl`` file that begin in a task's range of bytes.

    Args:
        path: The file, in UTF-8 and not compressed.
        **options: Those of datatrove's readers: ``text_key``, ``id_key``, ``adapter``, ... A row without an id gets one
            of its task and its line.
    """

    name = "Ranges of a .jsonl file"

    def __init__(self, path: str | Path, **options: Any) -> None:
        super().__init__(**options)
        self.path = str(path)

    def run(self, data: Iterator[Document] | None = None, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """The documents of a task, after those of the steps before."""
        yield from data or ()
        path = Path(self.path)
        start, end = (path.stat().st_size * part // world_size for part in (rank, rank + 1))
        for number, line in enumerate(lines_between(path, start, end)):
            text = line.decode("utf-8-sig").strip()
            if not text:
                continue
            try:
                row = json.loads(text)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}: the line {text[:80]!r} is not JSON: {error}. Correct it.") from error
            if not isinstance(row, dict) or not isinstance(row.get(self.text_key) or "", str):
                raise ValueError(
                    f"{path}: the line {text[:80]!r} is no row with a text in {self.text_key!r}. Correct it."
                )
            if row.get(self.id_key) is None:
                row.pop(self.id_key, None)
            document = self.get_document_from_dict(row, path.name, f"{rank:05d}/{number}")
            if document is None:
                self.stat_update("left out, without text")
                continue
            self.update_doc_stats(document)
            yield document
