"""Labels that are a tree: paths, sums by level, and the level that is promised."""

import copy
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from docsplit_hf.apps.page.sessions import PageLimits, Session
from docsplit_hf.apps.page.views import answer as answer_on_page
from docsplit_hf.apps.page.views import coverage_text, error_rate_of
from docsplit_hf.classifier.predict_file import PredictionFiles, classify_file
from docsplit_hf.finetuning.metrics_of_parts import describe_parts, evaluate_parts
from docsplit_hf.fitting.ensemble.fitted_ensemble import check_state
from docsplit_hf.fitting.label_tree import (
    FLAT,
    NO_LEVEL,
    answered_levels,
    extend_tree,
    is_hierarchy_setting,
    label_paths,
    label_tree,
    level_failure,
    level_thresholds,
    node_probabilities,
    path_probabilities,
    remembered_hierarchy,
    right_by_level,
)
from docsplit_hf.fitting.rejection import GUARANTEE_CONFIDENCE, HIGHEST_NOVELTY, confidence_threshold

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
    for level in tree:
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
    counts = [1, *(len(level.names) for level in tree), len(names)]
    assert not tree or counts == sorted(set(counts))
    for above, level in zip(tree[:-1], tree[1:], strict=True):
        parents = {(node, above.node_of_label[label]) for label, node in enumerate(level.node_of_label)}
        assert len(parents) == len(level.names)  # each node has one parent


@given(NAMES, st.integers(0, 2**31), st.lists(st.floats(0, 1), min_size=5, max_size=5))
def test_an_answer_is_on_the_path_of_the_most_probable_label(names, seed, thresholds):
    tree = label_tree(label_paths(names))
    probabilities, _ = draw_probabilities(20, len(names), seed, sharpness=1.0)
    confidence = path_probabilities(probabilities, tree)
    assert (np.diff(confidence, axis=1) <= 1e-6).all()  # parents are at least as probable
    limits = np.array(thresholds)[: len(tree) + 1]
    levels = answered_levels(confidence, limits)
    for row, level in enumerate(levels.tolist()):
        best = int(probabilities[row].argmax())
        if level == NO_LEVEL:
            assert (confidence[row] < limits).all()
        elif level == len(tree):
            assert confidence[row, level] == probabilities[row, best]
        else:
            node_of_label = tree[level].node_of_label
            of_node = probabilities[row, node_of_label == node_of_label[best]].sum()
            assert (
                confidence[row, level] == pytest.approx(of_node, abs=1e-6) and confidence[row, level] >= limits[level]
            )
            assert (confidence[row, level + 1 :] < limits[level + 1 :]).all()


@given(st.integers(0, 2**31), st.sampled_from((0.05, 0.1, 0.3)))
def test_one_level_equals_flat(seed, error):
    probabilities, labels = draw_probabilities(200, 6, seed)
    ones = np.ones((1, 200))
    assert label_tree(label_paths([f"law {number}" for number in range(6)])) == FLAT
    right = right_by_level(probabilities, labels, FLAT)
    confidence = path_probabilities(probabilities, FLAT)
    [threshold] = level_thresholds(confidence, right, error, ones, level_failure(1))
    assert threshold == confidence_threshold(probabilities.max(1), right[:, 0], error, ones)
    accepted = probabilities.max(1) >= threshold
    np.testing.assert_array_equal(answered_levels(confidence, np.array([threshold])) == 0, accepted)


@pytest.mark.parametrize("sharpness, level_count", [
    pytest.param(2.0, 2, marks=pytest.mark.slow),
    pytest.param(3.0, 2, marks=pytest.mark.slow),
    (2.5, 3),
])  # fmt: skip
def test_the_error_holds_at_all_levels_together_in_nine_of_ten_draws(sharpness, level_count):
    """Labels are confused within their parents, so that many texts are answered by a parent."""
    tree = label_tree(label_paths([f"{a} > {b} > {c}" for a in "xyz" for b in "de"[: level_count - 1] for c in "mnop"]))
    assert len(tree) + 1 == level_count
    count = len(tree[0].node_of_label)
    error = 0.1

    def draw(texts, seed):
        rng = np.random.default_rng(seed)
        right = rng.integers(count, size=texts)
        logits = rng.normal(size=(texts, count))
        logits[np.arange(texts), right] += 1.0
        for level in tree:
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
        thresholds = level_thresholds(*draw(400, seed), error, np.ones((1, 400)), level_failure(level_count))
        levels = answered_levels(new_confidence, thresholds)
        answered = [level for level in range(level_count) if (levels == level).any()]
        broken += any(np.mean(~new_right[levels == level, level]) > error for level in answered)
        answered_by_parents += ((0 <= levels) & (levels < level_count - 1)).mean() > 0.05
    assert broken <= binom.ppf(0.999, 150, 1 - GUARANTEE_CONFIDENCE)
    assert answered_by_parents > 100


def test_paths():
    names = ["law > contracts > lease", "law > contracts > sale", "law > torts", "tax", "law"]
    tree = label_tree(label_paths(names))
    assert [level.names for level in tree] == [
        ("law", "tax"),
        ("law > contracts", "law > torts", "tax", "law"),
    ]
    assert label_tree(label_paths(names, False)) == FLAT
    assert label_tree(label_paths(["price > 10", "large", "small"])) == FLAT  # merges nothing
    assert label_tree(label_paths(["all > a", "all > b"])) == FLAT  # merges everything
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
    assert [level.names for level in tree] == [("law", "tax"), ("law > contracts", "torts", "tax")]


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
    [level] = extended
    assert [level.names[node] for node in level.node_of_label] == ["a", "b", "a > new", "a"]
    assert extend_tree(FLAT, np.array([0]), ["a", "b > c"]) is FLAT


# In the pipeline


def tree_labels(texts):
    """Two parents that the texts show, with two labels each that they do not show."""
    return [f"{'water' if 'river' in text else 'machine'} > {'ab'[len(text) % 2]}" for text in texts]


def fitted_on(untrained, texts, labels, **options):
    pipe = copy.deepcopy(untrained)
    pipe.add_examples(texts, labels)
    pipe.fit(show_progress=False, **options)
    return pipe


@pytest.fixture(scope="module")
def fitted(untrained_of_module, texts):
    return fitted_on(untrained_of_module, texts[:40], tree_labels(texts[:40]))


@pytest.fixture(scope="module")
def fitted_by_parents(untrained_of_module, texts):
    """A pipeline with a tree that a dictionary gives, and its labels."""
    parents = {"a": "water", "b": "water", "c": "machine", "d": "machine"}
    names = {"water > a": "a", "water > b": "b", "machine > a": "c", "machine > b": "d"}
    labels = [names[label] for label in tree_labels(texts[:40])]
    return fitted_on(untrained_of_module, texts[:40], labels, hierarchy=parents), labels


def test_a_text_gets_the_deepest_node_that_is_promised(untrained_of_module, texts):
    """Words show the parents well, and the labels less well."""
    labels = [f"{'water' if 'river' in text else 'machine'} > {'ab'['kitchen' in text]}" for text in texts[:40]]
    fitted = fitted_on(untrained_of_module, texts[:40], labels)
    plain = fitted(texts)
    levels = set()
    for error in (0.01, 0.2, 0.5, 0.8):
        thresholds = fitted._experts.fitted.guarantees.level_thresholds(error)
        for answer, before in zip(fitted(texts, reject=error, return_novelty=True), plain, strict=True):
            parent, label = answer["path"]
            assert answer["path"] == before["path"]
            assert label == {"label": before["label"], "score": before["score"]}
            assert parent["label"] == before["label"].split(" > ")[0] and parent["score"] >= label["score"]
            expected = [node for node, limit in zip(answer["path"], thresholds, strict=True) if node["score"] >= limit]
            if answer["label"] is None:
                assert (not expected or answer["novelty"] > HIGHEST_NOVELTY) and answer["score"] == before["score"]
            else:
                assert {"label": answer["label"], "score": answer["score"]} == expected[-1]
            levels.add(None if answer["label"] is None else answer["label"].count(" > "))
    assert levels == {None, 0, 1}


def test_a_tree_changes_no_probability(fitted, untrained_of_module, texts):
    flat = fitted_on(untrained_of_module, texts[:40], tree_labels(texts[:40]), hierarchy=False)
    for answer, other in zip(fitted(texts, top_k=None), flat(texts, top_k=None), strict=True):
        assert [{"label": one["label"], "score": one["score"]} for one in answer] == other


def test_flat_labels_are_answered_as_without_a_tree(untrained_of_module, texts):
    labels = ["river" if "river" in text else "engine" for text in texts[:40]]
    by_names = fitted_on(untrained_of_module, texts[:40], labels)
    without = fitted_on(untrained_of_module, texts[:40], labels, hierarchy=False)
    for options in ({}, {"reject": 0.3}):
        assert by_names(texts, **options) == without(texts, **options)
    assert by_names.datastore.fitted.settings | {"hierarchy": False} == without.datastore.fitted.settings
    assert by_names.datastore.fitted.settings["paths"] == by_names.datastore.fitted.settings["levels"] == []
    assert "path" not in by_names(texts[0])[0] and "of the tree" not in str(by_names._experts.fitted.report)


def test_the_report_has_the_levels(fitted):
    report = fitted._experts.fitted.report
    held_out = fitted._experts.fitted.held_out
    parents, labels = report.levels
    assert (parents["nodes"], labels["nodes"]) == (2, 4)
    assert labels["accuracy"] == next(one["accuracy"] for one in report.measured if one["expert"] == "ensemble")
    assert parents["accuracy"] >= labels["accuracy"] and parents["answered"].keys() == report.answered.keys()
    for error, share in report.answered.items():
        assert share == pytest.approx(parents["answered"][error] + labels["answered"][error])
    of_parent = np.array([name.startswith("water") for name in report.labels])
    right = of_parent[held_out.probabilities.argmax(1)] == held_out.labels[:, of_parent].any(1)
    assert parents["accuracy"] == pytest.approx(right.mean())
    assert "\nLevel 1 of the tree, 2 labels: " in str(report) and "\nLevel 2 of the tree, 4 labels: " in str(report)


def test_a_saved_classifier_keeps_its_tree_and_its_card_has_the_levels(fitted_by_parents, texts, tmp_path):
    from transformers import pipeline

    pipe, _ = fitted_by_parents
    pipe.save_pretrained(tmp_path)
    loaded = pipeline("docsplit-knn", model=str(tmp_path), device="cpu")
    answers = pipe(texts, reject=0.5)
    assert {answer["label"] for answer in answers} & {"water", "machine"}
    assert [answer["label"] for answer in loaded(texts, reject=0.5)] == [answer["label"] for answer in answers]
    card = (tmp_path / "README.md").read_text()
    assert "Level 1 of the tree, 2 labels" in card


def test_later_fits_remember_the_tree(fitted_by_parents, texts, tmp_path):
    from transformers import pipeline

    fitted, labels = fitted_by_parents
    pipe = copy.deepcopy(fitted)
    paths = pipe.fit(show_progress=False).paths
    assert paths == [["water", "a"], ["water", "b"], ["machine", "c"], ["machine", "d"]]
    pipe.save_pretrained(tmp_path)
    loaded = pipeline("docsplit-knn", model=str(tmp_path), device="cpu")
    without_d = [row_id for row_id, label in zip(loaded.datastore.ids, labels, strict=True) if label == "d"]
    loaded.remove_examples(without_d)
    assert loaded.fit(show_progress=False).paths == paths[:3]  # a label without examples is no mistake
    removed = [text for text, label in zip(texts, labels, strict=False) if label == "d"]
    loaded.add_examples(removed, ["d"] * len(removed))
    assert loaded.fit(show_progress=False).paths == paths
    assert loaded.fit(show_progress=False, hierarchy=False).paths == []
    assert loaded.fit(show_progress=False).paths == []


REMEMBERED = {
    "nothing": ({}, None),
    "a separator": ({"hierarchy": "/"}, "/"),
    "no tree": ({"hierarchy": False}, False),
    "parents": ({"hierarchy": {"a": "b", "b": "c", "x": "y"}}, {"a": "b", "b": "c"}),
    "a circle": ({"hierarchy": {"a": "b", "b": "a"}}, {"a": "b", "b": "a"}),
}


@pytest.mark.parametrize("case", REMEMBERED)
def test_the_remembered_tree_has_the_labels_that_are_left(case):
    settings, expected = REMEMBERED[case]
    assert remembered_hierarchy(settings, ["a"]) == expected


def test_a_hierarchy_of_a_folder_is_checked():
    possible = [None, False, "/", {}, {"a": "b"}]
    impossible = [True, "", 1, ["a"], {"a": 1}, {"a": " "}]
    assert [is_hierarchy_setting(value) for value in possible] == [True] * len(possible)
    assert [is_hierarchy_setting(value) for value in impossible] == [False] * len(impossible)


def test_a_label_added_after_fit_is_a_node_of_its_own(fitted, texts):
    pipe = copy.deepcopy(fitted)
    new = "The submarine descends below the ice."
    pipe.add_examples([new], ["water > submarine"], allow_new_labels=True)
    [answers] = pipe([new], top_k=None)
    path = {answer["label"]: answer["path"] for answer in answers}["water > submarine"]
    assert [node["label"] for node in path] == ["water > submarine", "water > submarine"]


def test_several_labels_of_a_text_are_no_tree(untrained_of_module, texts):
    labels = [[label] for label in tree_labels(texts[:40])]
    pipe = fitted_on(untrained_of_module, texts[:40], labels)
    assert "path" not in pipe(texts[0])[0] and pipe._experts.fitted.report.levels == []
    with pytest.raises(ValueError, match="hierarchy is for one label per text"):
        pipe.fit(show_progress=False, hierarchy="/")


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_answers_to_a_file_have_the_parent_and_the_path(ending, fitted, texts, tmp_path):
    source = tmp_path / "new.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    target = tmp_path / f"answers.{ending}"
    classify_file(fitted, PredictionFiles(source, target), show_progress=False, reject=0.5)
    rows = pd.read_csv(target) if ending == "csv" else pd.read_json(target, lines=True)
    expected = fitted(texts, reject=0.5)
    assert [None if pd.isna(label) else label for label in rows["label"]] == [answer["label"] for answer in expected]
    assert {"water", "machine"} & set(rows["label"])
    path = json.loads(rows["path"][0]) if ending == "csv" else rows["path"][0]
    assert [node["label"] for node in path] == [node["label"] for node in expected[0]["path"]]


def test_an_invalid_tree_of_a_saved_state_is_refused(fitted):
    state = fitted.datastore.fitted
    for paths in ([["a"]], [[]] * 4, ["water"], None):
        changed = replace(state, settings=state.settings | {"paths": paths})
        with pytest.raises(ValueError, match="paths is"):
            check_state(changed, fitted.datastore.snapshot)


def test_metrics_of_parts_have_the_levels(fitted, texts):
    new = texts[40:]
    labels = tree_labels(new)
    data = Dataset.from_dict({"text": new, "label": labels}).class_encode_column("label")
    metrics = evaluate_parts(fitted.embedder, fitted.datastore, data, "test")
    answered = [answer["label"] for answer in fitted(new)]
    right = [label == one for label, one in zip(labels, answered, strict=True)]
    right_parents = [label.split(" > ")[0] == one.split(" > ")[0] for label, one in zip(labels, answered, strict=True)]
    assert metrics["test_experts_accuracy"] == np.mean(right)
    assert metrics["test_experts_level_1_accuracy"] == np.mean(right_parents) > np.mean(right)
    assert "test_experts_level_2_accuracy" not in metrics
    described = describe_parts(metrics, "test", len(new))
    assert f"level 1 {100 * np.mean(right_parents):5.1f} %" in described


def test_the_page_shows_the_parent(fitted, texts):
    session = Session(copy.deepcopy(fitted), PageLimits())
    percent = 50
    error = error_rate_of(session, percent)
    [expected] = fitted(texts[0], reject=error)
    assert expected["label"] in ("water", "machine")
    found = answer_on_page(session, texts[0], percent)
    assert found.is_given and found.label == expected["label"]
    assert f"Not sure which one: perhaps {expected['path'][-1]['label']}" in found.confidence
    is_answered, is_right = fitted._experts.fitted.guarantees.held_out_outcomes(error)
    wrong = np.count_nonzero(is_answered & ~is_right)
    assert 0 < np.count_nonzero(is_answered) and f" {wrong} of them wrongly" in coverage_text(session, percent)
