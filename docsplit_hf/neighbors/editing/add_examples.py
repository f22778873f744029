"""Adding labeled examples to a classifier's datastore, which may not be there yet."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.inference.passages import Passages
from ...models.portable.modeling_knn_classifier import MULTI_LABEL
from ..store.datastore import KNNDatastore
from ..store.duplicates import first_of_equals, ids_of_examples, number_texts
from ..store.passage_table import take_passages
from ..store.row_table import is_multi_label
from ..texts_and_labels import names_of_labels, texts_and_pairs

if TYPE_CHECKING:
    from ...models.inference.reader import Reader
    from ..store.store import Store

logger = logging.getLogger(__name__)


def add_examples(
    reader: Reader,
    datastore: Store,
    texts: Any,
    labels: Sequence[Any],
    ids: Sequence[str] | None,
    allow_new_labels: bool = False,
    allow_duplicates: bool = False,
    replacing: Collection[str] = (),
) -> list[str]:
    """Add examples as ``KNNClassifierPipeline.add_examples`` says, in place of those ``replacing``; gives the ids."""
    config, ids = reader.model.config, None if ids is None else list(ids)
    texts, pairs = texts_and_pairs(texts)
    labels = names_of_labels(labels)
    for i, text in enumerate(texts):
        if not text.strip():
            raise ValueError(f"Text {i} is empty: Leave it out.")
    if len(labels) != len(texts):
        raise ValueError(f"{len(texts)} texts and {len(labels)} labels: give one label for each text.")
    if config.num_labels and not allow_new_labels:
        _refuse_new_labels(labels, datastore.label_names)
    if ids is not None and len(ids) != len(texts):
        raise ValueError(f"{len(texts)} texts and {len(ids)} ids: give one id for each text.")
    known: list[Any] = [None] * len(texts)
    first: Sequence[int] = range(len(texts))
    if not allow_duplicates:
        known = ids_of_examples(datastore.find(texts, pairs), texts, pairs, labels)
        first = first_of_equals(texts, pairs, labels)
    rows = [i for i in range(len(texts)) if first[i] == i and known[i] is None]
    if len(rows) < len(texts):
        logger.warning(
            "%d of %d examples are there already with the same label, and are not added again%s: "
            "allow_duplicates=True adds them.",
            *(len(texts) - len(rows), len(texts), "" if ids is None else ", nor are their ids"),
        )
    if not rows:
        return [known[i] for i in first]
    new, new_pairs, new_labels = ([given[i] for i in rows] for given in (texts, pairs, labels))
    keys, passages, documents = _embed(reader, datastore, new, new_pairs)
    new_ids = None if ids is None else [ids[i] for i in rows]
    replaced = [*replacing, *documents]
    added = datastore.add(keys, new_labels, new, new_pairs, new_ids, replacing=replaced, passages=passages)
    for i, added_id in zip(rows, added, strict=True):
        known[i] = added_id
    return [known[i] for i in first]


def datastore_to_grow(reader: Reader, datastore: Store | None, labels: Sequence[Any] = ()) -> Store:
    """The datastore, or a new one; the first ``labels`` say whether a text may have several, if no classifier does."""
    config = reader.model.config
    several = config.problem_type == MULTI_LABEL if config.num_labels else is_multi_label(labels)
    is_unused = isinstance(datastore, KNNDatastore) and not len(datastore) and datastore.multi_label != several
    if datastore is not None and not is_unused:
        return datastore
    probe = reader.probe()
    new = KNNDatastore.empty(probe.shape[1], config.label_names, multi_label=several, probe=probe)
    if datastore is not None and datastore.documents is not None:  # they were there before the first labels
        documents = datastore.documents
        passages = documents.passages_of(np.arange(len(documents)))
        new.add_documents(documents.keys, documents.texts, documents.text_pairs, documents.ids, passages)
    return new


def _embed(
    reader: Reader, datastore: Store, texts: list[str], pairs: list[str | None]
) -> tuple[np.ndarray, Passages | None, list[str]]:
    """The embeddings and passages of texts, and the ids of documents that some of them were: these have theirs."""
    documents = datastore.find(texts, pairs).documents
    if documents is None or not len(documents.keys):
        predictions = reader.read(texts, pairs)
        return predictions.retrieval_embeddings, predictions.passages, []
    in_table, own = number_texts(documents.rows, texts, pairs)
    rows = {number: row for row, number in enumerate(in_table.tolist()) if number >= 0}
    place = np.array([rows.get(number, -1) for number in own.tolist()])
    keys = documents.keys[place].astype(np.float32)
    new, known = np.flatnonzero(place < 0), np.flatnonzero(place >= 0)
    passages = {}
    if len(new):
        predictions = reader.read([texts[i] for i in new], [pairs[i] for i in new])
        keys[new] = predictions.retrieval_embeddings
        passages |= _by_text(new, predictions.passages)
    passages |= _by_text(known, take_passages(documents.passages, place[known]))
    whole = {i: (keys[[i]], np.array([[0, len(text)]])) for i, text in enumerate(texts) if i not in passages}
    joined = Passages.joined([(passages | whole)[i] for i in range(len(texts))]) if passages else None
    return keys, joined, documents.rows["id"].take(np.unique(place[known])).to_pylist()


def _by_text(numbers: np.ndarray, passages: Passages | None) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    return {} if passages is None else {number: passages.of(i) for i, number in enumerate(numbers.tolist())}


def _refuse_new_labels(labels: list[Any], known: Sequence[str]) -> None:
    for given in labels:
        for label in [given] if isinstance(given, str) else given:
            if label not in known:
                near = get_close_matches(label, known, n=1)
                raise ValueError(
                    f"The label {label!r} is none of {', '.join(known)}."
                    f"{f' Did you mean {near[0]!r}?' if near else ''} This classifier was trained without it: "
                    "allow_new_labels=True adds it, and only the neighbors will know it."
                )
