"""Adding documents without labels to a classifier's datastore."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..store.duplicates import number_texts
from ..texts_and_labels import texts_and_pairs

if TYPE_CHECKING:
    from ...models.inference.reader import Reader
    from ..store.store import Store

logger = logging.getLogger(__name__)


def add_documents(reader: Reader, datastore: Store, texts: Any, ids: Sequence[str] | None) -> list[str | None]:
    """Add documents as ``KNNClassifierPipeline.add_documents`` says."""
    if isinstance(texts, (str, Path)):
        raise TypeError(
            f"Expected texts, got {str(texts)!r}. To read a file or a folder: docsplit_hf.load_documents("
            f"{str(texts)!r}, test_size=0)['train']; one text: [text]."
        )
    texts, pairs = texts_and_pairs(texts)
    if not texts:
        logger.warning("There are no documents to add: is the folder, or the pattern of its files, the right one?")
    if ids is not None and len(ids) != len(texts):
        raise ValueError(f"{len(texts)} texts and {len(ids)} ids: give one id for each text.")
    new = _new_texts(datastore, texts, pairs)
    if len(new) < len(texts):
        empty = sum(not text.strip() for text in texts)
        logger.warning(
            "%d of %d documents are not added: %d empty, %d there already or given twice.",
            *(len(texts) - len(new), len(texts), empty, len(texts) - len(new) - empty),
        )
    added: list[str | None] = [None] * len(texts)
    if not new:
        return added
    new_texts, new_pairs = ([given[i] for i in new] for given in (texts, pairs))
    predictions = reader.read(new_texts, new_pairs)
    new_ids = None if ids is None else [ids[i] for i in new]
    embedded = predictions.retrieval_embeddings, new_texts, new_pairs, new_ids, predictions.passages
    for i, document_id in zip(new, datastore.add_documents(*embedded), strict=True):
        added[i] = document_id
    return added


def _new_texts(datastore: Store, texts: list[str], pairs: list[str | None]) -> list[int]:
    """The places of texts that are neither empty, nor among examples and documents, nor among those before them."""
    snapshot, known = datastore.find(texts, pairs), set()
    for state in (snapshot, snapshot.documents):
        if state is not None:
            in_table, numbers = number_texts(state.rows, texts, pairs)
            known |= set(in_table.tolist())
    new = []
    for i, number in enumerate(number_texts(snapshot.rows, texts, pairs)[1].tolist()):
        if texts[i].strip() and number not in known:
            known.add(number)
            new.append(i)
    return new
