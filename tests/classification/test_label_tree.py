"""Labels that are a tree: paths, sums by level, and the level that is promised."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from docsplit_hf.classification.label_tree import (
    FLAT,
    NO_LEVEL,
    answered_levels,
    extend_tree,
    label_paths,
    label_tree,
    level_thresholds,
    node_probabilities,
    path_nodes,
    path_probabilities,
    right_by_level,
)
from docsplit_hf.classification.rejection import GUARANTEE_CONFIDENCE, confidence_threshold

PARTS = st.sampled_from(["law", "tax", "contracts", "lease", "a>b", ">", "Recht & Steuer", "法", "x > y"])
NAMES = st.lists(st.lists(PARTS, min_size=1, max_size=4).map(" > ".join), min_size=1, max_size=12, unique=True)


def draw_probabilities(count, labels, seed, sharpness=3.0):
    rng = np.random.default_rng(seed)
    right = rng.integers(labels, size=count)
    logits = rng.normal(size=(count, labels))
    logits[np.arange(count), right] += sharpness
    odds = np.exp(logits)
    return (odds / odds.sum(1, keepdims=True)).astype(np.float32), np.eye(labels, dtype=bool)[right]


@given(NAMES, st.integers(0, 2**31))
def test_a_parent_has_the_sum_of_its_labels(names, seed):
    tree = label_tree(label_paths(names))
    probabilities, _ = draw_probabilities(5, len(names), seed)
    for level in tree.upper_levels:
        sums = node_probabilities(probabilities, level)
        np.testing.assert_allclose(sums.sum(1), 1, rtol=1e-5)
        for node, name in enumerate(level.names):
            below = [number for number, label in enumerate(names) if f"{label} > ".startswith(f"{name} > ")]
            found = np.flatnonzero(level.node_of_label == node).tolist()
            assert found == below or [names[number] for number in found] == [name]  # on a level below its own
            np.testing.assert_allclose(sums[:, node], probabilities[:, found].sum(1), rtol=1e-5)


@given(NAMES)
def test_each_level_tells_apart_more_labels_than_the_one_above(names):
    tree = label_tree(label_paths(names))
    counts = [1, *(len(level.names) for level in tree.upper_levels), len(names)]
    assert tree.is_flat or counts == sorted(set(counts))
    for above, level in zip(tree.upper_levels[:-1], tree.upper_levels[1:], strict=True):
        parents = {(node, above.node_of_label[label]) for label, node in enumerate(level.node_of_label)}
        assert len(parents) == len(level.names)  # each node has one parent


@given(NAMES, st.integers(0, 2**31), st.lists(st.floats(0, 1), min_size=5, max_size=5))
def test_an_answer_is_on_the_path_of_the_most_probable_label(names, seed, thresholds):
    tree = label_tree(label_paths(names))
    probabilities, _ = draw_probabilities(20, len(names), seed, sharpness=1.0)
    confidence = path_probabilities(probabilities, tree)
    assert (np.diff(confidence, axis=1) <= 1e-6).all()  # parents are at least as probable
    limits = np.array(thresholds)[: tree.level_count]
    levels = answered_levels(confidence, limits)
    for row, level in enumerate(levels.tolist()):
        best = int(probabilities[row].argmax())
        if level == NO_LEVEL:
            assert (confidence[row] < limits).all()
        elif level == tree.level_count - 1:
            assert confidence[row, level] == probabilities[row, best]
        else:
            assert best in path_nodes(tree, best)[level].labels
            assert confidence[row, level] >= limits[level]
            assert (confidence[row, level + 1 :] < limits[level + 1 :]).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from((0.05, 0.1, 0.3)))
def test_one_level_equals_flat(seed, error):
    probabilities, labels = draw_probabilities(200, 6, seed)
    ones = np.ones((1, 200))
    assert label_tree(label_paths([f"law {number}" for number in range(6)])).is_flat
    right = right_by_level(probabilities, labels, FLAT)
    confidence = path_probabilities(probabilities, FLAT)
    [threshold] = level_thresholds(confidence, right, error, ones)
    assert threshold == confidence_threshold(probabilities.max(1), right[:, 0], error, ones)
    accepted = probabilities.max(1) >= threshold
    np.testing.assert_array_equal(answered_levels(confidence, np.array([threshold])) == 0, accepted)


@pytest.mark.parametrize("sharpness, level_count", [(2.0, 2), (3.0, 2), (2.5, 3)])
def test_the_error_holds_at_all_levels_together_in_nine_of_ten_draws(sharpness, level_count):
    """Labels are confused within their parents, so that many texts are answered by a parent."""
    tree = label_tree(label_paths([f"{a} > {b} > {c}" for a in "xyz" for b in "de"[: level_count - 1] for c in "mnop"]))
    assert tree.level_count == level_count
    count = len(tree.upper_levels[0].node_of_label)
    error = 0.1

    def draw(texts, seed):
        rng = np.random.default_rng(seed)
        right = rng.integers(count, size=texts)
        logits = rng.normal(size=(texts, count))
        logits[np.arange(texts), right] += 1.0
        for level in tree.upper_levels:
            logits += sharpness * (level.node_of_label[right][:, None] == level.node_of_label)
        odds = np.exp(logits * rng.uniform(0.3, 1.5, size=(texts, 1)))
        probabilities = (odds / odds.sum(1, keepdims=True)).astype(np.float32)
        return path_probabilities(probabilities, tree), right_by_level(
            probabilities, np.eye(count, dtype=bool)[right], tree
        )

    new_confidence, new_right = draw(20_000, 10**6)
    broken = 0
    answered_by_parents = 0
    for seed in range(150):
        thresholds = level_thresholds(*draw(400, seed), error, np.ones((1, 400)))
        levels = answered_levels(new_confidence, thresholds)
        answered = [level for level in range(level_count) if (levels == level).any()]
        broken += any(np.mean(~new_right[levels == level, level]) > error for level in answered)
        answered_by_parents += ((0 <= levels) & (levels < level_count - 1)).mean() > 0.05
    assert broken <= binom.ppf(0.999, 150, 1 - GUARANTEE_CONFIDENCE)
    assert answered_by_parents > 100


def test_paths():
    names = ["law > contracts > lease", "law > contracts > sale", "law > torts", "tax", "law"]
    tree = label_tree(label_paths(names))
    assert [level.names for level in tree.upper_levels] == [
        ("law", "tax"),
        ("law > contracts", "law > torts", "tax", "law"),
    ]
    assert label_tree(label_paths(names, False)).is_flat
    assert label_tree(label_paths(["price > 10", "large", "small"])).is_flat  # merges nothing
    assert label_tree(label_paths(["all > a", "all > b"])).is_flat  # merges everything
    assert label_paths(["x > ", " > y", "a >b"]) == [["x > "], [" > y"], ["a >b"]]
    assert label_paths(["comp.os", "alt"], ".") == [["comp", "comp.os"], ["alt"]]


def test_parents_by_a_dictionary():
    parents = {"lease": "contracts", "sale": "contracts", "contracts": "law", "torts": "law"}
    paths = label_paths(["lease", "sale", "torts", "tax"], parents)
    assert paths == [
        ["law", "law > contracts", "lease"],
        ["law", "law > contracts", "sale"],
        ["law", "torts"],
        ["tax"],
    ]
    tree = label_tree(paths)
    assert [level.names for level in tree.upper_levels] == [("law", "tax"), ("law > contracts", "torts", "tax")]


ERRORS = {
    "a circle": ({"a": "b", "b": "c", "c": "b"}, ValueError, "no top above 'a': 'b' is its own ancestor"),
    "its own parent": ({"a": "a"}, ValueError, "no top above 'a'"),
    "an unknown label": ({"z": "b"}, ValueError, "the parent of .z., which is neither"),
    "a blank parent": ({"a": " "}, ValueError, "' ' as the parent of 'a'"),
    "no separator": ("", ValueError, 'hierarchy="" separates nothing'),
    "a list": (["a"], TypeError, r"hierarchy must be a separator.*\['a'\]"),
    "true": (True, TypeError, "hierarchy must be a separator.*True"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_an_invalid_hierarchy_is_refused(case):
    hierarchy, error, message = ERRORS[case]
    with pytest.raises(error, match=message):
        label_paths(["a", "d"], hierarchy)


def test_labels_of_a_larger_tree_keep_their_nodes():
    tree = label_tree(label_paths(["a > x", "a > y", "b"]))
    extended = extend_tree(tree, np.array([3, 0, 1]), ["a > y", "b", "a > new", "a > x"])
    [level] = extended.upper_levels
    assert [level.names[node] for node in level.node_of_label] == ["a", "b", "a > new", "a"]
    assert extend_tree(FLAT, np.array([0]), ["a", "b > c"]) is FLAT
