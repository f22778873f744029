"""The neighbors that are shown are those that voted."""

import numpy as np
import pytest

from docsplit_hf.models.inference.text_embedder import Predictions
from docsplit_hf.neighbors.experts.fitted_experts import FittedExperts, ask_experts, ready_experts
from docsplit_hf.neighbors.experts.mixture_of_experts import MOST_WORDS, explain, mix_experts
from docsplit_hf.neighbors.experts.votes import NEIGHBORS
from docsplit_hf.neighbors.mixing.mixture import Shown, answer_of

from .stores import COMMON, NAMES, OWN, ask, fitted_store, make_queries


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("documents", [60, 0])
def test_their_weights_and_labels_give_what_the_expert_says(documents, several):
    store = fitted_store(documents=documents, several=several)
    ready, (_, keys, texts) = ready_experts(store.snapshot), make_queries()
    predictions, shown = Predictions(np.zeros((9, 0), np.float32), keys), Shown(neighbors=100)
    mixture, expected = mix_experts(ready, predictions, texts, shown), ask_experts(ready, keys, texts, None).shares
    spread = (
        dict(zip(store.documents.ids, ready.fitted.learned["soft"][ready.places], strict=True)) if documents else {}
    )
    for row in range(9):
        neighbors = answer_of(mixture, row, None, shown, best_only=True)["neighbors"]
        assert len(neighbors) == min(72, 12 + documents)  # all of them: those beyond the 30 nearest count nothing
        assert sum(one["weight"] > 0 for one in neighbors) <= NEIGHBORS
        weights = [one["weight"] for one in neighbors]
        assert weights == sorted(weights, reverse=True) and sum(weights) == pytest.approx(1)
        shares = np.zeros(3)
        for one in neighbors:
            given = one.get("labels") if several else [one["label"]]
            soft = spread.get(one["id"], np.isin(NAMES, given))
            shares += one["weight"] * soft
            if one["id"] in spread and not several:
                assert (one["label"], one["label_probability"]) == (NAMES[soft.argmax()], pytest.approx(soft.max()))
        np.testing.assert_allclose(shares, expected[row], atol=1e-6)


def test_the_experts_add_up_to_the_log_odds_of_the_best_two():
    store = fitted_store()
    answers, fitted = ask(store), FittedExperts.from_state(store.fitted)
    for row, probabilities in enumerate(answers.probabilities):
        order = np.argsort(-probabilities)
        for label in range(3):
            found = explain(answers, fitted, row, label)
            other = order[0] if order[0] != label else order[1]
            assert found["against"] == NAMES[other]
            odds = np.log(probabilities[label] / probabilities[other])
            assert sum(found["experts"].values()) == pytest.approx(odds, abs=1e-6)
            assert list(found["experts"]) == [*store.fitted.settings["weights"], "class proportions"]


def test_of_several_labels_they_add_up_to_its_own_log_odds():
    store = fitted_store(several=True)
    answers, fitted = ask(store), FittedExperts.from_state(store.fitted)
    for label, probability in enumerate(answers.probabilities[2]):
        found = explain(answers, fitted, 2, label)
        assert found["against"] is None
        assert sum(found["experts"].values()) == pytest.approx(np.log(probability / (1 - probability)), abs=1e-6)


def test_words_are_those_of_the_text_that_speak_for_the_label_best_first():
    store = fitted_store()
    labels, _, texts = make_queries()
    answers, fitted = ask(store), FittedExperts.from_state(store.fitted)
    for row, label in enumerate(labels):
        words = explain(answers, fitted, row, int(label))["words"]
        weights = [word["weight"] for word in words]
        assert 0 < len(words) <= MOST_WORDS and weights == sorted(weights, reverse=True) and min(weights) > 0
        assert all(word["word"] in texts[row].split() for word in words)
        assert words[0]["word"] in OWN[label] and words[0]["word"] not in COMMON


def test_all_words_of_a_text_add_up_to_what_the_words_say(monkeypatch):
    monkeypatch.setattr("docsplit_hf.neighbors.experts.mixture_of_experts.MOST_WORDS", 100)
    store = fitted_store()
    answers, fitted = ask(store), FittedExperts.from_state(store.fitted)
    both = [explain(answers, fitted, 0, label) for label in np.argsort(-answers.probabilities[0])[:2]]
    pro, contra = (sum(word["weight"] for word in found["words"]) for found in both)
    assert pro - contra == pytest.approx(both[0]["experts"]["words"], rel=1e-4)


def test_without_texts_there_are_no_words_and_a_later_label_has_the_neighbors():
    store = fitted_store(texts=False)
    answers, fitted = ask(store), FittedExperts.from_state(store.fitted)
    assert explain(answers, fitted, 0, 0)["words"] == []
    said = explain(answers, fitted, 0, 7)
    assert (said["against"], said["experts"], said["words"]) == (None, {}, []) and "came after fit()" in said["note"]
