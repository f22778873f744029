"""Interface of stores for examples and documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from ..encoders.chunking import Passages
    from .snapshot import FittedState, SearchResult, Snapshot


class Store(Protocol):
    """A place for examples and documents, implemented by ``KNNDatastore`` and ``RemoteDatastore``.

    Other implementations make their snapshots with ``add_rows`` and ``add_documents`` of ``changes.py``.
    """

    label_names: tuple[str, ...]
    multi_label: bool  # whether an example may have several labels
    dtype: str  # of the keys
    probe: np.ndarray | None  # the encoder's fingerprint, (P, D)
    has_passages: bool  # whether an example has several vectors
    is_saved_with_classifier: bool  # whether save_pretrained writes the examples to a classifier's folder
    snapshot: Snapshot  # all rows at this moment
    documents: Any  # the documents without labels, to be searched; false if there are none
    fitted: FittedState | None  # fitted on the rows; the store keeps it unread
    content_sha256: str  # changes with every row, label and text

    def __len__(self) -> int:
        """Count the examples."""

    def for_labels(self, multi_label: bool) -> Store:
        """Return self, or, without examples, a store with the same documents for labels of this kind."""

    def search(self, queries: Any, k: int, passages: Passages | None = None) -> SearchResult:
        """Find the k nearest examples of each query, ``(Q, D)``."""

    def find(self, texts: Sequence[str] = (), pairs: Sequence[str | None] = (), ids: Iterable[str] = ()) -> Snapshot:
        """Return at least the examples and documents with these texts, and the examples with these ids."""

    def sample(self, passages: int, least: int) -> Snapshot:
        """Return random examples, the same each time: about as many as have ``passages``, but at least ``least``."""

    def add(
        self,
        keys: Any,
        labels: Sequence[Any],
        texts: Any = None,
        text_pairs: Any = None,
        ids: Any = None,
        replacing: Iterable[str] = (),
        passages: Passages | None = None,
    ) -> list[str]:
        """Add examples, in place of the examples and documents ``replacing``; return their ids."""

    def add_documents(
        self, keys: Any, texts: Any = None, text_pairs: Any = None, ids: Any = None, passages: Passages | None = None
    ) -> list[str]:
        """Add documents without labels; return their ids."""

    def remove(self, ids: Iterable[str]) -> None:
        """Remove examples."""

    def remove_documents(self, ids: Iterable[str]) -> None:
        """Remove documents."""

    def relabel(self, labels: Mapping[str, Any]) -> None:
        """Change the labels of examples, by id."""

    def save_pretrained(self, folder: str | Path) -> None:
        """Save beside a classifier, if ``is_saved_with_classifier``."""
