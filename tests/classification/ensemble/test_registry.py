"""A new expert is a subclass of ``Expert``, and a line in ``EXPERTS``."""

import numpy as np

from docsplit_hf import KNNDatastore
from docsplit_hf.classification.ensemble.expert import Expert
from docsplit_hf.classification.ensemble.explaining import explain
from docsplit_hf.classification.ensemble.registry import EXPERTS
from docsplit_hf.classification.ensemble.scoring import ready_experts

from .stores import ask, fitted_store, make_queries


class NearestMean(Expert):
    """Logits by the squared distance from the mean of each label's examples."""

    def can_learn(self, corpus, several, has_names):
        return not several

    def prior(self, lesson):
        return 0.5

    def fit(self, lesson):
        vectors = lesson.corpus.vectors[lesson.rows]
        return {"means": ((lesson.targets.T @ vectors) / lesson.targets.sum(0)[:, None]).astype(np.float32)}

    def score(self, learned, asked):
        return -np.square(asked.vectors[:, None] - learned["means"]).sum(2)

    def shapes(self, sizes):
        return {"means": (sizes.labels, sizes.dimensions)}


def test_a_new_expert_is_fitted_weighed_saved_asked_and_explained(monkeypatch, tmp_path):
    monkeypatch.setitem(EXPERTS, "nearest mean", NearestMean())
    store = fitted_store()
    assert "nearest mean" in {record["expert"] for record in store.fitted.settings["measured"]}
    store.save_pretrained(tmp_path)
    answers, again = ask(store), ask(KNNDatastore.from_pretrained(tmp_path))
    assert np.array_equal(answers.probabilities, again.probabilities) and len(answers.scores) == 6
    assert explain(answers, ready_experts(store.snapshot).fitted, 0, 0)["experts"]["nearest mean"] != 0
    alone = fitted_store(experts=["nearest mean"])
    assert (ask(alone).probabilities.argmax(1) == make_queries()[0]).mean() > 0.8
