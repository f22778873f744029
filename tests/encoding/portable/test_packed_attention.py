import itertools
from typing import NamedTuple

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from docsplit_hf.encoding.portable.packed_attention import SHORT_LENGTH, attention_by_sequence

LENGTHS = [30, 30, 1, 7, 50, 1]


class States(NamedTuple):
    """Random states of tokens, and a random gradient of what attention makes of them."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    gradient: torch.Tensor

    def inputs(self):
        return self.query, self.key, self.value

    def attention(self, lengths, scaling=None, reach=None, causal=False):
        boundaries = torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32)
        return attention_by_sequence(*self.inputs(), boundaries, scaling=scaling, reach=reach, causal=causal)

    def to(self, dtype):
        """The same states as leaves of this type."""
        return States._make(state.detach().to(dtype).requires_grad_() for state in self)


def _states(tokens: int) -> States:
    generator = torch.Generator().manual_seed(0)
    shape = (1, 3, tokens, 8)
    return States._make(
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for _ in States._fields
    )


def _with_a_mask(states, lengths, reach, causal, scaling):
    """The definition: one row of all tokens, and a mask of the tokens that each token sees."""
    owners = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    positions = torch.cat([torch.arange(length) for length in lengths])
    distance = positions[:, None] - positions
    mask = owners[:, None] == owners
    mask &= (distance.abs() <= reach) if reach is not None else True
    mask &= (distance >= 0) if causal else True
    output = scaled_dot_product_attention(states.query, states.key, states.value, attn_mask=mask, scale=scaling)
    return output.transpose(1, 2)


@pytest.mark.parametrize("scaling", [None, 0.7])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("reach", [None, 0, 1, 4, 10, 49, 100])
def test_packed_attention_equals_masked_attention(reach, causal, scaling):
    states = _states(sum(LENGTHS))
    found = states.attention(LENGTHS, scaling, reach, causal)
    expected = _with_a_mask(states, LENGTHS, reach, causal, scaling)
    torch.testing.assert_close(found, expected)

    def gradients(output):
        return torch.autograd.grad(output, states.inputs(), states.gradient.transpose(1, 2))

    torch.testing.assert_close(gradients(found), gradients(expected))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("lengths", [LENGTHS, [SHORT_LENGTH, SHORT_LENGTH, 200]])
def test_gradients_in_half_precision_equal_double_up_to_rounding(dtype, lengths):
    halves = _states(sum(lengths)).to(dtype)
    exact = halves.to(torch.float64)

    def gradients(states):
        return torch.autograd.grad(states.attention(lengths), states.inputs(), states.gradient.transpose(1, 2))

    for one, other in zip(gradients(halves), gradients(exact), strict=True):
        assert (one - other).norm() < 2 * torch.finfo(dtype).eps * other.norm()


def test_empty_sequences_change_nothing():
    states = _states(5)
    torch.testing.assert_close(states.attention([0, 3, 0, 2, 0]), states.attention([3, 2]))
