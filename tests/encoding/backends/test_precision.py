"""What an encoder computes in."""

import pytest

from docsplit_hf import DocumentEncoder
from docsplit_hf.encoding.backends.precision import (
    check_precision_options,
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
