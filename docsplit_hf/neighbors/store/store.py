"""Store: what a classifier asks of the place where its examples and documents are, whatever engine keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from ...models.inference.long_documents import Passages
    from .snapshot import FittedState, SearchResult, Snapshot


class Store(Protocol):
    """What ``KNNDatastore`` has, and ``RemoteDatastore``; another engine makes its snapshots by ``add_rows``."""

    label_names: tuple[str, ...]
    multi_label: bool  # whether an example may have several labels
    dtype: str  # of the keys
    probe: np.ndarray | None  # the fingerprint of the encoder
    has_passages: bool  # whether an example has several vectors
    travels: bool  # whether save_pretrained puts the examples into a classifier's folder
    snapshot: Snapshot  # all rows at this moment
    documents: Any  # the documents without labels, which have ``search`` too; None if there are none
    fitted: FittedState | None  # what was fitted on the rows, which the store keeps without knowing what it says
    content_sha256: str  # changes whenever a row, a label or a text does

    def __len__(self) -> int:
        """The number of examples."""

    def for_labels(self, several: bool) -> Store:
        """This store, or, if it has no examples yet, one with its documents for such labels."""

    def search(self, queries: Any, k: int, passages: Passages | None = None) -> SearchResult:
        """The k nearest examples of each query."""

    def find(self, texts: Sequence[str] = (), pairs: Sequence[str | None] = (), ids: Iterable[str] = ()) -> Snapshot:
        """At least the examples and documents of these texts, and the examples of these ids."""

    def sample(self, passages: int, least: int) -> Snapshot:
        """Random examples, always the same: as many as have so many passages, but at least ``least``."""

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
        """Add examples, in place of the examples and documents ``replacing``; gives their ids."""

    def add_documents(
        self, keys: Any, texts: Any = None, text_pairs: Any = None, ids: Any = None, passages: Passages | None = None
    ) -> list[str]:
        """Add documents without labels; gives their ids."""

    def remove(self, ids: Iterable[str]) -> None:
        """Remove examples."""

    def remove_documents(self, ids: Iterable[str]) -> None:
        """Remove documents."""

    def relabel(self, labels: Mapping[str, Any]) -> None:
        """Give examples other labels, by id."""

    def save_pretrained(self, folder: str | Path) -> None:
        """Save beside a classifier, if this store travels with it."""
