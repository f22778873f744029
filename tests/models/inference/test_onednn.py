"""Tests of matrix products by oneDNN: those of torch, for whatever a linear layer is given."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from docsplit_hf.models.inference.batching import inference_mode
from docsplit_hf.models.inference.onednn import OneDNNLinear, is_for_onednn, is_worthwhile

CPU = torch.device("cpu")
pytestmark = pytest.mark.skipif(not is_worthwhile(CPU), reason="This processor has no AVX-512, or torch no oneDNN.")


@given(rows=st.integers(0, 300), inputs=st.integers(1, 70), outputs=st.integers(1, 70), bias=st.booleans())
def test_products_are_those_of_torch(rows: int, inputs: int, outputs: int, bias: bool):
    layer, tokens = nn.Linear(inputs, outputs, bias), torch.randn(rows, inputs)
    with torch.inference_mode():
        expected = layer(tokens)
        with OneDNNLinear():
            torch.testing.assert_close(layer(tokens), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "tokens",
    [torch.randn(2, 5, 8), torch.randn(8), torch.randn(4, 6, 8)[:, 0], torch.randn(6, 16)[:, ::2],
     torch.randn(1, 8).expand(7, 8), torch.randn(8, 5).T],
    ids=["three dimensions", "one row", "first token", "every other", "expanded", "transposed"],
)  # fmt: skip
def test_any_shape_and_stride_will_do(tokens: torch.Tensor):
    layer = nn.Linear(8, 3)
    with torch.inference_mode():
        expected = layer(tokens)
        with OneDNNLinear():
            torch.testing.assert_close(layer(tokens), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "bias", [torch.randn(8)[::2], torch.ones(1).expand(4), torch.ones(1), torch.tensor(2.0), torch.randn(1, 4)],
    ids=["every other", "expanded", "one", "scalar", "two dimensions"],
)  # fmt: skip
def test_biases_that_do_not_lie_side_by_side_are_left_to_torch(bias: torch.Tensor):
    rows, weight = torch.randn(3, 8), torch.randn(4, 8)
    with torch.inference_mode(), OneDNNLinear():
        torch.testing.assert_close(torch.nn.functional.linear(rows, weight, bias), rows @ weight.T + bias)


def test_what_is_no_strided_matrix_is_left_to_torch():
    rows = torch.randn(3, 8)
    with torch.inference_mode(), OneDNNLinear():
        assert torch.nn.functional.linear(rows, torch.ones(8)).shape == (3,)
        torch.testing.assert_close(torch.nn.functional.linear(rows, torch.eye(8).to_sparse()), rows)


def test_what_is_not_float32_is_left_to_torch():
    rows, weight = torch.randn(3, 8), torch.randn(4, 8)
    assert is_for_onednn(rows, weight)
    assert not is_for_onednn(rows.double(), weight.double())
    assert not is_for_onednn(rows.to("meta"), weight.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not is_for_onednn(rows, weight)
        with inference_mode(CPU, bf16=True):
            assert torch.nn.functional.linear(rows, weight).dtype == torch.bfloat16


def test_inference_goes_through_it(monkeypatch: pytest.MonkeyPatch):
    seen = []
    monkeypatch.setattr(
        "docsplit_hf.models.inference.onednn.is_for_onednn", lambda *tensors: bool(seen.append(tensors))
    )
    with inference_mode(CPU):
        nn.Linear(8, 3)(torch.randn(2, 8))
    assert len(seen) == 1


def test_a_compiled_model_gives_the_same():
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 3))
    compiled, rows = torch.compile(model, backend="aot_eager"), torch.randn(5, 8)
    with inference_mode(CPU):
        torch.testing.assert_close(compiled(rows), model(rows), atol=1e-5, rtol=1e-5)
