import numpy as np
import pytest

from docsplit_hf.neighbors.experts.fit_experts import fit_experts
from docsplit_hf.neighbors.experts.fitted_experts import ready_experts
from docsplit_hf.neighbors.store.fitted_state import FittedState

from .stores import make_store


@pytest.fixture(scope="module")
def store():
    store = make_store()
    store.fitted = fit_experts(store.snapshot, show_progress=False).to_state()
    return store


CHANGES = {
    "no settings": (lambda s, a: s.clear(), "labels is None"),
    "another label": (lambda s, a: s.update(labels=["?"]), "labels is"),
    "another kind": (lambda s, a: s.update(several=True), "several is True"),
    "an expert that is none": (lambda s, a: s.update(weights={"oracle": 1.0}), "weights is"),
    "a weight that is none": (lambda s, a: s["weights"].update(words="1"), "weights is"),
    "thresholds of other labels": (lambda s, a: s.update(thresholds=[0.5]), "thresholds is"),
    "held-out texts that are none": (lambda s, a: a.update(held_out_ids=a["held_out_ids"][1:]), "held_out_probabi"),
    "no probabilities": (
        lambda s, a: a.update(held_out_probabilities=a["held_out_probabilities"] + 1),
        "outside 0 to 1",
    ),
    "labels as numbers": (
        lambda s, a: a.update(held_out_labels=a["held_out_labels"].astype(np.float32)),
        "held_out_labels is 'float32'",
    ),
    "suggestions that are no ids": (lambda s, a: s.update(suggested=[1]), "suggested is"),
    "an array less": (lambda s, a: a.pop("soft"), "arrays is"),
    "an array more": (lambda s, a: a.update(code=np.zeros(1)), "arrays is"),
    "other texts": (lambda s, a: a.update(ids=a["ids"][1:]), "soft is"),
    "another encoder": (lambda s, a: a.update(mean=a["mean"][1:]), "mean is"),
    "an expert without its array": (lambda s, a: a.pop("centers"), "arrays is"),
}


@pytest.mark.parametrize("change, message", CHANGES.values(), ids=CHANGES)
def test_a_state_of_something_else_is_refused_before_it_is_used(store, change, message):
    state = store.fitted
    settings, arrays = state.settings | {"weights": dict(state.settings["weights"])}, dict(state.arrays)
    change(settings, arrays)
    other = make_store()
    other.fitted = FittedState(settings, arrays, state.vocabulary)
    with pytest.raises(ValueError, match=f"{message}.*fit\\(\\) again"):
        ready_experts(other.snapshot)


def test_what_was_fitted_here_is_taken(store):
    assert ready_experts(store.snapshot).fitted.labels
