"""Fine-tuning, from training to the pipeline."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import ClassLabel, Dataset, List
from transformers import TrainerCallback, pipeline

from docsplit_hf import (
    KNNClassifier,
    KNNClassifierConfig,
    KNNClassifierPipeline,
    KNNClassifierTrainer,
    KNNClassifierTrainingArguments,
    KNNDatastore,
)
from docsplit_hf.encoding.portable.run_encoder import is_packed
from docsplit_hf.finetuning.knn_classifier_trainer import lora_around
from docsplit_hf.finetuning.metrics_of_parts import evaluate_parts
from docsplit_hf.finetuning.triplets import choose_triplets, same_labels
from docsplit_hf.reading.labels import labels_by_name

NAMES = ["river", "engine", "other"]


@pytest.fixture(scope="module")
def examples(texts):
    labels = [next((i for i, name in enumerate(NAMES) if name in text), 2) for text in texts]
    data = Dataset.from_dict({"text": texts, "label": labels}).cast_column("label", ClassLabel(names=NAMES))
    return data.train_test_split(test_size=12, seed=0)


@pytest.fixture
def make_trainer(tiny_config, tokenizer, examples, tmp_path):
    def make(
        lora=False,
        pooling="mean",
        model_options=(),
        train=None,
        held_out=True,
        learning_rate=1e-3,
        per_device_train_batch_size=9,
        **arguments,
    ):
        torch.manual_seed(0)
        config = KNNClassifierConfig(
            encoder_config=tiny_config, id2label=dict(enumerate(NAMES)), pooling=pooling, k=8, **dict(model_options)
        )
        model = KNNClassifier(config)
        args = KNNClassifierTrainingArguments(
            str(tmp_path / "run"),
            use_cpu=True,
            disable_tqdm=True,
            report_to="none",
            learning_rate=learning_rate,
            per_device_train_batch_size=per_device_train_batch_size,
            **arguments,
        )
        evaluation = examples["test"] if held_out else None
        return KNNClassifierTrainer(
            lora_around(model, 2) if lora else model, args, train or examples["train"], evaluation, tokenizer
        )

    return make


def pipeline_of(trainer):
    """The trained classifier and its datastore, as a pipeline."""
    return KNNClassifierPipeline(trainer.classifier, trainer.processing_class, trainer.datastore, device="cpu")


def calibrated(trainer):
    held_out = trainer.eval_dataset
    return pipeline_of(trainer).calibrate(held_out_texts=held_out, held_out_labels=labels_by_name(held_out))


def metrics_of(trainer, dataset):
    return evaluate_parts(pipeline_of(trainer).embedder, trainer.datastore, dataset, "test")


def test_the_loss_is_equation_4(make_trainer):
    trainer = make_trainer(triplet_weight=0.3, triplet_margin=0.7)
    batch = next(iter(trainer.get_train_dataloader()))
    trainer.model.eval()
    output = trainer.model(batch["input_ids"], batch["attention_mask"])
    labels = batch["labels"]
    anchors = output.retrieval_embeddings
    random = make_trainer(triplet_weight=0.3)._generator()
    positives, negatives = choose_triplets(same_labels(labels, labels), torch.arange(9), random)
    to_positives = ((anchors - anchors[positives]) ** 2).sum(1)
    to_negatives = ((anchors - anchors[negatives]) ** 2).sum(1)
    triplet_loss = torch.clamp(to_positives - to_negatives + 0.7, min=0).mean()
    expected = 0.7 * torch.nn.functional.cross_entropy(output.logits, labels) + 0.3 * triplet_loss
    torch.testing.assert_close(trainer.compute_loss(trainer.model, batch), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("lora", [False, True])
def test_losses_with_and_without_packing_are_equal(make_trainer, lora):
    losses = {}
    for packing in ("auto", "off"):
        trainer = make_trainer(lora, packing=packing, max_steps=2, logging_steps=1)
        trainer.train()
        assert is_packed(trainer.classifier.encoder) == (packing == "auto")
        losses[packing] = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses["auto"] == pytest.approx(losses["off"], abs=1e-4)


def test_training_lowers_both_losses_and_logs_them(make_trainer):
    trainer = make_trainer(
        num_train_epochs=15, learning_rate=3e-3, logging_steps=4, eval_strategy="steps", eval_steps=50
    )
    before = trainer.evaluate()
    trainer.train()
    after = trainer.evaluate()
    assert trainer.means.pop() == {}  # the means of an evaluation are separate
    assert after["eval_log_loss"] < before["eval_log_loss"]
    logs = [logs for logs in trainer.state.log_history if "loss" in logs]
    for name in ("classification_loss", "triplet_loss"):
        assert logs[-1][name] < 0.8 * logs[0][name]
    assert logs[0]["loss"] == pytest.approx(
        0.5 * logs[0]["classification_loss"] + 0.5 * logs[0]["triplet_loss"], rel=1e-4
    )
    assert 0 <= logs[-1]["active_triplets"] <= 1
    evaluation = next(logs for logs in trainer.state.log_history if "eval_accuracy" in logs)
    assert {"eval_macro_f1", "eval_log_loss", "eval_loss", "eval_triplet_loss"} <= set(evaluation)


@pytest.mark.parametrize("workers", [0, 1])
def test_the_tokens_cut_are_in_the_logs(make_trainer, examples, tokenizer, workers):
    trainer = make_trainer(
        model_options={"max_length": 20},
        num_train_epochs=1,
        logging_steps=4,  # all examples
        dataloader_num_workers=workers,
    )
    trainer.train()

    def share(part):
        lengths = np.array([len(tokenizer.tokenize(text)) for text in examples[part]["text"]])
        return pytest.approx((lengths - 18).clip(0).sum() / lengths.sum(), rel=1e-5)

    assert trainer.state.log_history[0]["fraction_tokens_cut"] == share("train")
    assert trainer.evaluate()["eval_loss"]
    assert trainer.state.log_history[-1]["eval_fraction_tokens_cut"] == share("test")


def logged_losses(trainer):
    return [logs["loss"] for logs in trainer.state.log_history if "loss" in logs]


def test_a_resumed_run_equals_an_uninterrupted_one(make_trainer):
    make = partial(make_trainer, max_steps=3, save_steps=2, logging_steps=1, save_strategy="steps")
    whole = make()
    whole.train()
    resumed = make()
    resumed.train(resume_from_checkpoint=f"{resumed.args.output_dir}/checkpoint-2")
    assert logged_losses(whole) == logged_losses(resumed)
    for name, value in whole.model.state_dict().items():
        assert value.equal(resumed.model.state_dict()[name]), name


def test_a_finished_run_does_no_further_step_when_it_is_resumed(make_trainer):
    make = partial(make_trainer, num_train_epochs=1.5, save_steps=6, logging_steps=1, save_strategy="steps")
    whole = make()
    whole.train()
    resumed = make()
    resumed.train(resume_from_checkpoint="last")
    assert resumed.state.global_step == 6 and logged_losses(whole) == logged_losses(resumed)
    for name, value in whole.model.state_dict().items():
        assert value.equal(resumed.model.state_dict()[name]), name


def test_a_trained_classifier_is_evaluated_saved_and_loaded(make_trainer, examples, tokenizer):
    trainer = make_trainer(num_train_epochs=1)
    trainer.train()
    datastore = trainer.build_datastore(show_progress=False)
    assert len(datastore) == 36 and datastore.label_names == tuple(NAMES)
    calibration = calibrated(trainer)
    metrics = metrics_of(trainer, examples["test"])
    trainer.log(dict(metrics))
    trainer.save_model()
    folder = trainer.args.output_dir
    pipe = pipeline("docsplit-knn", model=folder, device="cpu")
    assert (pipe.model.config.k, pipe.model.config.knn_weight) == (calibration.k, calibration.weight)
    answers = pipe(examples["test"]["text"][:])
    gold = [NAMES[label] for label in examples["test"]["label"]]
    assert np.mean([a["label"] == g for a, g in zip(answers, gold, strict=True)]) == metrics["test_mixture_accuracy"]
    card = Path(folder, "README.md").read_text()
    assert "| river |" in card and "| mixture |" in card and "held-out examples" in card
    arguments = json.loads(Path(folder, "training_args.json").read_text())
    assert arguments["triplet_weight"] == 0.5


def test_experts_are_evaluated_in_addition_to_the_mixture(make_trainer, examples):
    """Metrics of classifier, neighbors and mixture do not change; those of the experts equal the saved folder's."""
    trainer = make_trainer(num_train_epochs=1)
    trainer.train()
    trainer.build_datastore(show_progress=False)
    calibrated(trainer)
    before = metrics_of(trainer, examples["test"])
    pipe = pipeline_of(trainer)
    pipe.add_documents([f"{text} Again." for text in examples["train"]["text"]])
    report = pipe.fit(
        held_out_texts=examples["test"], held_out_labels=labels_by_name(examples["test"]), show_progress=False
    )
    assert (report.examples, report.documents, report.measured_on) == (36, 36, "held-out texts")
    metrics = metrics_of(trainer, examples["test"])
    trainer.log(dict(metrics))
    assert {name: value for name, value in metrics.items() if "_experts_" not in name} == before
    trainer.save_model()
    pipe = pipeline("docsplit-knn", model=trainer.args.output_dir, device="cpu")
    gold = [NAMES[label] for label in examples["test"]["label"]]
    answers = pipe(examples["test"]["text"][:], explain=True)
    assert np.mean([a["label"] == g for a, g in zip(answers, gold, strict=True)]) == metrics["test_experts_accuracy"]
    assert set(answers[0]["explanation"]["experts"]) == set(report.shares)
    card = Path(trainer.args.output_dir, "README.md").read_text()
    assert "The report of the fit:" in card and "\nensemble " in card and "| mixture |" in card


def test_training_reads_the_prompt(make_trainer, examples, tokenizer):
    trainer = make_trainer(model_options={"prompt": "the river "})
    batch = trainer.data_collator(list(examples["train"].select(range(2))))
    prompted = ["the river " + text for text in examples["train"]["text"][:2]]
    expected = tokenizer(prompted, padding=True, truncation=True, max_length=64)["input_ids"]
    assert batch["input_ids"].tolist() == expected
    with pytest.raises(ValueError, match="include_prompt=False"):
        make_trainer(model_options={"prompt": "the river ", "include_prompt": False})


def test_unsuitable_options_for_long_documents_are_refused_before_training(make_trainer):
    with pytest.raises(ValueError, match="passage_length=65 is more than the 64 tokens that the model reads"):
        make_trainer(model_options={"long_documents": "passages", "passage_length": 65})


def test_an_interrupted_run_can_be_saved_completely(make_trainer):
    class Interrupt(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if state.best_model_checkpoint is not None:
                raise KeyboardInterrupt

    trainer = make_trainer(max_steps=2, eval_strategy="steps", eval_steps=1, save_steps=1, load_best_model_at_end=True)
    trainer.add_callback(Interrupt())
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    trainer.build_datastore(show_progress=False)
    trainer.save_model()
    assert len(KNNDatastore.from_pretrained(trainer.args.output_dir)) == 36
    card = Path(trainer.args.output_dir, "README.md").read_text()
    assert "| Weights | of the last step |" in card  # the best were never loaded


def test_lora_trains_resumes_and_is_merged_at_the_end(make_trainer, examples):
    trainer = make_trainer(lora=True, max_steps=2, save_steps=1, save_strategy="steps")
    trained = {name.split(".")[2] for name, weight in trainer.model.named_parameters() if weight.requires_grad}
    assert trained == {"classifier", "encoder", "retrieval_head"}
    trainer.train()
    again = make_trainer(lora=True, max_steps=2, save_steps=1, save_strategy="steps")
    again.train(resume_from_checkpoint=f"{trainer.args.output_dir}/checkpoint-1")
    for (name, value), other in zip(trainer.model.named_parameters(), again.model.parameters(), strict=True):
        assert value.equal(other), name
    trainer.build_datastore(show_progress=False)
    calibration = calibrated(trainer)
    trainer.save_model()
    saved = KNNClassifier.from_pretrained(trainer.args.output_dir)
    assert (saved.config.k, saved.config.knn_weight) == (calibration.k, calibration.weight)
    batch = next(iter(trainer.get_eval_dataloader()))
    expected = trainer.model.eval()(**batch).logits
    torch.testing.assert_close(saved.eval()(**batch).logits, expected, atol=1e-5, rtol=1e-4)
    assert pipeline("docsplit-knn", model=trainer.args.output_dir)(examples["test"]["text"][0])


def test_several_labels_per_text(make_trainer, examples, tokenizer, tiny_config, tmp_path):
    def several(row):
        return {"label": [i for i, name in enumerate(NAMES) if name in row["text"]]}

    data = examples.map(several, remove_columns="label").cast_column("label", List(ClassLabel(names=NAMES)))
    config = KNNClassifierConfig(
        encoder_config=tiny_config, id2label=dict(enumerate(NAMES)), problem_type="multi_label_classification"
    )
    args = KNNClassifierTrainingArguments(str(tmp_path / "run"), use_cpu=True, report_to="none", max_steps=1)
    trainer = KNNClassifierTrainer(KNNClassifier(config), args, data["train"], data["test"], tokenizer)
    trainer.train()
    assert trainer.build_datastore(show_progress=False).multi_label
    assert 0 <= calibrated(trainer).weight <= 1
    assert 0 <= metrics_of(trainer, data["test"])["test_mixture_macro_f1"] <= 1


def test_accumulation_is_the_mean_of_its_batches(make_trainer):
    captured = []

    class Capture(TrainerCallback):
        def on_pre_optimizer_step(self, args, state, control, model, **kwargs):
            captured.append(model.classifier.weight.grad.clone())

    for batch_size, accumulated in ((12, 1), (4, 3)):
        trainer = make_trainer(
            model_options={"decouple": False},
            triplet_weight=0.0,
            max_steps=1,
            per_device_train_batch_size=batch_size,
            gradient_accumulation_steps=accumulated,
            max_grad_norm=0.0,
        )
        trainer.add_callback(Capture())
        trainer.train()
    torch.testing.assert_close(captured[0], captured[1], atol=1e-6, rtol=1e-5)


def test_build_keeps_ids_pairs_and_texts(make_trainer, tokenizer, texts):
    data = Dataset.from_dict(
        {"text": texts[:6], "text_pair": texts[6:12], "label": [0, 1, 2] * 2, "id": list("abcdef")}
    ).cast_column("label", ClassLabel(names=NAMES))
    model = make_trainer().classifier
    datastore = KNNDatastore.build(model, tokenizer, data, show_progress=False)
    assert (
        datastore.ids == list("abcdef")
        and datastore.snapshot.rows["text_pair"].to_pylist() == texts[6:12]
        and datastore.texts == texts[:6]
    )
    bare = KNNDatastore.build(model, tokenizer, data, store_texts=False, dtype="float16", show_progress=False)
    assert set(bare.texts) == {None} and bare.snapshot.keys.dtype == "float16"
