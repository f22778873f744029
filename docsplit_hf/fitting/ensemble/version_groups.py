"""Groups of the texts of a corpus that are versions of one text, which are held out together."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...reading.versions import groups_of_pairs
from .report import SIGNIFICANT_DEVIATIONS

if TYPE_CHECKING:
    from .corpus import Corpus


def version_groups(corpus: Corpus, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Number the groups of versions among the N texts of a corpus, int64 ``(N,)``.

    Examples count for the size of a group, and documents only connect them. If all texts of a label are versions of one
    another, only equal texts stay together in their group: otherwise the label would never be held out.

    Args:
        corpus: The texts.
        rows: Places of the examples, int64 ``(n,)``.
        labels: Their labels, int64 ``(n,)``; or bool ``(n, C)`` if a text may have several.
    """
    numbers = corpus.text_numbers
    examples_of_text = np.bincount(numbers[rows], minlength=int(numbers.max(initial=-1)) + 1)
    groups = groups_of_pairs(corpus.versions, examples_of_text)[numbers]
    strata = labels if labels.ndim == 1 else np.zeros(len(rows), np.int64)
    is_divided = np.zeros(len(numbers), bool)
    for stratum in np.unique(strata):
        own = rows[strata == stratum]
        if len(np.unique(numbers[own])) > 1 and (groups[own] == groups[own[0]]).all():
            is_divided |= groups == groups[own[0]]
    return np.where(is_divided, groups.max(initial=0) + 1 + numbers, groups)


def fraction_of_versions(corpus: Corpus) -> float:
    """Return the fraction of the texts of a corpus that are versions of another one; copies of one text are none."""
    is_version = np.isin(corpus.text_numbers, corpus.versions.rows)
    return float(is_version.mean()) if len(is_version) else 0.0


class VersionCounts(NamedTuple):
    """Counts of examples that are versions of another example, and of their labels."""

    examples: int = 0  # that are versions of another one
    groups: int = 0  # of such examples
    contradictory: int = 0  # groups with different labels; 0 if labels do not differ more often than by chance
    agreeing: int = 0  # groups with one label; 0 if labels are not equal more often than by chance


def count_versions(corpus: Corpus, rows: np.ndarray, targets: np.ndarray, groups: np.ndarray) -> VersionCounts:
    """Count versions among the examples at ``rows`` ``(n,)``, with ``targets`` ``(n, C)``, 0 or 1.

    ``groups`` ``(N,)``: as by ``version_groups``. Copies of one text are no versions.
    """
    numbers = corpus.text_numbers[rows]
    _, own = np.unique(groups[rows], return_inverse=True)
    group_of_text = own[np.unique(numbers, return_index=True)[1]]
    is_group = np.bincount(group_of_text) > 1
    is_version = is_group[own]
    if not is_version.any():
        return VersionCounts()
    _, label_sets = np.unique(targets > 0, axis=0, return_inverse=True)
    sizes = np.bincount(own)[is_group]
    counts = np.zeros((len(is_group), label_sets.max() + 1))
    np.add.at(counts, (own, label_sets), 1)
    counts = counts[is_group]
    equal_labels = (counts * (counts - 1)).sum(1) / (sizes * (sizes - 1))  # fraction of the pairs of each group
    of_all = np.bincount(label_sets)
    chance = (of_all * (of_all - 1)).sum() / (len(rows) * (len(rows) - 1))
    standard_error = np.sqrt(chance * (1 - chance) / len(sizes))
    deviation = equal_labels.mean() - chance
    is_significant = abs(deviation) > SIGNIFICANT_DEVIATIONS * standard_error
    return VersionCounts(
        examples=int(is_version.sum()),
        groups=len(sizes),
        contradictory=int((equal_labels < 1).sum()) if is_significant and deviation < 0 else 0,
        agreeing=int((equal_labels == 1).sum()) if is_significant and deviation > 0 else 0,
    )
