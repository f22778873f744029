"""ReadableRows: what is read of a datastore as it is now, and how it is searched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .labels import encode_known_labels

if TYPE_CHECKING:
    import numpy as np

    from .snapshot import Neighbors, Snapshot


class ReadableRows:
    """The rows of ``_state``, a snapshot, which a subclass replaces when they change."""

    _state: Snapshot

    def __len__(self) -> int:
        return len(self._state.keys)

    def __repr__(self) -> str:
        return (
            f"KNNDatastore({len(self)} rows of dimension {self.dimension}, {self.dtype}, "
            f"{len(self.label_names)} labels, index {self.index!r})"
        )

    @property
    def snapshot(self) -> Snapshot:
        """What is there at this moment: it never changes."""
        return self._state

    @property
    def dimension(self) -> int:
        """D of the keys."""
        return self._state.keys.shape[1]

    @property
    def dtype(self) -> str:
        """``"float32"`` or ``"float16"``."""
        return self._state.keys.dtype.name

    @property
    def index(self) -> str:
        """What is searched with: ``"Flat"`` or a factory string."""
        return self._state.options.factory

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels."""
        return self._state.label_names

    @property
    def multi_label(self) -> bool:
        """Whether a row may have several labels."""
        return self._state.multi_label

    @property
    def keys(self) -> np.ndarray:
        """The embeddings, ``(N, D)``, read-only."""
        return self._state.keys

    @property
    def labels(self) -> np.ndarray:
        """int64 ``(N,)``, or bool ``(N, C)`` for several labels per row, read-only."""
        return self._state.labels

    @property
    def ids(self) -> list[str]:
        """The ids of the rows."""
        return self._state.rows["id"].to_pylist()

    @property
    def texts(self) -> list[str | None]:
        """The texts of the rows."""
        return self._state.rows["text"].to_pylist()

    @property
    def text_pairs(self) -> list[str | None]:
        """The second texts of the rows."""
        return self._state.rows["text_pair"].to_pylist()

    def label_array(self, labels: Sequence[Any]) -> np.ndarray:
        """Labels as the datastore numbers them, to be compared with those of neighbors.

        Args:
            labels: As for the class, but none may be new.

        Returns:
            int64 ``(N,)``, or bool ``(N, C)``.

        Raises:
            ValueError: If a label is not known here.
        """
        return encode_known_labels(labels, self._state.label_names, self._state.multi_label)

    def check_encoder(self, probe: Any) -> None:
        """Refuse an encoder other than the one that made the keys.

        Args:
            probe: Its embeddings of the texts of the probe, ``(P, D)``.

        Raises:
            ValueError: If they are not nearly equal to those of the probe that is kept here.
        """
        self._state.check_encoder(probe)

    def search(self, queries: Any, k: int) -> Neighbors:
        """The nearest rows of each query.

        Args:
            queries: Embeddings, ``(Q, D)``.
            k: How many; all rows if there are fewer.

        Returns:
            Distances, labels, rows, ids and texts of the neighbors, all from the same snapshot.

        Raises:
            ValueError: If the datastore is empty, k is below 1, or the queries are not finite numbers ``(Q, D)``.
        """
        return self._state.search(queries, k)
