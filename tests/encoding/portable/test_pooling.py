import pytest
import torch

from docsplit_hf.encoding.portable.run_encoder import POOLINGS, pool

HIDDEN = torch.tensor([[[1.0, -9.0], [4.0, -1.0], [100.0, 100.0]], [[2.0, 0.0], [3.0, 5.0], [7.0, 1.0]]])
MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])


@pytest.mark.parametrize(
    "pooling, expected",
    [
        ("cls", [[1, -9], [2, 0]]),
        ("mean", [[2.5, -5], [4, 2]]),
        ("max", [[4, -1], [7, 5]]),
        ("last", [[4, -1], [7, 1]]),
    ],
)
def test_each_pooling_equals_a_calculation_by_hand(pooling, expected):
    assert pool(HIDDEN, MASK, pooling).equal(torch.tensor(expected, dtype=torch.float32))


@pytest.mark.parametrize(
    "pooling, first_pooled, expected",
    [
        ("mean", 1, [[4, -1], [5, 3]]),
        ("mean", 2, [[4, -1], [7, 1]]),  # the last token of the first row stays
        ("mean", 9, [[4, -1], [7, 1]]),
        ("max", 1, [[4, -1], [7, 5]]),
        ("cls", 1, [[4, -1], [3, 5]]),
        ("last", 1, [[4, -1], [7, 1]]),
    ],
)
def test_a_prompt_is_left_out(pooling, first_pooled, expected):
    assert pool(HIDDEN, MASK, pooling, first_pooled).equal(torch.tensor(expected, dtype=torch.float32))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_gets_no_gradient_and_no_nan(pooling):
    hidden = HIDDEN.clone()
    hidden[0, 2] = torch.nan
    hidden.requires_grad_()
    pool(hidden, MASK, pooling).sum().backward()
    assert (hidden.grad[0, 2] == 0).all() and hidden.grad.isfinite().all()


def test_an_unknown_pooling_is_refused():
    with pytest.raises(ValueError, match="'median'"):
        pool(HIDDEN, MASK, "median")
