"""Pruning: remaining layers and tokens give the same states as before."""

import numpy as np
import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoTokenizer,
    BertModel,
    ModernBertConfig,
    ModernBertModel,
)

from docsplit_hf import AutoModelForDocSplit, DocumentEncoder, default_checkpoint
from docsplit_hf.encoding.pruning import FREQUENCY_SMOOTHING, keep_frequent_tokens, keep_layers, keep_tokens_alone

TEXTS = ["The minister told the parliament that taxes will rise.", "Wir haben 3 naive caf\u00e9s!"]


@pytest.fixture
def shipped():
    """The checkpoint that ships, with its head, and its tokenizer."""
    model = AutoModelForMaskedLM.from_pretrained(default_checkpoint()).eval()
    return model, AutoTokenizer.from_pretrained(default_checkpoint())


def embed(model, tokenizer, texts=TEXTS):
    return DocumentEncoder(model.base_model, tokenizer, "mean").encode(texts, show_progress=False)


def test_kept_layers_give_the_states_of_the_full_model(tiny_model, tokenizer):
    before = embed(tiny_model, tokenizer)
    keep_layers(tiny_model, [0, 1])
    assert np.array_equal(embed(tiny_model, tokenizer), before)
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = tiny_model.base_model(**inputs, output_hidden_states=True).hidden_states
        keep_layers(tiny_model, [0])
        assert torch.equal(tiny_model.base_model(**inputs).last_hidden_state, states[1])
    assert tiny_model.config.num_hidden_layers == 1


@pytest.mark.parametrize("layers", [[], [1, 0], [0, 0], [2], [-1]])
def test_missing_layers_are_refused(tiny_model, layers):
    with pytest.raises(ValueError, match="from 0 to 1, in rising order"):
        keep_layers(tiny_model, layers)


def test_texts_of_kept_tokens_keep_their_embeddings_and_others_get_more_tokens(shipped, tmp_path):
    model, tokenizer = shipped
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    before = embed(model, tokenizer)
    logits = model(**inputs).logits
    smaller = keep_frequent_tokens(model, tokenizer, 2_000, TEXTS)
    assert len(smaller) == 2_000 == model.config.vocab_size == len(model.get_output_embeddings().bias)
    assert np.allclose(embed(model, smaller), before, atol=1e-6)
    assert [smaller.tokenize(text) for text in TEXTS] == [tokenizer.tokenize(text) for text in TEXTS]
    assert smaller.decode(smaller(TEXTS[0])["input_ids"]) == tokenizer.decode(tokenizer(TEXTS[0])["input_ids"])
    dropped = max(set(tokenizer.get_vocab()) - set(smaller.get_vocab()), key=lambda token: (token.isalpha(), token))
    pieces = smaller.tokenize(dropped)
    assert len(pieces) > 1 and "".join(piece.removeprefix("##") for piece in pieces) == dropped
    kept = tokenizer.convert_tokens_to_ids(smaller.convert_ids_to_tokens(range(2_000)))
    new = model(**smaller(TEXTS, padding=True, return_tensors="pt")).logits
    assert torch.allclose(new, logits[:, :, kept], atol=1e-4)
    model.save_pretrained(tmp_path)
    smaller.save_pretrained(tmp_path)
    loaded = AutoModelForDocSplit.from_pretrained(str(tmp_path), pooling="mean")
    assert np.allclose(embed(loaded, AutoTokenizer.from_pretrained(tmp_path)), before, atol=1e-6)


def test_vocabularies_that_cannot_be_cut_are_refused(shipped):
    model, tokenizer = shipped
    with pytest.raises(ValueError, match="keep fewer, got vocab_size=99999"):
        keep_frequent_tokens(model, tokenizer, 99_999, TEXTS)
    with pytest.raises(ValueError, match="vocab_size=50 has no room for the special tokens"):
        keep_frequent_tokens(model, tokenizer, 50, TEXTS)


def test_a_static_embedding_is_the_mean_of_its_tokens_vectors(tiny_model, tokenizer, tmp_path):
    text = TEXTS[0]
    number = len(tokenizer)
    around = [[tokenizer.cls_token_id, token, tokenizer.sep_token_id] for token in range(number)]
    with torch.no_grad():
        alone = tiny_model.base_model(input_ids=torch.tensor(around)).last_hidden_state.mean(1).numpy()
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    shares = np.bincount(ids, minlength=number)[ids] / len(ids)
    weighted = (alone - alone.mean(0))[ids] * FREQUENCY_SMOOTHING / (FREQUENCY_SMOOTHING + shares)[:, None]
    weighted[np.isin(ids, tokenizer.all_special_ids)] = 0  # what the tokenizer does not know
    expected = (weighted - weighted.mean(1, keepdims=True)).sum(0)
    keep_tokens_alone(tiny_model, tokenizer, [text])
    tiny_model.base_model.save_pretrained(tmp_path)
    loaded = AutoModel.from_pretrained(tmp_path)
    assert type(loaded) is BertModel and loaded.config.num_hidden_layers == 0
    found = DocumentEncoder(loaded, tokenizer, "mean").encode([text])[0]
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-5)


def test_static_needs_layer_normalization_after_the_tokens(tokenizer):
    config = ModernBertConfig(
        hidden_size=64,
        num_hidden_layers=1,
        num_attention_heads=1,
        vocab_size=len(tokenizer),
        pad_token_id=0,
        bos_token_id=0,
        eos_token_id=0,
        cls_token_id=0,
        sep_token_id=0,
    )
    with pytest.raises(ValueError, match="ModernBertModel has no layer normalization right after"):
        keep_tokens_alone(ModernBertModel(config), tokenizer, TEXTS)
