"""Groups of texts that are versions of one text: drafts, amendments, quotations, filled-in templates.

Two texts are versions of one another if they share much of their words, in order. Single word triples in more than 30
different texts show a style or a template, and do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .shingles import MAX_SHINGLES, number_words, shingles_of

if TYPE_CHECKING:
    import scipy.sparse as sp

MAX_HOLDERS = 30  # different texts with a triple; triples in more texts are ignored
MIN_SHARE = 0.2  # of the triples of the shorter text, for two versions
MIN_COMMON = 15  # triples of two versions; shorter texts share phrases by chance
MIN_SAMPLED = 5  # of these, in the samples of long texts
MIN_SHARE_OF_SHORT_TEXTS = 0.7  # 2 |A & B| / (|A| + |B|); of two versions with fewer common triples
MIN_COMMON_OF_SHORT_TEXTS = 3  # triples of two versions; one or two are a phrase, or leave out what differs ("class A")
# A group that is too large is divided: its texts must share more. In the end only equal texts are left together.
SHARES = (MIN_SHARE, 0.35, 0.5, 0.7, 0.9)
MAX_FRACTION_OF_GROUP = 0.2  # of all texts
MAX_SMALL_GROUP = 10  # a group may have as many texts even if they are more than a fifth, but no more than half
PAIRS_PER_BLOCK = 2**22  # pairs of texts with a common triple that are counted at a time, to bound memory


class VersionPairs(NamedTuple):
    """Pairs of texts that are versions of one another, by row."""

    rows: np.ndarray  # int64 (P, 2), the lower row first
    share: np.ndarray  # float64 (P,): of the triples of the shorter text, from 0 to 1


def group_versions(texts: Sequence[str]) -> np.ndarray:
    """Number the groups of texts that are versions of one text, such as drafts of it.

    Two texts are versions if they share a fifth of the word triples of the shorter one, and at least 15; or, if they
    are short, 70 % of their triples, and at least 3. Versions of versions are in the same group. In scripts without
    spaces, pairs of characters are used as words. Equal texts are in one group.

    Triples in more than 30 different texts are ignored, so that a common form does not join the texts that use it. A
    group has at most a fifth of the texts; or ten texts, if these are at most half of all. If more texts are connected,
    they must share more of their triples (35, 50, 70, 90 %), and in the end only equal texts stay together.

    The numbers serve as ``groups`` for scikit-learn's ``GroupKFold``, so that no version of a text is in training data
    while another one is tested.

    Args:
        texts: N texts.

    Returns:
        The number of the group of each text, int64 ``(N,)``, from 0, in the order of the first text of each group.
    """
    numbers: dict[str, int] = {}
    number_of_text = np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int64)
    copies = np.bincount(number_of_text, minlength=len(numbers))
    groups = groups_of_pairs(version_pairs(number_words(list(numbers)).of_texts), copies)
    return groups[number_of_text]


def version_pairs(words: Sequence[np.ndarray]) -> VersionPairs:
    """Find the pairs of different texts that are versions, as ``group_versions`` defines them, by their words."""
    import scipy.sparse as sp

    nothing = VersionPairs(rows=np.zeros((0, 2), np.int64), share=np.zeros(0))
    if not len(words):
        return nothing
    counted = _counted_triples(words)
    shared = counted.sets[:, counted.holders > 1]
    by_triple = shared.T.tocsr()
    block_of_row = np.cumsum(shared @ np.diff(by_triple.indptr)) // PAIRS_PER_BLOCK
    first_rows = np.unique(block_of_row, return_index=True)[1].tolist()
    found = [nothing]
    for first, after in zip(first_rows, [*first_rows[1:], len(words)], strict=True):
        common = sp.coo_array(shared[first:after] @ by_triple)
        later = common.row.astype(np.int64) + first
        is_pair = common.col < later
        pairs = np.stack([common.col[is_pair], later[is_pair]], axis=1, dtype=np.int64)
        found.append(_versions_among(pairs, common.data[is_pair], counted))
    return VersionPairs(
        rows=np.concatenate([pairs.rows for pairs in found]), share=np.concatenate([pairs.share for pairs in found])
    )


class _Counted(NamedTuple):
    """Triples of N texts that are not too frequent."""

    sets: sp.csr_array  # int32 (N, V), 1 for each triple of a text that was kept
    keys: np.ndarray  # int64, ascending: ``text * V + triple`` for each triple of each text in ``sets``
    holders: np.ndarray  # int64 (V,): number of texts with each triple; 0 if they are too many
    all_triples: np.ndarray  # int64 (N,): number of different triples, also frequent ones, before sampling
    totals: np.ndarray  # float64 (N,): number of triples that are not too frequent, before sampling
    ends: np.ndarray  # int64 (N,): the last triple of a sample; V - 1 for texts whose triples were all kept


def _counted_triples(words: Sequence[np.ndarray]) -> _Counted:
    import scipy.sparse as sp

    shingles = shingles_of(words)
    sets = shingles.sets
    holders = np.bincount(sets.indices, minlength=sets.shape[1])
    holders[holders > MAX_HOLDERS] = 0
    is_counted = holders[sets.indices] > 0
    starts = np.concatenate([[0], np.cumsum(is_counted)])[sets.indptr]
    counted = sp.csr_array((sets.data[is_counted], sets.indices[is_counted], starts), sets.shape)
    is_sample = shingles.counts > MAX_SHINGLES
    width = sets.shape[1]
    ends = np.full(len(words), width - 1)
    ends[is_sample] = sets.indices[sets.indptr[1:][is_sample] - 1]
    kept = np.diff(sets.indptr)
    return _Counted(
        sets=counted,
        keys=np.repeat(np.arange(len(words)), np.diff(starts)) * width + counted.indices,
        holders=holders,
        all_triples=shingles.counts,
        totals=shingles.counts * np.diff(starts) / np.maximum(kept, 1),
        ends=ends,
    )


def _versions_among(pairs: np.ndarray, common: np.ndarray, counted: _Counted) -> VersionPairs:
    """Select the versions among ``pairs`` ``(P, 2)`` of texts with so many ``common`` ``(P,)`` kept triples."""
    ends = counted.ends[pairs].min(1, keepdims=True)
    # The smallest hashes of two samples can be compared only up to the smaller of their largest hashes.
    sizes = _triples_up_to(pairs, ends, counted)
    share = common / np.maximum(sizes.min(1), 1)
    common_of_all = share * counted.totals[pairs].min(1)
    is_sampled = (counted.all_triples[pairs] > MAX_SHINGLES).any(1)
    shares_much = (share >= MIN_SHARE) & (common_of_all >= MIN_COMMON) & ((common >= MIN_SAMPLED) | ~is_sampled)
    share_of_both = 2 * common_of_all / np.maximum(counted.all_triples[pairs].sum(1), 1)
    is_nearly_equal = (share_of_both >= MIN_SHARE_OF_SHORT_TEXTS) & (common >= MIN_COMMON_OF_SHORT_TEXTS)
    is_version = shares_much | is_nearly_equal
    return VersionPairs(rows=pairs[is_version], share=np.maximum(share, share_of_both)[is_version])


def _triples_up_to(pairs: np.ndarray, ends: np.ndarray, counted: _Counted) -> np.ndarray:
    """Number of triples of both texts of each pair, ``(P, 2)``, up to the triple ``ends`` ``(P, 1)``."""
    keys = pairs * counted.sets.shape[1] + ends
    return np.searchsorted(counted.keys, keys, side="right") - counted.sets.indptr[pairs]


def groups_of_pairs(pairs: VersionPairs, weights: np.ndarray) -> np.ndarray:
    """Join N texts by their pairs into groups that are not too large, as ``group_versions`` defines them.

    ``weights`` ``(N,)``: how many texts each one counts as, such as its copies, or 0. Returns the number of the group
    of each text, int64 ``(N,)``, from 0, in the order of the first text of each group.
    """
    count = len(weights)
    total = int(weights.sum())
    largest = max(int(MAX_FRACTION_OF_GROUP * total), min(MAX_SMALL_GROUP, total // 2))
    groups = np.arange(count)  # the first text of the group of each text
    is_open = np.ones(count, bool)  # whether a text is not yet in a group that is small enough
    for share in SHARES:
        kept = (pairs.share >= share) & is_open[pairs.rows].all(1)
        if not kept.any():
            break
        first = _first_connected(pairs.rows[kept], count)
        is_small = (np.bincount(first, weights, count) <= largest)[first]
        groups[is_open & is_small] = first[is_open & is_small]
        is_open &= ~is_small
    return np.unique(groups, return_inverse=True)[1]


def _first_connected(pairs: np.ndarray, count: int) -> np.ndarray:
    """The first text that each of ``count`` texts is connected with by ``pairs`` ``(P, 2)``, int64 ``(N,)``."""
    import scipy.sparse as sp
    from scipy.sparse.csgraph import connected_components

    graph = sp.coo_array((np.ones(len(pairs)), tuple(pairs.T)), (count, count))
    _, numbers = connected_components(graph, directed=False)
    return np.unique(numbers, return_index=True)[1][numbers]
