"""The model of pretraining: losses, checkpoints, architectures, projection head."""

from functools import partial

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM

from docsplit_hf import AutoModelForDocSplit
from docsplit_hf.encoding.portable.run_encoder import POOLINGS
from docsplit_hf.pretraining.collator import IGNORED_LABEL
from docsplit_hf.pretraining.model import ProjectionHead, use_projection_head

COMMON = {
    "vocab_size": 120, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48,
    "max_position_embeddings": 64, "pad_token_id": 1,
}  # fmt: skip
PLAIN = (
    "bert camembert data2vec-text deberta deberta-v2 ernie fnet ibert layoutlm megatron-bert mpnet roberta xlm-roberta"
)
# Names as in transformers, with options that a tiny model of the architecture needs beside or instead of COMMON.
ARCHITECTURES = dict.fromkeys(PLAIN.split(), {}) | {
    "albert": {"embedding_size": 16},
    "big_bird": {"block_size": 4, "num_random_blocks": 1},
    "convbert": {"embedding_size": 16},
    "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48},
    "electra": {"embedding_size": 16},
    "esm": {"mask_token_id": 4},
    "eurobert": {"num_key_value_heads": 2, "head_dim": 16},
    "funnel": {
        "block_sizes": [1, 1], "d_model": 32, "n_head": 2, "d_head": 16, "d_inner": 48, "num_hidden_layers": None,
    },
    "longformer": {"attention_window": [8, 8]},
    "luke": {"entity_vocab_size": 10, "entity_emb_size": 16},
    "mobilebert": {"embedding_size": 32, "intra_bottleneck_size": 32},
    "modernbert": {"layer_types": ["full_attention", "sliding_attention"]},
    "nomic_bert": {"num_key_value_heads": 2, "head_dim": 16},
    "nystromformer": {"segment_means_seq_len": 24, "num_landmarks": 24},
    "rembert": {"input_embedding_size": 16, "output_embedding_size": 16},
    "roc_bert": {"pronunciation_vocab_size": 20, "shape_vocab_size": 20},
    "roformer": {"embedding_size": 16},
    "squeezebert": {"embedding_size": 32},
}  # fmt: skip


def tiny(architecture):
    """The configuration of a tiny model."""
    values = COMMON | ARCHITECTURES[architecture]
    known = AutoConfig.for_model(architecture)
    return AutoConfig.for_model(
        architecture,
        **{name: value for name, value in values.items() if value is not None and hasattr(known, name)},
    )


def batch():
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 120, (4, 24), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, 15:] = 0
    ids[mask == 0] = 1
    labels = torch.full_like(ids, IGNORED_LABEL)
    labels[:, 3:7] = ids[:, 3:7]
    labels[0, 10] = ids[0, 10]
    masked = ids.masked_fill(labels != IGNORED_LABEL, 4)
    return {"input_ids": ids, "attention_mask": mask, "mlm_input_ids": masked, "mlm_labels": labels}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_mlm_loss_on_masked_positions_is_the_stock_loss_and_checkpoints_are_stock(architecture, tmp_path):
    torch.manual_seed(0)
    model = AutoModelForDocSplit.from_config(tiny(architecture)).eval()
    inputs = batch()
    with torch.no_grad():
        output = model(**inputs)
    assert output.embeddings.shape == (4, 32) and output.embeddings.dtype == torch.float32

    model.save_pretrained(tmp_path)
    stock, info = AutoModelForMaskedLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
    assert type(stock).__name__ == type(model).__name__ == stock.config.architectures[0]
    forward = stock.eval()
    if architecture == "longformer":
        first_token = torch.zeros_like(inputs["input_ids"]).index_fill(1, torch.tensor([0]), 1)
        forward = partial(forward, global_attention_mask=first_token)
    with torch.no_grad():
        expected = forward(
            input_ids=inputs["mlm_input_ids"], attention_mask=inputs["attention_mask"], labels=inputs["mlm_labels"]
        ).loss
        again = AutoModelForDocSplit.from_pretrained(tmp_path).eval()(**inputs)
    assert output.mlm_loss.item() == pytest.approx(expected.item(), abs=1e-5)
    assert again.embeddings.equal(output.embeddings) and again.mlm_loss.equal(output.mlm_loss)


def test_gradients_equal_those_of_the_stock_losses(tiny_model):
    inputs = batch()
    output = tiny_model(**inputs)
    (output.embeddings.square().sum() + output.mlm_loss).backward()
    stock = AutoModelForMaskedLM.from_config(tiny_model.config)
    stock.load_state_dict(tiny_model.state_dict())
    hidden = stock.bert(inputs["input_ids"], attention_mask=inputs["attention_mask"]).last_hidden_state
    loss = stock(inputs["mlm_input_ids"], attention_mask=inputs["attention_mask"], labels=inputs["mlm_labels"]).loss
    (hidden[:, 0].square().sum() + loss).backward()
    gradients = dict(stock.named_parameters())
    for name, parameter in tiny_model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name].grad, atol=1e-5, rtol=1e-4, msg=name)


def test_shared_input_uses_the_masked_rows_for_both(tiny_model):
    inputs = batch()
    tiny_model.eval()
    separate = tiny_model(**inputs)
    shared = tiny_model(inputs["mlm_input_ids"], inputs["attention_mask"], mlm_labels=inputs["mlm_labels"])
    torch.testing.assert_close(shared.mlm_loss, separate.mlm_loss)
    assert not torch.allclose(shared.embeddings, separate.embeddings)


def test_a_batch_without_masked_tokens_has_no_mlm_loss_and_uses_every_parameter(tiny_model):
    inputs = batch()
    inputs["mlm_labels"].fill_(IGNORED_LABEL)
    output = tiny_model(**inputs)
    assert output.mlm_loss == 0
    (output.embeddings.sum() + output.mlm_loss).backward()
    assert all(parameter.grad is not None for parameter in tiny_model.parameters())


@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_does_not_change_embeddings(tiny_config, pooling):
    model = AutoModelForDocSplit.from_config(tiny_config, pooling=pooling).eval()
    ids = torch.randint(5, 100, (2, 10))
    padded = torch.cat([ids, torch.zeros(2, 6, dtype=torch.long)], 1)
    mask = torch.cat([torch.ones(2, 10), torch.zeros(2, 6)], 1).long()
    alone = model(ids, torch.ones_like(ids)).embeddings
    torch.testing.assert_close(model(padded, mask).embeddings, alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("architecture", ["bert", "longformer", "funnel"])
def test_encoders_without_a_head_load_with_auto_model_without_a_missing_or_unexpected_key(architecture, tmp_path):
    model = AutoModelForDocSplit.from_config(tiny(architecture), pooling="mean", mlm_head=False).eval()
    inputs = batch()
    embeddings = model(inputs["input_ids"], inputs["attention_mask"]).embeddings
    model.save_pretrained(tmp_path)
    _, info = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    again = AutoModelForDocSplit.from_pretrained(tmp_path, mlm_head=False).eval()
    assert again.config.docsplit["pooling"] == "mean"
    assert again(inputs["input_ids"], inputs["attention_mask"]).embeddings.equal(embeddings)


def test_a_checkpoint_is_loaded_with_other_settings_and_the_same_weights(tiny_checkpoint):
    plain = AutoModelForDocSplit.from_pretrained(str(tiny_checkpoint))
    changed = AutoModelForDocSplit.from_pretrained(str(tiny_checkpoint), config_overrides={"hidden_dropout_prob": 0.2})
    assert (plain.config.hidden_dropout_prob, changed.config.hidden_dropout_prob) == (0, 0.2)
    assert all(weight.equal(changed.state_dict()[name]) for name, weight in plain.state_dict().items())
    inputs = batch()
    assert not changed.train()(**inputs).embeddings.equal(plain.train()(**inputs).embeddings)
    changed.save_pretrained(tiny_checkpoint)
    assert AutoConfig.from_pretrained(tiny_checkpoint).hidden_dropout_prob == 0.2


@pytest.mark.parametrize(
    "overrides, weight",
    [
        ({"hidden_size": 64}, r"bert.embeddings.LayerNorm.bias is \[32\] there and would be \[64\]"),
        ({"num_hidden_layers": 3}, "layer.2.* is none there and would be"),
        ({"num_hidden_layers": 1, "hidden_dropout_prob": 0.1}, "layer.1.* there and would be none"),
    ],
)
def test_settings_that_do_not_fit_the_weights_are_refused(tiny_checkpoint, overrides, weight):
    with pytest.raises(ValueError, match=weight):
        AutoModelForDocSplit.from_pretrained(str(tiny_checkpoint), config_overrides=overrides)


def test_saved_half_precision_weights_are_loaded_in_float32_unless_asked_for(tiny_model, tmp_path):
    tiny_model.half().save_pretrained(tmp_path)
    assert AutoModelForDocSplit.from_pretrained(tmp_path).dtype == torch.float32
    assert AutoModelForDocSplit.from_pretrained(tmp_path, dtype="auto").dtype == torch.float16
    assert AutoModelForDocSplit.from_pretrained(tmp_path, dtype=torch.float16).dtype == torch.float16
    assert AutoModelForDocSplit.from_pretrained(tmp_path, torch_dtype=torch.float16).dtype == torch.float16


@pytest.mark.parametrize("architecture, advice", [("bart", "encoder-decoder"), ("gpt2", "mlm_head=False")])
def test_architectures_without_an_encoder_with_a_masked_lm_class_are_refused(architecture, advice):
    with pytest.raises(ValueError, match=advice):
        AutoModelForDocSplit.from_config(AutoConfig.for_model(architecture))


def test_an_unknown_pooling_is_refused_and_the_callers_config_is_not_changed(tiny_config):
    AutoModelForDocSplit.from_config(tiny_config, pooling="max")
    assert not hasattr(tiny_config, "docsplit")
    with pytest.raises(ValueError, match="pooling must be one of"):
        AutoModelForDocSplit.from_config(tiny_config, pooling="average")


@pytest.mark.parametrize("mlm_head", [True, False])
def test_the_projection_head_is_applied_in_training_only(tiny_config, mlm_head):
    model = AutoModelForDocSplit.from_config(tiny_config, pooling="mean", mlm_head=mlm_head)
    ids = torch.randint(5, 100, (4, 10))
    mask = torch.ones_like(ids)
    plain = model.train()(ids, mask).embeddings
    head = use_projection_head(model, wanted=True)
    projected = torch.tanh(plain @ head.dense.weight.T + head.dense.bias)
    torch.testing.assert_close(model(ids, mask).embeddings, projected)
    torch.testing.assert_close(model.eval()(ids, mask).embeddings, plain)
    assert use_projection_head(model, wanted=True) is head and use_projection_head(model, wanted=False) is None
    torch.testing.assert_close(model.train()(ids, mask).embeddings, plain)


def test_a_projection_head_starts_from_its_seed_and_not_from_the_global_generator(tiny_model):
    first = ProjectionHead(8, 0.5, seed=1)
    torch.manual_seed(3)
    second = ProjectionHead(8, 0.5, seed=1)
    other = ProjectionHead(8, 0.5, seed=2)
    assert first.dense.weight.equal(second.dense.weight) and not first.dense.weight.equal(other.dense.weight)
    assert ProjectionHead(200, 0.5).dense.weight.std().item() == pytest.approx(0.5, rel=0.02)


def test_a_projection_head_computes_in_float32_under_autocast():
    head = ProjectionHead(8, 0.5)
    embeddings = torch.randn(3, 8)
    with torch.autocast("cpu", torch.bfloat16):
        assert head(embeddings).equal(head.float()(embeddings)) and head(embeddings).dtype == torch.float32
    torch.testing.assert_close(head(embeddings.bfloat16()), head(embeddings.bfloat16().float()))
