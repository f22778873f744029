"""Packed equals padded: states, losses and all gradients. A model that cannot be packed is unchanged."""

import logging

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    BertConfig,
    BertModel,
    BigBirdConfig,
    BigBirdModel,
    LongformerConfig,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from docsplit_hf import AutoModelForDocSplit, DocumentEncoder, KNNClassifier, KNNClassifierConfig
from docsplit_hf.encoding.portable.run_encoder import (
    PACKED,
    attention_implementation,
    is_packed,
    run_encoder,
    use_packing,
)

LENGTHS = [40, 1, 7, 23, 1, 2, 23, 40]
SMALL = {
    "vocab_size": 120, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "max_position_embeddings": 96,
}  # fmt: skip
SPECIAL_TOKENS = {
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 3, "sep_token_id": 4, "mask_token_id": 5,
}  # fmt: skip
PACKABLE = {
    "albert": SMALL | {"embedding_size": 16},
    "bert": SMALL,
    "camembert": SMALL,
    "data2vec-text": SMALL,
    "distilbert": {
        "vocab_size": 120,
        "dim": 32,
        "n_layers": 2,
        "n_heads": 4,
        "hidden_dim": 64,
        "max_position_embeddings": 96,
    },  # fmt: skip
    "electra": SMALL | {"embedding_size": 16},
    "ernie": SMALL,
    "eurobert": SMALL | SPECIAL_TOKENS | {"num_key_value_heads": 2},  # grouped heads
    "modernbert": SMALL | SPECIAL_TOKENS | {"local_attention": 8, "global_attn_every_n_layers": 2},  # sees 4 + 1 + 4
    "nomic_bert": SMALL,
    "roberta": SMALL,  # positions count from 2
    "xlm-roberta": SMALL,
}
PADDED = {
    "longformer": SMALL | {"attention_window": 8, "max_position_embeddings": 98},
    "big_bird": SMALL | {"attention_type": "original_full"},
    "mpnet": SMALL,
    "deberta-v2": SMALL | {"relative_attention": True, "pos_att_type": "p2c|c2p"},
}


def _model(architecture: str, sizes: dict) -> torch.nn.Module:
    torch.manual_seed(0)
    config = AutoConfig.for_model(architecture, **sizes)
    model = AutoModelForDocSplit.from_config(config, pooling="mean").eval()
    for parameter in model.parameters():  # fresh weights of 0.02 would make attention too even to tell a mistake
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def _batch(lengths: list[int] = LENGTHS) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    attention_mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    input_ids = torch.randint(6, 120, attention_mask.shape, generator=generator)
    labels = torch.where(torch.rand(input_ids.shape, generator=generator) < 0.3, input_ids, -100)
    pad = attention_mask == 0
    mlm_input_ids = torch.where(labels != -100, 5, input_ids)
    return {
        "input_ids": input_ids.masked_fill(pad, 1),
        "attention_mask": attention_mask,
        "mlm_input_ids": mlm_input_ids.masked_fill(pad, 1),
        "mlm_labels": labels.masked_fill(pad, -100),
    }


def _run(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Embeddings, MLM loss and all gradients of a loss that depends on both."""
    model.zero_grad()
    output = model(**batch)
    weights = torch.linspace(-1, 1, output.embeddings.numel()).view_as(output.embeddings)
    ((output.embeddings * weights).mean() + output.mlm_loss).backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return {"embeddings": output.embeddings, "mlm_loss": output.mlm_loss} | gradients


def _assert_packed_equals_padded(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> None:
    padded = _run(model, batch)
    assert use_packing(model, "on") and is_packed(model.base_model)
    packed = _run(model, batch)
    assert padded.keys() == packed.keys() and len(padded) > 10
    for name in padded:
        torch.testing.assert_close(packed[name], padded[name], rtol=1e-5, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("architecture", PACKABLE)
def test_packed_equals_padded(architecture):
    _assert_packed_equals_padded(_model(architecture, PACKABLE[architecture]), _batch())


def test_rows_are_filled_up_by_several_sequences():
    batch = _batch([1, 2, 1, 40, 40, 40, 5])
    assert -int(batch["attention_mask"].sum()) % 4 == 3, "the first three tokens, which are of two sequences"
    _assert_packed_equals_padded(_model("bert", SMALL), batch)


@pytest.mark.parametrize("architecture", PADDED)
def test_a_model_that_cannot_be_packed_is_unchanged(architecture, caplog):
    model = _model(architecture, PADDED[architecture])
    batch = _batch()
    implementation = attention_implementation(model)
    before = _run(model, batch)
    with caplog.at_level(logging.INFO, "docsplit_hf"):
        assert not use_packing(model)
        assert not use_packing(model)
    assert sum("runs with padding" in record.message for record in caplog.records) == 1
    assert attention_implementation(model) == implementation
    after = _run(model, batch)
    assert all(torch.equal(before[name], after[name]) for name in before)
    with pytest.raises(ValueError, match="cannot run without padding"):
        use_packing(model, "on")


def test_packing_stays_off_until_it_is_switched_on():
    model = _model("bert", SMALL)
    batch = _batch()
    before = _run(model, batch)
    assert use_packing(model) and not use_packing(model, "off")
    assert attention_implementation(model) == "sdpa"
    assert all(torch.equal(value, before[name]) for name, value in _run(model, batch).items())
    assert not use_packing(model) and use_packing(model, "on")
    with pytest.raises(ValueError, match="'maybe'"):
        use_packing(model, "maybe")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_model_with_other_packed_results_is_padded(dtype, monkeypatch):
    """Its attention ignores the borders of sequences, as own code of a model may under the same name."""
    model = _model("bert", SMALL).to(dtype)

    def careless(module, query, key, value, *args, **kwargs):
        whole = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        return whole.transpose(1, 2), None

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, PACKED, careless)
    assert not use_packing(model)
    with pytest.raises(ValueError, match="its results would not be the same"):
        use_packing(model, "on")


def test_rows_with_arguments_not_per_token_are_padded():
    model = BertModel(BertConfig(**SMALL)).eval()
    mask = _batch()["attention_mask"]
    use_packing(model)
    assert run_encoder(model, mask, mask, output_hidden_states=True).hidden_states[0].shape[:2] == mask.shape
    positions = torch.arange(mask.shape[1]).flip(0).expand(mask.shape)
    turned = run_encoder(model, mask, mask, position_ids=positions).last_hidden_state
    torch.testing.assert_close(turned, model(mask, attention_mask=mask, position_ids=positions).last_hidden_state)


@pytest.mark.parametrize("architecture", ["bert", "modernbert", "roberta"])
def test_other_callers_get_the_results_of_the_stock_model(architecture):
    """Padded rows of a packed model, called as transformers calls it, with and without a mask."""
    model = _model(architecture, PACKABLE[architecture])
    batch = _batch()
    stock = AutoModelForMaskedLM.from_config(model.config)
    stock.load_state_dict(model.state_dict())
    stock.eval()

    def logits():
        with_mask = stock(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
        without_mask = stock(input_ids=batch["input_ids"])
        return [with_mask.logits, without_mask.logits]

    expected = logits()
    assert use_packing(stock)
    torch.testing.assert_close(logits(), expected)


def test_gradient_checkpointing_replays_packed_rows():
    model = _model("modernbert", PACKABLE["modernbert"])
    batch = _batch()
    use_packing(model)
    expected = _run(model, batch)
    model.activation_checkpointing_enable()
    model.train()
    found = _run(model, batch)  # these sizes' configuration has no dropout
    for name in expected:
        torch.testing.assert_close(found[name], expected[name])


@pytest.mark.slow
def test_a_compiled_model_gives_equal_results_for_other_shapes():
    model = _model("bert", SMALL | {"num_hidden_layers": 1})
    batches = [_batch(), _batch([9, 3])]
    use_packing(model)
    expected = [_run(model, batch) for batch in batches]
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager")  # what dynamo captures for inductor, without a compiler of C++
    for batch, one in zip(batches, expected, strict=True):
        model.zero_grad()
        output = compiled(**batch)
        (output.embeddings.square().mean() + output.mlm_loss).backward()
        torch.testing.assert_close(output.embeddings, one["embeddings"])
        torch.testing.assert_close(output.mlm_loss, one["mlm_loss"])
    assert all(parameter.grad is not None for name, parameter in model.named_parameters() if name in expected[0])


def test_arguments_per_token_are_packed():
    model = BertModel(BertConfig(**SMALL)).eval()
    mask = _batch()["attention_mask"]
    types = torch.randint(0, 2, mask.shape, generator=torch.Generator().manual_seed(1))
    padded = run_encoder(model, mask, mask, token_type_ids=types).last_hidden_state
    use_packing(model)
    packed = run_encoder(model, mask, mask, token_type_ids=types).last_hidden_state
    torch.testing.assert_close(packed[mask.bool()], padded[mask.bool()], rtol=1e-5, atol=1e-5)
    assert packed[mask == 0].eq(0).all()


def test_in_bfloat16_packed_is_as_close_to_float32_as_padded():
    model = _model("bert", SMALL)
    batch = _batch()
    exact = model(**batch).embeddings
    with torch.autocast("cpu", torch.bfloat16):
        padded = model(**batch).embeddings
        use_packing(model)
        packed = model(**batch).embeddings
    assert (packed - exact).abs().mean() < 1.5 * (padded - exact).abs().mean()


SPARSE = SMALL | {"vocab_size": 300, "num_attention_heads": 2, "max_position_embeddings": 400}
SPARSE |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def longformer_config():
    return LongformerConfig(**SPARSE, attention_window=[16, 16], pad_token_id=1)


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

    def embeddings(ids):
        output = model(ids, torch.ones_like(ids))
        return output.retrieval_embeddings if kind == "classifier" else output.embeddings

    near, far = map(embeddings, texts)
    assert (near - far).abs().max() > 1e-4
    if kind == "with a head":  # a plain call does not reach that far, so that the test is one of the global attention

        def first_states(ids):
            return model.longformer(ids, torch.ones_like(ids)).last_hidden_state[:, 0]

        near, far = map(first_states, texts)
        assert near.equal(far)


def big_bird_config():
    return BigBirdConfig(**SPARSE, block_size=8, num_random_blocks=1, attention_type="block_sparse")


def test_a_short_batch_does_not_change_bigbirds_embeddings_of_a_long_one(tokenizer):
    torch.manual_seed(0)
    model = AutoModelForDocSplit.from_config(big_bird_config()).eval()
    long = torch.randint(10, 300, (1, 256))
    short = torch.randint(10, 300, (1, 24))
    with torch.no_grad():
        before = model(long, torch.ones_like(long)).embeddings
        model(short, torch.ones_like(short))
        assert model.bert.attention_type == "original_full"  # transformers has switched it
        assert model(long, torch.ones_like(long)).embeddings.equal(before)
    encoder = DocumentEncoder(BigBirdModel(big_bird_config()), tokenizer, max_length=400)
    first = encoder.encode(["river " * 300], show_progress=False)
    encoder.encode(["a garden"], show_progress=False)
    again = encoder.encode(["river " * 300], show_progress=False)
    assert (again == first).all()
