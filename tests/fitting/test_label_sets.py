"""labels_at: sets of labels that hold the right ones with a guaranteed probability."""

import copy
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from docsplit_hf import KNNClassifierPipeline
from docsplit_hf.classifier.predict_file import PredictionFiles, classify_file
from docsplit_hf.fitting.label_sets import NO_LIMIT, label_set_limits, label_sets, nonconformity_of_right_labels
from docsplit_hf.fitting.rejection import GUARANTEE_CONFIDENCE, importance_weights, min_held_out_texts

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)


def draw(count, classes, seed, proportions=None, sharpness=3.0):
    """Probabilities and right labels; classes differ in difficulty, so the probabilities are not calibrated."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(classes, count, p=proportions)
    logits = rng.normal(size=(count, classes))
    logits[np.arange(count), labels] += np.linspace(0.2, 1, classes)[labels] * sharpness
    probabilities = np.exp(logits)
    return probabilities / probabilities.sum(1, keepdims=True), np.eye(classes, dtype=bool)[labels]


def limits_of(probabilities, labels, level, importance=None, multi_label=False):
    importance = np.ones((1, len(labels))) if importance is None else importance
    found = nonconformity_of_right_labels(probabilities, labels)
    return label_set_limits(found, labels, importance, level, multi_label)


def coverage(limits, probabilities, labels):
    """Share of the texts whose set holds all right labels."""
    return float((label_sets(probabilities, limits.by_label) | ~labels).all(1).mean())


@pytest.mark.parametrize("level", [0.9, *(pytest.param(level, marks=pytest.mark.slow) for level in (0.8, 0.95))])
@pytest.mark.parametrize("examples, classes", [(100, 4), (100, 20), (400, 4)])
def test_the_level_is_kept_in_nine_of_ten_draws(level, examples, classes):
    new = draw(20_000, classes, seed=-1 % 2**32)
    broken = 0
    for seed in range(200):
        broken += coverage(limits_of(*draw(examples, classes, seed), level), *new) < level
    assert broken <= binom.ppf(0.999, 200, 1 - GUARANTEE_CONFIDENCE)


@given(st.integers(0, 2**31), st.sampled_from(LEVELS), st.integers(2, 12), st.integers(1, 300))
def test_exchangeable_texts_are_covered_in_the_mean(seed, level, classes, count):
    """For any number of held-out texts: texts of one sample are held out or new by chance."""
    probabilities, labels = draw(count + 50, classes, seed)
    found = []
    for number in range(20):
        order = np.random.default_rng(number).permutation(count + 50)
        limits = limits_of(probabilities[order[:count]], labels[order[:count]], level)
        found.append(coverage(limits, probabilities[order[count:]], labels[order[count:]]))
    # Draws from one sample are dependent, so the error is that of the sample.
    assert np.mean(found) >= binom.ppf(1e-4, count + 50, level) / (count + 50) - 1e-9


def test_each_class_is_covered_where_each_has_enough_texts():
    new = draw(40_000, 4, seed=12345)
    is_kept = []
    for seed in range(100):
        limits = limits_of(*draw(400, 4, seed), 0.9)
        assert limits.per_class
        for column in range(4):
            rows = new[1][:, column]
            is_kept.append(coverage(limits, new[0][rows], new[1][rows]) >= 0.9)
    assert np.mean(is_kept) >= binom.ppf(0.001, 100, GUARANTEE_CONFIDENCE) / 100


def test_one_limit_for_all_labels_covers_the_hard_class_less():
    new = draw(40_000, 4, seed=12345)
    probabilities, labels = draw(400, 4, seed=0)
    one = limits_of(probabilities, labels, 0.9, multi_label=True)
    assert not one.per_class and len(set(one.by_label)) == 1
    hard, easy = (coverage(one, new[0][new[1][:, column]], new[1][new[1][:, column]]) for column in (0, 3))
    assert hard < 0.9 < easy and coverage(one, *new) >= 0.9


def test_the_level_is_kept_for_other_proportions():
    """Held-out texts are balanced, and nine of ten new ones are of the hardest class."""
    proportions = np.array([0.9, 0.05, 0.05])
    new = draw(40_000, 3, seed=54321, proportions=proportions)
    broken = unweighted_broken = 0
    for seed in range(100):
        probabilities, labels = draw(200, 3, seed)
        weights = importance_weights(labels, proportions[None])
        found = nonconformity_of_right_labels(probabilities, labels)
        one = label_set_limits(found, labels, weights, 0.9, multi_label=True)
        broken += coverage(one, *new) < 0.9
        unweighted_broken += coverage(limits_of(probabilities, labels, 0.9, multi_label=True), *new) < 0.9
    assert broken <= binom.ppf(0.999, 100, 1 - GUARANTEE_CONFIDENCE) < unweighted_broken


@given(st.integers(0, 2**31), st.integers(2, 9), st.integers(1, 400))
def test_a_higher_level_gives_larger_sets(seed, classes, count):
    """Sets of a higher level contain those of a lower one, unless only the lower one has limits per class."""
    held_out = draw(count, classes, seed)
    new = draw(100, classes, seed + 1)[0]
    found = [limits_of(*held_out, level) for level in LEVELS]
    for lower, higher in zip(found[:-1], found[1:], strict=True):
        assert lower.per_class or not higher.per_class
        if lower.per_class == higher.per_class:
            assert (lower.by_label <= higher.by_label).all()
            assert (label_sets(new, lower.by_label) <= label_sets(new, higher.by_label)).all()


@given(st.integers(0, 2**31), st.sampled_from(LEVELS), st.integers(2, 9), st.integers(1, 100), st.booleans())
def test_a_set_has_the_most_probable_labels(seed, level, classes, count, multi_label):
    limits = limits_of(*draw(count, classes, seed), level, multi_label=multi_label)
    new = draw(50, classes, seed + 1)[0]
    sets = label_sets(new, limits.by_label)
    assert sets[np.arange(50), new.argmax(1)].all()
    if not limits.per_class:  # no label outside is more probable than one inside
        assert (np.where(sets, new, 1).min(1) >= np.where(sets, 0, new).max(1)).all()


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_too_few_held_out_texts_give_all_labels(level):
    fewest = min_held_out_texts(1 - level)
    assert level**fewest <= 1 - GUARANTEE_CONFIDENCE < level ** (fewest - 1)
    probabilities, labels = draw(fewest, 3, seed=0)
    one = limits_of(probabilities, labels, level, multi_label=True)
    assert one.by_label[0] == nonconformity_of_right_labels(probabilities, labels).max() < NO_LIMIT
    fewer = limits_of(probabilities[1:], labels[1:], level, multi_label=True)
    assert (fewer.by_label == NO_LIMIT).all() and label_sets(probabilities, fewer.by_label).all()


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
def test_each_class_needs_enough_held_out_texts(level):
    fewest = min_held_out_texts(1 - level)
    labels = np.repeat(np.eye(3, dtype=bool), fewest, axis=0)
    probabilities = draw(len(labels), 3, seed=0)[0]
    assert limits_of(probabilities, labels, level).per_class
    assert not limits_of(probabilities[1:], labels[1:], level).per_class
    assert not limits_of(probabilities, labels, level, multi_label=True).per_class
    limits = limits_of(probabilities, labels, level).by_label
    for column in range(3):  # with as many texts as are needed, the limit is the highest value
        assert limits[column] == (1 - probabilities[labels[:, column], column].astype(np.float32)).max()


def test_a_set_is_for_all_right_labels_of_a_text():
    """Labels are independent, so two right labels are harder to hold than one."""
    rng = np.random.default_rng(0)

    def draw_several(count):
        probabilities = rng.uniform(size=(count, 5))
        return probabilities, rng.uniform(size=(count, 5)) < probabilities

    held_out = draw_several(500)
    limits = limits_of(*held_out, 0.9, multi_label=True)
    new = draw_several(20_000)
    assert 0.9 <= coverage(limits, *new) < 0.95
    values = nonconformity_of_right_labels(*held_out)
    has_none = ~held_out[1].any(1)
    assert has_none.any() and (values[has_none] == 0).all()
    lowest = np.where(held_out[1], held_out[0], 1).min(1)[~has_none]
    np.testing.assert_allclose(values[~has_none], 1 - lowest, rtol=1e-5, atol=1e-6)


def labels_of(texts):
    return ["river" if "river" in text else "engine" for text in texts]


@pytest.fixture(scope="module")
def fitted_of_module(untrained_of_module, texts):
    pipe = copy.deepcopy(untrained_of_module)
    pipe.add_examples(texts[:30], labels_of(texts[:30]))
    pipe.add_documents(texts[30:38])
    pipe.fit(show_progress=False)
    return pipe


@pytest.fixture
def fitted(fitted_of_module):
    return copy.deepcopy(fitted_of_module)


def test_an_answer_has_its_set(fitted, texts):
    plain = fitted(texts[38:])
    for level in (0.3, 0.6, 0.9):
        limits = fitted._experts.fitted.guarantees.label_set_limits(level)
        for answer, before in zip(fitted(texts[38:], labels_at=level), plain, strict=True):
            assert answer.items() >= before.items() and answer["labels_per_class"] == limits.per_class
            labels = answer["labels"]
            assert labels[0] == {"label": before["label"], "score": before["score"]}
            assert [label["score"] for label in labels] == sorted((label["score"] for label in labels), reverse=True)
            limit_of = dict(zip(fitted._experts.ensemble.labels, limits.by_label, strict=True))
            assert all(np.float32(1) - np.float32(label["score"]) <= limit_of[label["label"]] for label in labels[1:])


def test_a_level_that_cannot_be_guaranteed_gives_all_labels_and_is_logged(fitted, texts, caplog):
    answers = fitted(texts[38:], labels_at=0.95)
    assert all({label["label"] for label in answer["labels"]} == {"river", "engine"} for answer in answers)
    assert not answers[0]["labels_per_class"]
    assert "labels_at=0.95: every set has all labels" in caplog.text
    assert "takes 45 held-out texts; the 30 here count as" in caplog.text


def test_sets_and_rejection_may_be_asked_for_together(fitted, texts):
    [answer] = fitted([texts[38]], labels_at=0.6, reject=0.01)
    assert answer["label"] is None and answer["labels"][0]["score"] == answer["score"]


def test_a_label_added_after_fit_is_in_sets_without_a_guarantee(fitted, texts, caplog):
    fitted(texts[38:], labels_at=0.6)
    assert "is not guaranteed" not in caplog.text
    new = "The submarine descends below the ice."
    fitted.add_examples([new], ["submarine"], allow_new_labels=True)
    [answer] = fitted([new], labels_at=0.95)
    assert "labels_at=0.95 is not guaranteed for texts of 'submarine'" in caplog.text
    assert {label["label"] for label in answer["labels"]} == {"river", "engine", "submarine"}
    for label in ("river", "engine"):
        assert any(found["label"] == label for found in answer["labels"])


def test_a_saved_classifier_has_the_same_sets(fitted, texts, tmp_path):
    from transformers import pipeline

    fitted.save_pretrained(tmp_path)
    loaded = pipeline("docsplit-knn", model=str(tmp_path), device="cpu")
    assert isinstance(loaded, KNNClassifierPipeline)
    before = fitted(texts[38:], labels_at=0.7)
    for answer, expected in zip(loaded(texts[38:], labels_at=0.7), before, strict=True):
        assert [label["label"] for label in answer["labels"]] == [label["label"] for label in expected["labels"]]


def test_several_labels_of_a_text(untrained, texts):
    labels = [[name] if len(text) % 2 else [name, "odd"] for name, text in zip(labels_of(texts), texts, strict=True)]
    untrained.add_examples(texts, labels)
    untrained.fit(show_progress=False)
    assert isinstance(untrained(texts[0])[0]["labels"], list)
    for answer in untrained(texts[:8], labels_at=0.8):
        assert not answer["labels_per_class"] and answer["labels"][0]["score"] == answer["score"]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_answers_to_a_file_have_the_sets(ending, fitted, tmp_path):
    source = tmp_path / "new.jsonl"
    target = tmp_path / f"answers.{ending}"
    source.write_text('{"text": "The river feeds the valley."}\n{"text": " "}\n')
    classify_file(fitted, PredictionFiles(source, target), show_progress=False, labels_at=0.95)
    read = {"csv": pd.read_csv, "jsonl": lambda path: pd.read_json(path, lines=True), "parquet": pd.read_parquet}
    rows = read[ending](target)
    labels = rows["labels"][0]
    labels = json.loads(labels) if isinstance(labels, str) else list(labels)
    [expected] = fitted("The river feeds the valley.", labels_at=0.95)
    assert [label["label"] for label in labels] == [label["label"] for label in expected["labels"]]
    assert not rows["labels_per_class"][0] and pd.isna(rows["labels_per_class"][1])


def keep_one_of_each(pipe):
    store = pipe.datastore
    first = {int(label): row_id for row_id, label in reversed(list(zip(store.ids, store.labels, strict=True)))}
    pipe.remove_examples([row_id for row_id in store.ids if row_id not in first.values()])


ERRORS = {
    "never": (lambda p: p("a", labels_at=0), "labels_at must be the probability .* got 0"),
    "always": (lambda p: p("a", labels_at=1), "labels_at must be the probability .* got 1"),
    "a percentage": (lambda p: p("a", labels_at="95 %"), "labels_at must be the probability .* got '95 %'"),
    "a flag": (lambda p: p("a", labels_at=True), "labels_at must be the probability .* got True"),
    "several answers": (lambda p: p("a", labels_at=0.9, top_k=2), "leave out top_k=2"),
    "equation 3": (lambda p: p("a", labels_at=0.9, method="knn"), "fit\\(\\), and leave out method='knn'"),
    "nothing fitted": (
        lambda p: (setattr(p.datastore, "fitted", None), p("a", labels_at=0.9)), "Only fitted experts can",
    ),
    "one example of each label": (
        lambda p: (keep_one_of_each(p), p.fit(show_progress=False), p("a", labels_at=0.9)), "no held-out answers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_invalid_options_are_refused(case, fitted):
    act, message = ERRORS[case]
    with pytest.raises(ValueError, match=message):
        act(fitted)
