"""Released checkpoints that do not say how they pool."""

import logging

import pytest
import torch
from transformers import BertConfig, BertModel

from docsplit_hf import AutoModelForDocSplit, DocumentEncoder, KNNClassifier
from docsplit_hf.models.checkpoints.released_pooling import released_pooling


@pytest.mark.parametrize(
    "name, pooling",
    [
        ("facebook/contriever", "mean"),
        ("facebook/mcontriever-msmarco", "mean"),
        ("Contrastive-Tension/BERT-Base-CT", "mean"),
        ("princeton-nlp/unsup-simcse-bert-base-uncased", "cls"),
        ("princeton-nlp/sup-simcse-bert-base-uncased", None),  # it has a head behind the first token
        ("google-bert/bert-base-uncased", None),
    ],
)
def test_known_by_name(name, pooling):
    assert released_pooling(name, BertConfig(architectures=["BertModel"])) == pooling


def test_a_copy_of_contriever_is_known_by_its_class_wherever_it_is_loaded(
    tiny_config, tokenizer, tmp_path, texts, caplog
):
    torch.manual_seed(0)
    BertModel(tiny_config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"BertModel"', '"Contriever"'))
    with caplog.at_level(logging.WARNING):
        encoder = DocumentEncoder.from_pretrained(str(tmp_path))
    assert "does not say how it pools. It was trained with 'mean'" in caplog.text
    mean = DocumentEncoder.from_pretrained(str(tmp_path), pooling="mean").encode(texts[:3], show_progress=False)
    assert (encoder.encode(texts[:3], show_progress=False) == mean).all()
    assert AutoModelForDocSplit.from_pretrained(str(tmp_path)).config.docsplit["pooling"] == "mean"
    assert KNNClassifier.from_encoder(str(tmp_path), num_labels=2).config.pooling == "mean"
