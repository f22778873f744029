"""Make a ``Corpus``: the texts that experts are fitted on, in a canonical order, with their vectors and graph."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...arrays.index import ROWS_PER_CENTROID, approximate_search, build_index, set_nprobe
from ...arrays.keys import EXTRA_CANDIDATES
from ...arrays.row_table import rows_at
from ...content_hash import short_digest
from ...reading.characters import replace_lone_surrogates
from ...reading.inputs import joined_texts
from ...reading.shingles import number_words
from .expert import Corpus
from .style_expert import STYLE_NUMBERS, style_of_texts
from .text_vectors import fit_document_vectors, fit_words

if TYPE_CHECKING:
    import pyarrow as pa
    import scipy.sparse as sp

    from ...arrays.snapshot import Snapshot
    from ...reading.versions import VersionPairs

logger = logging.getLogger(__name__)

MAX_DOCUMENTS = 20_000  # more help very little: docs/results/few_labels.md
SAMPLED_DOCUMENTS = 1_000  # at most, on which experts are compared
MAX_KEPT_TEXTS = 30_000  # about 200 MB
GRAPH_NEIGHBORS = 10
MAX_EXACT_GRAPH_TEXTS = 30_000  # the time of an exact graph grows with the square of the texts
INDEX_LISTS = 1024
INDEX_PROBES = 16
PAIRS_OF_TEXTS_PER_BLOCK = 4_000_000  # whose cosines are computed at a time
COSINE_DIGITS = 6  # cosines of copies differ by rounding in later ones
PAIRS_PER_BLOCK = 1024  # of vectors that are gathered at a time, in the cache of the processor
PROPAGATION_ALPHA = 0.9
PROPAGATION_STEPS = 20
CLOSE_TEXTS = 4  # of one text, at most: versions of it
TIMES_CLOSER = 4.0  # weight of the edge to the nearest text, relative to that after these
LEAST_COSINE = 0.5  # of close texts: in a small corpus, the nearest may have nothing in common
COLUMNS_PER_BLOCK = 64  # of labels that are propagated at a time, in the cache of the processor


def neighbor_graph(vectors: np.ndarray, k: int = GRAPH_NEIGHBORS) -> sp.csr_array:
    """Normalized graph ``D^(-1/2) A D^(-1/2)`` of the k nearest texts by cosine c; A is ``max(c, 0)^2``, symmetric."""
    import scipy.sparse as sp

    count = len(vectors)
    k = min(k, count - 1)
    if k < 1:
        return sp.csr_array((count, count), dtype=np.float32)
    found = nearest_rows(vectors, k + 1)
    rows = np.repeat(np.arange(count), k + 1)
    columns = found.ravel()
    is_other = (columns != rows) & (columns >= 0)
    rows = rows[is_other]
    columns = columns[is_other]
    parts = [slice(start, start + PAIRS_PER_BLOCK) for start in range(0, len(rows), PAIRS_PER_BLOCK)]
    cosines = np.concatenate([np.einsum("nd,nd->n", vectors[rows[part]], vectors[columns[part]]) for part in parts])
    graph = sp.csr_array((np.square(cosines.clip(0)), (rows, columns)), (count, count))
    graph = graph.maximum(graph.T)
    scale = sp.diags_array(np.maximum(graph.sum(1), 1e-9) ** -0.5)
    return (scale @ graph @ scale).tocsr().astype(np.float32)


def nearest_rows(vectors: np.ndarray, k: int) -> np.ndarray:
    """Rows of the k nearest texts to each text, itself included, int64 ``(N, k)``; -1 where an index found too few."""
    if len(vectors) <= MAX_EXACT_GRAPH_TEXTS:
        step = max(PAIRS_OF_TEXTS_PER_BLOCK // len(vectors), 1)
        starts = range(0, len(vectors), step)
        return np.concatenate([_nearest_of(vectors[start : start + step], vectors, k) for start in starts])
    index = build_index(vectors, f"IVF{min(INDEX_LISTS, len(vectors) // ROWS_PER_CENTROID)},Flat")
    set_nprobe(index, INDEX_PROBES)
    return approximate_search(index, vectors, k)


def _nearest_of(some: np.ndarray, vectors: np.ndarray, k: int) -> np.ndarray:
    """Rows of the k ``vectors`` ``(N, D)`` with the largest cosine to each of some, ``(q, k)``; lower rows if equal."""
    cosines = some @ vectors.T
    count = min(k + EXTRA_CANDIDATES, len(vectors))
    candidates = np.argpartition(cosines, len(vectors) - count, axis=1)[:, -count:]
    order = np.lexsort((candidates, -np.take_along_axis(cosines, candidates, axis=1).round(COSINE_DIGITS)))
    return np.take_along_axis(candidates, order[:, :k], axis=1)


def join_versions(
    vectors: np.ndarray, graph: sp.csr_array, text_numbers: np.ndarray, versions: VersionPairs
) -> sp.csr_array:
    """Join different texts, by number, that are versions: by their words, or much nearer than others, as paraphrases.

    Returns 1 for versions, 0 for others, float32 ``(T, T)``; copies of one text are none.
    """
    import scipy.sparse as sp

    close = np.stack([text_numbers, text_numbers[_close_texts(vectors, graph)]])
    pairs = np.hstack([versions.rows.T, versions.rows.T[::-1], close])
    pairs = pairs[:, pairs[0] != pairs[1]]
    ones = np.ones(pairs.shape[1], np.float32)
    return sp.csr_array((ones, tuple(pairs)), shape=(text_numbers.max() + 1,) * 2).sign()


def _close_texts(vectors: np.ndarray, graph: sp.csr_array) -> np.ndarray:
    """Row of the nearest text if both are close, much nearer than other texts; of the text itself otherwise."""
    counts = np.diff(graph.indptr)
    order = np.lexsort((-graph.data, np.repeat(np.arange(len(counts)), counts)))
    weights = graph.data[order]
    has_others = counts > CLOSE_TEXTS
    first = graph.indptr[:-1][has_others]
    nearest = np.arange(len(counts))
    nearest[has_others] = graph.indices[order][first]
    is_near = np.zeros(len(counts), bool)
    is_near[has_others] = weights[first] > TIMES_CLOSER * weights[first + CLOSE_TEXTS]
    cosines = np.einsum("nd,nd->n", vectors, vectors[nearest])
    return np.where(is_near & is_near[nearest] & (cosines > LEAST_COSINE), nearest, np.arange(len(counts)))


def propagate_in_folds(
    graph: sp.csr_array, rows: Sequence[np.ndarray], targets: Sequence[np.ndarray], multi_label: bool
) -> list[np.ndarray]:
    """Propagate labels of the examples of each fold to all N texts: soft labels, float32 ``(N, C)`` each.

    ``rows`` and ``targets``: of each fold, the places of its examples ``(n,)``, and their labels ``(n, C)``, 0 or 1.

    ``F = 0.9 S F + 0.1 Y``, solved by 20 steps of Chebyshev's semi-iterative method (Golub and Varga 1961). With one
    label per text, each label gets the same total mass, and each text a distribution. With several, F is the fraction
    of the examples reaching a text that have the label. A text that no example reaches gets equal labels, or the label
    frequencies of the examples. Examples keep their labels.
    """
    start = np.zeros((graph.shape[0], len(rows), targets[0].shape[1] + multi_label), np.float32)
    for fold, (own_rows, own_targets) in enumerate(zip(rows, targets, strict=True)):
        start[own_rows, fold, : own_targets.shape[1]] = own_targets
        start[own_rows, fold, own_targets.shape[1] :] = 1
    mass = start.reshape(len(start), -1)
    for first in range(0, mass.shape[1], COLUMNS_PER_BLOCK):
        columns = slice(first, first + COLUMNS_PER_BLOCK)
        given = mass[:, columns]
        of_block = given
        before = given
        weight = 1.0
        for step in range(PROPAGATION_STEPS):
            change = PROPAGATION_ALPHA * (graph @ of_block) + (1 - PROPAGATION_ALPHA) * given - before
            after = before + weight * change
            before = of_block
            of_block = after
            weight = 1 / (1 - PROPAGATION_ALPHA**2 * weight / (4 if step else 2))
        mass[:, columns] = of_block.clip(0)
    found = []
    for own_mass, own_rows, own_targets in zip(np.split(mass, len(rows), axis=1), rows, targets, strict=True):
        soft = _soft_labels(own_mass, own_targets, multi_label)
        soft[own_rows] = own_targets
        found.append(soft.astype(np.float32))
    return found


def _soft_labels(mass: np.ndarray, targets: np.ndarray, multi_label: bool) -> np.ndarray:
    """Turn propagated mass, with that of all examples as the last column if multi-label, into soft labels."""
    if multi_label:
        reached = mass[:, -1:]
        frequencies = targets.mean(0, keepdims=True)
        return np.where(reached > 0, mass[:, :-1] / np.maximum(reached, 1e-30), frequencies).clip(0, 1)
    balanced = mass / np.maximum(mass.sum(0), 1e-30)
    total = balanced.sum(1, keepdims=True)
    return np.where(total > 0, balanced / np.maximum(total, 1e-30), 1 / targets.shape[1])


def make_corpus(snapshot: Snapshot, before: Corpus | None = None) -> Corpus:
    """Make the corpus of a datastore; more than 20,000 documents are sampled, always in the same way.

    Vectors and graph do not depend on labels: they are taken from the corpus ``before`` if it has the same texts.
    """
    import pyarrow as pa

    keys = [snapshot.keys]
    tables = [snapshot.rows]
    documents = snapshot.documents
    is_kept = np.zeros(0, bool)
    if documents is not None:
        is_kept = _sample(documents)
        if not is_kept.all():
            logger.warning("Of %d documents, a random %d are used.", len(is_kept), MAX_DOCUMENTS)
        keys.append(documents.keys[is_kept])
        tables.append(rows_at(documents.rows, np.flatnonzero(is_kept)))
    embeddings = np.concatenate(keys)
    texts = texts_in(pa.concat_tables(tables))
    contents = _numbers(texts, embeddings)
    order = _canonical_order(texts, contents)
    contents = contents[order]
    embeddings = embeddings[order].astype(np.float32, copy=False)
    ids = np.concatenate([id_numbers(*state) for state in zip(tables, keys, strict=True)])[order]
    places = np.argsort(order, kind="stable")
    example_places = places[: len(snapshot.keys)]
    document_places = np.full(len(is_kept), -1)
    document_places[is_kept] = places[len(snapshot.keys) :]
    texts = [texts[i] for i in order]
    sample = _sample_for_comparison(len(texts), example_places)
    if before is None or not np.array_equal(before.contents, contents):
        before = _corpus_of(texts, contents, embeddings)
    versions = before.first_places[before.same[before.text_numbers[example_places]].indices]
    described = np.unique(np.concatenate([sample, example_places, versions]))
    style = np.zeros((len(texts), len(STYLE_NUMBERS)), np.float32)
    style[described] = style_of_texts([texts[place] for place in described])
    return before._replace(
        rows=example_places, documents=document_places, ids=ids, sample=sample, described=described, style=style
    )


def _corpus_of(texts: Sequence[str], contents: np.ndarray, embeddings: np.ndarray) -> Corpus:
    """Make what does not depend on which texts are examples; the rest is empty."""
    import pandas as pd

    from ...reading.versions import version_pairs

    numbered = number_words(texts)
    terms, idf, words = fit_words(numbered)
    # Texts that are not stored, "", are different.
    text_numbers = pd.factorize(np.array([text or place for place, text in enumerate(texts)], object))[0]
    first_places = np.unique(text_numbers, return_index=True)[1]
    versions = version_pairs([numbered.of_texts[first] for first in first_places])
    different_texts = _count_different(text_numbers, versions)
    document_vectors, vectors = fit_document_vectors(embeddings, words, different_texts)
    graph = neighbor_graph(vectors)
    return Corpus(
        rows=np.zeros(0, np.int64),
        documents=np.zeros(0, np.int64),
        contents=contents,
        ids=np.zeros(0, np.int64),
        terms=terms,
        idf=idf,
        words=words,
        document_vectors=document_vectors,
        vectors=vectors,
        whitened=document_vectors.whitened(vectors),
        graph=graph,
        text_numbers=text_numbers,
        first_places=first_places,
        versions=versions,
        same=join_versions(vectors, graph, text_numbers, versions),
        sample=np.zeros(0, np.int64),
        described=np.zeros(0, np.int64),
        style=np.zeros((0, len(STYLE_NUMBERS)), np.float32),
    )


def _sample_for_comparison(texts: int, examples: np.ndarray) -> np.ndarray:
    """Places of 1,000 documents at most; of examples, if there are no documents."""
    documents = np.setdiff1d(np.arange(texts), examples)
    rows = documents if len(documents) else np.arange(texts)
    return np.sort(np.random.default_rng(0).permutation(rows)[:SAMPLED_DOCUMENTS])


def _count_different(text_numbers: np.ndarray, versions: VersionPairs) -> int:
    """Number of texts; if half of them or more are versions of others, versions of one text count as one."""
    from ...reading.versions import groups_of_pairs

    groups = groups_of_pairs(versions, np.bincount(text_numbers))
    count = len(text_numbers) - len(groups) + len(np.unique(groups))
    return count if count <= len(text_numbers) / 2 else len(text_numbers)


def texts_in(table: pa.Table) -> list[str]:
    """Texts of a table of rows; pairs of texts are joined."""
    return joined_texts(table["text"].to_pylist(), table["text_pair"].to_pylist())


def id_numbers(rows: pa.Table, keys: np.ndarray) -> np.ndarray:
    """Hash each row's id and key to an int64: an id may be given to another text."""
    return _numbers(rows["id"].to_pylist(), keys)


def _sample(documents: Snapshot) -> np.ndarray:
    """Mark the documents to use, bool ``(m,)``: all, or those with the smallest checksums."""
    kept = np.ones(len(documents.keys), bool)
    if len(kept) <= MAX_DOCUMENTS:
        return kept
    texts = texts_in(documents.rows)
    order = _canonical_order(texts, _numbers(texts, documents.keys))
    kept[order[MAX_DOCUMENTS:]] = False
    return kept


def _canonical_order(texts: Sequence[str], contents: np.ndarray) -> np.ndarray:
    """Sort by a checksum of the text, then by ``contents``: places ``(N,)``.

    The text comes first, as another processor rounds embeddings differently, and the folds must be the same.
    """
    digests = b"".join(short_digest(replace_lone_surrogates(text).encode()) for text in texts)
    return np.lexsort((contents, np.frombuffer(digests, ">i8")))


def _numbers(texts: Sequence[str], keys: np.ndarray) -> np.ndarray:
    """Hash each text, or id, and its key to an int64."""
    both = (replace_lone_surrogates(text).encode() + key.tobytes() for text, key in zip(texts, keys, strict=True))
    return np.frombuffer(b"".join(short_digest(one) for one in both), dtype=np.int64)


class KeptCorpus:
    """Corpus of the last snapshot, reused while only labels change."""

    def __init__(self) -> None:
        self._last: Corpus | None = None

    def make(self, snapshot: Snapshot) -> Corpus:
        """Make the corpus of a snapshot, as ``make_corpus`` does."""
        corpus = make_corpus(snapshot, self._last)
        self._last = corpus if len(corpus.ids) <= MAX_KEPT_TEXTS else None
        return corpus
