"""The words that a store's texts have, and what of a text they do not know."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from ..experts.corpus import texts_in
from ..experts.words import words_of

if TYPE_CHECKING:
    from ..store.snapshot import Snapshot


class KnownWords(NamedTuple):
    """The words of all texts of a store, examples and documents; not those of its experts, who leave out rare ones."""

    texts_with: Counter[str]  # how many different texts have a word
    texts: set[str]

    def unknown(self, text: str) -> tuple[float, set[str]]:
        """The share of a text's running words that no other text has, and these words; 0 for a text without words."""
        words, own = words_of(text), int(text in self.texts)
        unknown = [word for word in words if self.texts_with[word] <= own]
        return len(unknown) / max(len(words), 1), set(unknown)


def known_words(snapshot: Snapshot) -> KnownWords | None:
    """The words of a store; None where it keeps no texts."""
    tables = [snapshot.rows] if snapshot.documents is None else [snapshot.rows, snapshot.documents.rows]
    texts = {text for table in tables for text in texts_in(table) if text}
    return KnownWords(Counter(word for text in texts for word in set(words_of(text))), texts) if texts else None
