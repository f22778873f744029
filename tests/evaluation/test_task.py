import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.evaluation.task import ClassificationTask, CorpusTask

LABELS = np.array([0, 1])
PARTS = {
    **{"train_texts": ["a", "b"], "train_labels": LABELS, "test_texts": ["c", "d"], "test_labels": LABELS},
    **{"label_names": ["x", "y"], "train_pairs": ["e", "f"], "test_pairs": ["g", "h"]},
}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"test_texts": ["a"], "test_pairs": None}, "mine: test has 1 texts and 2 labels"),
        ({"train_pairs": ["only one"]}, "mine: train has 2 texts and 2 labels"),
        ({"train_labels": np.array([1, 1])}, "mine: each of the 2 training examples has the label 'y'"),
        ({"test_texts": [], "test_labels": LABELS[:0], "test_pairs": None}, "mine: test has 0 texts"),
    ],
)
def test_a_task_checks_itself(changed, said):
    with pytest.raises(ValueError, match=said):
        ClassificationTask("mine", **(PARTS | changed))


def test_a_fingerprint_is_of_the_content_and_changes_with_any_of_it():
    changed = [{name: value[::-1]} for name, value in PARTS.items()]
    changed += [{}, {"train_pairs": None, "test_pairs": None}]
    prints = {ClassificationTask("one", **(PARTS | change)).fingerprint for change in changed}
    assert len(prints) == len(changed)
    assert ClassificationTask("another name", **PARTS).fingerprint in prints


@given(st.lists(st.text(max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
def test_two_corpora_have_one_fingerprint_only_if_they_are_equal(one, other):
    assert (CorpusTask("a", one).fingerprint == CorpusTask("b", other).fingerprint) == (one == other)
