"""Embedding of labeled examples for ``KNNDatastore.build``: the only place where a store runs an encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.changes import add_rows, empty_snapshot
from ..arrays.passages import Passages
from ..encoding.chunking import PASSAGES
from ..reading.labels import has_several_labels, label_array, label_names_of, texts_of
from ..reading.origins import origins_of_rows
from ..storage.snapshot_index import update_index
from .datastore_checks import check_problem_type

if TYPE_CHECKING:
    from datasets import Dataset

    from ..arrays.snapshot import Snapshot
    from ..encoding.text_embedder import TextEmbedder


def embed_examples(embedder: TextEmbedder, dataset: Dataset, store_texts: bool, **options: Any) -> Snapshot:
    """Make the first snapshot of ``KNNDatastore.build``; ``options``: of ``empty_snapshot``."""
    texts, pairs = texts_of(dataset)
    for i, text in enumerate(texts):
        if isinstance(text, str) and not text.strip():
            raise ValueError(f"Text {i} is empty: load_labeled_examples drops such examples.")
    config = embedder.model.config
    trained = config.label_names
    multi_label = has_several_labels(dataset)
    check_problem_type(config, multi_label, "The examples")
    names = (*trained, *(name for name in label_names_of(dataset) if name not in trained))
    labels = label_array(dataset, names, multi_label)
    labels = [np.flatnonzero(row) for row in labels] if multi_label else labels
    probe = embedder.probe()
    empty = empty_snapshot(probe.shape[1], names, multi_label, probe=probe, **options)  # before the texts are embedded
    keys, passages = _embed_by_all_processes(embedder, texts, pairs)
    ids = list(dataset["id"]) if "id" in dataset.column_names else None
    origins = origins_of_rows(dataset)
    if not store_texts:
        texts = None
        pairs = None
    return update_index(add_rows(empty, keys, labels, texts, pairs, ids, passages, origins=origins), rebuild=True)


def _embed_by_all_processes(
    embedder: TextEmbedder, texts: list[str], pairs: list[str] | None
) -> tuple[np.ndarray, Passages | None]:
    """Embed texts: float32 ``(N, R)``, and passages. Under accelerate, each process embeds a part and gets all."""
    from accelerate import PartialState
    from accelerate.utils import gather_object

    state = PartialState()
    own = np.array_split(np.arange(len(texts)), state.num_processes)[state.process_index]
    embedder = embedder.with_options(show_progress=embedder.options.show_progress and state.is_main_process)
    own_texts = [texts[i] for i in own]
    own_pairs = None if pairs is None else [pairs[i] for i in own]
    embedded = embedder.embed(own_texts, own_pairs)
    keys = embedded.retrieval_embeddings
    passages = embedded.passages
    if state.num_processes == 1:
        return keys, passages
    if embedder.model.config.long_documents == PASSAGES and passages is None:
        spans = np.array([[0, len(text)] for text in own_texts], dtype=np.int64).reshape(-1, 2)
        passages = Passages(keys, np.ones(len(keys), dtype=np.int64), spans)
    parts = gather_object([(keys, *(passages or ()))])
    keys, *cut = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return keys, Passages(*cut) if cut else None
