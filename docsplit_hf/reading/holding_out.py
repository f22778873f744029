"""Split rows into training and held-out rows, with equal texts and versions of one text together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..content_hash import short_digest
from .versions import group_versions

if TYPE_CHECKING:
    from datasets import Dataset

MAX_GROUPED_TEXTS = 200_000  # about three minutes and 3 GB; of more texts, only equal ones are held out together


def hold_out(
    fingerprints: np.ndarray, count: int, seed: int = 0, labels: Sequence[Iterable[int]] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Draw at most ``count`` rows to hold out at random.

    Args:
        fingerprints: Fingerprint of each row, ``(N,)``. Rows with equal fingerprints are held out together.
        count: Rows to hold out.
        seed: Seed of the random draw.
        labels: Class numbers of each row. Nearly the same proportion of every class is held out, and at least one
            example of each is kept. A row with several labels counts for the rarest of them.

    Returns:
        Rows to keep and rows held out, both in random order.
    """
    generator = np.random.default_rng(seed)
    group = np.unique(fingerprints, return_inverse=True)[1]
    sizes = np.bincount(group)
    order = generator.permutation(len(sizes))
    in_class = Counter() if labels is None else Counter(label for row in labels for label in row)
    in_group: dict[int, Counter] = defaultdict(Counter)
    if labels is not None:
        for number, row in zip(group.tolist(), labels, strict=True):
            in_group[number].update(row)
        strata = [min(in_group[number], key=lambda label: (in_class[label], label), default=-1) for number in order]
        order = order[_in_proportion(strata, sizes[order], generator)]
    chosen: list[int] = []
    left = count
    for number in order.tolist():
        if left == 0 or len(chosen) == len(sizes) - 1:
            break
        group_labels = in_group.get(number, {})
        keeps_all_classes = all(in_class[label] > times for label, times in group_labels.items())
        if sizes[number] <= left and keeps_all_classes:
            chosen.append(number)
            left -= sizes[number]
            in_class.subtract(group_labels)
    rows = generator.permutation(len(group))
    is_held_out = np.isin(group, chosen)[rows]
    return rows[~is_held_out], rows[is_held_out]


def hold_out_of_each_class(
    texts: Sequence[Hashable], labels: np.ndarray, fraction: float, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Hold out a fraction of the different texts of every class.

    Equal texts stay together. If a class has two different texts or more, at least one is held out and one kept.

    Returns:
        Rows to keep and rows held out, both ascending.
    """
    order = np.random.default_rng(seed).permutation(len(labels))
    labels_of: dict[Hashable, set[int]] = {}
    for text, label in zip(texts, np.asarray(labels).tolist(), strict=True):
        labels_of.setdefault(text, set()).add(label)
    in_class = Counter(label for text_labels in labels_of.values() for label in text_labels)
    left = {label: min(max(round(fraction * count), 1), count - 1) for label, count in in_class.items()}
    chosen = set()
    for row in order:
        text = texts[row]
        if text not in chosen and all(left[label] for label in labels_of[text]):
            chosen.add(text)
            for label in labels_of[text]:
                left[label] -= 1
    is_held_out = np.fromiter((text in chosen for text in texts), dtype=bool, count=len(labels))
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)


def groups_to_hold_out(texts: Sequence[str], labels: Sequence[Iterable[int]]) -> np.ndarray:
    """Number the groups of texts that are held out together: versions of one text, as ``group_versions`` defines them.

    Only equal texts are together if all texts of a class are versions of one another, as the class would otherwise
    never be held out, and in data of more than 200,000 texts.

    Args:
        texts: N texts; pairs are joined.
        labels: Class numbers of each text.

    Returns:
        The number of the group of each text, int64 ``(N,)``.
    """
    copies = np.unique(np.array(texts, dtype=object), return_inverse=True)[1]
    if len(texts) > MAX_GROUPED_TEXTS:
        return copies
    groups = group_versions(texts)
    rows_of_label: dict[int, list[int]] = defaultdict(list)
    for row, own in enumerate(labels):
        for label in own:
            rows_of_label[label].append(row)
    is_divided = np.zeros(len(texts), bool)
    for rows in rows_of_label.values():
        is_one_group = len(np.unique(groups[rows])) == 1
        if is_one_group and len(np.unique(copies[rows])) > 1:
            is_divided |= groups == groups[rows[0]]
    return np.where(is_divided, groups.max(initial=0) + 1 + copies, groups)


def fingerprint(values: Iterable[Any]) -> int:
    """64-bit hash of values, such as the columns of a row."""
    texts = (value if isinstance(value, str) else repr(value) for value in values)
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return int.from_bytes(short_digest(b"".join(b"%d:%s" % (len(part), part) for part in encoded)), "little")


def fingerprints_of(dataset: Dataset, columns: list[str]) -> np.ndarray:
    """Fingerprint of each row's values in some columns, uint64 ``(N,)``."""
    batches = dataset.with_format(None).select_columns(columns).iter(batch_size=1000)
    rows = (row for batch in batches for row in zip(*(batch[column] for column in columns), strict=True))
    return np.fromiter((fingerprint(row) for row in rows), dtype=np.uint64, count=len(dataset))


def _in_proportion(strata: list[int], sizes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Order groups so that every prefix of the order has the same proportion of each stratum (systematic sampling)."""
    import pandas as pd

    names, stratum = np.unique(strata, return_inverse=True)
    total = np.bincount(stratum, weights=sizes)
    start = generator.random(len(names))  # puts the small strata in random order
    before = pd.Series(sizes).groupby(stratum).cumsum().to_numpy() - sizes
    return np.argsort((before + start[stratum] * sizes) / total[stratum], kind="stable")
