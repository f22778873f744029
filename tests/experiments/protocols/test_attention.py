import copy

import numpy as np
import pytest
import torch
from transformers import BertModel, LongformerConfig, LongformerModel

from docsplit_hf import DocumentEncoder
from docsplit_hf.encoding.portable.run_encoder import is_packed
from experiments.protocols.attention import attention_by_part_of_speech, word_weights
from experiments.taggers.parts_of_speech import GROUPS, Word

ALL_GROUPS = "The small river feeds the valley"


def attention(encoder, texts, tagger, max_length=512):
    found = attention_by_part_of_speech(encoder, texts, tagger, max_length)
    return {group: found[group] for group in GROUPS if group in found}


def without_queries(model):
    """The same model with queries of 0, which give uniform attention."""
    for name, parameter in model.named_parameters():
        if ".query" in name:
            torch.nn.init.zeros_(parameter)
    return model


@pytest.fixture(scope="module")
def encoder(make_tiny_config, tokenizer):
    torch.manual_seed(0)
    return DocumentEncoder(BertModel(make_tiny_config()), tokenizer)


@pytest.fixture(scope="module")
def uniform(make_tiny_config, tokenizer):
    return DocumentEncoder(without_queries(BertModel(make_tiny_config())), tokenizer)


@pytest.fixture(scope="module")
def longformer_config(tokenizer):
    return LongformerConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        attention_window=4,
        max_position_embeddings=66,
        pad_token_id=0,
        initializer_range=0.5,
    )


@pytest.fixture(scope="module")
def uniform_longformer(longformer_config, tokenizer):
    return DocumentEncoder(without_queries(LongformerModel(copy.deepcopy(longformer_config))), tokenizer)


@pytest.mark.parametrize("name", ["uniform", "uniform_longformer"])
def test_uniform_attention_gives_one_over_the_length(name, request, tagger, tokenizer, texts):
    encoder = request.getfixturevalue(name)
    length = len(tokenizer(ALL_GROUPS)["input_ids"])
    assert attention(encoder, [ALL_GROUPS], tagger) == pytest.approx(dict.fromkeys(GROUPS, 1 / length), rel=1e-5)

    several = [ALL_GROUPS, texts[0][:90], "small engines, small gardens", "", texts[4][:50]]
    weights = {group: [] for group in GROUPS}
    for text, words in zip(several, tagger.tag(several), strict=True):
        ids = tokenizer(text)["input_ids"]
        assert len(ids) <= encoder.max_length
        for word in words:
            weights[word.group].append(1 / len(ids))
    expected = {group: np.mean(weights[group]) for group in GROUPS}
    for order in (several, several[::-1]):
        assert attention(encoder, order, tagger) == pytest.approx(expected, rel=1e-5)


def test_weights_equal_the_stock_models(encoder, tiny_config, tagger, tokenizer):
    stock = BertModel._from_config(tiny_config, attn_implementation="eager").eval()
    stock.load_state_dict(encoder.model.state_dict())
    text = "Small rivers shapes the unusual engine; it opens!"
    inputs = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    offsets = inputs.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        weights = stock(**inputs, output_attentions=True).attentions[-1][0, :, 0].mean(0).tolist()
    sums = {group: [] for group in GROUPS}
    for word in next(tagger.tag([text])):
        shared = [w for w, (start, end) in zip(weights, offsets, strict=True) if start < word.end and end > word.start]
        sums[word.group].append(np.mean(shared))
    assert len(weights) > 20  # words of several tokens
    found = attention(encoder, [text], tagger)
    assert found == pytest.approx({group: np.mean(sums[group]) for group in GROUPS}, rel=1e-5)
    assert len({round(value, 6) for value in found.values()}) == 4


def test_the_interval_is_a_jackknife_over_documents(encoder, tagger):
    texts = [ALL_GROUPS, "small rivers", "The river feeds the valley of the garden", "river river"]
    without_each = [attention(encoder, texts[:i] + texts[i + 1 :], tagger)["noun"] for i in range(4)]
    found = attention_by_part_of_speech(encoder, texts, tagger, 512)
    spread = np.sum((np.array(without_each) - np.mean(without_each)) ** 2)
    assert found["noun_interval"] == pytest.approx(3.182446 * np.sqrt(3 / 4 * spread), rel=1e-5)
    assert "noun_interval" not in attention_by_part_of_speech(encoder, texts[:1], tagger, 512)


def test_longformer_gives_the_attention_of_its_global_token(longformer_config, tokenizer, tagger):
    torch.manual_seed(0)
    encoder = DocumentEncoder(LongformerModel(copy.deepcopy(longformer_config)), tokenizer)
    layer = encoder.model.encoder.layer[-1].attention.self
    outputs = {}

    def keep_queries(module, inputs, output):
        outputs["queries"] = output.clone()

    def keep_keys(module, inputs, output):
        outputs["keys"] = output.clone()

    layer.query_global.register_forward_hook(keep_queries)
    layer.key_global.register_forward_hook(keep_keys)
    text = "The small river feeds the valley and the garden of the library"
    found = attention(encoder, [text], tagger)
    inputs = tokenizer(text, return_offsets_mapping=True)
    length = len(inputs["input_ids"])
    assert length > 4 * longformer_config.attention_window
    query = outputs["queries"].reshape(2, 8)
    keys = outputs["keys"].reshape(-1, 2, 8)[:length]
    weights = torch.softmax(torch.einsum("hd,lhd->hl", query, keys) / 8**0.5, dim=1).mean(0)
    spans = np.array(inputs["offset_mapping"])
    words = next(tagger.tag([text]))
    expected = word_weights(words, spans, weights.numpy())
    for group in GROUPS:
        of_group = [weight for weight, word in zip(expected, words, strict=True) if word.group == group]
        assert found[group] == pytest.approx(np.mean(of_group))


def test_the_encoder_is_restored(encoder, texts, tagger):
    before = encoder.encode(texts[:4], show_progress=False)
    assert is_packed(encoder.model)
    attention(encoder, texts[:4], tagger)
    assert is_packed(encoder.model) and not encoder.model.training
    assert (encoder.encode(texts[:4], show_progress=False) == before).all()
    with pytest.raises(ValueError, match="max_length=2 leaves no room"):
        attention(encoder, texts[:4], tagger, max_length=2)
    assert is_packed(encoder.model)


def test_words_without_tokens_have_no_weight():
    words = [Word("can", 0, "other", ""), Word("not", 3, "other", ""), Word("go", 8, "verb", "go")]
    spans = np.array([[0, 4], [4, 6], [7, 7], [20, 21]])
    weights = word_weights(words, spans, np.array([0.5, 0.25, 9.0, 9.0]))
    assert weights == pytest.approx([0.5, 0.375, np.nan], nan_ok=True)
    assert word_weights([], spans, np.ones(4)).shape == (0,)
    assert np.isnan(word_weights(words, np.empty((0, 2), dtype=np.int64), np.empty(0))).all()
