"""Tests of when torch computes in bfloat16."""

import pytest
import torch

from docsplit_hf import DocumentEncoder
from docsplit_hf.models.inference import bfloat16
from docsplit_hf.models.inference.bfloat16 import is_in_bfloat16, knows_bfloat16

CPU = torch.device("cpu")


@pytest.fixture
def processor(monkeypatch):
    monkeypatch.setattr(bfloat16, "_warned", set())
    return lambda **named: monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: named, raising=False)


def test_auto_takes_it_where_the_processor_has_it(tiny_model, processor, monkeypatch):
    for named in ({"avx512_f": True, "avx512_bf16": True}, {"amx_bf16": True}, {"neon": True, "bf16": True}):
        processor(**named)
        assert knows_bfloat16(CPU) and is_in_bfloat16(tiny_model, "auto", CPU)
    processor(avx512_f=True, avx512_bf16=False)
    assert knows_bfloat16(CPU) is False and not is_in_bfloat16(tiny_model, "auto", CPU)
    monkeypatch.delattr(torch.cpu, "get_capabilities")  # an older torch
    assert knows_bfloat16(CPU) is None and not is_in_bfloat16(tiny_model, "auto", CPU)
    with pytest.raises(ValueError, match="bf16 must be True, False"):
        is_in_bfloat16(tiny_model, "yes", CPU)


def test_a_processor_without_it_is_said_once(tiny_model, processor, caplog):
    processor(avx512_bf16=True)
    assert is_in_bfloat16(tiny_model, True, CPU) and not caplog.text
    processor(avx512_bf16=False)
    for _ in range(2):
        assert is_in_bfloat16(tiny_model, True, CPU)
    assert caplog.text.count('say bf16="auto"') == 1


def test_what_an_encoder_was_loaded_for_holds_where_a_call_says_nothing(tiny_checkpoint, texts):
    exact, loaded = (
        DocumentEncoder.from_pretrained(tiny_checkpoint, "mean", precision=name) for name in ("float32", "bfloat16")
    )

    def embed(encoder, bf16):
        return encoder.encode(texts[:4], show_progress=False, bf16=bf16).tolist()

    assert embed(loaded, None) == embed(loaded, True) == embed(exact, True) != embed(exact, None)
    assert embed(loaded, False) == embed(exact, False) == embed(exact, None)
