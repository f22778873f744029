"""Interrupted and resumed runs with their extra modules: a projection head, a key encoder, two encoders, a map."""

import multiprocessing
from functools import partial
from pathlib import Path

import pytest
from safetensors.torch import load_file
from transformers import TrainerCallback

from docsplit_hf.training import arguments

RUNS = {  # views, the file of the extra modules, and options
    "info_nce": ("docsplit", "projection_head.safetensors", {"projection_head": True}),
    "momentum_contrast": ("cropping", "momentum_contrast.safetensors", {"queue_size": 20, "momentum": 0.5}),
    "contrastive_tension": ("simcse", "contrastive_tension.safetensors", {"optim": "rmsprop"}),
    "distillation": ("docsplit", "teacher_map.safetensors", {"teacher": "docsplit-small-en"}),
}


@pytest.mark.parametrize("objective", [
    "info_nce",
    "momentum_contrast",
    pytest.param("contrastive_tension", marks=pytest.mark.slow),
    pytest.param("distillation", marks=pytest.mark.slow),
])  # fmt: skip
def test_a_resumed_run_equals_an_uninterrupted_one(make_baseline, loss_of_steps, stop_after, objective, caplog):
    views, file, options = RUNS[objective]
    make = partial(
        make_baseline,
        objective,
        views,
        dropout=0.1,
        per_device_train_batch_size=11,
        max_steps=4,  # the fourth step is in the second epoch
        save_strategy="steps",
        save_steps=2,
        eval_strategy="steps",
        eval_steps=2,
        load_best_model_at_end=True,
        **options,
    )
    alone = make(folder="alone")
    expected = loss_of_steps(alone)
    interrupted = make()
    interrupted.add_callback(stop_after(3))
    interrupted.train()
    resumed = make()
    folder = Path(resumed.args.output_dir)
    caplog.clear()
    found = loss_of_steps(resumed, str(folder / "checkpoint-2"))
    assert "missing keys" not in caplog.text
    assert list(found) == list(expected) == [1, 2, 3, 4] and found == expected  # to the last bit
    modules = {"model": resumed.model, **resumed.modules_to_resume()}
    for module, other in zip(modules.values(), [alone.model, *alone.modules_to_resume().values()], strict=True):
        for name, tensor in module.state_dict().items():
            assert tensor.equal(other.state_dict()[name]), name
    assert resumed.evaluate()["eval_recall@1"] == resumed.state.best_metric == alone.state.best_metric
    checkpoint = folder / "checkpoint-4"
    assert not set(load_file(checkpoint / "model.safetensors")) & set(load_file(checkpoint / file))
    resumed.save_model()
    assert not (folder / file).exists()  # modules for resuming are not published
    has_note = "projection_head True" in (folder / "README.md").read_text()
    assert has_note == (objective == "info_nce")
    (checkpoint / file).unlink()
    with pytest.raises(ValueError, match=f"checkpoint-4 has no {file}, so it cannot be resumed"):
        make().train(str(checkpoint))


class CountWorkers(TrainerCallback):
    """Counts the child processes at each step, and after each evaluation."""

    def __init__(self):
        self.counts = []

    def on_step_end(self, args, state, control, **kwargs):
        self.counts.append(len(multiprocessing.active_children()))

    def on_evaluate(self, args, state, control, **kwargs):
        self.counts.append(len(multiprocessing.active_children()))


@pytest.mark.slow
def test_a_run_with_the_workers_of_cuda_equals_one_without_also_when_resumed(
    make_baseline, loss_of_steps, stop_after, monkeypatch
):
    make = partial(
        make_baseline,
        "info_nce",
        num_train_epochs=3,  # of 4 steps
        train_sampling_strategy="random",
        save_strategy="steps",
        save_steps=3,
        eval_strategy="steps",
        eval_steps=3,
    )
    before = len(multiprocessing.active_children())
    alone = make(folder="alone")
    expected = loss_of_steps(alone)
    monkeypatch.setattr(arguments, "training_device_type", lambda use_cpu: "cuda")
    monkeypatch.setattr(arguments, "core_count", lambda: 4)
    whole = make(folder="whole")
    assert whole.args.dataloader_num_workers == 2
    counts = CountWorkers()
    whole.add_callback(counts)
    assert loss_of_steps(whole) == expected
    assert {before + 2} <= set(counts.counts) <= {before, before + 2}  # none stay after an epoch or an evaluation
    interrupted = make()
    interrupted.add_callback(stop_after(6))
    interrupted.train()
    resumed = make()
    found = loss_of_steps(resumed, str(Path(resumed.args.output_dir, "checkpoint-6")))
    assert list(found) == list(range(1, 13)) and found == expected  # to the last bit
    for documents in (None, alone.train_dataset):
        evaluated = resumed.evaluate(documents)
        expected_metrics = alone.evaluate(documents)
        for name in ("eval_loss", "eval_recall@1", "eval_mrr"):
            assert evaluated[name] == expected_metrics[name]
