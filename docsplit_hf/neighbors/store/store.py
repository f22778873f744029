"""Store: what a classifier asks of the place where its examples and documents are, whatever engine keeps them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from ...models.inference.long_documents import Passages
    from .fitted_state import FittedState
    from .neighbors import Neighbors
    from .snapshot import Snapshot


class Store(Protocol):
    """``KNNDatastore`` keeps rows in memory or in mapped files, ``RemoteDatastore`` in a collection of Milvus."""

    label_names: tuple[str, ...]
    multi_label: bool
    dimension: int
    has_passages: bool
    probe: np.ndarray | None  # the fingerprint of the encoder
    snapshot: Snapshot  # all rows at this moment
    documents: Any  # the unlabeled documents, which are searched alike; None if there are none
    fitted: FittedState | None
    is_in_folder: bool  # whether ``save_pretrained`` writes its rows
    content_sha256: str  # changes whenever a row, a label or a text does

    def __len__(self) -> int:
        """The number of examples."""

    def search(self, queries: Any, k: int, passages: Passages | None = None) -> Neighbors:
        """The k nearest examples of each query."""

    def add(self, keys: Any, labels: Sequence[Any], texts: Any, text_pairs: Any, ids: Any, **options: Any) -> list[str]:
        """Add examples; gives their ids."""

    def add_documents(self, keys: Any, texts: Any, text_pairs: Any, ids: Any, passages: Any) -> list[str]:
        """Add documents; gives their ids."""

    def remove(self, ids: Iterable[str]) -> None:
        """Remove examples."""

    def remove_documents(self, ids: Iterable[str]) -> None:
        """Remove documents."""

    def relabel(self, labels: Mapping[str, Any]) -> None:
        """Give examples other labels."""

    def with_texts(self, texts: Sequence[str], pairs: Sequence[str | None]) -> Snapshot:
        """At least the examples and documents of these texts."""

    def ids_there(self, ids: Iterable[str]) -> set[str]:
        """Those of some ids that examples have."""

    def sample(self, passages: int, least: int) -> Snapshot:
        """Random examples, always the same."""

    def takes(self, several: bool) -> bool:
        """Whether the next examples may have several labels each, or one."""

    def label_array(self, labels: Sequence[Any]) -> np.ndarray:
        """Labels as the store numbers them."""

    def check_encoder(self, probe: Any) -> None:
        """Refuse an encoder other than the one that made the keys."""

    def change_fitted(self, change: Callable[[FittedState], FittedState]) -> None:
        """Change what was fitted, while nobody else does."""

    def save_pretrained(self, folder: str | Path) -> None:
        """Save beside a classifier."""
