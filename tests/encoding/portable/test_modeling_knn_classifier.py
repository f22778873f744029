import json

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    BertModel,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from docsplit_hf import DocumentEncoder, KNNClassifier, KNNClassifierConfig
from docsplit_hf.encoding.portable.modeling_knn_classifier import MULTI_LABEL, classification_loss

NAMES = {0: "river", 1: "engine", 2: "garden"}


@pytest.fixture
def classifier(tiny_config):
    torch.manual_seed(0)
    return KNNClassifier(KNNClassifierConfig(encoder_config=tiny_config, id2label=NAMES, pooling="mean")).eval()


@pytest.fixture
def batch(tokenizer, texts):
    return tokenizer(texts[:5], padding=True, truncation=True, max_length=64, return_tensors="pt")


def test_equation_1_and_the_retrieval_head_equal_plain_torch(classifier, batch):
    states = classifier.encoder(batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    mask = batch["attention_mask"][:, :, None]
    h = (states * mask).sum(1) / mask.sum(1)
    output = classifier(**batch)
    torch.testing.assert_close(output.logits, h @ classifier.classifier.weight.T + classifier.classifier.bias)
    first = classifier.retrieval_head[0]
    last = classifier.retrieval_head[2]
    hidden = torch.nn.functional.gelu(h @ first.weight.T + first.bias)
    torch.testing.assert_close(output.retrieval_embeddings, hidden @ last.weight.T + last.bias)


@pytest.mark.parametrize("training", [False, True])
def test_the_tanh_head_equals_the_stock_head_of_roberta(batch, training):
    config = RobertaConfig(
        vocab_size=300,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
        pad_token_id=0,
        classifier_dropout=0.5,
        num_labels=3,
    )
    stock = RobertaForSequenceClassification(config).train(training)
    ours = KNNClassifier.around(stock.roberta, 3, classifier_activation="tanh").train(training)
    ours.classifier[0].load_state_dict(stock.classifier.dense.state_dict())
    ours.classifier[-1].load_state_dict(stock.classifier.out_proj.state_dict())

    def logits(model):
        torch.manual_seed(0)  # the same dropout
        return model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits

    torch.testing.assert_close(logits(ours), logits(stock))


@pytest.mark.parametrize("options, size", [({"retrieval_dimension": 7}, 7), ({"decouple": False}, 32), ({}, 32)])
def test_retrieval_size_norm_and_pooling(tiny_config, batch, options, size):
    config = KNNClassifierConfig(encoder_config=tiny_config, normalize=True, retrieval_pooling="max", **options)
    embeddings = KNNClassifier(config).eval()(**batch).retrieval_embeddings
    assert embeddings.shape == (5, size) == (5, config.retrieval_size)
    torch.testing.assert_close(embeddings.norm(dim=1), torch.ones(5))


def test_both_auto_classes_load_it_bit_for_bit(classifier, batch, tmp_path):
    classifier.save_pretrained(tmp_path)
    expected = classifier(**batch)
    assert isinstance(AutoConfig.from_pretrained(tmp_path), KNNClassifierConfig)
    for auto_class in (AutoModel, AutoModelForSequenceClassification, KNNClassifier):
        model, report = auto_class.from_pretrained(tmp_path, output_loading_info=True)
        assert type(model) is KNNClassifier and not report["missing_keys"] and not report["unexpected_keys"]
        output = model.eval()(**batch)
        assert output.logits.equal(expected.logits)
        assert output.retrieval_embeddings.equal(expected.retrieval_embeddings)
    assert model.config.id2label == NAMES and model.config.label_names == list(NAMES.values())
    assert "label_names" not in model.config.to_json_string(use_diff=False)  # it would be there twice


def test_from_encoder_keeps_weights_pooling_and_length(tiny_model, tokenizer, texts, tmp_path):
    tiny_model.config.docsplit = {"pooling": "mean", "max_length": 20}
    tiny_model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = KNNClassifier.from_encoder(str(tmp_path), id2label=NAMES, decouple=False, normalize=True).eval()
    assert (model.config.pooling, model.config.max_length, model.config.num_labels) == ("mean", 20, 3)
    expected = DocumentEncoder.from_pretrained(str(tmp_path)).encode(texts[:3], show_progress=False)
    inputs = tokenizer(texts[:3], padding=True, truncation=True, max_length=20, return_tensors="pt")
    assert model(**inputs).retrieval_embeddings.detach().numpy() == pytest.approx(expected, abs=1e-5)
    model.save_pretrained(tmp_path / "classifier")
    tokenizer.save_pretrained(tmp_path / "classifier")
    again = DocumentEncoder.from_pretrained(str(tmp_path / "classifier"))  # its encoder is unchanged
    assert (again.encode(texts[:3], show_progress=False) == expected).all() and again.max_length == 20
    saved = json.dumps(model.config.to_dict())
    assert str(tmp_path) not in saved and model.config.encoder_config.name_or_path == tmp_path.name


def test_no_labels_means_no_head(tiny_config, batch, tmp_path):
    model = KNNClassifier.around(BertModel(tiny_config), 0, decouple=False)
    assert model.classifier is None and model(**batch).logits.shape == (5, 0)
    model.save_pretrained(tmp_path)
    assert KNNClassifier.from_pretrained(tmp_path).config.num_labels == 0


@pytest.mark.parametrize("arguments", [{}, {"num_labels": 2, "id2label": NAMES}, {"id2label": {1: "a", 2: "b"}}])
def test_labels_without_a_clear_number_are_refused(tiny_config, arguments):
    with pytest.raises(ValueError, match="do not give a number of labels"):
        KNNClassifier.around(BertModel(tiny_config), **arguments)


@pytest.mark.parametrize(
    "options", [{"pooling": "sum"}, {"problem_type": "regression"}, {"classifier_activation": "softsign"}], ids=str
)
def test_unknown_options_are_refused(tiny_config, options):
    with pytest.raises(ValueError, match=f"must be one of .*, got {next(iter(options.values()))!r}"):
        KNNClassifier(KNNClassifierConfig(encoder_config=tiny_config, **options))


def test_losses_are_torchs_own(classifier, batch):
    labels = torch.tensor([0, 1, 2, 1, 0])
    output = classifier(**batch, labels=labels)
    torch.testing.assert_close(output.loss, torch.nn.functional.cross_entropy(output.logits, labels))
    several = torch.nn.functional.one_hot(labels, 3)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(output.logits, several.float())
    torch.testing.assert_close(classification_loss(output.logits, several, MULTI_LABEL), expected)
    with pytest.raises(ValueError, match="no classification head"):
        classification_loss(output.logits[:, :0], labels)
