"""Addition and relabeling of examples and documents of a datastore, which is created if necessary."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import chain
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from ..arrays.passages import Passages, take_passages
from ..arrays.row_table import has_origins, ids_among, origins_of
from ..arrays.snapshot import Snapshot, examples_of_texts, number_texts, rows_of_texts
from ..encoding.portable.modeling_knn_classifier import MULTI_LABEL
from ..encoding.text_embedder import TextEmbedder
from ..reading.files.failures import FailedFile
from ..reading.inputs import InputRow, check_lengths, read_inputs
from ..reading.labels import (
    are_lists,
    describe_alike,
    label_set,
    names_of_labels,
    plain_spelling,
    warn_of_contradictions,
)
from ..reading.origins import Origin
from .knn_datastore import KNNDatastore

logger = logging.getLogger(__name__)


def datastore_for_adding(
    embedder: TextEmbedder, datastore: KNNDatastore | None, labels: Sequence[Any] = ()
) -> KNNDatastore:
    """Return the datastore, or a new one; without a head, ``labels`` determine whether a text may have several."""
    config = embedder.model.config
    multi_label = config.problem_type == MULTI_LABEL if config.num_labels else are_lists(labels)
    if datastore is None:
        return new_datastore(embedder, config.label_names, multi_label)
    return datastore.for_labels(multi_label)


def new_datastore(embedder: TextEmbedder, label_names: Sequence[str], multi_label: bool) -> KNNDatastore:
    """Make an empty datastore for the embeddings of an embedder."""
    probe = embedder.probe()
    return KNNDatastore.empty(probe.shape[1], label_names, multi_label=multi_label, probe=probe)


def add_examples(
    embedder: TextEmbedder,
    datastore: KNNDatastore,
    texts: Any,
    labels: Sequence[Any],
    ids: Sequence[str] | None = None,
    allow_new_labels: bool = False,
    allow_duplicates: bool = False,
    replace_ids: bool = False,
) -> list[str]:
    """Add examples as ``KNNClassifierPipeline.add_examples`` describes, and return their ids.

    With ``replace_ids``, new examples replace existing ones with the same ids.
    """
    given = list(read_inputs(texts))
    check_lengths(given, labels, ids)
    read = _readable(given)
    for row in read:
        if not row.text.strip():
            raise ValueError(f"Text {row.number} is empty: leave it out.")
    texts = [row.text for row in read]
    pairs = [row.pair for row in read]
    labels = list(labels)
    labels = names_of_labels([labels[row.number] for row in read])
    ids = None if ids is None else [ids[row.number] for row in read]
    if embedder.model.config.num_labels and not allow_new_labels:
        for name in chain.from_iterable([label] if isinstance(label, str) else label for label in labels):
            _refuse_new_label(
                name,
                datastore.label_names,
                which=f"The label {name!r}",
                next_step="This classifier was trained without it: allow_new_labels=True adds it, and only neighbors "
                "can predict it.",
            )
    replaced_ids = ids if replace_ids and ids is not None else []
    found = datastore.snapshot
    new_examples = list(zip(zip(texts, pairs, strict=True), map(label_set, labels), strict=True))
    stored = examples_of_texts(found, texts, pairs)
    warn_of_contradictions([*((example.content, example.labels) for example in stored), *new_examples])
    _warn_of_alike(labels, datastore.label_names)
    ids_by_row: list[Any] = [None] * len(texts)  # ids of existing examples
    first: Sequence[int] = range(len(texts))  # number of the first equal example among the given ones
    if not allow_duplicates:
        known_ids = {(example.content, example.labels): example.id for example in reversed(stored)}
        ids_by_row = [known_ids.get(example) for example in new_examples]
        numbers: dict[Any, int] = {}
        first = [numbers.setdefault(example, i) for i, example in enumerate(new_examples)]
    rows = [i for i in range(len(texts)) if first[i] == i and ids_by_row[i] is None]
    if len(rows) < len(texts):
        logger.warning(
            "%d of %d examples are in the datastore already with the same label, and are not added again%s: "
            "allow_duplicates=True adds them.",
            len(texts) - len(rows),
            len(texts),
            "" if ids is None else ", nor are their ids",
        )
    if rows:
        new_texts = [texts[i] for i in rows]
        new_pairs = [pairs[i] for i in rows]
        keys, passages, known_documents = _embed_examples(embedder, found.documents, new_texts, new_pairs)
        added = datastore.add(
            keys,
            [labels[i] for i in rows],
            new_texts,
            new_pairs,
            None if ids is None else [ids[i] for i in rows],
            replacing=[*ids_among(replaced_ids, found.rows), *known_documents],
            passages=passages,
            origins=_origins_of_examples([read[i] for i in rows], found.documents),
        )
        for i, added_id in zip(rows, added, strict=True):
            ids_by_row[i] = added_id
    added_ids = {row.number: ids_by_row[i] for row, i in zip(read, first, strict=True)}
    return [added_ids.get(number) for number in range(len(given))]


def _readable(given: Sequence[InputRow | FailedFile]) -> list[InputRow]:
    """The inputs that were read; files that were not are logged."""
    failed = [one for one in given if isinstance(one, FailedFile)]
    if failed:
        from ..reading.files.failure_lists import report_failures  # here, as texts are added without files

        report_failures(failed, len(given))
    return [one for one in given if isinstance(one, InputRow)]


def _warn_of_alike(labels: Sequence[str | list[str]], known: Sequence[str]) -> None:
    """Warn of new labels that differ from other labels only in spelling."""
    given = Counter(chain.from_iterable([label] if isinstance(label, str) else label for label in labels))
    new = {plain_spelling(name) for name in given.keys() - set(known)}
    counts = {name: given[name] for name in (*known, *given) if plain_spelling(name) in new}
    remark = describe_alike(counts)
    if remark is not None:
        logger.warning(remark)


def _embed_examples(
    embedder: TextEmbedder, documents: Snapshot | None, texts: list[str], pairs: list[str | None]
) -> tuple[np.ndarray, Passages | None, list[str]]:
    """Embed texts; texts of ``documents`` keep their embeddings, and the ids of these documents are returned."""
    if documents is None or not len(documents.keys):
        keys, passages = _embed_in_sorted_order(embedder, texts, pairs)
        return keys, passages, []
    document_rows = rows_of_texts(documents.rows, texts, pairs)
    keys = documents.keys[document_rows].astype(np.float32)  # rows of new texts are overwritten below
    new = np.flatnonzero(document_rows < 0)
    known = np.flatnonzero(document_rows >= 0)
    passages = _by_text(known, take_passages(documents.passages, document_rows[known]))
    if len(new):
        keys[new], new_passages = _embed_in_sorted_order(embedder, [texts[i] for i in new], [pairs[i] for i in new])
        passages |= _by_text(new, new_passages)
    joined = None
    if passages:
        whole = {i: (keys[[i]], np.array([[0, len(text)]])) for i, text in enumerate(texts) if i not in passages}
        by_text = passages | whole
        joined = Passages.joined([by_text[i] for i in range(len(texts))])
    ids = documents.rows["id"].take(np.unique(document_rows[known])).to_pylist()
    return keys, joined, ids


def _origins_of_examples(rows: Sequence[InputRow], documents: Snapshot | None) -> list[Origin | None] | None:
    """Files and places of new examples; those of the documents that become examples are kept. None: there are none."""
    origins = [row.origin for row in rows]
    if documents is not None and has_origins(documents.rows):
        known = origins_of(documents.rows)
        places = rows_of_texts(documents.rows, [row.text for row in rows], [row.pair for row in rows])
        for number, place in enumerate(places.tolist()):
            if origins[number] is None and place >= 0:
                origins[number] = known[place]
    return origins if any(origin is not None for origin in origins) else None


def _embed_in_sorted_order(
    embedder: TextEmbedder, texts: list[str], pairs: list[str | None]
) -> tuple[np.ndarray, Passages | None]:
    """Embed texts in sorted order: batches change rounding, and results must not depend on the given order."""
    order = sorted(range(len(texts)), key=lambda i: (texts[i], pairs[i] or ""))
    embedded = embedder.embed([texts[i] for i in order], [pairs[i] for i in order])
    back = np.argsort(order)
    return embedded.retrieval_embeddings[back], take_passages(embedded.passages, back)


def _by_text(numbers: np.ndarray, passages: Passages | None) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Map the ``numbers`` of texts to their passages; empty without passages."""
    return {} if passages is None else dict(zip(numbers.tolist(), passages.by_text(), strict=True))


def check_descriptions(descriptions: Mapping[str, str]) -> None:
    """Check descriptions of labels, each of which becomes an example.

    Raises:
        TypeError: If the descriptions are no mapping.
        ValueError: If there are none, or a name or description is empty.
    """
    if not isinstance(descriptions, Mapping):
        raise TypeError(
            f"Expected {{label: description, ...}}, got {descriptions!r}: describe each label in a few words."
        )
    for name, description in descriptions.items():
        if not isinstance(name, str) or not isinstance(description, str) or not (name.strip() and description.strip()):
            raise ValueError(f"The label {name!r} is described as {description!r}: give a name, and a few words.")
    if not descriptions:
        raise ValueError("There are no labels: give {label: description, ...}.")


def add_documents(
    embedder: TextEmbedder, datastore: KNNDatastore, texts: Any, ids: Sequence[str] | None = None
) -> list[str | None]:
    """Add documents as ``KNNClassifierPipeline.add_documents`` describes, and return their ids."""
    if isinstance(texts, str):
        raise TypeError(
            f"Expected texts, got {texts!r}. To read a file or a folder: Path({texts!r}); one text: [text]."
        )
    given = list(read_inputs(texts, show_progress=embedder.options.show_progress))
    check_lengths(given, ids=ids)
    read = _readable(given)
    if not read:
        logger.warning("There are no documents to add: is the folder, or the pattern of its files, the right one?")
    texts = [row.text for row in read]
    new = [read[i] for i in _new_texts(datastore, texts, [row.pair for row in read])]
    if len(new) < len(texts):
        empty = sum(not text.strip() for text in texts)
        logger.warning(
            "%d of %d documents are not added: %d are empty, %d are in the datastore already or given twice.",
            len(texts) - len(new),
            len(texts),
            empty,
            len(texts) - len(new) - empty,
        )
    added: list[str | None] = [None] * len(given)
    if new:
        new_texts = [row.text for row in new]
        new_pairs = [row.pair for row in new]
        new_ids = None if ids is None else [ids[row.number] for row in new]
        keys, passages = _embed_in_sorted_order(embedder, new_texts, new_pairs)
        origins = _origins_of_examples(new, None)
        added_ids = datastore.add_documents(keys, new_texts, new_pairs, new_ids, passages, origins)
        for row, document_id in zip(new, added_ids, strict=True):
            added[row.number] = document_id
    return added


def _new_texts(datastore: KNNDatastore, texts: list[str], pairs: list[str | None]) -> list[int]:
    """Numbers of the texts that are neither empty, nor in the datastore, nor repeated."""
    snapshot = datastore.snapshot
    known = set()
    for state in (snapshot, snapshot.documents):
        if state is not None:
            in_store, _ = number_texts(state.rows, texts, pairs)
            known |= set(in_store.tolist())
    new = []
    _, numbers = number_texts(snapshot.rows, texts, pairs)
    for i, number in enumerate(numbers.tolist()):
        if texts[i].strip() and number not in known:
            known.add(number)
            new.append(i)
    return new


def relabel(datastore: KNNDatastore, labels: Mapping[str, Any]) -> None:
    """Relabel examples as ``KNNClassifierPipeline.relabel`` describes."""
    if not isinstance(labels, Mapping):
        raise TypeError(f"Expected {{id: label, ...}}, got {labels!r}.")
    multi_label = datastore.multi_label
    numbers = {}
    for row_id, given in labels.items():
        own = given if isinstance(given, (list, tuple, set, frozenset)) else [given]
        if any(isinstance(label, Number | np.bool_) and label == label for label in own):  # NaN is not itself
            numbers[row_id] = given
    labels = {**labels, **dict(zip(numbers, names_of_labels(list(numbers.values())), strict=True))}
    for row_id, given in labels.items():
        if not isinstance(row_id, str):
            raise TypeError(f"The id {row_id!r} is not a string: give ids that add_examples returned.")
        if isinstance(given, str) == multi_label or not isinstance(given, (str, list, tuple, set, frozenset)):
            expected = "the name of a label"
            if multi_label:
                expected = "a list of names, as a text may have several labels here"
            raise TypeError(f"The label of {row_id!r} is {given!r}: give {expected}.")
        for label in given if multi_label else [given]:
            _refuse_new_label(
                label,
                datastore.label_names,
                which=f"The label {label!r} of {row_id!r}",
                next_step="A new one comes with add_examples.",
            )
    datastore.relabel(labels)
    if labels and datastore.fitted is not None:
        logger.info("The neighbors use the new labels from now on; call fit() again for the other experts.")


def ids_to_remove(
    datastore: KNNDatastore,
    ids: Sequence[str],
    texts: Sequence[str],
    files: Sequence[str | Path],
    are_documents: bool = False,
) -> Sequence[str]:
    """Return the ids of rows to remove as ``KNNClassifierPipeline.remove_examples`` describes."""
    for name, given in (("ids", ids), ("texts", texts), ("files", files)):
        if isinstance(given, (str, Path)):
            raise TypeError(f"{name} is {given!r}: give a list.")
    if not texts and not files:
        return ids
    state = datastore.snapshot.documents if are_documents else datastore.snapshot
    found = list(ids)
    for column, values in (("text", texts), ("file", list(map(str, files)))):
        for value in values:
            same = [] if state is None else state.rows.filter(pc.equal(state.rows[column], value))["id"].to_pylist()
            if not same:
                kind = "document" if are_documents else "example"
                raise ValueError(f"No {kind} has the {column} {value!r}: give it as answers and neighbors show it.")
            found += same
    return list(dict.fromkeys(found))


def _refuse_new_label(label: Any, known: Sequence[str], which: str, next_step: str) -> None:
    """Raise ValueError for an unknown label; ``which`` names the label in the message."""
    if label not in known:
        near = get_close_matches(str(label), known, n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{which} is none of {', '.join(known)}.{meant} {next_step}")
