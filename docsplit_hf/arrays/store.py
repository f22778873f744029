"""Interface of stores for examples and documents, and of their views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from ..reading.origins import Origin
    from .passages import Passages
    from .snapshot import ExampleTexts, FittedState, Kind, SearchResult, Snapshot


class View(Protocol):
    """One state of a store, for reading: a batch of texts is answered from one view.

    ``Snapshot`` is the view of a store in this process, ``RemoteView`` that of a server. A store returns the same
    object while nothing has changed, so that what is computed from a view can be kept with it.
    """

    label_names: tuple[str, ...]
    multi_label: bool  # whether an example may have several labels
    dimension: int  # D of the keys
    dtype: str  # of the keys
    fitted: FittedState | None
    is_local: bool  # whether all rows are in this process, so that all() fetches nothing

    def is_current(self) -> bool:
        """Whether everything read so far is of one state; if not, read it again from a new view."""

    def count(self, kind: Kind = "examples") -> int:
        """Count the examples or documents."""

    def search(self, queries: Any, k: int, passages: Passages | None = None, kind: Kind = "examples") -> SearchResult:
        """Find the k nearest examples or documents of each query, ``(Q, D)``."""

    def get(
        self, texts: Sequence[str] = (), text_pairs: Sequence[str | None] = (), ids: Iterable[str] = ()
    ) -> Snapshot:
        """Return a snapshot that contains the examples and documents with these texts, and the examples with these ids.

        It may contain more rows.
        """

    def first(self, count: int) -> ExampleTexts:
        """Return texts and labels of the first ``count`` examples, in the order in which they were added."""

    def all(self) -> Snapshot:
        """Return all rows; a server sends them."""


class Store(Protocol):
    """A place for examples and documents, implemented by ``KNNDatastore`` and ``RemoteDatastore``.

    Other implementations make their snapshots, which are views, with ``add_rows`` and ``add_document_rows`` of
    ``changes.py``.
    """

    label_names: tuple[str, ...]
    multi_label: bool  # whether an example may have several labels
    dtype: str  # of the keys
    probe: np.ndarray | None  # probe embeddings by the encoder of the keys, (P, D)
    has_passages: bool  # whether an example has several vectors
    is_saved_with_classifier: bool  # whether save_pretrained writes the examples to a classifier's folder
    snapshot: Snapshot  # all rows at this moment, as view().all() gives them
    documents: Any  # the documents without labels, to be searched; falsy without documents
    fitted: FittedState | None  # fitted on the rows; opaque to the store
    content_sha256: str  # changes with every row, label and text

    def __len__(self) -> int:
        """Count the examples."""

    def view(self) -> View:
        """Return the current state; the same object while nothing has changed."""

    def for_labels(self, multi_label: bool) -> Store:
        """Return self, or, without examples, a store with the same documents for one or several labels per row."""

    def search(self, queries: Any, k: int, passages: Passages | None = None) -> SearchResult:
        """Find the k nearest examples of each query, ``(Q, D)``."""

    def sample(self, passages: int, least: int) -> Snapshot:
        """Return a fixed sample of about ``passages`` passages and at least ``least`` examples."""

    def add(
        self,
        keys: Any,
        labels: Sequence[Any],
        texts: Any = None,
        text_pairs: Any = None,
        ids: Any = None,
        replacing: Iterable[str] = (),
        passages: Passages | None = None,
        origins: Iterable[Origin | None] | None = None,
    ) -> list[str]:
        """Add examples, in place of the examples and documents ``replacing``; return their ids."""

    def add_documents(
        self,
        keys: Any,
        texts: Any = None,
        text_pairs: Any = None,
        ids: Any = None,
        passages: Passages | None = None,
        origins: Iterable[Origin | None] | None = None,
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
