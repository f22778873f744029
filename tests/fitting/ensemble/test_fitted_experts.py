import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.arrays.fitted_state import FittedState
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.fitted_ensemble import Fit
from docsplit_hf.fitting.ensemble.problem import Problem
from docsplit_hf.fitting.ensemble.scoring import logits_of, prepare_experts
from docsplit_hf.fitting.experts.log_linear_pool import pool
from docsplit_hf.fitting.experts.neighbor_expert import Neighbors
from docsplit_hf.fitting.experts.vector_experts import DEFAULT_EXAMPLE_WEIGHT

from .stores import NAMES, features_of, fitted_store, make_queries, make_store, score

KINDS = {
    "one label": {},
    "several labels": {"multi_label": True},
    "pairs": {"pairs": True},
    "no texts": {"texts": False},
    "no documents": {"documents": 0},
}


@pytest.fixture(scope="module")
def stores():
    return {kind: fitted_store(**options) for kind, options in KINDS.items()}


def copy_of(store):
    copied = KNNDatastore.__new__(KNNDatastore)
    copied.__setstate__(store.snapshot)
    return copied


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_distributions_and_right(kind, stores):
    found = score(stores[kind]).probabilities
    assert found.shape == (9, 3) and ((0 <= found) & (found <= 1)).all()
    if kind == "several labels":
        assert (found.argmax(1) == make_queries()[0]).mean() > 0.7
    else:
        np.testing.assert_allclose(found.sum(1), 1)
        assert (found.argmax(1) == make_queries()[0]).mean() > 0.8


def test_experts_are_chosen_by_their_requirements(stores):
    experts = {kind: list(store.fitted.settings["weights"]) for kind, store in stores.items()}
    everything = ["classifier", "naive_bayes", "neighbors", "topics", "word_regression", "style"]
    assert experts["one label"] == experts["pairs"] == experts["no documents"] == everything
    assert experts["several labels"] == ["classifier", "naive_bayes", "neighbors", "word_regression"]
    assert experts["no texts"] == ["classifier", "neighbors", "topics"]


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_are_the_pool_of_the_weighted_scores(kind, stores):
    answers = score(stores[kind])
    multi_label = kind == "several labels"
    shift = stores[kind].fitted.arrays["shift"]
    np.testing.assert_allclose(
        pool(answers.weighted_logits, np.ones(len(answers.weighted_logits)), multi_label, shift), answers.probabilities
    )


@pytest.mark.parametrize("name", ["classifier", "naive_bayes", "neighbors", "topics", "word_regression", "style"])
def test_a_single_expert_gives_the_softmax_of_its_logits(name):
    store = fitted_store(experts=[name])
    answers = score(store)
    odds = np.exp(answers.weighted_logits[0] + store.fitted.arrays["shift"])
    np.testing.assert_allclose(answers.probabilities, odds / odds.sum(1, keepdims=True))
    assert store.fitted.settings["shares"] == {name: 1.0}


SAVED_SETTINGS = set(
    "labels multi_label weights has_head temperature document_vote compares_with_documents thresholds shares examples "
    "documents single proportions measured_on texts left_out class_proportions measured_for log_likelihood measured "
    "out_of_scope novelty lost accuracy_interval answered least_error surest_error versions version_groups "
    "contradictory agreeing version_fraction paths levels needed by_label styles lacking".split()
)
SAVED_ARRAYS = set(
    "mean components whitening soft_labels shift proportions ids idf proportion_draws held_out_ids "
    "held_out_probabilities held_out_labels held_out_familiarity held_out_is_counted classifier.probe "
    "naive_bayes.weights topics.centers word_regression.weights style.mean style.deviation style.probe".split()
)


def test_saved_names_are_those_of_the_fields(stores):
    state = stores["one label"].fitted
    assert state.settings.keys() == SAVED_SETTINGS and state.arrays.keys() == SAVED_ARRAYS
    of_several_labels = stores["several labels"].fitted
    assert of_several_labels.settings.keys() == SAVED_SETTINGS
    assert state.settings["document_vote"] == 1 / DEFAULT_EXAMPLE_WEIGHT
    assert of_several_labels.settings["document_vote"] == 1
    of_one_label = {"topics.centers", "style.mean", "style.deviation", "style.probe"}
    assert of_several_labels.arrays.keys() == SAVED_ARRAYS - of_one_label


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_state_is_the_same_to_the_bit(kind, stores):
    fitted = Fit.from_state(stores[kind].fitted)
    again = Fit.from_state(fitted.to_state())
    before = fitted.to_state()
    after = again.to_state()
    assert before.settings == after.settings
    assert before.vocabulary == after.vocabulary and before.arrays.keys() == after.arrays.keys()
    for name, array in before.arrays.items():
        assert array.dtype == after.arrays[name].dtype and array.tobytes() == after.arrays[name].tobytes(), name


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded_the_answers_are_the_same_to_the_bit(kind, stores, tmp_path):
    stores[kind].save_pretrained(tmp_path)
    before = score(stores[kind])
    after = score(KNNDatastore.from_pretrained(tmp_path))
    assert np.array_equal(before.probabilities, after.probabilities) and np.array_equal(
        before.weighted_logits, after.weighted_logits
    )


def test_added_and_removed_examples_change_the_votes_at_once(stores):
    store = copy_of(stores["one label"])
    _, keys, texts = make_queries()
    before = score(store)
    store.add(keys[:1], ["predator"], texts=texts[:1], ids=["new"])
    after = score(store)
    assert after.probabilities[0, 2] > before.probabilities[0, 2]
    for place, name in enumerate(store.fitted.settings["weights"]):
        assert np.array_equal(after.weighted_logits[place], before.weighted_logits[place]) == (name != "neighbors")
    store.remove(["new"])
    assert np.array_equal(score(store).probabilities, before.probabilities)
    store.remove(store.ids[:6])
    store.remove_documents(["d3"])
    found = score(store).nearest
    assert found.examples.rows.shape == (9, 6) and "d3" not in {*sum(found.documents.ids, [])}


def test_a_document_that_came_after_fit_has_no_vote(stores):
    store = copy_of(stores["one label"])
    before = score(store).probabilities
    _, keys, texts = make_queries()
    store.add_documents(keys, texts)  # copies of the queries
    np.testing.assert_allclose(score(store).probabilities, before, rtol=1e-6)


@pytest.mark.parametrize("kind", ["one label", "several labels"])
def test_a_label_that_came_after_fit_gets_its_probability_from_the_neighbors(kind, stores):
    store = copy_of(stores[kind])
    label = ["brand new"] if kind == "several labels" else "brand new"
    _, keys, texts = make_queries()
    before = score(store)
    store.add(keys[:2], [label] * 2, texts=texts[:2])
    after = score(store)
    proportions = after.neighbor_label_proportions
    assert store.label_names[3] == "brand new" and proportions[0, 3] > 0.03
    np.testing.assert_allclose(after.probabilities[:, 3], proportions[:, 3], rtol=1e-5)
    known = proportions[:, :3]
    place = list(store.fitted.settings["weights"]).index("neighbors")
    if kind == "one label":
        known = known / known.sum(1, keepdims=True)
        np.testing.assert_allclose(after.probabilities.sum(1), 1)
    scores = before.weighted_logits.copy()
    weight = store.fitted.settings["weights"]["neighbors"]
    scores[place] = weight * Neighbors().score(
        {}, features_of(neighbor_label_proportions=known, multi_label=kind == "several labels")
    )
    rest = 1 if kind == "several labels" else 1 - proportions[:, 3:]
    expected = rest * pool(scores, np.ones(len(scores)), kind == "several labels", store.fitted.arrays["shift"])
    np.testing.assert_allclose(after.probabilities[:, :3], expected, rtol=1e-4, atol=1e-6)


def test_another_text_of_the_same_id_is_another_text(stores):
    """A label may be described again, or a removed document added again."""
    store = copy_of(stores["one label"])
    _, keys, texts = make_queries()
    store.remove(["0"])
    store.remove_documents(["d0"])
    store.add(keys[:1], ["predator"], texts=texts[:1], ids=["0"])
    store.add_documents(keys[1:2], texts[1:2], ids=["d0"])
    found = score(store)
    assert prepare_experts(store.snapshot).places[-1] == -1
    assert (
        found.nearest.examples.ids[0][0] == "0"
        and found.neighbor_label_proportions[0, 2] > found.neighbor_label_proportions[0, :2].max()
    )
    of_documents = found.votes[:, found.nearest.examples.rows.shape[1] :]
    assert not of_documents[found.nearest.documents.rows == 59].any()


def test_experts_are_made_ready_once(stores):
    store = stores["one label"]
    ready = prepare_experts(store.snapshot)
    assert prepare_experts(store.snapshot, ready) is ready
    other = copy_of(store)
    other.fitted = None
    assert prepare_experts(other.snapshot, ready) is None


def test_answers_do_not_depend_on_other_texts_of_a_batch(stores):
    """Labels that came after the training of a classifier included."""
    logits = np.random.default_rng(0).standard_normal((9, 2)).astype(np.float32)
    logits[8] *= 100
    found = logits_of(logits, np.array([0, 2, 3]))
    first = logits[[0, 1, 2]]
    assert np.array_equal(found[[0, 1, 2]], logits_of(first, np.array([0, 2, 3])))
    np.testing.assert_array_equal(found[:, 0], logits[:, 0])
    np.testing.assert_allclose(found[:, 1:], np.repeat(logits.mean(1, keepdims=True), 2, axis=1), rtol=1e-5)
    assert np.array_equal(logits_of(logits, np.array([1])), logits[:, 1:])
    store = stores["one label"]
    many = score(store).probabilities
    one = score(store, count=1).probabilities
    assert many.shape == (9, 3) and one.shape == (1, 3)


def test_half_precision_and_an_index_answer_alike():
    store = fitted_store()
    half = KNNDatastore(store.keys, store.labels, NAMES, store.texts, ids=store.ids, dtype="float16", index="HNSW16")
    documents = store.documents
    half.add_documents(documents.keys, documents.texts, ids=documents.ids)
    half.fitted = fit_experts(Problem(half.snapshot), show_progress=False).to_state()
    np.testing.assert_allclose(score(half).probabilities, score(store).probabilities, atol=0.02)


@pytest.fixture(scope="module")
def store():
    store = make_store()
    store.fitted = fit_experts(Problem(store.snapshot), show_progress=False).to_state()
    return store


CHANGES = {
    "no settings": (lambda s, a: s.clear(), "labels is None"),
    "another label": (lambda s, a: s.update(labels=["?"]), "labels is"),
    "another kind": (lambda s, a: s.update(multi_label=True), "multi_label is True"),
    "an unknown expert": (lambda s, a: s.update(weights={"oracle": 1.0}), "weights is"),
    "a weight of another type": (lambda s, a: s["weights"].update(words="1"), "weights is"),
    "thresholds of other labels": (lambda s, a: s.update(thresholds=[0.5]), "thresholds is"),
    "fewer held-out texts": (lambda s, a: a.update(held_out_ids=a["held_out_ids"][1:]), "held_out_probabi"),
    "no probabilities": (
        lambda s, a: a.update(held_out_probabilities=a["held_out_probabilities"] + 1),
        "outside 0 to 1",
    ),
    "labels as numbers": (
        lambda s, a: a.update(held_out_labels=a["held_out_labels"].astype(np.float32)),
        "held_out_labels is 'float32'",
    ),
    "documents with more votes than examples": (lambda s, a: s.update(document_vote=2.0), "document_vote is 2.0"),
    "suggestions that are no ids": (lambda s, a: s.update(suggested=[1]), "suggested is"),
    "a missing array": (lambda s, a: a.pop("soft_labels"), "arrays is"),
    "an additional array": (lambda s, a: a.update(code=np.zeros(1)), "arrays is"),
    "other texts": (lambda s, a: a.update(ids=a["ids"][1:]), "soft_labels is"),
    "another encoder": (lambda s, a: a.update(mean=a["mean"][1:]), "mean is"),
    "an expert without its array": (lambda s, a: a.pop("topics.centers"), "arrays is"),
}


@pytest.mark.parametrize("change, message", CHANGES.values(), ids=CHANGES)
def test_a_state_that_does_not_fit_the_datastore_is_refused(store, change, message):
    state = store.fitted
    settings = state.settings | {"weights": dict(state.settings["weights"])}
    arrays = dict(state.arrays)
    change(settings, arrays)
    other = make_store()
    other.fitted = FittedState(settings, arrays, state.vocabulary)
    with pytest.raises(ValueError, match=f"{message}.*fit\\(\\) again"):
        prepare_experts(other.snapshot)
