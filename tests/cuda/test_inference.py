"""Embeddings on a GPU."""

import numpy as np
import pytest
import torch

from docsplit_hf import DocumentEncoder
from docsplit_hf.encoding.portable.run_encoder import use_packing

from .conftest import DEVICE, MAX_LENGTH

pytestmark = [pytest.mark.cuda, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture
def checkpoint(make_model, tokenizer, tmp_path):
    make_model().save_pretrained(tmp_path / "checkpoint")
    tokenizer.save_pretrained(tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


@pytest.fixture
def load(checkpoint):
    """Load an encoder of a device."""

    def load(device=DEVICE, **options):
        return DocumentEncoder.from_pretrained(checkpoint, "mean", MAX_LENGTH, device, **options)

    return load


def embed(encoder, texts, bf16=False):
    return encoder.encode(texts, show_progress=False, bf16=bf16)


def test_embeddings_in_float32_are_those_of_a_cpu(load, texts):
    np.testing.assert_allclose(embed(load(), texts), embed(load("cpu"), texts), atol=1e-5)


def test_a_text_with_nan_is_named_after_the_batches_before_it(load, texts):
    encoder = load()
    with torch.no_grad():
        encoder.model.get_input_embeddings().weight[encoder.tokenizer("~")["input_ids"][1]] = torch.nan
    ordinary = [text for text in texts if "~" not in text]
    with pytest.raises(ValueError, match=f"NaN or infinity for text {len(ordinary)} of .* Its weights are broken"):
        encoder.encode([*ordinary, "~"], show_progress=False, bf16=True, max_tokens_per_batch=200)


@pytest.mark.parametrize("compile_layers", [False, True])
def test_packed_embeddings_in_bfloat16_are_as_exact_as_padded_ones(load, texts, compile_layers):
    exact = embed(load("cpu"), texts)
    padded = load()
    use_packing(padded.model, "off")
    noise = np.abs(embed(padded, texts, bf16=True) - exact).max()
    packed = embed(load(compile=compile_layers), texts, bf16=True)
    assert 0 < np.abs(packed - exact).max() < 3 * noise
    assert (packed * exact).sum(1).min() > 0.999
