"""Limits: what one visitor of the page may take of the server, and the sentences that say so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


def counted(number: int, noun: str) -> str:
    """``1 text``, ``2 texts``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Limits:
    """Each is an argument of ``docsplit-demo``: ``--max_rows``, ..."""

    rows: int = 10_000  # of a file, and of all texts of a session
    megabytes: int = 50  # of an upload; a saved classifier has the encoder in it
    labels: int = 200
    characters: int = 100_000  # of a text
    sessions: int = 100  # that are kept, in memory and on the disk; the one that waited longest goes

    def check_texts(self, texts: Iterable[str]) -> None:
        """Refuse a text that is too long."""
        for number, text in enumerate(texts, start=1):
            if len(text) > self.characters:
                raise ValueError(
                    f"Text {number} has {len(text):,} characters, and this page takes {self.characters:,}: cut it, or "
                    "start docsplit-demo with a larger --max_characters."
                )

    def check_rows(self, rows: int) -> None:
        """Refuse too many texts."""
        if rows > self.rows:
            raise ValueError(
                f"These are {rows:,} texts or more, and this page takes {self.rows:,}: leave some out, or start "
                "docsplit-demo with a larger --max_rows."
            )

    def check_labels(self, labels: Iterable[str]) -> None:
        """Refuse too many labels."""
        if (count := len(set(labels))) > self.labels:
            raise ValueError(
                f"There are {count:,} different labels, and this page takes {self.labels:,}: is it the right column?"
            )
