import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.neighbors.suggestions.choose_documents import choose_documents


def make_groups(sizes, seed=0):
    """Documents around centers that are far from each other, and the group of each."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    noise = 0.1 * np.random.default_rng(seed).standard_normal((len(groups), len(sizes)))
    return (np.eye(len(sizes))[groups] + noise).astype(np.float32), groups


def test_each_group_gives_one_and_doubt_decides_which():
    vectors, groups = make_groups([30, 30, 30])
    doubt = np.array([0.4, 0.9, 0.6])[groups]
    choices = choose_documents(vectors, doubt, vectors[:0], 3)
    assert groups[[choice.row for choice in choices]].tolist() == [1, 2, 0]
    for choice in choices:
        np.testing.assert_array_equal(choice.cluster, np.flatnonzero(groups == groups[choice.row]))


def test_where_examples_are_nothing_is_asked():
    vectors, groups = make_groups([30, 30])
    examples = vectors[groups == 0][:4]
    choices = choose_documents(vectors, np.ones(60), examples, 2)
    assert {int(groups[choice.row]) for choice in choices} == {1} and {choice.examples for choice in choices} == {0}


def test_the_chosen_one_stands_for_the_doubtful():
    rng = np.random.default_rng(0)
    vectors = np.concatenate([rng.normal((1, 0.3), 0.02, (20, 2)), rng.normal((1, -0.3), 0.02, (20, 2))])
    doubt = np.repeat([0.0, 1.0], 20)
    (choice,) = choose_documents(vectors.astype(np.float32), doubt, np.zeros((0, 2), np.float32), 1)
    assert choice.row >= 20


@given(documents=st.integers(1, 12), examples=st.integers(0, 8), seed=st.integers(0, 99), data=st.data())
def test_any_number_of_documents_without_repetition_and_the_same_each_time(documents, examples, seed, data):
    rng = np.random.default_rng(seed)
    vectors, others = (rng.standard_normal((count, 3)).astype(np.float32) for count in (documents, examples))
    count = data.draw(st.integers(1, documents))
    doubt = np.round(rng.random(documents), 1)
    rows = [choice.row for choice in choose_documents(vectors, doubt, others, count)]
    assert len(set(rows)) == count
    assert rows == [choice.row for choice in choose_documents(vectors, doubt, others, count)]


def test_copies_are_told_apart_by_nothing_and_asked_all_the_same():
    vectors = np.ones((6, 3), np.float32)
    assert len({choice.row for choice in choose_documents(vectors, np.ones(6), vectors[:0], 6)}) == 6
