import pytest
import torch
from transformers import BigBirdConfig, BigBirdModel, LongformerConfig

from docsplit_hf import AutoModelForDocSplit, DocumentEncoder, KNNClassifier, KNNClassifierConfig
from docsplit_hf.models.portable.sparse_attention import sparse_attention_arguments

SMALL = {
    "vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
    "max_position_embeddings": 400, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip


def longformer_config():
    return LongformerConfig(**SMALL, attention_window=[16, 16], pad_token_id=1)


def change_far_away(ids):
    """Change tokens from 3 windows after the first token on: 2 layers of half a window to each side do not reach."""
    changed = ids.clone()
    changed[:, 3 * 16 :] = 7
    return changed


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", ["with a head", "without a head", "classifier"])
def test_longformers_first_token_sees_the_whole_document(kind, training):
    torch.manual_seed(0)
    if kind == "classifier":
        model = KNNClassifier(KNNClassifierConfig(encoder_config=longformer_config(), num_labels=2, decouple=False))
    else:
        model = AutoModelForDocSplit.from_config(longformer_config(), mlm_head=kind == "with a head")
    model.train(training)
    ids = torch.randint(10, 300, (1, 128))
    texts = [ids, change_far_away(ids)]
    outputs = [model(x, torch.ones_like(x)) for x in texts]
    near, far = (x.retrieval_embeddings if kind == "classifier" else x.embeddings for x in outputs)
    assert (near - far).abs().max() > 1e-4
    if kind == "with a head":  # what a plain call gives: the test would notice a window that reaches
        near, far = (model.longformer(x, torch.ones_like(x)).last_hidden_state[:, 0] for x in texts)
        assert near.equal(far)


def test_longformers_first_token_sees_the_whole_document_in_a_loaded_encoder(tokenizer, tmp_path):
    torch.manual_seed(0)
    AutoModelForDocSplit.from_config(longformer_config()).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    encoder = DocumentEncoder.from_pretrained(str(tmp_path))
    text = "river " * 200
    near, far = encoder.encode([text, text[: 6 * 60] + "garden " * 140], show_progress=False)
    assert abs(near - far).max() > 1e-4


def big_bird_config():
    return BigBirdConfig(**SMALL, block_size=8, num_random_blocks=1, attention_type="block_sparse")


def test_a_short_batch_does_not_change_what_bigbird_makes_of_a_long_one(tokenizer):
    torch.manual_seed(0)
    model = AutoModelForDocSplit.from_config(big_bird_config()).eval()
    long, short = torch.randint(10, 300, (1, 256)), torch.randint(10, 300, (1, 24))
    with torch.no_grad():
        before = model(long, torch.ones_like(long)).embeddings
        model(short, torch.ones_like(short))
        assert model.bert.attention_type == "original_full"  # transformers has switched it
        assert model(long, torch.ones_like(long)).embeddings.equal(before)
    encoder = DocumentEncoder(BigBirdModel(big_bird_config()), tokenizer, max_length=400)
    first, _, again = (encoder.encode([t], show_progress=False) for t in ("river " * 300, "a garden", "river " * 300))
    assert (again == first).all()


def test_other_encoders_are_left_alone(tiny_model):
    assert sparse_attention_arguments(tiny_model.bert, torch.ones(1, 4)) == {}
