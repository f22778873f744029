"""Predictions by fitted experts: shown neighbors and explanations."""

import numpy as np
import pytest

from docsplit_hf.arrays.passages import Predictions
from docsplit_hf.fitting.ensemble import explaining
from docsplit_hf.fitting.ensemble.explaining import MAX_EXPLAINED_WORDS, explain
from docsplit_hf.fitting.ensemble.fitted_ensemble import Fit
from docsplit_hf.fitting.ensemble.predicting import predict_with_experts
from docsplit_hf.fitting.ensemble.scoring import prepare_experts, score_texts
from docsplit_hf.fitting.experts.neighbor_expert import VOTERS
from docsplit_hf.fitting.prediction import TextInputs
from docsplit_hf.reading.files.places import Place
from docsplit_hf.reading.origins import Origin

from .stores import COMMON, NAMES, OWN, fitted_store, make_queries, score


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("documents", [60, 0])
def test_weights_and_labels_of_shown_neighbors_give_the_label_proportions(documents, multi_label):
    store = fitted_store(documents=documents, multi_label=multi_label)
    ready = prepare_experts(store.snapshot)
    _, keys, texts = make_queries()
    inputs = TextInputs(texts, Predictions(np.zeros((9, 0), np.float32), keys), documents=None, origins=[None] * 9)
    prediction = predict_with_experts(ready, inputs, {"return_neighbors": 100})
    expected = score_texts(ready, keys, texts, None).neighbor_label_proportions
    propagated = {}
    if documents:
        soft_labels = ready.ensemble.learned.soft_labels[ready.places]
        propagated = dict(zip(store.documents.ids, soft_labels, strict=True))
    for row in range(9):
        neighbors = prediction.answer(row)["neighbors"]
        assert len(neighbors) == min(72, 12 + documents)  # all of them: those beyond the 30 nearest have a weight of 0
        assert sum(one["weight"] > 0 for one in neighbors) <= VOTERS
        weights = [one["weight"] for one in neighbors]
        assert sum(weights) == pytest.approx(1)
        for are_documents in (False, True):  # nearest first; a document has fewer votes than an example
            of_kind = [one["weight"] for one in neighbors if (one["id"] in propagated) == are_documents]
            assert of_kind == sorted(of_kind, reverse=True)
        proportions = np.zeros(3)
        for one in neighbors:
            given = one.get("labels") if multi_label else [one["label"]]
            soft = propagated.get(one["id"], np.isin(NAMES, given))
            proportions += one["weight"] * soft
            if one["id"] in propagated and not multi_label:
                assert (one["label"], one["label_probability"]) == (NAMES[soft.argmax()], pytest.approx(soft.max()))
        np.testing.assert_allclose(proportions, expected[row], atol=1e-6)


def test_the_experts_add_up_to_the_log_odds_of_the_best_two():
    store = fitted_store()
    answers = score(store)
    ensemble = Fit.from_state(store.fitted).ensemble
    for row, probabilities in enumerate(answers.probabilities):
        order = np.argsort(-probabilities)
        for label in range(3):
            found = explain(answers, ensemble, row, label)
            other = order[0] if order[0] != label else order[1]
            assert found["against"] == NAMES[other]
            odds = np.log(probabilities[label] / probabilities[other])
            assert sum(found["experts"].values()) == pytest.approx(odds, abs=1e-6)
            assert list(found["experts"]) == [*store.fitted.settings["weights"]]  # equal proportions shift nothing


def test_with_several_labels_the_experts_add_up_to_the_log_odds_of_each():
    store = fitted_store(multi_label=True)
    answers = score(store)
    ensemble = Fit.from_state(store.fitted).ensemble
    for label, probability in enumerate(answers.probabilities[2]):
        found = explain(answers, ensemble, 2, label)
        assert found["against"] is None
        assert sum(found["experts"].values()) == pytest.approx(np.log(probability / (1 - probability)), abs=1e-6)


def test_explaining_words_are_of_the_text_and_sorted_by_weight():
    store = fitted_store()
    labels, _, texts = make_queries()
    answers = score(store)
    ensemble = Fit.from_state(store.fitted).ensemble
    for row, label in enumerate(labels):
        words = explain(answers, ensemble, row, int(label))["words"]
        weights = [word["weight"] for word in words]
        assert 0 < len(words) <= MAX_EXPLAINED_WORDS and weights == sorted(weights, reverse=True) and min(weights) > 0
        assert all(word["word"] in texts[row].split() for word in words)
        assert words[0]["word"] in OWN[label] and words[0]["word"] not in COMMON


def test_words_against_a_label_are_those_for_the_next_best_one():
    store = fitted_store()
    answers = score(store)
    ensemble = Fit.from_state(store.fitted).ensemble
    for row, probabilities in enumerate(answers.probabilities):
        first, second = (explain(answers, ensemble, row, label) for label in np.argsort(-probabilities)[:2])
        assert second["against"] == NAMES[probabilities.argmax()]
        for one, other in ((first, second), (second, first)):
            turned = [{"word": word["word"], "weight": -word["weight"]} for word in one["words"]]
            assert other["words_against"] == turned


def test_with_several_labels_words_speak_for_or_against_each():
    store = fitted_store(multi_label=True)
    answers = score(store)
    ensemble = Fit.from_state(store.fitted).ensemble
    for label in range(3):
        found = explain(answers, ensemble, 2, label)
        assert all(word["weight"] > 0 for word in found["words"])
        assert all(word["weight"] < 0 for word in found["words_against"])
        assert found["summary"].startswith(f"{NAMES[label]!r} or not: odds of ")


@pytest.mark.parametrize(
    ("against", "contributions", "expected"),
    [
        (
            "b",
            {"classifier": np.log(2), "topics": np.log(1.5), "neighbors": np.log(5), "style": -np.log(3)},
            "'a' rather than 'b': odds of 5.0 to 1. More likely by labels of similar texts (5.0 times), meaning (3.0 "
            "times). Less likely by how it is written (3.0 times).",
        ),
        (
            "b",
            {"naive_bayes": 0.3, "word_regression": -0.3, "teacher": 98.0, "class proportions": -99.0},
            "'a' rather than 'b': odds of 1 to 2.7. More likely by teacher (1,000.0 times). Less likely by class "
            "proportions (1,000.0 times).",
        ),
        (None, {"neighbors": 0.04}, "'a' or not: odds of 1.0 to 1."),
    ],
)
def test_the_summary_says_how_many_times_each_kind_of_evidence_makes_a_label_more_likely(
    against, contributions, expected
):
    assert explaining._summary("a", against, contributions) == expected


def test_all_words_of_a_text_add_up_to_what_the_experts_on_words_contribute(monkeypatch):
    monkeypatch.setattr("docsplit_hf.fitting.ensemble.explaining.MAX_EXPLAINED_WORDS", 100)
    monkeypatch.setattr("docsplit_hf.fitting.ensemble.explaining.LEAST_OF_A_WORD", 0)
    store = fitted_store()
    answers = score(store)
    ensemble = Fit.from_state(store.fitted).ensemble
    first, second = np.argsort(-answers.probabilities[0])[:2]
    both = [explain(answers, ensemble, 0, label) for label in (first, second)]
    pro, contra = (sum(word["weight"] for word in found["words"]) for found in both)
    biases = ensemble.learned.by_expert["word_regression"]["weights"][:, -1]
    by_bias = ensemble.weights["word_regression"] * (biases[first] - biases[second])
    of_experts = both[0]["experts"]["naive_bayes"] + both[0]["experts"]["word_regression"]
    assert pro - contra == pytest.approx(of_experts - by_bias, rel=1e-4)
    assert ensemble.weights["naive_bayes"] > 0 and ensemble.weights["word_regression"] > 0


def test_without_texts_no_words_explain_and_a_later_label_has_a_note():
    store = fitted_store(texts=False)
    answers = score(store)
    ensemble = Fit.from_state(store.fitted).ensemble
    found = explain(answers, ensemble, 0, 0)
    assert (found["words"], found["words_against"]) == ([], [])
    of_later_label = explain(answers, ensemble, 0, 7)
    note = of_later_label.pop("note")
    assert of_later_label == {"against": None, "experts": {}, "words": [], "words_against": []}
    assert "added after fit()" in note


def test_a_word_on_several_pages_speaks_for_each_by_how_often_it_is_there(monkeypatch):
    store = fitted_store()
    ensemble = Fit.from_state(store.fitted).ensemble

    def decides(*pages, **contributions):
        """The number of the page that decides if words contribute so much to a label."""
        starts = np.cumsum([0, *(len(page) + 1 for page in pages)])
        places = [
            Place("page", str(i), start, start + len(page))
            for i, (page, start) in enumerate(zip(pages, starts, strict=False))
        ]
        text = "\n".join(pages)
        scored = score_texts(prepare_experts(store.snapshot), make_queries(1)[1], [text], None)
        of_words = [contributions.get(ensemble.terms[term], 0.0) for term in scored.words.row(0).indices]
        monkeypatch.setattr(explaining, "_word_contributions", lambda *_: np.array(of_words))
        return int(explaining.deciding_place(scored, ensemble, 0, 0, text, Origin("a.pdf", tuple(places))).name)

    assert decides("one apple", "pear and pear", apple=3.0, pear=2.0) == 0  # 3 against 2, however often it is there
    assert decides("one apple", "pear and pear", apple=1.5, pear=2.0) == 1
    assert decides("apple and pear", "apple with apple", apple=3.0, pear=0.5) == 1  # 1 + 0.5 against 2
    assert decides("apple and pear", "apple with apple", apple=3.0, pear=1.5) == 0
