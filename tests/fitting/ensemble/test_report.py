"""Baselines in the report of fit: word counts and the largest class."""

import numpy as np
import pytest
from sklearn.metrics import f1_score, log_loss

from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.held_out_metrics import largest_class
from docsplit_hf.fitting.ensemble.problem import HeldOut, Problem
from docsplit_hf.fitting.ensemble.report import LARGEST_CLASS, WORD_COUNTS, at_chance

from .stores import ABOUT_CONTENT, NAMES, make_keys, make_queries, make_store, make_texts


def fit(store, held_out=None, experts=None):
    settings = fit_experts(Problem(store.snapshot, experts, held_out), show_progress=False)
    return settings, {record["expert"]: record for record in settings.report.measured}


def random_labels(count=124):
    """Embeddings and texts that do not depend on the label."""
    rng = np.random.default_rng(0)
    texts = make_texts(rng.integers(0, 3, count))
    return KNNDatastore(rng.standard_normal((count, 16)), np.arange(count) % 2, ["yes", "no"], texts)


def test_the_accuracy_of_the_largest_class_is_its_proportion():
    labels = np.array([0] * 12 + [1] * 5 + [2] * 3)
    settings, found = fit(KNNDatastore(make_keys(labels), labels, NAMES, make_texts(labels)))
    assert settings.report.texts == 20
    shares = np.tile(np.array([12, 5, 3]) / 20, (20, 1))
    assert found[LARGEST_CLASS]["accuracy"] == pytest.approx(0.6)
    assert found[LARGEST_CLASS]["macro_f1"] == pytest.approx(f1_score(labels, np.zeros(20), average="macro"))
    assert found[LARGEST_CLASS]["log_loss"] == pytest.approx(log_loss(labels, shares))


@pytest.mark.parametrize("multi_label", [False, True])
def test_word_counts_use_words_and_no_embedding(multi_label):
    store = make_store(60, 0, multi_label=multi_label)
    labels = [np.flatnonzero(row).tolist() for row in store.labels] if multi_label else store.labels
    noise = np.random.default_rng(0).standard_normal((60, 16))
    _, found = fit(KNNDatastore(noise, labels, NAMES, store.texts))
    assert found[WORD_COUNTS]["accuracy"] > found[LARGEST_CLASS]["accuracy"] + 0.2
    _, found = fit(KNNDatastore(store.keys, labels, NAMES, ["?" * i for i in range(1, 61)]))
    assert WORD_COUNTS not in found and found["ensemble"]["accuracy"] > found[LARGEST_CLASS]["accuracy"]


def test_baselines_on_held_out_texts():
    labels, keys, texts = make_queries(30)
    _, found = fit(make_store(), HeldOut(keys, texts, labels, None))
    assert found[WORD_COUNTS]["accuracy"] > 0.6 and found[LARGEST_CLASS]["accuracy"] == pytest.approx(1 / 3)


def test_the_largest_class_of_multi_label_examples_is_the_most_frequent_set():
    targets = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 0], [0, 1, 1]])
    probabilities = largest_class(targets, 2, True)
    assert (probabilities >= 0.5).tolist() == [[True, True, False]] * 2
    np.testing.assert_allclose(probabilities[0], [0.75, 0.75, 0.25])


def test_an_accuracy_at_chance_is_reported_in_a_sentence():
    settings, found = fit(random_labels(), experts=ABOUT_CONTENT)
    report = str(settings.report)
    assert abs(found["ensemble"]["accuracy"] - 0.5) < 0.1
    assert "Not reliably better than always the largest class: " in report and "124 texts. Nothing shows yet" in report
    good, _ = fit(make_store(60))
    assert "reliably better" not in str(good.report)
    assert at_chance(0.53, 0.5, 124) and not at_chance(0.53, 0.5, 2_000)
