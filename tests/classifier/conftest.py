"""Two pipelines: a classifier with a head and 48 examples, and an encoder without any."""

import copy

import pytest
import torch
from datasets import ClassLabel, Dataset
from transformers import BertModel, pipeline

from docsplit_hf import KNNClassifier, KNNClassifierConfig, KNNClassifierPipeline, KNNDatastore

NAMES = ["river", "engine"]


def labels_of(texts):
    """Two labels that depend only weakly on the texts."""
    return ["river" if "river" in text or len(text) % 3 == 0 else "engine" for text in texts]


@pytest.fixture(scope="module")
def classifier(make_tiny_config):
    torch.manual_seed(0)
    config = KNNClassifierConfig(
        encoder_config=make_tiny_config(), id2label=dict(enumerate(NAMES)), pooling="mean", k=5, knn_weight=0.4
    )
    return KNNClassifier(config)


@pytest.fixture(scope="module")
def examples(texts):
    data = Dataset.from_dict({"text": texts, "label": [int("river" in text) for text in texts]})
    return data.cast_column("label", ClassLabel(names=NAMES))


@pytest.fixture(scope="module")
def pipe_of_module(classifier, tokenizer, examples):
    datastore = KNNDatastore.build(classifier, tokenizer, examples, show_progress=False)
    return KNNClassifierPipeline(model=classifier, tokenizer=tokenizer, datastore=datastore, device="cpu")


@pytest.fixture(scope="module")
def untrained_of_module(make_tiny_config, tokenizer):
    torch.manual_seed(0)
    return pipeline("docsplit-knn", model=BertModel(make_tiny_config()), tokenizer=tokenizer, device="cpu")


@pytest.fixture
def pipe(pipe_of_module):
    return copy.deepcopy(pipe_of_module)


@pytest.fixture
def untrained(untrained_of_module):
    return copy.deepcopy(untrained_of_module)


@pytest.fixture(scope="module")
def make_fitted(untrained_of_module, texts):
    """Function that fits a copy of the untrained pipeline on texts as examples and further ones as documents."""

    def make(examples, documents):
        pipe = copy.deepcopy(untrained_of_module)
        pipe.add_examples(texts[:examples], labels_of(texts[:examples]))
        pipe.add_documents(texts[examples:documents])
        pipe.fit(show_progress=False)
        return pipe

    return make
