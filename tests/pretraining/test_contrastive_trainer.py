"""Losses, gradients, logs and evaluation of the contrastive trainer."""

import itertools
from functools import partial
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, BigBirdConfig, TrainerCallback

from docsplit_hf import AutoModelForDocSplit, ContrastiveTrainer, ContrastiveTrainingArguments, DataCollatorForDocSplit
from docsplit_hf.pretraining.half_retrieval import evaluations_by_step
from docsplit_hf.pretraining.info_nce import info_nce
from docsplit_hf.training.arguments import freeze_unused


@pytest.fixture
def make_trainer(tiny_config, tokenizer, documents, tmp_path):
    def make(
        mlm_head=True,
        max_length=64,
        eval_dataset=None,
        views_kwargs=None,
        per_device_train_batch_size=8,
        save_strategy="no",
        **arguments,
    ):
        args = ContrastiveTrainingArguments(
            str(tmp_path / "run"),
            use_cpu=True,
            disable_tqdm=True,
            report_to="none",
            seed=0,
            per_device_train_batch_size=per_device_train_batch_size,
            save_strategy=save_strategy,
            **arguments,
        )
        torch.manual_seed(0)
        model = AutoModelForDocSplit.from_config(tiny_config, mlm_head=mlm_head)
        probability = 0.15 if args.mlm_weight else 0
        collator = DataCollatorForDocSplit(tokenizer, max_length, probability, views_kwargs=views_kwargs)
        split = documents.train_test_split(test_size=13, seed=0)
        return ContrastiveTrainer(
            model, args, split["train"], eval_dataset or split["test"], collator, processing_class=tokenizer
        )

    return make


def model_inputs(batch):
    """The tensors of a batch that the model takes."""
    return {name: tensor for name, tensor in batch.items() if name not in ("document_ids", "view_lengths")}


def gradients_after_one_step(trainer):
    """The gradients that the optimizer gets, by parameter."""
    captured = {}

    class Capture(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, **kwargs):
            for name, parameter in trainer.model.named_parameters():
                captured[name] = None if parameter.grad is None else parameter.grad.clone()

    trainer.add_callback(Capture())
    trainer.train()
    return captured


def test_one_step_is_info_nce_plus_a_tenth_of_the_stock_mlm_loss(make_trainer):
    trainer = make_trainer(max_steps=1, logging_steps=1, learning_rate=0.0)
    batch = next(iter(trainer.get_train_dataloader()))
    stock = AutoModelForMaskedLM.from_config(trainer.model.config)
    stock.load_state_dict(trainer.model.state_dict())
    hidden = stock.bert(batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    contrastive = info_nce(*hidden[:, 0].chunk(2)).loss.mean()
    mlm = stock(batch["mlm_input_ids"], attention_mask=batch["attention_mask"], labels=batch["mlm_labels"]).loss
    torch.testing.assert_close(trainer.compute_loss(trainer.model, batch), contrastive + 0.1 * mlm)


def test_the_loss_of_three_views_is_the_mean_over_pairs(make_trainer):
    trainer = make_trainer(views_kwargs={"parts": 3}, logging_steps=1, max_steps=1)
    batch = next(iter(trainer.get_train_dataloader()))
    output = trainer.model.train()(**model_inputs(batch))
    assert output.embeddings.shape == (24, 32)
    losses = []
    for first, second in itertools.combinations(output.embeddings.chunk(3), 2):
        losses.append(info_nce(first, second).loss.mean())
    expected = torch.stack(losses).mean() + 0.1 * output.mlm_loss
    torch.testing.assert_close(trainer.compute_loss(trainer.model, batch), expected)
    trainer.train()
    logs = trainer.state.log_history[0]
    assert logs["negatives"] == 7 and 0 < logs["in_batch_accuracy"] < 1
    trainer.save_model()
    card = (Path(trainer.args.output_dir) / "README.md").read_text()
    assert "| Views | docsplit, parts 3 |" in card
    assert "| Objective | info_nce, temperature 0.05, similarity cosine, mlm_weight 0.1," in card


def test_the_loss_uses_projected_embeddings_and_the_evaluation_plain_ones(make_trainer):
    trainer = make_trainer(projection_head=True, max_steps=1, logging_steps=1)
    batch = next(iter(trainer.get_train_dataloader()))
    model = trainer.model.eval()
    output = model(**model_inputs(batch))
    anchors, positives = torch.tanh(model.projection_head.dense(output.embeddings)).chunk(2)
    expected = info_nce(anchors, positives).loss.mean() + 0.1 * output.mlm_loss
    torch.testing.assert_close(trainer.compute_loss(model.train(), batch), expected)
    assert trainer.evaluate()["eval_mrr"] == make_trainer().evaluate()["eval_mrr"]
    gradients = gradients_after_one_step(trainer)
    assert all(gradients[f"projection_head.dense.{name}"].abs().max() > 1e-4 for name in ("weight", "bias"))


def test_logs_have_losses_accuracies_similarities_and_truncation(make_trainer):
    trainer = make_trainer(max_steps=1, logging_steps=1, max_length=16, eval_strategy="steps", eval_steps=1)
    trainer.train()
    logs = next(logs for logs in trainer.state.log_history if "loss" in logs)
    assert logs["loss"] == pytest.approx(logs["contrastive_loss"] + 0.1 * logs["mlm_loss"], rel=1e-5)
    assert logs["negatives"] == 7
    assert 0 <= logs["in_batch_accuracy"] <= 1
    assert -1 <= logs["negative_similarity"] <= logs["positive_similarity"] + 0.1 <= 1.1
    assert 0 < logs["fraction_tokens_cut"] < 1
    evaluation = next(logs for logs in trainer.state.log_history if "eval_loss" in logs)
    assert {"eval_recall@1", "eval_recall@10", "eval_mrr", "eval_contrastive_loss"} <= set(evaluation)
    assert evaluation["eval_chance_recall@1"] == pytest.approx(1 / 13)  # all 13, though 8 make a batch
    trainer.data_collator.set_epoch(3)
    trainer.args.per_device_eval_batch_size = 3
    assert trainer.evaluate()["eval_mrr"] == evaluation["eval_mrr"]  # the same halves in every batch and epoch
    prediction = trainer.predict(trainer.eval_dataset)
    assert [views.shape for views in prediction.predictions] == [(13, 32), (13, 32)]
    assert trainer.means.pop() == {} and trainer.args.dataloader_drop_last


def test_the_tokens_cut_are_counted_in_the_logs(make_trainer):
    trainer = make_trainer(max_steps=3, logging_steps=2, max_length=12)
    trainer.train()
    batches = list(make_trainer(max_steps=3, max_length=12).get_train_dataloader())
    totals = [int(batch["view_lengths"].sum()) for batch in batches]
    cut = [int((batch["view_lengths"] - 10).clamp(min=0).sum()) for batch in batches]
    logged = trainer.state.log_history[0]["fraction_tokens_cut"]
    assert logged == pytest.approx(sum(cut[:2]) / sum(totals[:2]), rel=1e-5)


def test_accumulation_gives_the_mlm_gradient_of_the_whole_batch(make_trainer):
    def mlm_gradients(size, steps):
        trainer = make_trainer(
            per_device_train_batch_size=size,
            gradient_accumulation_steps=steps,
            max_steps=1,
            max_grad_norm=0,
            train_sampling_strategy="sequential",
        )

        def without_gradient(embeddings, inputs):
            """No contrastive gradient, since it depends on the number of negatives, which accumulation changes."""
            anchors, _ = embeddings.detach().chunk(2)
            return info_nce(anchors, anchors)

        trainer.contrast = without_gradient
        return gradients_after_one_step(trainer)

    whole = mlm_gradients(8, 1)
    accumulated = mlm_gradients(2, 4)
    assert max(gradient.abs().max() for gradient in whole.values()) > 1e-3
    for name, gradient in whole.items():
        torch.testing.assert_close(accumulated[name], gradient, atol=1e-6, rtol=1e-5, msg=name)


@pytest.mark.parametrize(
    "size, options",
    [
        (3, {}),
        (3, {"mlm_weight": 0.0}),
        (3, {"activation_checkpointing": True, "views_kwargs": {"parts": 3}}),
        (7, {"views_kwargs": {"parts": 4}}),
        (3, {"projection_head": True}),
    ],
    ids=str,
)
def test_chunks_give_the_gradients_of_the_whole_batch(make_trainer, size, options):
    make = partial(make_trainer, max_steps=1, max_grad_norm=0, logging_steps=1, **options)
    whole = make()
    chunked = make(forward_chunk_size=size)
    expected = gradients_after_one_step(whole)
    found = gradients_after_one_step(chunked)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-5, rtol=1e-5, msg=name)
    logs = chunked.state.log_history[0]
    expected_logs = whole.state.log_history[0]
    for name in {name for name in expected_logs if "loss" in name} | {"negatives", "fraction_tokens_cut"}:
        assert logs[name] == pytest.approx(expected_logs[name], abs=1e-5), name


def test_chunks_of_an_accumulated_batch_with_lora(make_trainer, tiny_checkpoint):
    def adapted(**arguments):
        trainer = make_trainer(
            max_steps=1, max_grad_norm=0, gradient_accumulation_steps=2, per_device_train_batch_size=4,
            projection_head=True, **arguments
        )  # fmt: skip
        model = AutoModelForDocSplit.from_pretrained(str(tiny_checkpoint))
        torch.manual_seed(0)
        model = get_peft_model(model, LoraConfig(target_modules="all-linear", init_lora_weights=False))
        return ContrastiveTrainer(
            model,
            trainer.args,
            trainer.train_dataset,
            trainer.eval_dataset,
            trainer.data_collator,
            processing_class=trainer.processing_class,
        )

    expected = gradients_after_one_step(adapted())
    chunked = adapted(forward_chunk_size=3)
    found = gradients_after_one_step(chunked)
    chunked.save_model()
    assert not any("projection" in name for name in load_file(f"{chunked.args.output_dir}/adapter_model.safetensors"))
    assert sum(gradient is not None for gradient in expected.values()) > 4
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-5, rtol=1e-5, msg=name)


def test_without_mlm_the_head_is_frozen_and_every_other_parameter_is_trained(make_trainer):
    trainer = make_trainer(mlm_weight=0.0, max_steps=1)
    frozen = {name for name, parameter in trainer.model.named_parameters() if not parameter.requires_grad}
    assert frozen and all(name.startswith("cls.") for name in frozen)
    headless = make_trainer(mlm_head=False, mlm_weight=0.0, max_steps=1)
    frozen = {name for name, parameter in headless.model.named_parameters() if not parameter.requires_grad}
    assert frozen == {"pooler.dense.weight", "pooler.dense.bias"}
    gradients = gradients_after_one_step(headless)
    assert all(gradient is not None for name, gradient in gradients.items() if name not in frozen)


def test_an_unused_pooler_is_frozen_with_mlm_too_for_ddp():
    config = BigBirdConfig(
        vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, attention_type="original_full"
    )
    model = AutoModelForDocSplit.from_config(config)
    freeze_unused(model)
    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    assert frozen == {"bert.pooler.weight", "bert.pooler.bias"}


def test_the_best_checkpoint_has_the_best_recall(make_trainer):
    """The first of equal ones: the learning rate is so small that both have the same recall."""
    trainer = make_trainer(
        max_steps=2,
        learning_rate=1e-6,
        eval_strategy="steps",
        eval_steps=1,
        save_strategy="steps",
        save_steps=1,
        load_best_model_at_end=True,
    )
    trainer.train()
    recalls = [logs["eval_recall@1"] for logs in trainer.state.log_history if "eval_recall@1" in logs]
    assert trainer.state.best_metric == max(recalls) == recalls[0]
    first = load_file(f"{trainer.args.output_dir}/checkpoint-1/model.safetensors")
    last = load_file(f"{trainer.args.output_dir}/checkpoint-2/model.safetensors")
    loaded = trainer.model.state_dict()
    assert all(loaded[name].equal(weight) for name, weight in first.items())
    assert not any(loaded[name].equal(weight) for name, weight in last.items() if name.endswith("dense.weight"))


def test_several_sets_to_evaluate_on(make_trainer, documents):
    sets = {"first": documents.select(range(9)), "second": documents.select(range(9, 20))}
    trainer = make_trainer(
        eval_dataset=sets, max_steps=2, eval_strategy="steps", eval_steps=1, save_strategy="steps", save_steps=1,
        load_best_model_at_end=True,
    )  # fmt: skip
    trainer.train()
    by_step = evaluations_by_step(trainer.state.log_history)
    assert [evaluation["step"] for evaluation in by_step] == [1, 2]
    assert trainer.state.best_metric == max(evaluation["eval_first_recall@1"] for evaluation in by_step)
    assert {"eval_second_mrr", "eval_first_contrastive_loss", "eval_second_mlm_loss"} <= set(by_step[0])
    trainer.save_model()
    card = (Path(trainer.args.output_dir) / "README.md").read_text()
    assert "| first_recall@1 |" in card and "| second_recall@10 |" in card
    assert f"of step {trainer.state.best_global_step}, the best" in card


def test_accumulation_averages_the_contrastive_loss_of_its_batches(make_trainer):
    losses = {}
    for steps in (1, 2):
        trainer = make_trainer(
            per_device_train_batch_size=4, gradient_accumulation_steps=steps, max_steps=2 // steps, learning_rate=0.0,
            logging_steps=2 // steps, train_sampling_strategy="sequential",
        )  # fmt: skip
        trainer.train()
        losses[steps] = trainer.state.log_history[0]
    for name in ("contrastive_loss", "negatives", "positive_similarity"):
        assert losses[1][name] == pytest.approx(losses[2][name], rel=1e-5)
    assert losses[2]["negatives"] == 3
