"""Contrastive Tension against a plain loop."""

import copy
import math
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.nn import functional
from transformers import AutoModel

from docsplit_hf import DocumentEncoder
from docsplit_hf.pretraining.half_retrieval import half_retrieval_metrics
from experiments.baselines.contrastive_tension import STATE_FILE, contrastive_tension


def random_pair(size=10, dimension=6):
    return torch.randn(2, size, dimension, generator=torch.Generator().manual_seed(0)) / 2


def reference(anchors, candidates, negatives):
    """The paper's definition pair by pair: a text against itself and K others."""
    losses = []
    for i, anchor in enumerate(anchors):
        for step in range(negatives + 1):
            score = float(anchor @ candidates[(i + step) % len(candidates)])
            losses.append(math.log(1 + math.exp(-score if step == 0 else score)))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("negatives", [1, 7, 9])
def test_the_loss_is_the_mean_binary_cross_entropy_of_the_pairs(negatives):
    anchors, candidates = random_pair()
    result = contrastive_tension(anchors, candidates, negatives=negatives)
    assert result.loss.mean().item() == pytest.approx(reference(anchors, candidates, negatives), abs=1e-5)
    assert (result.negatives == negatives).all()
    torch.testing.assert_close(result.positive_similarity, (anchors * candidates).sum(1))


def test_duplicates_are_not_negatives():
    anchors, candidates = random_pair(4)
    ids = torch.tensor([1, 2, 1, 3])
    result = contrastive_tension(anchors, candidates, 0, ids, ids, negatives=3)
    assert result.negatives.tolist() == [2, 3, 2, 3]
    pairs = [(0, 1.0), (1, 0.0), (3, 0.0)]
    scores = torch.stack([anchors[0] @ candidates[i] for i, _ in pairs])
    labels = torch.tensor([label for _, label in pairs])
    expected = functional.binary_cross_entropy_with_logits(scores, labels)
    torch.testing.assert_close(result.loss[0], expected)


def test_steps_equal_a_plain_loop_with_two_encoders(make_baseline, loss_of_steps):
    """With RMSprop and the schedule of the released code, with boundaries at 1 and 3 steps instead of 500 and 1000."""
    trainer = make_baseline(
        "contrastive_tension", "simcse", optim="rmsprop", optim_args="alpha=0.9,eps=1e-7", max_grad_norm=0,
        learning_rate=1e-4, learning_rate_steps={"1": 8e-5, "3": 6e-5}, max_steps=4, num_train_epochs=4, dropout=0.3,
    )  # fmt: skip
    batches = list(trainer.get_train_dataloader())
    encoders = copy.deepcopy(trainer.model.encoders).eval()
    optimizer = torch.optim.RMSprop([p for p in encoders.parameters() if p.requires_grad], 1e-4, alpha=0.9, eps=1e-7)
    expected = {}
    for step, batch in enumerate(batches, start=1):
        embeddings = []
        all_ids = batch["input_ids"].chunk(2)
        all_masks = batch["attention_mask"].chunk(2)
        for encoder, ids, mask in zip(encoders, all_ids, all_masks, strict=True):
            states = encoder.stock_forward(input_ids=ids, attention_mask=mask).last_hidden_state
            embeddings.append((states * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True))
        scores = []
        labels = []
        for i in range(8):
            for other in range(8):
                scores.append(embeddings[0][i] @ embeddings[1][other])
                labels.append(float(i == other))
        loss = functional.binary_cross_entropy_with_logits(torch.stack(scores), torch.tensor(labels))
        expected[step] = loss.item()
        optimizer.param_groups[0]["lr"] = {1: 1e-4, 2: 8e-5, 3: 8e-5, 4: 6e-5}[step]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss_of_steps(trainer) == pytest.approx(expected, rel=1e-5)
    for name, weight in trainer.model.encoders.named_parameters():
        if name.endswith("key.bias"):
            continue  # attention is invariant to it: its gradient is rounding error, which RMSprop scales up
        torch.testing.assert_close(weight, encoders.get_parameter(name), atol=1e-5, rtol=1e-4, msg=name)
    rates = [logs["learning_rate"] for logs in trainer.state.log_history if "loss" in logs]
    assert rates == pytest.approx([1e-4, 8e-5, 8e-5, 6e-5])


def test_both_encoders_are_evaluated_and_the_better_is_saved(make_baseline, tmp_path):
    trainer = make_baseline("contrastive_tension", "simcse", num_train_epochs=2, eval_strategy="epoch")
    trainer.train()
    with torch.no_grad():  # degrade the first one
        trainer.model.encoders[0].embeddings.word_embeddings.weight.fill_(1.0)
    metrics = trainer.evaluate()
    halves = trainer.evaluation_collator([trainer.eval_dataset[i] for i in range(13)])
    with torch.no_grad():
        second = trainer.model.encoders[1].eval()(halves["input_ids"], halves["attention_mask"]).embeddings
    expected = half_retrieval_metrics(*second.chunk(2), halves["document_ids"])
    assert metrics["eval_second_encoder_recall@1"] == metrics["eval_recall@1"] == pytest.approx(expected["recall@1"])
    assert metrics["eval_mrr"] == pytest.approx(expected["mrr"])
    assert metrics["eval_first_encoder_recall@1"] < metrics["eval_recall@1"]
    trainer.model.chosen.fill_(0)
    predicted = trainer.predict(trainer.train_dataset)  # a prediction does not choose between the encoders
    assert trainer.model.chosen == 0 and "test_second_encoder_recall@1" not in predicted.metrics
    trainer.model.chosen.fill_(1)
    trainer.save_model(str(tmp_path / "saved"))
    saved = AutoModel.from_pretrained(tmp_path / "saved")
    for name, weight in saved.named_parameters():
        assert weight.equal(trainer.model.encoders[1].get_parameter(name)), name
    assert saved.config.docsplit == {"pooling": "mean", "max_length": 64}
    assert DocumentEncoder.from_pretrained(str(tmp_path / "saved")).encode(["A text."]).shape == (1, 32)
    assert not (tmp_path / "saved" / STATE_FILE).exists()
    card = (tmp_path / "saved" / "README.md").read_text()
    assert "first_encoder_recall@1" in card


def test_the_card_lists_the_learning_rates(make_baseline):
    trainer = make_baseline("contrastive_tension", "simcse", optim="rmsprop", learning_rate_steps={1: 1e-6})
    trainer.save_model()
    card = Path(trainer.args.output_dir, "README.md").read_text()
    assert "| Learning rate | 0.001 (constant), rmsprop |" in card
    assert "learning_rate_steps {1: 1e-06}" in card


def test_chunks_give_the_steps_of_the_whole_batch(make_baseline, loss_of_steps):
    make = partial(make_baseline, "contrastive_tension", "simcse_long", max_steps=2, optim="sgd", max_grad_norm=0)
    whole = make()
    chunked = make(forward_chunk_size=3)
    assert loss_of_steps(chunked) == pytest.approx(loss_of_steps(whole), rel=1e-5)
    for name, weight in whole.model.named_parameters():
        torch.testing.assert_close(chunked.model.get_parameter(name), weight, atol=1e-6, rtol=1e-5, msg=name)
