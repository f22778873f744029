import pytest
from transformers import pipeline

from docsplit_hf import DocumentEncoder
from docsplit_hf.encoding.backends.registry import BACKENDS, BackendOptions

from ..toy_backend import ToyBackend


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(BACKENDS, "toy", ToyBackend())


def test_an_encoder_runs_by_a_new_backend(toy, tiny_checkpoint, texts):
    expected = DocumentEncoder.from_pretrained(tiny_checkpoint, "mean", packing="off").encode(
        texts, show_progress=False
    )
    encoder = DocumentEncoder.from_pretrained(tiny_checkpoint, "mean", backend="toy")
    assert encoder.encode(texts, show_progress=False) == pytest.approx(-expected, abs=1e-6)


def test_a_pipeline_runs_by_a_new_backend(toy, tiny_checkpoint, texts):
    pipe = pipeline("docsplit-knn", model=str(tiny_checkpoint), backend="toy")
    negated = pipe.embedder.embed(texts).retrieval_embeddings
    pipe.embedder.use_backend(BackendOptions("torch"))
    assert negated == pytest.approx(-pipe.embedder.embed(texts).retrieval_embeddings, abs=1e-5)


def test_a_precision_that_a_backend_lacks_is_refused(toy):
    BackendOptions("openvino", "int8", ["a text"])
    with pytest.raises(ValueError, match="toy has no precision='int8': pass backend='openvino'"):
        BackendOptions("toy", "int8")
    with pytest.raises(ValueError, match="backend must be one of 'torch', 'openvino', 'toy', got 'onnx'"):
        BackendOptions("onnx")


def test_without_a_name_the_first_backend_with_the_precision_computes(toy):
    names = [BackendOptions(precision=precision).name for precision in (None, "float32", "bfloat16", "int8")]
    assert names == ["torch", "torch", "torch", "openvino"]
