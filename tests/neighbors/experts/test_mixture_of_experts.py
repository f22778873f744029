"""The neighbors that are shown are those that voted."""

import numpy as np
import pytest

from docsplit_hf.models.inference.reader import Predictions
from docsplit_hf.neighbors.experts.fitted_experts import ask_experts, ready_experts
from docsplit_hf.neighbors.experts.mixture_of_experts import mix_experts
from docsplit_hf.neighbors.experts.votes import NEIGHBORS
from docsplit_hf.neighbors.mixing.mixture import Shown, answer_of

from .stores import NAMES, fitted_store, make_queries


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
