"""Embedding of labeled examples for ``KNNDatastore.build``: the only place where a store runs an encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.changes import add_rows, empty_snapshot
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
    embedded = embedder.embed(texts, pairs)
    ids = list(dataset["id"]) if "id" in dataset.column_names else None
    if not store_texts:
        texts = None
        pairs = None
    filled = add_rows(
        empty,
        embedded.retrieval_embeddings,
        labels,
        texts,
        pairs,
        ids,
        embedded.passages,
        origins=origins_of_rows(dataset),
    )
    return update_index(filled, rebuild=True)
