"""KNNDatastore: embedded examples with their labels, to be searched, grown, saved and shared."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...text.labels import has_several_labels as may_have_several
from ...text.labels import label_array, label_names_of, texts_of
from .changes import Buffers, empty_snapshot, holding_index, with_index, with_rows, with_rows_of, without_rows
from .index import EXACT, IndexOptions
from .key_matrix import as_matrix, check_finite, check_probe
from .row_table import automatic_ids, encode_labels, has_several_labels, make_rows
from .sharing import SharedDatastore
from .snapshot import Neighbors, Snapshot

if TYPE_CHECKING:
    from typing import Self

    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

    from ...models.portable.modeling_knn_classifier import KNNClassifier

logger = logging.getLogger(__name__)


class KNNDatastore(SharedDatastore):
    """Embedded examples, the keys, with their labels and texts.

    Any number of threads may search while others add and remove: a search works on a snapshot, which never changes.
    It can be pickled and copied, with its index: a copy changes apart from the original.

    Args:
        keys: Embeddings, ``(N, D)``; copied.
        labels: For each key a number of ``label_names`` or a name, which is added to them if it is new. For several
            labels a row, lists of these, which may be empty.
        label_names: The names of the labels.
        texts: The texts of the keys, to show them as neighbors; None where there is none.
        text_pairs: The second texts of pairs.
        ids: Different strings. None: a counter, "0", "1", ..., which skips ids that are taken and gives none again
            after it was removed.
        multi_label: Whether a row may have several labels. None: whether the first one's are a list.
        dtype: ``"float32"``, or ``"float16"`` for half the memory and exact searches that take several times as long.
        index: ``"Flat"`` for exact search in the keys, or what ``IndexOptions`` knows, as ``"IVF1024,PQ64"``. An
            index is built as soon as there are enough rows to train it; until then search is exact, which is logged.
            It is built again when the rows added and removed since exceed a tenth of it, and 1,000.
        nprobe: See ``IndexOptions``.
        rerank: See ``IndexOptions``.
        probe: Embeddings of a few fixed texts by the encoder that made the keys, ``(P, D)``: its fingerprint.

    Raises:
        ValueError: If a key is not finite, a label is none of the map, an id is there twice, or something is not of
            the length or kind that is expected.

    Example:

        >>> datastore = KNNDatastore([[0, 0], [0, 1], [5, 5]], ["fruit", "fruit", "mineral"], label_names=[])
        >>> neighbors = datastore.search([[4, 5]], k=2)
        >>> neighbors.distances.tolist(), [datastore.label_names[i] for i in neighbors.labels[0]]
        ([[1.0, 32.0]], ['mineral', 'fruit'])
        >>> datastore.add([[9, 9]], ["vegetable"], texts=["A leek."])
        ['3']
        >>> datastore.search([[9, 8]], k=1).example(0, 0)["text"]
        'A leek.'
    """

    def __init__(
        self,
        keys: Any,
        labels: Sequence[Any],
        label_names: Sequence[str],
        texts: Iterable[str | None] | None = None,
        text_pairs: Iterable[str | None] | None = None,
        ids: Iterable[str] | None = None,
        *,
        multi_label: bool | None = None,
        dtype: str = "float32",
        index: str = EXACT,
        nprobe: int | None = None,
        rerank: int | None = None,
        probe: Any = None,
    ) -> None:
        keys = as_matrix(keys, "keys")
        options = IndexOptions(index, nprobe, rerank)
        if multi_label is None:
            multi_label = has_several_labels(labels)
        self._start(empty_snapshot(keys.shape[1], label_names, multi_label, dtype, options, probe))
        self.add(keys, labels, texts, text_pairs, ids)
        if self._state.index is None:
            self._state = with_index(self._state, rebuild=True)  # which says so if there are too few rows

    @classmethod
    def empty(cls, dimension: int, label_names: Sequence[str] = (), **options: Any) -> Self:
        """A datastore without rows, to add examples to.

        Args:
            dimension: D of the keys to come.
            label_names: The names of the labels that are known.
            **options: As for the class: ``multi_label``, ``dtype``, ``index``, ``nprobe``, ``rerank``, ``probe``.

        Returns:
            The datastore.

        Example:

            >>> len(KNNDatastore.empty(384, ["fruit", "mineral"]))
            0
        """
        return cls(np.zeros((0, dimension), dtype=np.float32), [], label_names, **options)

    @classmethod
    def build(
        cls,
        model: KNNClassifier,
        tokenizer: PreTrainedTokenizerBase,
        dataset: Dataset,
        store_texts: bool = True,
        max_tokens_per_batch: int | None = None,
        bf16: bool = False,
        packing: str = "auto",
        show_progress: bool = True,
        **options: Any,
    ) -> Self:
        """Embed labeled examples and keep them with their labels.

        Texts of similar length share a forward. Under accelerate each process embeds its share, and all get the whole:
        every process must call it.

        Args:
            model: The classifier whose retrieval embeddings become the keys.
            tokenizer: Its tokenizer.
            dataset: As ``load_labeled_examples`` gives it: ``text``, ``label``, maybe ``text_pair`` and ``id``.
            store_texts: Whether to keep the texts, to show them as neighbors.
            max_tokens_per_batch: The most tokens in one forward, padding included where there is any. None: 2,048 on a
                CPU, 32,768 elsewhere.
            bf16: Whether to compute in bfloat16 (autocast): faster where the hardware has it, and not quite the same.
            packing: Whether the model runs without padding: ``"auto"``, where it gives the same; ``"on"``; ``"off"``.
            show_progress: Whether to show a progress bar.
            **options: As for the class: ``dtype``, ``index``, ``nprobe``, ``rerank``.

        Returns:
            The datastore, with the fingerprint of the encoder.

        Raises:
            ValueError: If a text is empty, or the labels do not fit the classifier's.
        """
        # Here, so that a datastore can be searched without torch.
        from ...models.portable.packing import use_packing
        from .embedding import check_problem_type, embed_by_all_processes, encoder_probe

        texts, pairs = texts_of(dataset)
        for i, text in enumerate(texts):
            if isinstance(text, str) and not text.strip():
                raise ValueError(
                    f"Text {i} is empty: nothing can be near it. load_labeled_examples drops such examples."
                )
        use_packing(model, packing)
        names, multi_label = label_names_of(dataset), may_have_several(dataset)
        check_problem_type(model.config, multi_label, "The examples")
        trained = model.config.label_names
        names = trained + [name for name in names if name not in trained]
        labels = label_array(dataset, names, multi_label)
        return cls(
            embed_by_all_processes(model, tokenizer, texts, pairs, max_tokens_per_batch, bf16, show_progress),
            [np.flatnonzero(row).tolist() for row in labels] if multi_label else labels,
            names,
            texts=texts if store_texts else None,
            text_pairs=pairs if store_texts else None,
            ids=list(dataset["id"]) if "id" in dataset.column_names else None,
            multi_label=multi_label,
            probe=encoder_probe(model, tokenizer),
            **options,
        )

    def __len__(self) -> int:
        return len(self._state.keys)

    def __getstate__(self) -> Snapshot:
        # What changes, the lock and the room to grow in, a copy has of its own. FAISS puts an index into bytes itself.
        return self._state

    def __setstate__(self, state: Snapshot) -> None:
        for array in (state.keys, state.labels):
            array.flags.writeable = False  # which a pickle does not keep
        self._start(state)

    def __repr__(self) -> str:
        state = self._state
        return (
            f"KNNDatastore({len(state.keys)} rows of dimension {self.dimension}, {self.dtype}, "
            f"{len(state.label_names)} labels, index {self.index!r})"
        )

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
        """int64 ``(N,)``, or bool ``(N, C)`` for several labels a row, read-only."""
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
        state = self._state
        encoded, names = encode_labels(labels, state.label_names, state.multi_label)
        if len(names) > len(state.label_names):
            new = names[len(state.label_names)]
            raise ValueError(f"The datastore has no label {new!r}, only {', '.join(state.label_names) or 'none'}.")
        return encoded

    def check_encoder(self, probe: Any) -> None:
        """Refuse an encoder other than the one that made the keys.

        Args:
            probe: Its embeddings of the texts of the probe, ``(P, D)``.

        Raises:
            ValueError: If their shape differs from that of the probe kept here, or they are not nearly equal to it.
        """
        stored = self._state.probe
        if stored is None:
            logger.warning("The datastore has no probe, so whether this encoder made its keys cannot be checked.")
        else:
            check_probe(as_matrix(probe, "probe"), stored)

    def search(self, queries: Any, k: int) -> Neighbors:
        """The nearest rows of each query.

        Args:
            queries: Embeddings, ``(Q, D)``.
            k: How many; all rows if there are fewer.

        Returns:
            The neighbors: distances, labels, rows, and ids and texts, all from the same snapshot.

        Raises:
            ValueError: If the datastore is empty, k is no integer of at least 1, or the queries are not finite or not
                of the keys' dimension.
        """
        state = self._state
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
            raise ValueError(f"k must be an integer of at least 1, got {k!r}.")
        if len(state.keys) == 0:
            raise ValueError("The datastore is empty, so there are no neighbors: add examples first.")
        queries = as_matrix(queries, "queries", state.keys.shape[1])
        check_finite(queries, "queries")
        return state.search(queries.astype(np.float32, order="C", copy=False), int(k))

    def add(
        self,
        keys: Any,
        labels: Sequence[Any],
        texts: Iterable[str | None] | None = None,
        text_pairs: Iterable[str | None] | None = None,
        ids: Iterable[str] | None = None,
    ) -> list[str]:
        """Add rows, which the next search sees. All of them are added, or none.

        Args:
            keys, labels, texts, text_pairs, ids: As for the class.

        Returns:
            The ids of the new rows.

        Raises:
            ValueError: As for the class, and if an id is there already.
        """
        with self._writing:
            state = self._state
            matrix = as_matrix(keys, "keys", state.keys.shape[1])
            encoded, names = encode_labels(labels, state.label_names, state.multi_label)
            if len(encoded) != len(matrix):
                raise ValueError(f"There are {len(matrix)} keys, but {len(encoded)} labels: pass one for each key.")
            next_id = state.next_id
            if ids is None:
                ids, next_id = automatic_ids(len(matrix), next_id, state.rows)
            rows = make_rows(len(matrix), ids, texts, text_pairs)
            state = replace(state, next_id=next_id)
            self._state = with_index(with_rows(state, self._buffers, matrix, encoded, names, rows))
        return rows["id"].to_pylist()

    def remove(self, ids: Iterable[str]) -> None:
        """Remove rows, which the next search does not see. All of them are removed, or none.

        Args:
            ids: As ``add`` and ``search`` give them.

        Raises:
            ValueError: If there is no row of an id, or ``ids`` is one string.
        """
        if isinstance(ids, str):
            raise ValueError(f"remove takes a list of ids, got one string: pass [{ids!r}].")
        with self._writing:
            state = with_index(without_rows(self._state, ids))
            self._state, self._buffers = state, Buffers(state)

    def merge(self, other: KNNDatastore) -> list[str]:
        """Add all rows of another datastore. Labels of the same name are the same label.

        Ids that the other's counter gave, told by their form, are replaced by ones of this counter; other ids stay.

        Args:
            other: A datastore of the same encoder.

        Returns:
            The ids of the new rows, in the other's order.

        Raises:
            ValueError: If the dimensions or the encoders differ, only one has several labels a row, or an id is in
                both.
        """
        with self._writing:
            count = len(self)
            self._state = with_index(with_rows_of(self._state, self._buffers, other._state))
            return self._state.rows["id"].slice(count).to_pylist()

    def reindex(self, index: str = EXACT, nprobe: int | None = None, rerank: int | None = None) -> None:
        """Search with another index from now on. The same is built anew only if rows were added or removed since.

        Args:
            index, nprobe, rerank: As for the class.

        Raises:
            ValueError: As for the class.
        """
        options = IndexOptions(index, nprobe, rerank)
        with self._writing:
            state = self._state
            same = options.factory == state.options.factory and state.index is not None and state.outside_index == 0
            state = replace(state, options=options)
            self._state = holding_index(state, state.index) if same else with_index(state, rebuild=True)
