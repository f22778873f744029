import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from docsplit_hf.models.portable.packed_attention import SHORT, attention_by_sequence

LENGTHS = [30, 30, 1, 7, 50, 1]


def _states(tokens: int, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(1, 3, tokens, 8, generator=generator, dtype=dtype).requires_grad_() for _ in range(4)]


def _with_a_mask(states, lengths, reach=None, causal=False, scaling=None):
    """The definition: one row of all tokens, and a mask of who sees whom."""
    owners = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    positions = torch.cat([torch.arange(length) for length in lengths])
    distance = positions[:, None] - positions
    mask = owners[:, None] == owners
    mask &= (distance.abs() <= reach) if reach is not None else True
    mask &= (distance >= 0) if causal else True
    return scaled_dot_product_attention(*states, attn_mask=mask, scale=scaling).transpose(1, 2)


@pytest.mark.parametrize("scaling", [None, 0.7])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("reach", [None, 0, 1, 4, 10, 49, 100])
def test_it_is_attention_with_a_mask(reach, causal, scaling):
    *states, gradient = _states(sum(LENGTHS))
    gradient = gradient.transpose(1, 2)
    found = attention_by_sequence(*states, LENGTHS, scaling, reach, causal)
    expected = _with_a_mask(states, LENGTHS, reach, causal, scaling)
    torch.testing.assert_close(found, expected)
    found_gradients, expected_gradients = (torch.autograd.grad(out, states, gradient) for out in (found, expected))
    torch.testing.assert_close(found_gradients, expected_gradients)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("lengths", [LENGTHS, [SHORT, SHORT, 200]])
def test_gradients_in_half_precision_are_those_of_double_up_to_rounding(dtype, lengths):
    *states, gradient = _states(sum(lengths))
    halves, gradient = [x.detach().to(dtype).requires_grad_() for x in states], gradient.transpose(1, 2)
    found = torch.autograd.grad(attention_by_sequence(*halves, lengths), halves, gradient.to(dtype))
    exact = [x.detach().double().requires_grad_() for x in halves]
    expected = torch.autograd.grad(attention_by_sequence(*exact, lengths), exact, gradient.to(dtype).double())
    for one, other in zip(found, expected, strict=True):
        assert (one - other).norm() < 2 * torch.finfo(dtype).eps * other.norm()


def test_empty_sequences_are_nothing():
    *states, _ = _states(5)
    torch.testing.assert_close(attention_by_sequence(*states, [0, 3, 0, 2, 0]), attention_by_sequence(*states, [3, 2]))
