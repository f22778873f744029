"""Labels that are a tree: nodes from label names, sums of probabilities by level, and the level that is promised.

The path of a label leads from the top to the label, such as "law", "law > contracts", "law > contracts > lease". Level
d has one node for all labels whose paths are equal up to their d-th node; the last level has the labels themselves. A
label with a shorter path stays itself on the levels below its own. A level that tells apart no more labels than the one
above it, or none, is left out. So flat labels have one level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .rejection import GUARANTEE_CONFIDENCE, confidence_threshold

SEPARATOR = " > "
HIERARCHY_SETTING = "hierarchy"  # setting of the fitted state, if ``fit`` was given a tree
NO_LEVEL = -1  # of a text without an answer

# Options of ``fit``: a separator; or the parent of each label, and of each parent that has one itself; or no tree.
Hierarchy = str | Mapping[str, str] | bool


class Level(NamedTuple):
    """A level above the C labels of a tree, with K nodes."""

    names: tuple[str, ...]  # (K,): of the nodes
    node_of_label: np.ndarray  # int64 (C,)


LabelTree = tuple[Level, ...]  # the levels above the C labels, from the top; the labels themselves are the last level
FLAT: LabelTree = ()


def label_paths(names: Sequence[str], hierarchy: Hierarchy | None = None) -> list[list[str]]:
    """Names of the nodes from the top to each label, which is the last; flat labels have a path of one node.

    Args:
        names: The names of the labels.
        hierarchy: A separator of names, such as ``"/"``; the parent of each label, and of each parent that has one
            itself; or False: there is no tree. None: the separator is ``" > "``.

    Raises:
        TypeError: If ``hierarchy`` is neither of these.
        ValueError: If a name of ``hierarchy`` is unknown or blank, or a label is its own ancestor.
    """
    if hierarchy == "":
        raise ValueError('hierarchy="" separates nothing: give the separator of your names, such as "/".')
    if hierarchy is None or isinstance(hierarchy, str):
        return [_prefixes(name, hierarchy or SEPARATOR) for name in names]
    if hierarchy is False:
        return [[name] for name in names]
    if not isinstance(hierarchy, Mapping):
        raise TypeError(
            f'hierarchy must be a separator, such as "/", or the parent of each label, got {hierarchy!r}. False: none.'
        )
    _check_parents(names, hierarchy)
    return [_path_by_parents(name, hierarchy) for name in names]


def remembered_hierarchy(settings: Mapping[str, Any], names: Sequence[str]) -> Hierarchy | None:
    """Hierarchy of an earlier fit, without the parents of labels that have no examples now; None if it had none.

    Args:
        settings: The settings of the fitted state, which were checked.
        names: The names of the labels that have examples.
    """
    hierarchy = settings.get(HIERARCHY_SETTING)
    if not isinstance(hierarchy, dict):
        return hierarchy
    used: dict[str, str] = {}
    for label in names:
        name = label
        while name in hierarchy and name not in used:
            used[name] = hierarchy[name]
            name = hierarchy[name]
    return used


def is_hierarchy_setting(saved: Any) -> bool:
    """Return whether a setting of an untrusted folder may be a hierarchy, or is absent."""
    if isinstance(saved, dict):
        return all(isinstance(parent, str) and parent.strip() for parent in saved.values())
    return saved is None or saved is False or (isinstance(saved, str) and saved != "")


def _prefixes(name: str, separator: str) -> list[str]:
    """Beginnings of a name that end before a separator, and the name; the name alone if a part is blank."""
    parts = name.split(separator)
    if not all(part.strip() for part in parts):
        return [name]
    return [separator.join(parts[:count]) for count in range(1, len(parts) + 1)]


def _check_parents(names: Sequence[str], parents: Mapping[str, str]) -> None:
    """Raise for a name that is neither a label nor a parent, and for one that is no name."""
    used = {*names, *parents.values()}
    for name, parent in parents.items():
        if not isinstance(parent, str) or not parent.strip():
            raise ValueError(f"hierarchy has {parent!r} as the parent of {name!r}: leave out labels without a parent.")
        if name not in used:
            raise ValueError(
                f"hierarchy has the parent of {name!r}, which is neither a label of an example nor a parent."
            )


def _path_by_parents(label: str, parents: Mapping[str, str]) -> list[str]:
    """Path of a label; the names of its nodes have all names from the top, as a name may occur under two parents."""
    ancestors: list[str] = []
    name = label
    while name in parents:
        name = parents[name]
        if name == label or name in ancestors:
            raise ValueError(f"hierarchy has no top above {label!r}: {name!r} is its own ancestor.")
        ancestors.insert(0, name)
    return [SEPARATOR.join(ancestors[:count]) for count in range(1, len(ancestors) + 1)] + [label]


def label_tree(paths: Sequence[Sequence[str]]) -> LabelTree:
    """Make the tree of C labels from their paths, each of which ends with the label."""
    deepest = max((len(path) for path in paths), default=1)
    levels: list[Level] = []
    nodes_above = 1
    for depth in range(1, deepest):
        nodes = [path[min(depth, len(path)) - 1] for path in paths]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(nodes))}
        if nodes_above < len(numbers) < len(paths):
            levels.append(Level(tuple(numbers), np.array([numbers[node] for node in nodes], np.int64)))
            nodes_above = len(numbers)
    return tuple(levels)


def extend_tree(tree: LabelTree, columns: np.ndarray, label_names: Sequence[str]) -> LabelTree:
    """Add labels to a tree, of which each is a node of its own at each level.

    Args:
        tree: The tree of C labels.
        columns: The numbers of these labels among all labels, ``(C,)``.
        label_names: The names of all L labels.
    """
    added = np.setdiff1d(np.arange(len(label_names)), columns)
    levels = []
    for level in tree:
        node_of_label = np.empty(len(label_names), np.int64)
        node_of_label[columns] = level.node_of_label
        node_of_label[added] = len(level.names) + np.arange(len(added))
        levels.append(Level((*level.names, *(label_names[label] for label in added)), node_of_label))
    return tuple(levels)


def node_probabilities(probabilities: np.ndarray, level: Level) -> np.ndarray:
    """Sum the probabilities ``(N, C)`` of the labels of each node, ``(N, K)``, in the same dtype."""
    sums = np.zeros((len(probabilities), len(level.names)), probabilities.dtype)
    np.add.at(sums, (slice(None), level.node_of_label), probabilities)
    return sums


def path_probabilities(probabilities: np.ndarray, tree: LabelTree) -> np.ndarray:
    """Probability of each node on the path of the most probable label, ``(N, D)``, from the top."""
    rows = np.arange(len(probabilities))
    best = probabilities.argmax(1)
    columns = [node_probabilities(probabilities, level)[rows, level.node_of_label[best]] for level in tree]
    return np.stack([*columns, probabilities.max(1)], axis=1)


def right_by_level(probabilities: np.ndarray, labels: np.ndarray, tree: LabelTree) -> np.ndarray:
    """Whether the node on the path of the most probable label has the right label, bool ``(N, D)``.

    ``labels`` are the right ones, bool ``(N, C)``.
    """
    best = probabilities.argmax(1)
    nodes = [level.node_of_label for level in tree]
    columns = [(labels & (of_label[best][:, None] == of_label)).any(1) for of_label in nodes]
    return np.stack([*columns, labels[np.arange(len(labels)), best]], axis=1)


def level_failure(level_count: int) -> float:
    """Probability that the error rate does not hold at one of D levels, so that it holds at all in 9 of 10 draws."""
    return (1 - GUARANTEE_CONFIDENCE) / level_count


def level_thresholds(
    confidence: np.ndarray, right: np.ndarray, error: float, importance: np.ndarray, failure: float
) -> np.ndarray:
    """Find the lowest confidence of each level at which the error rate of its answers is guaranteed.

    A text is answered at the deepest level whose threshold it reaches. Levels are tested from the deepest to the top,
    each on the held-out texts that the levels below it leave without an answer. The error rate is that of the texts
    that are answered at each level. That a level ends where many answers are wrong makes the test of the next one
    stricter, as an answer with a wrong parent is wrong.

    Args:
        confidence: The confidence of the answers to held-out texts at each level, ``(m, D)``; 0 for no answer.
        right: Whether the answers are right, bool ``(m, D)``.
        error: The error rate to allow, from 0 to 1.
        importance: Importance weights of the held-out texts, ``(B, m)``.
        failure: The probability that the error rate does not hold at a level.

    Returns:
        The thresholds, ``(D,)``; infinity where the error rate cannot be guaranteed.
    """
    count = confidence.shape[1]
    thresholds = np.full(count, np.inf)
    left = np.ones(len(confidence), bool)
    for level in reversed(range(count)):
        of_level = np.where(left, confidence[:, level], 0)
        thresholds[level] = confidence_threshold(of_level, right[:, level], error, importance, failure)
        left &= of_level < thresholds[level]
    return thresholds


def answered_levels(confidence: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Number of the deepest level whose threshold each text reaches, int64 ``(N,)``; NO_LEVEL if it reaches none.

    Args:
        confidence: The confidence of the answers at each level, ``(N, D)``.
        thresholds: The threshold of each level, ``(D,)``.
    """
    is_reached = confidence >= thresholds
    deepest = confidence.shape[1] - 1 - is_reached[:, ::-1].argmax(1)
    return np.where(is_reached.any(1), deepest, NO_LEVEL)
