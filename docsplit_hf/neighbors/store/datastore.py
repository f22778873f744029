"""KNNDatastore: embedded examples with their labels, to be searched, grown, saved and shared."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...content_hash import sha256_of_parts
from ...models.inference.backends import BackendOptions
from ...models.inference.embedders import make_embedder
from .changes import (
    add_documents,
    add_rows,
    embed_examples,
    empty_snapshot,
    merge_snapshots,
    relabel_rows,
    remove_documents,
    remove_either,
    remove_rows,
)
from .files.classifier_folder import upload
from .files.datastore_files import load_snapshot, save_snapshot
from .files.from_shards import open_shards
from .index import EXACT, IndexOptions
from .keys import GrowingArrays, as_matrix
from .row_table import encode_known_labels, is_multi_label, take_passages
from .snapshot import FittedState, Snapshot
from .snapshot_index import change_index, update_index

if TYPE_CHECKING:
    from typing import Self

    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

    from ...models.inference.long_documents import Passages
    from ...models.inference.torch_backend import BFloat16
    from ...models.portable.modeling_knn_classifier import KNNClassifier
    from .snapshot import Neighbors
    from .store import Store


class KNNDatastore:
    """Embedded examples, the keys, with their labels and texts.

    Threads may search while others add and remove: a search works on a snapshot, which never changes. A datastore can
    be pickled and copied, with its index; the copy changes apart from the original.

    Args:
        keys: Embeddings, ``(N, D)``; copied.
        labels: For each key a number of ``label_names`` or a name, which is added to them if it is new. For several
            labels per row, lists of these, which may be empty.
        label_names: The names of the labels.
        texts: The texts of the keys, to show them as neighbors; None where there is none.
        text_pairs: The second texts of pairs.
        ids: Different strings. None: a counter, "0", "1", ..., which skips ids that are taken or were removed.
        passages: ``Passages`` of the keys, as ``DocumentEncoder.encode_passages`` gives them: embeddings ``(P, D)``,
            ``(N,)`` counts of at least 1, and spans ``(P, 2)`` in the texts. Searches go by them then, and find rows
            all the same. None: each row has one, its key.
        multi_label: Whether a row may have several labels. None: whether the first one's are a list.
        dtype: ``"float32"``, or ``"float16"`` for half the memory and exact searches that take several times as long.
        index: ``"Flat"`` for exact search in the keys, or a string of ``faiss.index_factory`` of the families
            ``IVF<lists>,<codes>``, ``HNSW<links>`` and ``<codes>`` alone, maybe after ``PCA<dimensions>,``; codes are
            ``Flat``, ``PQ<bytes>``, ``SQ8``, ``SQfp16`` and their like. PQ is trained fastest by far with 8 dimensions
            a byte: ``PQ48`` for 384. An index is built when there are enough rows to train it; until then search is
            exact, which is logged. It is built again when the changes since exceed 1,000 rows and a tenth of it.
        nprobe: How many lists an IVF index looks into for a query. None: an eighth of them, at least 16.
        rerank: Fetch ``rerank * k`` candidates from the index and keep those k that are nearest by the stored keys.
            None: 4 with PQ codes, whose order is rough, else 1. Distances are exact in any case.
        probe: Embeddings of a few fixed texts by the encoder that made the keys, ``(P, D)``: its fingerprint.

    Raises:
        ValueError: If a key is not finite, a label is unknown, an id is there twice, or a length or type is wrong.

    Example:

        >>> datastore = KNNDatastore([[0, 0], [0, 1], [5, 5]], ["fruit", "fruit", "mineral"], label_names=[])
        >>> neighbors = datastore.search([[4, 5]], k=2)
        >>> neighbors.distances.tolist(), neighbors.example(0, 0)["label"]
        ([[1.0, 32.0]], 'mineral')
        >>> datastore.add([[9, 9]], ["vegetable"], texts=["A leek."])
        ['3']
    """

    travels = True  # with the classifier in whose folder it is saved

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
    ) -> None:
        keys = as_matrix(keys, "keys")
        multi_label = is_multi_label(labels) if multi_label is None else multi_label
        empty = empty_snapshot(keys.shape[1], label_names, multi_label, dtype, index, nprobe, rerank, probe)
        self.__setstate__(update_index(add_rows(empty, keys, labels, texts, text_pairs, ids, passages), rebuild=True))

    @classmethod
    def empty(cls, dimension: int, label_names: Sequence[str] = (), **options: Any) -> Self:
        """A datastore without rows, to add examples to.

        Args:
            dimension: D of the keys to come.
            label_names: The names of the labels that are known.
            **options: As for the class: ``multi_label``, ``dtype``, ``index``, ``nprobe``, ``rerank``, ``probe``.
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
        backend: str | None = None,
        precision: str | None = None,
        calibration_texts: Sequence[str] | None = None,
        **options: Any,
    ) -> Self:
        """Embed labeled examples and keep them with their labels and the fingerprint of the encoder.

        What is read of long texts is what the model's configuration says; of those with several passages, these are
        kept too. Under accelerate each process embeds its share, and all get the whole: every process must call it.

        Args:
            model, tokenizer: The classifier whose retrieval embeddings become the keys.
            dataset: As ``load_labeled_examples`` gives it: ``text``, ``label``, maybe ``text_pair`` and ``id``.
            store_texts: Whether to keep the texts, to show them as neighbors.
            max_tokens_per_batch, bf16, show_progress: As for ``DocumentEncoder.encode``.
            packing: As for ``DocumentEncoder``.
            backend, precision, calibration_texts: As for ``DocumentEncoder.from_pretrained``. None: as the model runs
                already, at first by torch in float32. The model runs in this way from then on.
            **options: As for the class: ``dtype``, ``index``, ``nprobe``, ``rerank``.

        Raises:
            ValueError: If a text is empty, or the labels do not fit the classifier's.
        """
        limits = {"max_tokens_per_batch": max_tokens_per_batch, "bf16": bf16, "show_progress": show_progress}
        embedder = make_embedder(model, tokenizer, **limits)
        embedder.use_backend(BackendOptions(backend, precision, calibration_texts), packing)
        return cls.of(embed_examples(embedder, dataset, store_texts, **options))

    @classmethod
    def from_shards(
        cls,
        folder: str | Path,
        index: str = EXACT,
        nprobe: int | None = None,
        rerank: int | None = None,
        verify: bool = False,
    ) -> Self:
        """Open a folder of shards, whose keys, texts and ids stay on the disk: for more rows than fit in memory.

        The first time, all is read and checked, ids, texts and labels are written once more to the cache of this
        machine, to be read row by row, and the index is built there; a build that was killed goes on. Later it opens
        in seconds. What is added lies in memory beside, searched exactly until ``reindex`` merges it into the index;
        ``save_pretrained`` keeps it.

        Args:
            folder: What the tasks of a corpus wrote: ``corpus.json``, and shards of keys, ids, texts and labels. It is
                not changed. All documents have a label, or none has one.
            index, nprobe, rerank: As for the class. With ``"Flat"``, each search reads all keys.
            verify: Whether to check all again. Later openings look at sizes only: a file that is damaged afterwards is
                not noticed otherwise.

        Raises:
            FileNotFoundError: If the folder has no ``corpus.json``.
            ValueError: If a shard is not finished, damaged, or does not fit the others.
        """
        return cls.of(open_shards(folder, IndexOptions(index, nprobe, rerank), verify))

    def for_labels(self, several: bool) -> Self:
        """This datastore; if it has no rows yet, one with its documents for several labels per row, or for one."""
        if len(self) or self.multi_label == several:
            return self
        state = self._state
        empty = empty_snapshot(self.dimension, (), several, self.dtype, probe=state.probe)
        return self.of(replace(empty, options=state.options, documents=state.documents))

    def __len__(self) -> int:
        return len(self._state.keys)

    def __repr__(self) -> str:
        return (
            f"KNNDatastore({len(self)} rows of dimension {self.dimension}, {self.dtype}, "
            f"{len(self.label_names)} labels, index {self.index!r})"
        )

    def __getstate__(self) -> Snapshot:
        # A copy has a lock of its own. FAISS puts an index into bytes itself.
        return self._state

    def __setstate__(self, state: Snapshot) -> None:
        state.freeze()  # which neither a pickle nor a file keeps
        self._state, self._writing, self._arrays = state, threading.Lock(), GrowingArrays()

    @classmethod
    def of(cls, state: Snapshot) -> Self:
        """The datastore that begins with a snapshot."""
        datastore = cls.__new__(cls)
        datastore.__setstate__(state)
        return datastore

    @property
    def snapshot(self) -> Snapshot:
        """What is there at this moment: it never changes."""
        return self._state

    @property
    def content_sha256(self) -> str:
        """64 hexadecimal digits that change whenever a row, a label, a text or the index does."""
        parts = []
        for state in (self._state, self._state.documents):
            if state is not None:
                parts += [np.ascontiguousarray(state.keys), np.ascontiguousarray(state.labels)]
                rows = [state.rows[name].to_pylist() for name in ("id", "text", "text_pair")]
                parts.append(json.dumps([state.label_names, *rows, state.options.factory]).encode())
        return sha256_of_parts(parts)

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
    def probe(self) -> np.ndarray | None:
        """The fingerprint of the encoder that made the keys, ``(P, D)``; None if it is not known."""
        return self._state.probe

    @property
    def has_passages(self) -> bool:
        """Whether a row has several passages."""
        return self._state.passages is not None

    @property
    def keys(self) -> np.ndarray:
        """The embeddings, ``(N, D)``, read-only; where they stay on the disk, rows and ranges of them are arrays."""
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

    def search(self, queries: Any, k: int, passages: Passages | None = None) -> Neighbors:
        """The nearest rows of each query.

        Where rows or queries have several passages, each passage of one is matched with the nearest of the other, and
        the distance of the two is a mean of the best matches, as many as the one with fewer passages has, in which the
        r-th best counts 1/r.

        Args:
            queries: Embeddings, ``(Q, D)``.
            k: How many rows; all if there are fewer.
            passages: Those of the queries, as for the class. None: each has one, its embedding.

        Returns:
            Distances, labels, rows, ids and texts of the neighbors, all from the same snapshot; and which passages were
            nearest.

        Raises:
            ValueError: If the datastore is empty, k is below 1, the queries are not finite numbers ``(Q, D)``, or the
                passages do not fit them.
        """
        return self._state.search(queries, k, passages)

    def find(self, texts: Sequence[str] = (), pairs: Sequence[str | None] = (), ids: Iterable[str] = ()) -> Snapshot:
        """A snapshot that has at least the examples and documents of these texts or ids: here all of them."""
        return self._state

    def sample(self, passages: int, least: int) -> Snapshot:
        """Random rows, always the same: as many as have so many passages, but at least ``least``."""
        return self._state.take(self._state.sampled_rows(passages, least))

    def passages_of(self, rows: Any) -> Passages | None:
        """The passages of some rows, as ``search`` takes them of queries; None if all rows have one, their key.

        Args:
            rows: Numbers of rows, int64 ``(M,)``.
        """
        return take_passages(self._state.passages, np.asarray(rows, dtype=np.int64))

    @property
    def documents(self) -> KNNDatastore | None:
        """The unlabeled documents as they are now, to be searched and read; None if there are none.

        It is a datastore of its own: what changes in it does not change here.
        """
        documents = self._state.documents
        return None if documents is None or not len(documents.keys) else self.of(documents)

    @property
    def fitted(self) -> FittedState | None:
        """What was fitted on the rows, which is saved and copied with them; None if nothing was."""
        return self._state.fitted

    @fitted.setter
    def fitted(self, state: FittedState | None) -> None:
        if state is not None and not isinstance(state, FittedState):
            raise ValueError(f"fitted is a FittedState or None, got {state!r}.")
        with self._writing:
            self._state = replace(self._state, fitted=state)

    def add(
        self,
        keys: Any,
        labels: Sequence[Any],
        texts: Iterable[str | None] | None = None,
        text_pairs: Iterable[str | None] | None = None,
        ids: Iterable[str] | None = None,
        replacing: Iterable[str] = (),
        passages: Passages | None = None,
    ) -> list[str]:
        """Add rows, which the next search sees, and return their ids. All of them are added, or none.

        Args:
            keys, labels, texts, text_pairs, ids, passages: As for the class.
            replacing: The ids of rows and unlabeled documents that they take the place of, at the same moment.

        Raises:
            ValueError: As for the class, and if an id is there already.
        """
        with self._writing:
            state = remove_either(self._state, replacing)
            grown = add_rows(state, keys, labels, texts, text_pairs, ids, passages, self._arrays)
            return self._grow(grown, len(state.keys))

    def merge(self, other: Store) -> list[str]:
        """Add all rows of another datastore, and return their ids. Labels of the same name are the same label.

        Ids that the other's counters gave, told by their form, are replaced by ones of these counters; other ids stay.
        Its documents are added too. What was fitted on either is dropped, which is logged.

        Args:
            other: A datastore of the same encoder.

        Raises:
            ValueError: If the dimensions or encoders differ, only one has several labels per row, or an id is in both.
        """
        with self._writing:
            return self._grow(merge_snapshots(self._state, other.snapshot, self._arrays), len(self))

    def _grow(self, state: Snapshot, before: int) -> list[str]:
        new = state.rows["id"].slice(before)
        self._state = update_index(state)
        return new.to_pylist()

    def remove(self, ids: Iterable[str]) -> None:
        """Remove rows, which the next search does not see. All of them are removed, or none.

        Args:
            ids: As ``add`` and ``search`` give them.

        Raises:
            ValueError: If there is no row of an id, or ``ids`` is one string.
        """
        with self._writing:
            self._state = update_index(remove_rows(self._state, ids))

    def relabel(self, labels: Mapping[str, Any]) -> None:
        """Give rows other labels, which the next search sees; keys, ids and what was fitted stay. All of them, or none.

        Args:
            labels: By the id of a row its label, as for the class, but none may be new.

        Raises:
            ValueError: If there is no row of an id, or a label is not known here.
        """
        with self._writing:
            encoded = encode_known_labels(labels.values(), self._state.label_names, self._state.multi_label)
            self._state = relabel_rows(self._state, list(labels), encoded)

    def add_documents(
        self,
        keys: Any,
        texts: Iterable[str | None] | None = None,
        text_pairs: Iterable[str | None] | None = None,
        ids: Iterable[str] | None = None,
        passages: Passages | None = None,
    ) -> list[str]:
        """Add unlabeled documents, which no search of the examples sees, and return their ids. All are added, or none.

        Args:
            keys, texts, text_pairs, passages: As for the class.
            ids: Different strings, none of them an example's. None: a counter of their own, "d0", "d1", ...

        Raises:
            ValueError: As for the class, and if an id is there already.
        """
        with self._writing:
            before = 0 if self._state.documents is None else len(self._state.documents.keys)
            grown = add_documents(self._state, keys, texts, text_pairs, ids, passages, self._arrays)
            self._state = update_index(grown)
            return grown.documents.rows["id"].slice(before).to_pylist()

    def remove_documents(self, ids: Iterable[str]) -> None:
        """Remove unlabeled documents. All of them are removed, or none.

        Args:
            ids: As ``add_documents`` gives them.

        Raises:
            ValueError: If there is no document of an id, or ``ids`` is one string.
        """
        with self._writing:
            self._state = update_index(remove_documents(self._state, ids))

    def reindex(self, index: str = EXACT, nprobe: int | None = None, rerank: int | None = None) -> None:
        """Search with another index from now on. The same is built anew only if rows were added or removed since.

        Where keys stay on the disk, rows that were added since are merged into the same index; it is trained again when
        more were added and removed than half of what it has.

        Args:
            index, nprobe, rerank: As for the class.
        """
        with self._writing:
            self._state = change_index(self._state, IndexOptions(index, nprobe, rerank))

    def save_pretrained(self, folder: str | Path) -> None:
        """Save to ``<folder>/datastore/``, in place of the datastore that is there: whole, or not at all.

        A classifier in the folder is the one it belongs to from then on. The index goes to the cache of this machine.

        Args:
            folder: The folder of a model, or any other.
        """
        save_snapshot(folder, self._state)

    @classmethod
    def from_pretrained(
        cls,
        name_or_folder: str | Path,
        revision: str | None = None,
        token: str | bool | None = None,
        memory_map: bool = False,
    ) -> Self:
        """Load a datastore, and check all of it.

        An index other than ``"Flat"`` is built here, or taken from the cache of this machine, never from the folder.

        Args:
            name_or_folder: A folder that ``save_pretrained`` saved to, or a repository on the Hub.
            revision: The branch, tag or commit on the Hub.
            token: For a private repository.
            memory_map: Whether keys, texts and ids of the examples stay on the disk, as with ``from_shards``. Then all
                is checked when it is opened on this machine for the first time.

        Raises:
            FileNotFoundError: If there is no datastore.
            DatastoreError: A ``ValueError``, if the files are damaged or do not fit together.
        """
        return cls.of(load_snapshot(name_or_folder, revision, token, memory_map))

    def push_to_hub(self, repo_id: str, commit_message: str = "Upload a datastore", **kwargs: Any) -> Any:
        """Push to ``datastore/`` of a repository, in one commit, and return what ``HfApi.upload_folder`` returns.

        Args:
            repo_id: The repository, made if it is not there.
            commit_message: The message of the commit.
            **kwargs: ``private`` and ``token`` of ``HfApi.create_repo``, and options of ``HfApi.upload_folder``.
        """
        return upload(repo_id, lambda folder, _: self.save_pretrained(folder), commit_message, **kwargs)
