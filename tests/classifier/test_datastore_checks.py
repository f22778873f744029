"""Datastores searched in another precision than they were built in, with real int8 and tiny models."""

import huggingface_hub.constants
import pytest
from datasets import Dataset

from docsplit_hf import DocumentEncoder, KNNClassifier, KNNClassifierPipeline, KNNDatastore
from docsplit_hf.classifier import datastore_checks
from docsplit_hf.encoding.checkpoints.fingerprint import encoder_fingerprint
from docsplit_hf.encoding.classifier_embedder import make_embedder

pytestmark = pytest.mark.slow  # an export and its quantization


@pytest.fixture(scope="module")
def stores(exported, tokenizer, texts, tmp_path_factory):
    """A classifier, and datastores by it: in float32 and in int8, saved."""
    folder = tmp_path_factory.mktemp("stores")
    encoder = DocumentEncoder.from_pretrained(exported / "checkpoint", "mean").model
    model = KNNClassifier.around(encoder, 0, knn_weight=1.0, pooling="mean", decouple=False, normalize=True)
    same = encoder_fingerprint(encoder, tokenizer)
    rows = Dataset.from_dict({"text": texts, "label": ["a", "b"] * 24}).class_encode_column("label")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(huggingface_hub.constants, "HF_HOME", str(exported / "home"))
        # The classifier's encoder is that of the exports, but for the pooler, which no embedding goes through.
        patch.setattr("docsplit_hf.encoding.backends.openvino.engine.encoder_fingerprint", lambda *_: same)
        for precision in ("float32", "int8"):
            KNNDatastore.build(
                model,
                tokenizer,
                rows,
                precision=precision,
                calibration_texts=texts[:40] if precision == "int8" else None,
                show_progress=False,
            ).save_pretrained(folder / precision)
        probes = {"int8": make_embedder(model, tokenizer).probe()}
        KNNDatastore.build(model, tokenizer, rows, False, show_progress=False).save_pretrained(folder / "no texts")

        def pipe(precision, store):
            make_embedder(model, tokenizer).use_precision(precision, texts[:40] if precision == "int8" else None)
            return KNNClassifierPipeline(model, tokenizer, str(folder / store), device="cpu")

        yield pipe, folder, probes


def test_a_datastore_of_another_precision_is_tried_and_logged(stores, texts, caplog):
    pipe, folder, probes = stores
    assert pipe("float32", "float32")(texts[0], k=1)[0]["label"] == "a"
    assert pipe("int8", "int8")(texts[0], k=1)[0]["label"] == "a" and not caplog.text
    assert probes["int8"].shape == (6, 32)
    assert (KNNDatastore.from_pretrained(folder / "float32").snapshot.probe == probes["int8"][:3]).all()
    for asked, built in (("int8", "float32"), ("float32", "int8")):
        caplog.clear()
        assert pipe(asked, built)(texts[0], k=1)[0]["label"] == "a"
        assert " % of the 10 nearest neighbors of 48 of its texts are the same" in caplog.text


def test_a_datastore_is_refused_if_other_neighbors_are_found(stores, texts, monkeypatch):
    pipe, folder, _ = stores
    monkeypatch.setattr(datastore_checks, "MIN_RECALL", 1.01)
    with pytest.raises(ValueError, match="built in int8, but the model runs in float32 .* Load the model as"):
        pipe("float32", "int8")
    with pytest.raises(ValueError, match="its neighbors cannot be compared, because it has no texts"):
        pipe("float32", "no texts")
