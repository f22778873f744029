"""Momentum contrast against Contriever's loop."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from experiments.baselines.momentum_contrast import KeyQueue, momentum_update


@given(size=st.integers(1, 12), batches=st.lists(st.integers(1, 12), max_size=8))
def test_the_queue_holds_the_last_keys(size, batches):
    queue = KeyQueue(size, 1)
    enqueued = queue.keys.flatten().tolist()  # at the start, random keys of norm 1
    next_key = 10.0
    for batch in batches:
        count = min(batch, size)
        keys = torch.arange(count) + next_key
        next_key += count
        queue.enqueue(keys[:, None])
        enqueued += keys.tolist()
    assert sorted(queue.keys.flatten().tolist()) == pytest.approx(sorted(enqueued[-size:]))


# At these temperatures the softmax does not saturate.
@pytest.mark.parametrize("similarity, temperature", [("dot", 20.0), ("cosine", 0.5)])
def test_steps_equal_contrievers_loop(make_baseline, loss_of_steps, similarity, temperature):
    """The loop of the released code is repeated here: its momentum update comes before each forward pass."""
    trainer = make_baseline(
        "momentum_contrast", "cropping", optim="sgd", lr_scheduler_type="constant", max_grad_norm=0, max_steps=4,
        learning_rate=0.01, queue_size=24, momentum=0.9, temperature=temperature, similarity=similarity, seed=3,
    )  # fmt: skip
    batches = list(trainer.get_train_dataloader())
    encoder = copy.deepcopy(trainer.model).train()
    key_encoder = copy.deepcopy(encoder)
    queue = KeyQueue(24, 32, seed=3).keys.T.clone()
    pointer = 0

    def embed(model, ids, mask):
        states = model.stock_forward(input_ids=ids, attention_mask=mask).last_hidden_state
        embeddings = (states * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return functional.normalize(embeddings) if similarity == "cosine" else embeddings

    expected = {}
    for step, batch in enumerate(batches, start=1):
        q_ids, k_ids = batch["input_ids"].chunk(2)
        q_mask, k_mask = batch["attention_mask"].chunk(2)
        q = embed(encoder, q_ids, q_mask)
        with torch.no_grad():
            for param_q, param_k in zip(encoder.parameters(), key_encoder.parameters(), strict=True):
                param_k.copy_(param_k * 0.9 + param_q * 0.1)
            k = embed(key_encoder, k_ids, k_mask)
        logits = torch.cat([torch.einsum("nc,nc->n", q, k)[:, None], torch.einsum("nc,ck->nk", q, queue)], 1)
        logits = logits / temperature
        loss = functional.cross_entropy(logits, torch.zeros(8, dtype=torch.int64))
        queue = queue.clone()
        queue[:, pointer : pointer + 8] = k.T
        pointer = (pointer + 8) % 24
        expected[step] = loss.item()
        encoder.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in encoder.parameters():
                if parameter.grad is not None:
                    parameter -= 0.01 * parameter.grad

    assert all(loss > 0.1 for loss in expected.values())
    assert loss_of_steps(trainer) == pytest.approx(expected, abs=1e-5)
    logs = trainer.state.log_history[0]
    assert logs["negatives"] == 24 and 0 <= logs["in_batch_accuracy"] <= 1
    torch.testing.assert_close(trainer.queue.keys, queue.T, atol=1e-5, rtol=1e-5)
    for name, weight in trainer.model.named_parameters():
        torch.testing.assert_close(weight, encoder.get_parameter(name), atol=1e-5, rtol=1e-4, msg=name)


def test_the_key_encoder_follows_once_a_step_and_keeps_its_dropout(make_baseline):
    trainer = make_baseline(
        "momentum_contrast", dropout=0.1, max_steps=1, gradient_accumulation_steps=2, queue_size=16, momentum=0.75,
    )  # fmt: skip
    start = copy.deepcopy(trainer.model)
    trainer.train()
    assert all(module.training for module in trainer.key_encoder.modules())
    momentum_update(start, trainer.model, 0.75)
    for name, weight in start.named_parameters():
        torch.testing.assert_close(trainer.key_encoder.get_parameter(name), weight)
        assert trainer.key_encoder.get_parameter(name).grad is None


def test_keys_are_computed_in_half_precision_where_queries_are(make_baseline, monkeypatch):
    trainer = make_baseline("momentum_contrast", max_steps=1, queue_size=16, bf16=True)
    computed = set()  # whether gradients are enabled, as they are for queries alone, and the dtype
    forward = torch.nn.Linear.forward

    def recorded_forward(layer, rows):
        products = forward(layer, rows)
        computed.add((torch.is_grad_enabled(), products.dtype))
        return products

    monkeypatch.setattr(torch.nn.Linear, "forward", recorded_forward)
    trainer.train()
    assert computed == {(True, torch.bfloat16), (False, torch.bfloat16)}


def test_a_queue_longer_than_the_corpus_is_warned_of(make_baseline, caplog):
    make_baseline("momentum_contrast", queue_size=36)
    assert "queue_size=36 is more than the 35 training documents" in caplog.text
