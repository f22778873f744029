import pytest
import torch
from transformers import BigBirdConfig, BigBirdModel, LongformerConfig

from docsplit_hf import AutoModelForDocSplit, DocumentEncoder
from docsplit_hf.models.portable.sparse_attention import sparse_attention_arguments

SMALL = {
    "vocab_size": 300,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 400,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


@pytest.fixture
def longformer():
    torch.manual_seed(0)
    config = LongformerConfig(**SMALL, attention_window=[16, 16], pad_token_id=1)
    return AutoModelForDocSplit.from_config(config)


def change_far_away(ids):
    """Change tokens from 3 windows after the first token on: 2 layers of half a window to each side do not reach."""
    changed = ids.clone()
    changed[:, 3 * 16 :] = 7
    return changed


@pytest.mark.parametrize("training", [True, False])
def test_longformers_first_token_sees_the_whole_document(longformer, training):
    longformer.train(training)
    ids = torch.randint(10, 300, (1, 128))
    mask = torch.ones_like(ids)
    near, far = (longformer(x, mask).embeddings for x in (ids, change_far_away(ids)))
    assert (near - far).abs().max() > 1e-4
    without = [longformer.longformer(x, mask).last_hidden_state[:, 0] for x in (ids, change_far_away(ids))]
    assert without[0].equal(without[1])  # what a plain call gives: the test would notice a window that reaches


def test_longformers_first_token_sees_the_whole_document_in_a_loaded_encoder(longformer, tokenizer, tmp_path):
    longformer.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    encoder = DocumentEncoder.from_pretrained(str(tmp_path))
    text = "river " * 200
    changed = text[: 6 * 60] + "garden " * 140
    near, far = encoder.encode([text, changed], show_progress=False)
    assert abs(near - far).max() > 1e-4


def test_longformer_without_a_head_sees_the_whole_document():
    config = LongformerConfig(**SMALL, attention_window=[16, 16], pad_token_id=1)
    model = AutoModelForDocSplit.from_config(config, mlm_head=False)
    ids = torch.randint(10, 300, (1, 128))
    near, far = (model(x, torch.ones_like(ids)).embeddings for x in (ids, change_far_away(ids)))
    assert (near - far).abs().max() > 1e-4


def big_bird_config():
    return BigBirdConfig(**SMALL, block_size=8, num_random_blocks=1, attention_type="block_sparse")


def test_a_short_batch_does_not_change_what_bigbird_makes_of_a_long_one():
    torch.manual_seed(0)
    model = AutoModelForDocSplit.from_config(big_bird_config()).eval()
    long, short = torch.randint(10, 300, (1, 256)), torch.randint(10, 300, (1, 24))
    with torch.no_grad():
        before = model(long, torch.ones_like(long)).embeddings
        model(short, torch.ones_like(short))
        assert model.bert.attention_type == "original_full"  # transformers has switched it
        after = model(long, torch.ones_like(long)).embeddings
    assert after.equal(before)


def test_nor_in_a_loaded_encoder(tokenizer):
    torch.manual_seed(0)
    encoder = DocumentEncoder(BigBirdModel(big_bird_config()), tokenizer, max_length=400)
    long, short = "river " * 300, "a garden"
    first = encoder.encode([long], show_progress=False)
    encoder.encode([short], show_progress=False)
    assert (encoder.encode([long], show_progress=False) == first).all()


def test_other_encoders_are_left_alone(tiny_model):
    assert sparse_attention_arguments(tiny_model.bert, torch.ones(1, 4)) == {}
