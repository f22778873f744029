"""The embeddings of texts and of their passages, and the passages of stored rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .keys import as_matrix, check_finite
from .row_table import TextTable, text_lengths

if TYPE_CHECKING:
    import pyarrow as pa


class Passages(NamedTuple):
    """The embeddings of the passages of N texts, in the order of the texts and of their passages."""

    embeddings: np.ndarray  # float32 (P, D)
    counts: np.ndarray  # int64 (N,): passages per text, at least 1
    spans: np.ndarray  # int64 (P, 2): start and end of each passage in its text, in characters

    @classmethod
    def joined(cls, texts: Sequence[tuple[np.ndarray, np.ndarray]]) -> Passages:
        """Join the embeddings, ``(p, D)``, and the spans, ``(p, 2)``, of the passages of each text."""
        embeddings, spans = zip(*texts, strict=True)
        counts = np.array([len(part) for part in embeddings], dtype=np.int64)
        return cls(np.concatenate(embeddings), counts, np.concatenate(spans))

    def of(self, text: int) -> tuple[np.ndarray, np.ndarray]:
        """The embeddings, ``(p, D)``, and the spans, ``(p, 2)``, of one text; ``by_text`` is faster for all texts."""
        start = int(self.counts[:text].sum())
        part = slice(start, start + int(self.counts[text]))
        return self.embeddings[part], self.spans[part]

    def by_text(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The embeddings, ``(p, D)``, and the spans, ``(p, 2)``, of each text in turn."""
        firsts = np.cumsum(self.counts) - self.counts
        parts = map(slice, firsts, firsts + self.counts)
        return ((self.embeddings[part], self.spans[part]) for part in parts)


class Predictions(NamedTuple):
    """Output of a classifier for N texts, in their order."""

    logits: np.ndarray  # float32 (N, C); C is 0 without a classification head
    retrieval_embeddings: np.ndarray  # float32 (N, R)
    read_fraction: np.ndarray | None = None  # float64 (N,): the part of each text that was read; None: unknown
    passages: Passages | None = None  # None where each text has one embedding


def check_passages(passages: Passages, keys: np.ndarray, rows: pa.Table | None = None) -> Passages | None:
    """Check the passages of rows with these keys; return None if each row has one. ``rows``: table with the texts."""
    embeddings = as_matrix(passages.embeddings, "embeddings of passages", keys.shape[1])
    check_finite(embeddings, "embeddings of passages")
    counts = np.asarray(passages.counts)
    spans = np.asarray(passages.spans)
    for name, array, shape in (("counts", counts, (len(keys),)), ("spans", spans, (len(embeddings), 2))):
        if array.dtype.kind not in "iu" or array.shape != shape:
            raise ValueError(
                f"{name} of passages must be integers of shape {shape}, got {array.dtype} of shape {array.shape}."
            )
    passages = Passages(embeddings, counts.astype(np.int64), spans.astype(np.int64))
    check_spans(passages, rows)
    return several_passages(passages)


def check_spans(passages: Passages, rows: pa.Table | TextTable | None = None) -> None:
    """Raise if counts and spans, of valid shapes, do not match each other or the texts of the rows."""
    embeddings, counts, spans = passages
    total = len(embeddings)
    if (counts < 1).any() or counts.max(initial=0) > total or counts.sum() != total:  # the sum may overflow
        raise ValueError(
            f"The counts of passages must be at least 1 each, and sum to {total}, the number of their embeddings."
        )
    wrong = (spans[:, 0] < 0) | (spans[:, 0] > spans[:, 1])
    if wrong.any():
        start, end = spans[wrong][0]
        raise ValueError(
            f"Passage {int(wrong.argmax())} has the span {start} to {end}: a span is 0 <= start <= end, in characters."
        )
    if rows is None or not len(rows):
        return
    lengths = text_lengths(rows, missing=-1)
    last = np.maximum.reduceat(spans[:, 1], np.cumsum(counts) - counts)
    wrong = (lengths >= 0) & (last > lengths)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"A passage of row {row} ends at {last[row]}, but its text has {lengths[row]} characters: spans are in "
            "characters of the text, not in bytes or tokens."
        )


def whole_rows(keys: np.ndarray, rows: pa.Table) -> Passages:
    """Make one passage per row: the key, for the whole text."""
    spans = np.zeros((len(keys), 2), dtype=np.int64)
    spans[:, 1] = text_lengths(rows, missing=0)
    return Passages(keys, np.ones(len(keys), dtype=np.int64), spans)


def take_passages(passages: Passages | None, rows: np.ndarray) -> Passages | None:
    """Copy the passages of some rows, int64 ``(M,)``; None if no row has several."""
    if passages is None:
        return None
    positions = passage_positions(passages.counts, np.cumsum(passages.counts), rows)
    return Passages(passages.embeddings[positions], passages.counts[rows], passages.spans[positions])


def several_passages(passages: Passages) -> Passages | None:
    """Return the passages; None if each row has only one."""
    return passages if len(passages.embeddings) > len(passages.counts) else None


def passage_positions(counts: np.ndarray, ends: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Positions of the passages of some rows, row by row."""
    lengths = counts[rows]
    return np.repeat(ends[rows] - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
