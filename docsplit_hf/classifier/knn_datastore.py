"""KNNDatastore: a searchable store of embedded examples and their labels, in memory or in a folder."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..arrays.changes import (
    add_document_rows,
    add_rows,
    empty_snapshot,
    relabel_rows,
    remove_documents,
    remove_either,
    remove_rows,
)
from ..arrays.fitted_state import FittedState
from ..arrays.index import EXACT, IndexOptions
from ..arrays.keys import as_matrix
from ..arrays.row_table import ORIGIN_COLUMNS, TEXT_COLUMNS, encode_known_labels, has_origins, origins_of
from ..arrays.snapshot import SearchResult, Snapshot
from ..content_hash import sha256_of_parts
from ..storage.classifier_folder import push_saved
from ..storage.datastore_files import load_snapshot, save_snapshot
from ..storage.snapshot_index import change_index, update_index

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

    from ..arrays.passages import Passages
    from ..encoding.backends.precision import BFloat16
    from ..encoding.portable.modeling_knn_classifier import KNNClassifier
    from ..reading.origins import Origin


class KNNDatastore:
    """Embeddings of examples (the keys) with labels and texts.

    Threads may search while others add and remove rows: a search uses a snapshot, which never changes. A datastore can
    be pickled and copied with its index; the copy is independent of the original.

    Args:
        keys: Embeddings, ``(N, D)``; copied.
        labels: A label for each key: an index into ``label_names``, or a name; new names are appended to
            ``label_names``. With several labels per row, a list of labels for each key, which may be empty.
        label_names: Names of the labels.
        texts: Texts of the keys, shown with search results; None where a text is not kept.
        text_pairs: Second texts of pairs.
        ids: Unique ids. None: "0", "1", ..., without ids that are taken or were removed.
        passages: ``Passages`` of the rows, as ``DocumentEncoder.encode_passages`` returns them: embeddings ``(P, D)``,
            counts ``(N,)`` of at least 1, and spans ``(P, 2)`` in the texts. Searches then compare passages and still
            return rows. None: each row has one passage, its key.
        multi_label: Whether a row may have several labels. None: whether the first row has a list of labels.
        dtype: ``"float32"``, or ``"float16"``: half the memory, but exact search is several times slower.
        index: ``"Flat"`` for exact search, or a string for ``faiss.index_factory``: ``IVF<lists>,<codes>``,
            ``HNSW<links>`` or ``<codes>``, optionally after ``PCA<dimensions>,``; codes are ``Flat``, ``PQ<bytes>``,
            ``SQ8``, ``SQfp16`` and similar ones. PQ trains fastest with 8 dimensions per byte: ``PQ48`` for 384. The
            index is built once there are enough rows to train it; before that, search is exact, which is logged. It
            is rebuilt when more than 1,000 rows and more than a tenth of its rows have changed.
        nprobe: Lists of an IVF index that are searched for each query. None: an eighth of them, at least 16.
        rerank: Fetch ``rerank * k`` candidates from the index, and keep the k nearest by the stored keys. None: 4 with
            PQ codes, which order candidates roughly, else 1. Distances are always exact.
        probe: Embeddings of a few fixed texts, ``(P, D)``, used to check later that the same encoder is in use.
        origins: For each text its file and its pages or other places in it; None for a text that comes from no file.

    Attributes:
        snapshot: All rows at this moment: ``keys``, ``labels``, ``rows`` (a table of ids and texts), ``passages``,
            ``probe`` and ``options`` of the index. A snapshot never changes: a change puts another in its place.

    Raises:
        ValueError: If a key is not finite, a label is unknown, an id is repeated, or a length or type is wrong.

    Example:

        >>> datastore = KNNDatastore([[0, 0], [0, 1], [5, 5]], ["fruit", "fruit", "mineral"], label_names=[])
        >>> neighbors = datastore.search([[4, 5]], k=2)
        >>> neighbors.distances.tolist(), neighbors.example(0, 0)["label"]
        ([[1.0, 32.0]], 'mineral')
        >>> datastore.add([[9, 9]], ["vegetable"], texts=["A leek."])
        ['3']
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
        passages: Passages | None = None,
        origins: Iterable[Origin | None] | None = None,
    ) -> None:
        from ..reading.labels import are_lists

        keys = as_matrix(keys, "keys")
        multi_label = are_lists(labels) if multi_label is None else multi_label
        empty = empty_snapshot(keys.shape[1], label_names, multi_label, dtype, index, nprobe, rerank, probe)
        filled = add_rows(empty, keys, labels, texts, text_pairs, ids, passages, origins=origins)
        self.__setstate__(update_index(filled, rebuild=True))

    @classmethod
    def empty(cls, dimension: int, label_names: Sequence[str] = (), **options: Any) -> Self:
        """Create a datastore without rows.

        Args:
            dimension: D of the keys that will be added.
            label_names: Names of the known labels.
            **options: As for the class: ``multi_label``, ``dtype``, ``index``, ``nprobe``, ``rerank``, ``probe``.

        Returns:
            The datastore.
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
        bf16: BFloat16 = None,
        packing: str = "auto",
        show_progress: bool = True,
        precision: str | None = None,
        calibration_texts: Sequence[str] | None = None,
        **options: Any,
    ) -> Self:
        """Embed labeled examples, and store them with their labels and the encoder's probe embeddings.

        The model's configuration decides how long texts are read; if texts have several passages, these are stored too.

        Args:
            model, tokenizer: Classifier; its retrieval embeddings become the keys.
            dataset: Columns ``text`` and ``label``, optionally ``text_pair`` and ``id``, as ``load_labeled_examples``
                returns them.
            store_texts: Whether to keep the texts, to show them with search results.
            max_tokens_per_batch, bf16, show_progress: As for ``DocumentEncoder.encode``.
            packing: As for ``DocumentEncoder``.
            precision, calibration_texts: As for ``DocumentEncoder.from_pretrained``. The model keeps this precision
                afterwards. None: the current one, by default float32.
            **options: As for the class: ``dtype``, ``index``, ``nprobe``, ``rerank``.

        Returns:
            The datastore.

        Raises:
            ValueError: If a text is empty, or the labels do not fit the classifier's.
        """
        from ..encoding.classifier_embedder import make_embedder
        from .embed_examples import embed_examples

        embedder = make_embedder(
            model, tokenizer, max_tokens_per_batch=max_tokens_per_batch, bf16=bf16, show_progress=show_progress
        )
        embedder.use_precision(precision, calibration_texts, packing)
        return cls.from_snapshot(embed_examples(embedder, dataset, store_texts, **options))

    @classmethod
    def from_shards(
        cls,
        folder: str | Path,
        index: str = EXACT,
        nprobe: int | None = None,
        rerank: int | None = None,
    ) -> Self:
        """Open a folder of shards; keys, texts and ids stay on the disk, so there may be more rows than fit in memory.

        The first opening reads and checks all files, copies them to the cache of this machine in formats that are read
        row by row, and builds the index there. Later openings take seconds, and read the shards again only if one of
        them has changed. Added rows are kept in memory and searched exactly until ``reindex`` merges them into the
        index; ``save_pretrained`` saves them.

        Args:
            folder: Folder written by ``EmbedDocuments``: shards of keys, ids, texts and labels. It is not changed.
                Either all documents have a label, or none has.
            index, nprobe, rerank: As for the class. With ``"Flat"``, each search reads all keys.

        Returns:
            The datastore.

        Raises:
            FileNotFoundError: If the folder has no shard.
            ValueError: If a shard is missing or damaged, or does not match the others.
        """
        from .from_shards import open_shards

        return cls.from_snapshot(open_shards(folder, IndexOptions(index, nprobe, rerank)))

    def for_labels(self, multi_label: bool) -> Self:
        """Return self, or, if empty, an equivalent datastore whose rows have one or several labels.

        Documents are kept: a datastore that has only documents counts as empty.

        Args:
            multi_label: Whether a row may have several labels.

        Returns:
            The datastore to add examples to.
        """
        if len(self) or self.multi_label == multi_label:
            return self
        state = self.snapshot
        empty = empty_snapshot(state.keys.shape[1], (), multi_label, state.keys.dtype.name, probe=state.probe)
        return self.from_snapshot(replace(empty, options=state.options, documents=state.documents))

    def __len__(self) -> int:
        return len(self.snapshot.keys)

    def __repr__(self) -> str:
        state = self.snapshot
        return (
            f"KNNDatastore({len(self)} rows of dimension {state.keys.shape[1]}, {state.keys.dtype}, "
            f"{len(state.label_names)} labels, index {state.options.factory!r})"
        )

    def __getstate__(self) -> Snapshot:
        # Without the lock: a copy gets its own. FAISS serializes the index.
        return self.snapshot

    def __setstate__(self, state: Snapshot) -> None:
        state.freeze()  # pickles and files lose the read-only flag
        self.snapshot = state  # all rows at this moment; changes replace it
        self._writing = threading.Lock()

    @classmethod
    def from_snapshot(cls, state: Snapshot) -> Self:
        """Create a datastore that begins with a snapshot."""
        datastore = cls.__new__(cls)
        datastore.__setstate__(state)
        return datastore

    @property
    def content_sha256(self) -> str:
        """64 hexadecimal digits that change with every row, label and text, and with the index."""
        parts: list[bytes | np.ndarray] = []
        for state in (self.snapshot, self.snapshot.documents):
            if state is not None:
                left_out = () if has_origins(state.rows) else ORIGIN_COLUMNS
                rows = [state.rows[name].to_pylist() for name in TEXT_COLUMNS if name not in left_out]
                described = json.dumps([state.label_names, *rows, state.options.factory])
                parts += [np.ascontiguousarray(state.keys), np.ascontiguousarray(state.labels), described.encode()]
        return sha256_of_parts(parts)

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the labels."""
        return self.snapshot.label_names

    @property
    def multi_label(self) -> bool:
        """Whether a row may have several labels."""
        return self.snapshot.multi_label

    @property
    def keys(self) -> np.ndarray:
        """The embeddings, ``(N, D)``, read-only.

        If memory-mapped, this is an array-like object: slice it to get an array.
        """
        return self.snapshot.keys

    @property
    def labels(self) -> np.ndarray:
        """Encoded labels, int64 ``(N,)``, or bool ``(N, C)`` with several labels per row; read-only."""
        return self.snapshot.labels

    @property
    def ids(self) -> list[str]:
        """The ids of the rows."""
        return self.snapshot.rows["id"].to_pylist()

    @property
    def texts(self) -> list[str | None]:
        """The texts of the rows."""
        return self.snapshot.rows["text"].to_pylist()

    @property
    def origins(self) -> list[Origin | None]:
        """The file and the places of each text; None for texts that come from no file."""
        return origins_of(self.snapshot.rows)

    def search(self, queries: Any, k: int, passages: Passages | None = None) -> SearchResult:
        """Find the nearest rows of each query.

        If rows or queries have several passages, each passage of one is matched with the nearest passage of the other.
        The distance is a weighted mean: with m the smaller passage count, the m best matches are averaged, the r-th
        with weight 1/r.

        Args:
            queries: Embeddings, ``(Q, D)``.
            k: Number of rows; all rows if there are fewer.
            passages: Passages of the queries, as for the class. None: each query has one, its embedding.

        Returns:
            Distances, labels, positions, ids and texts of the nearest rows, all from one snapshot, and the nearest
            passages.

        Raises:
            ValueError: If the datastore is empty, k is below 1, the queries are not finite numbers ``(Q, D)``, or the
                passages do not match the queries.
        """
        return self.snapshot.search(queries, k, passages)

    @property
    def documents(self) -> KNNDatastore | None:
        """The unlabeled documents at this moment, as an independent datastore; None if there are none."""
        documents = self.snapshot.documents
        return None if documents is None or not len(documents.keys) else self.from_snapshot(documents)

    @property
    def fitted(self) -> FittedState | None:
        """The state fitted on the rows, saved and copied with them; None before a fit."""
        return self.snapshot.fitted

    @fitted.setter
    def fitted(self, state: FittedState | None) -> None:
        if state is not None and not isinstance(state, FittedState):
            raise ValueError(f"fitted is a FittedState or None, got {state!r}.")
        with self._writing:
            self.snapshot = replace(self.snapshot, fitted=state)

    def add(
        self,
        keys: Any,
        labels: Sequence[Any],
        texts: Iterable[str | None] | None = None,
        text_pairs: Iterable[str | None] | None = None,
        ids: Iterable[str] | None = None,
        replacing: Iterable[str] = (),
        passages: Passages | None = None,
        origins: Iterable[Origin | None] | None = None,
    ) -> list[str]:
        """Add rows: all of them, or none if one is rejected.

        Args:
            keys, labels, texts, text_pairs, ids, passages, origins: As for the class.
            replacing: Ids of rows and unlabeled documents that are removed at the same moment.

        Returns:
            The ids of the new rows.

        Raises:
            ValueError: As for the class, and if an id exists already.
        """
        with self._writing:
            state = remove_either(self.snapshot, replacing)
            grown = add_rows(state, keys, labels, texts, text_pairs, ids, passages, origins)
            self.snapshot = update_index(grown)
            return grown.rows["id"].slice(len(state.keys)).to_pylist()

    def remove(self, ids: Iterable[str]) -> None:
        """Remove rows: all of them, or none if one is rejected.

        Args:
            ids: Ids from ``add`` or ``search``.

        Raises:
            ValueError: If an id does not exist, or ``ids`` is one string.
        """
        with self._writing:
            self.snapshot = update_index(remove_rows(self.snapshot, ids))

    def relabel(self, labels: Mapping[str, Any]) -> None:
        """Change the labels of rows: all of them, or none if one is rejected. Keys, ids and the fitted state stay.

        Args:
            labels: The new labels by id, as for the class; names must be known.

        Raises:
            ValueError: If an id does not exist, or a label is unknown.
        """
        with self._writing:
            encoded = encode_known_labels(labels.values(), self.snapshot.label_names, self.snapshot.multi_label)
            self.snapshot = relabel_rows(self.snapshot, list(labels), encoded)

    def add_documents(
        self,
        keys: Any,
        texts: Iterable[str | None] | None = None,
        text_pairs: Iterable[str | None] | None = None,
        ids: Iterable[str] | None = None,
        passages: Passages | None = None,
        origins: Iterable[Origin | None] | None = None,
    ) -> list[str]:
        """Add unlabeled documents: all of them, or none if one is rejected. Searches of the examples do not find them.

        Args:
            keys, texts, text_pairs, passages, origins: As for the class.
            ids: Unique ids, not used by an example. None: "d0", "d1", ...

        Returns:
            The ids of the new documents.

        Raises:
            ValueError: As for the class, and if an id exists already.
        """
        with self._writing:
            first_new_row = 0 if self.snapshot.documents is None else len(self.snapshot.documents.keys)
            grown = add_document_rows(self.snapshot, keys, texts, text_pairs, ids, passages, origins)
            self.snapshot = update_index(grown)
            return grown.documents.rows["id"].slice(first_new_row).to_pylist()

    def remove_documents(self, ids: Iterable[str]) -> None:
        """Remove unlabeled documents: all of them, or none if one is rejected.

        Args:
            ids: Ids from ``add_documents``.

        Raises:
            ValueError: If an id does not exist, or ``ids`` is one string.
        """
        with self._writing:
            self.snapshot = update_index(remove_documents(self.snapshot, ids))

    def reindex(self, index: str = EXACT, nprobe: int | None = None, rerank: int | None = None) -> None:
        """Replace the index. The same index is rebuilt only if rows were added or removed since it was built.

        With memory-mapped keys, new rows are merged into the same index, which is retrained when the number of added
        and removed rows exceeds half its size.

        Args:
            index, nprobe, rerank: As for the class.
        """
        with self._writing:
            self.snapshot = change_index(self.snapshot, IndexOptions(index, nprobe, rerank))

    def save_pretrained(self, folder: str | Path) -> None:
        """Save to ``<folder>/datastore/``, replacing the datastore there: completely, or not at all.

        If the folder has a classifier, the datastore belongs to it from then on. The index is saved to the cache of
        this machine. Nothing is left of rows and documents that were removed; words that only they had leave the
        vocabulary of the fitted state, too.

        Args:
            folder: The folder of a model, or any other folder.
        """
        from ..fitting.ensemble.fitted_ensemble import without_words_of_removed

        with self._writing:
            self.snapshot = without_words_of_removed(self.snapshot)
        save_snapshot(folder, self.snapshot)

    @classmethod
    def from_pretrained(
        cls,
        name_or_folder: str | Path,
        revision: str | None = None,
        token: str | bool | None = None,
        memory_map: bool = False,
    ) -> Self:
        """Load a datastore, and check all of it.

        An index other than ``"Flat"`` is built, or read from the cache of this machine, never from the folder.

        Args:
            name_or_folder: A folder written by ``save_pretrained``, or a repository on the Hub.
            revision: Branch, tag or commit on the Hub.
            token: Token for a private repository.
            memory_map: Whether keys, texts and ids of the examples stay on the disk, as with ``from_shards``. They are
                then checked at the first opening on this machine only.

        Returns:
            The datastore.

        Raises:
            FileNotFoundError: If there is no datastore.
            DatastoreError: A ``ValueError``, if files are damaged or do not belong together.
        """
        return cls.from_snapshot(load_snapshot(name_or_folder, revision, token, memory_map))

    def push_to_hub(self, repo_id: str, commit_message: str = "Upload a datastore", **kwargs: Any) -> Any:
        """Push to ``datastore/`` of a repository on the Hub, in one commit.

        Args:
            repo_id: The repository; created if it does not exist.
            commit_message: Message of the commit.
            **kwargs: ``private`` and ``token`` of ``HfApi.create_repo``, and options of ``HfApi.upload_folder``.

        Returns:
            The result of ``HfApi.upload_folder``.
        """
        return push_saved(repo_id, lambda folder, _: self.save_pretrained(folder), commit_message, **kwargs)
