"""Measurements and guarantees with balanced examples, and with out-of-scope documents."""

import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.arrays.fitted_state import FittedState
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.guarantees import Guarantees, HeldOutAnswers
from docsplit_hf.fitting.ensemble.problem import Problem
from docsplit_hf.fitting.ensemble.scoring import prepare_experts

from .stores import NAMES, make_keys, make_store, make_texts, misleading_store


def fitted_on(store, **options):
    return fit_experts(Problem(store.snapshot, **options), show_progress=False)


def store_with_out_of_scope_documents(examples=60, known=150, strangers=150):
    """Documents, some with words and embeddings of no label."""
    labels = np.arange(examples) % 3
    of_documents = np.arange(known) % 3
    store = KNNDatastore(make_keys(labels, 1), labels, NAMES, make_texts(labels, 1))
    rng = np.random.default_rng(7)
    far = 2 * np.random.default_rng(98).standard_normal(16) + rng.standard_normal((strangers, 16))
    words = [" ".join(rng.choice(["bridge", "tunnel", "crane", "beam", "the", "of"], 12)) for _ in range(strangers)]
    keys = np.concatenate([make_keys(of_documents, 2), far.astype(np.float32)])
    store.add_documents(keys, [*make_texts(of_documents, 5), *words])
    return store


@pytest.fixture(scope="module")
def with_out_of_scope_documents():
    """A store with documents of no label, and what was fitted on it."""
    store = store_with_out_of_scope_documents()
    return store, fitted_on(store)


def test_accuracy_is_measured_for_the_estimated_proportions():
    fitted = fitted_on(misleading_store(noise=2.5, examples=60))
    assert fitted.report.measured_for == "estimated" and fitted.report.proportions["fruit"] > 0.6
    held = fitted.held_out
    counts = fitted.guarantees.importance_weights().mean(0)
    [measured] = [record["accuracy"] for record in fitted.report.measured if record["expert"] == "ensemble"]
    assert measured == pytest.approx(np.average(held.right, weights=counts))
    low, high = fitted.report.accuracy_interval
    assert 0.5 < low < measured <= high
    assert counts[held.labels[:, 0]].mean() > 2 * counts[~held.labels[:, 0]].mean()
    report = str(fitted.report)
    assert "Your examples are balanced; measured for estimated proportions." in report
    assert "% (95% interval: " in report


def test_accuracy_is_measured_for_given_proportions():
    fitted = fitted_on(misleading_store(examples=60), class_proportions={"fruit": 8, "mineral": 1, "predator": 1})
    assert fitted.report.measured_for == "given" and fitted.guarantees.proportion_draws.shape == (1, 3)
    counts = fitted.guarantees.importance_weights()[0]
    assert counts[fitted.held_out.labels[:, 0]].sum() == pytest.approx(0.8 * len(counts))


def test_without_documents_the_proportions_are_unknown():
    fitted = fitted_on(make_store(60, 0))
    assert fitted.report.measured_for == "unknown" and (fitted.guarantees.importance_weights() == 1).all()
    assert "no documents to estimate the frequency of each label: measured for equal frequencies" in str(fitted.report)


def test_out_of_scope_documents_set_a_default_novelty_limit(with_out_of_scope_documents):
    store, fitted = with_out_of_scope_documents
    assert fitted.report.out_of_scope == pytest.approx(0.5, abs=0.15)
    assert fitted.report.novelty == 0.05 and fitted.ensemble.compares_with_documents
    assert fitted.report.lost == fitted.guarantees.lost_fraction() <= 0.05
    guarantees = fitted.guarantees
    assert guarantees.novelty_limit() == guarantees.novelty_limit(0.05) < guarantees.novelty_limit(False) == 0.99
    assert "of the documents seem to be of labels without examples (out-of-scope). With reject" in str(fitted.report)
    store.fitted = fitted.to_state()
    again = prepare_experts(store.snapshot).fitted.guarantees
    assert again.novelty_limit() == guarantees.novelty_limit()
    assert again.confidence_threshold(0.2) == guarantees.confidence_threshold(0.2)


def test_familiarity_compared_with_documents_is_independent_of_the_order_of_texts():
    labels = np.arange(60) % 3
    keys = make_keys(labels, 1)
    texts = make_texts(labels, 1)
    documents = store_with_out_of_scope_documents().snapshot.documents
    found = []
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(60)
        store = KNNDatastore(
            keys[order],
            labels[order],
            NAMES,
            [texts[row] for row in order],
            ids=[str(row) for row in order],
        )
        store.add_documents(documents.keys, documents.rows["text"].to_pylist())
        held_out = fitted_on(store).held_out
        by_id = np.argsort(held_out.ids)
        found.append((held_out.ids[by_id], held_out.familiarity[by_id]))
    first, second = found
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", range(5))
def test_a_novelty_limit_removes_answers_and_adds_none(seed, with_out_of_scope_documents):
    """Novel held-out texts with wrong answers raise the confidence threshold."""
    _, fitted = with_out_of_scope_documents
    rng = np.random.default_rng(seed)
    count = 200
    familiarity = np.sort(rng.uniform(size=count)).astype(np.float32)
    best = rng.uniform(0.4, 1, count)
    best[:10] = rng.uniform(0.4, 0.8, 10)
    labels = np.zeros((count, 3), bool)
    is_wrong = (np.arange(count) < 10) | (rng.uniform(size=count) < 0.4 * (1 - best))  # the ten most novel are wrong
    labels[np.arange(count), is_wrong.astype(int)] = True
    probabilities = np.stack([best, (1 - best) / 2, (1 - best) / 2], axis=1).astype(np.float32)
    held_out = HeldOutAnswers(np.zeros(count, np.int64), probabilities, labels, familiarity, np.ones(count, bool))
    default_lost = fitted.guarantees.default_lost
    guarantees = Guarantees(held_out, np.zeros((0, 3), np.float32), multi_label=False, default_lost=default_lost)
    novelty = guarantees.novelty(familiarity)
    answered = {}
    for lost in (0.0, 0.1):
        confidence = guarantees.confidence(probabilities, novelty, lost)
        answered[lost] = confidence >= guarantees.confidence_threshold(0.2, lost)
    assert answered[0.1].any()
    assert not answered[0.0].any() or not (answered[0.1] & ~answered[0.0]).any()


def test_documents_of_known_labels_set_no_novelty_limit():
    fitted = fitted_on(make_store(60, 300))
    assert fitted.report.out_of_scope == fitted.report.novelty == 0 and not fitted.ensemble.compares_with_documents
    assert "seem to be of labels without examples" not in str(fitted.report)


@pytest.fixture(scope="module")
def without_documents():
    """A store without documents, and what was fitted on it."""
    store = make_store(30, 0)
    return store, fitted_on(store).to_state()


@pytest.mark.parametrize(
    "array, settings, message",
    [
        (np.full((2, 3), 0.5), {}, "proportion_draws"),
        (np.array([[1.5, -0.5, 0]]), {}, "proportion_draws"),
        (None, {"novelty": 1.0}, "novelty"),
        (None, {"compares_with_documents": 1}, "compares_with_documents"),
    ],
)
def test_impossible_guarantees_are_refused(array, settings, message, without_documents):
    store, state = without_documents
    arrays = dict(state.arrays)
    if array is not None:
        arrays["proportion_draws"] = array.astype(np.float32)
    store.fitted = FittedState(state.settings | settings, arrays, state.vocabulary)
    with pytest.raises(ValueError, match=message):
        prepare_experts(store.snapshot)


def test_the_fraction_of_out_of_scope_documents_is_independent_of_their_order():
    """More documents than are scored, so that a sample is drawn."""
    labels = np.arange(60) % 3
    numbers = np.arange(1_200) % 3
    rng = np.random.default_rng(7)
    keys = np.concatenate([make_keys(numbers[:600], 2), rng.standard_normal((600, 16)).astype(np.float32)])
    texts = [*make_texts(numbers[:600], 5), *(f"bridge {number} of steel" for number in range(600))]
    found = []
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(keys))
        store = KNNDatastore(make_keys(labels, 1), labels, NAMES, make_texts(labels, 1))
        store.add_documents(keys[order], [texts[row] for row in order])
        found.append(fitted_on(store).report.out_of_scope)
    assert found[0] == found[1] > 0
