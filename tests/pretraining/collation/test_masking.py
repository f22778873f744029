import numpy as np
import pytest

from docsplit_hf.pretraining.collation.masking import IGNORED_LABEL, mask_tokens

MASK, VOCABULARY = 4, 1000


def mask_many(probability=0.15, size=200_000):
    tokens = np.random.default_rng(1).integers(10, VOCABULARY, size=size)
    tokens.flags.writeable = False  # the argument is left alone
    maskable = np.arange(size) % 10 != 0
    masked, labels = mask_tokens(tokens, maskable, MASK, VOCABULARY, probability, np.random.default_rng(0))
    return tokens, maskable, masked, labels


def test_labels_are_the_original_tokens_where_chosen_and_nothing_else_changes():
    tokens, maskable, masked, labels = mask_many()
    chosen = labels != IGNORED_LABEL
    assert (labels[chosen] == tokens[chosen]).all()
    assert (masked[~chosen] == tokens[~chosen]).all()
    assert not chosen[~maskable].any()


def test_15_percent_are_chosen_and_80_10_10_of_them_become_mask_random_same():
    tokens, maskable, masked, labels = mask_many()
    chosen = labels != IGNORED_LABEL
    assert chosen[maskable].mean() == pytest.approx(0.15, abs=0.004)
    became_mask = masked[chosen] == MASK
    same = masked[chosen] == tokens[chosen]
    assert became_mask.mean() == pytest.approx(0.8, abs=0.01)
    assert same.mean() == pytest.approx(0.1, abs=0.01)
    assert (~became_mask & ~same).mean() == pytest.approx(0.1, abs=0.01)
