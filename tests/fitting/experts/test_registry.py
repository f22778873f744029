"""A new expert is one class, and one line in ``EXPERTS``."""

import numpy as np

from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.ensemble.explaining import explain
from docsplit_hf.fitting.ensemble.scoring import prepare_experts
from docsplit_hf.fitting.experts.expert import Expert
from docsplit_hf.fitting.experts.registry import EXPERTS
from docsplit_hf.fitting.experts.saved_types import UNIT_COMPONENTS, Array

from ..ensemble.stores import fitted_store, make_queries, score


class NearestMean(Expert):
    """Logits by the squared distance from the mean of each label's examples."""

    name = "nearest mean"
    needs_single_label = True
    arrays = {"weights": Array(("labels", "vector"), UNIT_COMPONENTS)}

    def prior(self, data):
        return 0.5

    def fit(self, data):
        vectors = data.corpus.vectors[data.rows]
        return {"weights": ((data.targets.T @ vectors) / data.targets.sum(0)[:, None]).astype(np.float32)}

    def score(self, learned, features):
        return -np.square(features.vectors[:, None] - learned["weights"]).sum(2)


def test_a_new_expert_is_fitted_saved_and_explained(monkeypatch, tmp_path):
    """Its array has the same name as one of another expert."""
    monkeypatch.setitem(EXPERTS, NearestMean.name, NearestMean())
    store = fitted_store()
    assert NearestMean.name in {record["expert"] for record in store.fitted.settings["measured"]}
    assert {"nearest mean.weights", "naive_bayes.weights"} <= store.fitted.arrays.keys()
    store.save_pretrained(tmp_path)
    answers = score(store)
    again = score(KNNDatastore.from_pretrained(tmp_path))
    assert np.array_equal(answers.probabilities, again.probabilities) and len(answers.weighted_logits) == 7
    assert explain(answers, prepare_experts(store.snapshot).ensemble, 0, 0)["experts"][NearestMean.name] != 0
    alone = fitted_store(experts=[NearestMean.name])
    assert (score(alone).probabilities.argmax(1) == make_queries()[0]).mean() > 0.8


def test_a_new_expert_is_left_out_where_its_need_is_not_met(monkeypatch):
    monkeypatch.setitem(EXPERTS, NearestMean.name, NearestMean())
    assert NearestMean.name not in fitted_store(multi_label=True).fitted.settings["weights"]
