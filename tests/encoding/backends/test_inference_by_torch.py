"""When torch computes in bfloat16, and when oneDNN computes its products."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from docsplit_hf import DocumentEncoder
from docsplit_hf.encoding.backends import precision
from docsplit_hf.encoding.backends.instructions import supports_bfloat16
from docsplit_hf.encoding.backends.precision import (
    OneDNNLinear,
    inference_mode,
    is_for_onednn,
    is_in_bfloat16,
    onednn_is_faster,
)

CPU = torch.device("cpu")


@pytest.fixture
def processor(monkeypatch):
    monkeypatch.setattr(precision, "_warned_devices", set())
    return lambda **named: monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: named, raising=False)


def test_auto_uses_bfloat16_where_the_processor_has_it(tiny_model, processor, monkeypatch):
    for named in ({"avx512_f": True, "avx512_bf16": True}, {"amx_bf16": True}, {"neon": True, "bf16": True}):
        processor(**named)
        assert supports_bfloat16(CPU) and is_in_bfloat16(tiny_model, "auto", CPU)
    processor(avx512_f=True, avx512_bf16=False)
    assert supports_bfloat16(CPU) is False and not is_in_bfloat16(tiny_model, "auto", CPU)
    monkeypatch.delattr(torch.cpu, "get_capabilities")  # an older torch
    assert supports_bfloat16(CPU) is None and not is_in_bfloat16(tiny_model, "auto", CPU)
    with pytest.raises(ValueError, match="bf16 must be True, False"):
        is_in_bfloat16(tiny_model, "yes", CPU)


def test_a_processor_without_bfloat16_is_warned_of_once(tiny_model, processor, caplog):
    processor(avx512_bf16=True)
    assert is_in_bfloat16(tiny_model, True, CPU) and not caplog.text
    processor(avx512_bf16=False)
    for _ in range(2):
        assert is_in_bfloat16(tiny_model, True, CPU)
    assert caplog.text.count('pass bf16="auto"') == 1


def test_calls_without_bf16_use_the_loaded_precision(tiny_checkpoint, texts):
    exact, loaded = (
        DocumentEncoder.from_pretrained(tiny_checkpoint, "mean", precision=name) for name in ("float32", "bfloat16")
    )

    def embed(encoder, bf16):
        return encoder.encode(texts[:4], show_progress=False, bf16=bf16).tolist()

    assert embed(loaded, None) == embed(loaded, True) == embed(exact, True) != embed(exact, None)
    assert embed(loaded, False) == embed(exact, False) == embed(exact, None)


pytestmark = pytest.mark.skipif(not onednn_is_faster(CPU), reason="This processor has no AVX-512, or torch no oneDNN.")


@given(rows=st.integers(0, 300), inputs=st.integers(1, 70), outputs=st.integers(1, 70), bias=st.booleans())
def test_onednn_products_equal_torch(rows: int, inputs: int, outputs: int, bias: bool):
    layer = nn.Linear(inputs, outputs, bias)
    tokens = torch.randn(rows, inputs)
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
def test_onednn_takes_any_shape_and_stride(tokens: torch.Tensor):
    layer = nn.Linear(8, 3)
    with torch.inference_mode():
        expected = layer(tokens)
        with OneDNNLinear():
            torch.testing.assert_close(layer(tokens), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "bias", [torch.randn(8)[::2], torch.ones(1).expand(4), torch.ones(1), torch.tensor(2.0), torch.randn(1, 4)],
    ids=["every other", "expanded", "one", "scalar", "two dimensions"],
)  # fmt: skip
def test_biases_that_are_not_contiguous_are_left_to_torch(bias: torch.Tensor):
    rows = torch.randn(3, 8)
    weight = torch.randn(4, 8)
    with torch.inference_mode(), OneDNNLinear():
        torch.testing.assert_close(torch.nn.functional.linear(rows, weight, bias), rows @ weight.T + bias)


def test_other_dtypes_are_left_to_torch():
    rows = torch.randn(3, 8)
    weight = torch.randn(4, 8)
    assert is_for_onednn(rows, weight)
    assert not is_for_onednn(rows.double(), weight.double())
    assert not is_for_onednn(rows.to("meta"), weight.to("meta"))
    with torch.autocast("cpu", torch.bfloat16):
        assert not is_for_onednn(rows, weight)
        with inference_mode(CPU, bf16=True):
            assert torch.nn.functional.linear(rows, weight).dtype == torch.bfloat16


def test_inference_uses_onednn(monkeypatch: pytest.MonkeyPatch):
    seen = []
    monkeypatch.setattr(
        "docsplit_hf.encoding.backends.precision.is_for_onednn", lambda *tensors: bool(seen.append(tensors))
    )
    with inference_mode(CPU):
        nn.Linear(8, 3)(torch.randn(2, 8))
    assert len(seen) == 1
