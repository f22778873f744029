"""Encoders with dense layers after their pooling, such as mdbr-leaf-mt, in a classifier."""

import numpy as np
import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import BertModel, pipeline

from docsplit_hf import KNNClassifier, KNNClassifierConfig
from docsplit_hf.encoding.portable.run_encoder import describe_projection, make_projection

# As in mdbr-leaf-mt; and with everything that a projection may have.
FORMS = {
    "one layer": {"normalize_first": False, "layers": [{"size": 48, "bias": True, "activation": "Identity"}]},
    "several": {
        "normalize_first": True,
        "layers": [
            {"size": 12, "bias": False, "activation": "Tanh"},
            {"size": 8, "bias": True, "activation": "GELU"},
        ],
    },
}


@pytest.fixture(params=FORMS)
def form(request):
    return FORMS[request.param]


@pytest.fixture
def checkpoint(form, make_tiny_config, tokenizer, tmp_path):
    """A folder of sentence-transformers with dense layers, and its SentenceTransformer."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense, Transformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    torch.manual_seed(0)
    BertModel(make_tiny_config()).save_pretrained(tmp_path / "stock")
    tokenizer.save_pretrained(tmp_path / "stock")
    size = 32
    modules = [Transformer(str(tmp_path / "stock")), Pooling(size, pooling_mode="mean")]
    modules += [Normalize()] if form["normalize_first"] else []
    for layer in form["layers"]:
        activation = getattr(torch.nn, layer["activation"])()
        modules.append(Dense(size, layer["size"], bias=layer["bias"], activation_function=activation))
        size = layer["size"]
    reference = SentenceTransformer(modules=[*modules, Normalize()], device="cpu")
    reference.save_pretrained(str(tmp_path / "dense"))
    return str(tmp_path / "dense"), reference


def labels_of(texts):
    return ["river" if "river" in text else "engine" for text in texts]


def test_a_pipeline_has_the_embeddings_of_sentence_transformers(checkpoint, form, texts, tmp_path):
    folder, reference = checkpoint
    pipe = pipeline("docsplit-knn", model=folder, device="cpu", long_documents="first")
    expected = reference.encode(texts)
    embeddings = pipe.embedder.embed(texts).retrieval_embeddings
    assert embeddings.shape == (len(texts), form["layers"][-1]["size"])
    assert embeddings == pytest.approx(expected, abs=1e-5)
    pipe.add_examples(texts[:30], labels_of(texts[:30]))
    pipe.add_documents(texts[30:])
    pipe.fit(show_progress=False)
    answers = pipe(texts)
    pipe.save_pretrained(tmp_path / "saved")
    loaded = pipeline("docsplit-knn", model=str(tmp_path / "saved"), device="cpu")
    np.testing.assert_array_equal(loaded.embedder.embed(texts).retrieval_embeddings, embeddings)
    assert [answer["label"] for answer in loaded(texts)] == [answer["label"] for answer in answers]


def test_a_classifier_with_a_head_keeps_the_layers_for_the_neighbors(checkpoint, texts):
    folder, reference = checkpoint
    model = KNNClassifier.from_encoder(folder, num_labels=2, decouple=False, normalize=True).eval()
    assert model.classifier.in_features == 32 and model.config.retrieval_size == reference.encode("a").shape[0]


def test_leading_dimensions_are_of_the_last_layer(checkpoint, form, texts):
    folder, reference = checkpoint
    pipe = pipeline("docsplit-knn", model=folder, device="cpu", long_documents="first", truncate_dim=6)
    expected = reference.encode(texts, normalize_embeddings=False)[:, :6]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert pipe.embedder.embed(texts).retrieval_embeddings == pytest.approx(expected, abs=1e-5)
    with pytest.raises(
        StrictDataclassError, match=f"more than the {form['layers'][-1]['size']} dimensions of an embedding"
    ):
        pipeline("docsplit-knn", model=folder, device="cpu", truncate_dim=49)


def test_a_description_makes_the_same_layers(form):
    layers = make_projection(form, 32)
    assert describe_projection(layers) == form
    assert repr(make_projection(describe_projection(layers), 32)) == repr(layers)


LAYER = {"size": 8, "bias": True, "activation": "Tanh"}
INVALID = {
    "no layers": {"normalize_first": True, "layers": []},
    "no flag": {"layers": [LAYER]},
    "an activation of unknown effect": {"normalize_first": True, "layers": [LAYER | {"activation": "Module"}]},
    "a size that fills the memory": {"normalize_first": True, "layers": [LAYER | {"size": 10**9}]},
    "a size that is no number": {"normalize_first": True, "layers": [LAYER | {"size": "8"}]},
    "another setting": {"normalize_first": True, "layers": [LAYER | {"file": "weights.pkl"}]},
    "a layer that is none": {"normalize_first": True, "layers": ["Linear"]},
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_layers_are_refused(case, make_tiny_config):
    with pytest.raises(StrictDataclassError, match="projection must have normalize_first, and layers"):
        KNNClassifierConfig(encoder_config=make_tiny_config(), num_labels=0, decouple=False, projection=INVALID[case])


def test_layers_and_a_learned_representation_exclude_each_other(make_tiny_config):
    with pytest.raises(StrictDataclassError, match="projection does not go with decouple=True"):
        KNNClassifierConfig(encoder_config=make_tiny_config(), num_labels=0, projection=FORMS["one layer"])
