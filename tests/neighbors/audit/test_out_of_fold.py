import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.neighbors.audit.out_of_fold import out_of_fold
from docsplit_hf.neighbors.experts.corpus import id_numbers
from docsplit_hf.neighbors.experts.fit_experts import fit_experts
from docsplit_hf.neighbors.experts.fitted_experts import FittedExperts
from docsplit_hf.neighbors.experts.held_out_scores import HeldOut

from ..experts.stores import NAMES, fitted_store, make_queries
from .stores import more_of


def test_answers_are_those_of_the_examples_whatever_came_and_went():
    store = fitted_store(30, 0)
    held_out = FittedExperts.from_state(store.fitted).held_out
    of = dict(zip(held_out.ids.tolist(), held_out.probabilities, strict=True))
    store.remove(["3", "11"])
    store.relabel({"5": "fruit"})
    more_of(store, 2)
    found = out_of_fold(store.snapshot)
    assert found.rows.tolist() == list(range(28)) and found.missing == {"came after fit()": 2}
    own = id_numbers(store.snapshot.rows, store.keys)[:28]
    np.testing.assert_array_equal(found.probabilities, [of[number] for number in own.tolist()])
    assert found.names == NAMES and np.array_equal(found.labels, store.labels)


def test_what_has_no_answer_is_counted_by_its_reason():
    keys = np.random.default_rng(0).standard_normal((12, 4))
    labels = ["a"] * 5 + ["b"] * 5 + ["single", "described"]
    store = KNNDatastore(keys, labels, [], [f"text {i}" for i in range(12)], ids=[*map(str, range(11)), "label:x"])
    store.fitted = fit_experts(store.snapshot, show_progress=False).to_state()
    store.add([[0] * 4], ["brand new"], ["more"])
    store.relabel({"2": "brand new"})
    found = out_of_fold(store.snapshot)
    assert found.missing == {
        "came after fit()": 1,
        "describe a label": 1,
        "have a label that came after fit()": 1,
        "were never held out, as the only text of their label": 1,
    }
    assert len(found.rows) == 9 and sum(found.missing.values()) + 9 == len(store)


@pytest.mark.parametrize("several", [False, True])
def test_several_labels_are_those_that_were_fitted(several):
    store = fitted_store(30, 0, several=several)
    found = out_of_fold(store.snapshot)
    assert found.probabilities.shape == (30, 3) and found.labels.shape == ((30, 3) if several else (30,))
    assert found.labels.dtype == (bool if several else np.int64)


def test_experts_that_were_chosen_on_held_out_texts_say_nothing_of_the_examples():
    store = fitted_store(30, 0)
    labels, keys, texts = make_queries()
    store.fitted = fit_experts(
        store.snapshot, held_out=HeldOut(keys, texts, labels, None), show_progress=False
    ).to_state()
    with pytest.raises(ValueError, match=r"chosen on held-out texts.*call fit\(\) without texts"):
        out_of_fold(store.snapshot)
