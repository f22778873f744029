"""What an encoder computes in."""

import pytest
import torch

from docsplit_hf import DocumentEncoder
from docsplit_hf.encoding.backends.precision import (
    check_precision_options,
    int8_overflows,
    precision_settings,
    use_precision,
)


def test_the_precision_of_a_loaded_encoder_can_be_changed_back(tiny_checkpoint, tokenizer):
    encoder = DocumentEncoder.from_pretrained(tiny_checkpoint, "mean")
    assert precision_settings(encoder.model) == {}
    for precision, settings in (
        ("bfloat16", {"precision": "bfloat16"}),
        (None, {"precision": "bfloat16"}),
        ("float32", {}),
    ):
        use_precision(encoder.model, tokenizer, "mean", precision)
        assert precision_settings(encoder.model) == settings


def test_unknown_or_conflicting_options_are_refused():
    check_precision_options("int8", ["a text"])
    with pytest.raises(ValueError, match="precision must be one of 'float32', 'bfloat16', 'int8', got 'int4'"):
        check_precision_options("int4")
    for precision in (None, "float32"):
        with pytest.raises(ValueError, match="calibration_texts are for precision='int8'"):
            check_precision_options(precision, ["a text"])


@pytest.mark.parametrize(
    "capabilities, overflows",
    [
        ({"architecture": "x86_64", "avx2": True}, True),
        ({"architecture": "x86_64", "avx2": True, "avx_vnni": False}, True),
        ({"architecture": "x86_64", "avx2": True, "avx_vnni": True}, False),
        ({"architecture": "x86_64", "avx512_vnni": True}, False),
        ({"architecture": "aarch64"}, False),
    ],
)
def test_products_of_int8_overflow_on_x86_without_vnni(capabilities, overflows, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    assert int8_overflows() is overflows


def test_older_versions_of_torch_do_not_tell_whether_int8_overflows(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert not int8_overflows()
