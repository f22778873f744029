"""KeptCorpus: the corpus of the last fit, since the next one, with more labels, has the same texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .corpus import Corpus, make_corpus

if TYPE_CHECKING:
    from ..store.snapshot import Snapshot

MOST_TEXTS = 30_000  # some 200 MB


class KeptCorpus:
    """Makes the corpus of a snapshot, or takes the last one, where only labels have changed."""

    def __init__(self) -> None:
        self._last: Corpus | None = None

    def make(self, snapshot: Snapshot) -> Corpus:
        """As ``make_corpus``."""
        corpus = make_corpus(snapshot, self._last)
        self._last = corpus if len(corpus.ids) <= MOST_TEXTS else None
        return corpus
