"""Checkpoints of all trainers: resuming, Ctrl-C, rotation and file permissions."""

import os
import signal
import stat
from functools import partial
from pathlib import Path

import pytest
from transformers import TrainerCallback

from docsplit_hf.training import base_trainer

SAVING = {"save_strategy": "steps", "save_steps": 1}


class PressCtrlC(TrainerCallback):
    """Sends SIGINT to this process while a step is computed, as Ctrl-C does."""

    def __init__(self, step, times=1):
        self.step = step
        self.times = times

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        if state.global_step + 1 == self.step:
            for _ in range(self.times):
                os.kill(os.getpid(), signal.SIGINT)


def checkpoints(trainer):
    return sorted(path.name for path in Path(trainer.args.output_dir).glob("checkpoint-*"))


def test_a_new_run_never_resumes_an_older_one(make_baseline, loss_of_steps, stop_after, caplog):
    make_baseline("info_nce", max_steps=2, **SAVING).train()
    seen = []

    class BeforeTheFirstStep(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            seen.append(sorted(Path(args.output_dir).glob("checkpoint-*")))

    begun = make_baseline("info_nce", max_steps=2, seed=9, **SAVING)
    begun.add_callback(BeforeTheFirstStep())
    begun.add_callback(stop_after(1))
    begun.train()
    assert seen[0] == [] and "Older checkpoints were moved to" in caplog.text
    resumed = make_baseline("info_nce", max_steps=2, seed=9, **SAVING)
    found = loss_of_steps(resumed, "last")
    assert resumed._initial_global_step == 1
    assert found == loss_of_steps(make_baseline("info_nce", max_steps=2, seed=9, folder="alone"))


def test_another_run_is_not_resumed(make_baseline):
    trainer = make_baseline("info_nce", max_steps=1, **SAVING)
    trainer.train()
    before = checkpoints(trainer)
    with pytest.raises(ValueError, match="temperature: 0.05, now 0.1.*views: 'docsplit', now 'simcse_long'"):
        make_baseline("info_nce", "simcse_long", max_steps=1, temperature=0.1, **SAVING).train("last")
    other = make_baseline("info_nce", max_steps=1, **SAVING)
    other.train_dataset = other.train_dataset.select(range(30))
    with pytest.raises(ValueError, match="training_rows: 35, now 30; training_rows_checksum: .*start a new run from"):
        other.train("last")
    assert checkpoints(trainer) == before


def test_a_users_folder_checkpoint_best_is_neither_resumed_nor_deleted(make_baseline, stop_after):
    make = partial(make_baseline, "info_nce", max_steps=3, save_total_limit=1, **SAVING)
    trainer = make()
    kept = Path(trainer.args.output_dir, "checkpoint-best")
    kept.mkdir(parents=True)
    (kept / "trainer_state.json").write_text("{}")
    trainer.add_callback(stop_after(2))
    trainer.train()
    assert checkpoints(trainer) == ["checkpoint-2", "checkpoint-best"]
    again = make()
    again.train("last")
    assert checkpoints(again) == ["checkpoint-3", "checkpoint-best"] and again.args.save_total_limit == 1


@pytest.mark.parametrize("objective, options", [
    ("info_nce", {"projection_head": True}), ("momentum_contrast", {"queue_size": 20}), ("contrastive_tension", {}),
])  # fmt: skip
def test_weights_have_the_usual_file_permissions(make_baseline, objective, options):
    views = "simcse" if objective == "contrastive_tension" else "docsplit"
    trainer = make_baseline(objective, views, max_steps=1, **SAVING, **options)
    trainer.train()
    trainer.save_model()
    weights = list(Path(trainer.args.output_dir).rglob("*.safetensors"))
    assert len(weights) == 3
    mask = os.umask(0)
    os.umask(mask)
    assert {stat.S_IMODE(file.stat().st_mode) for file in weights} == {0o666 & ~mask}


def test_ctrl_c_saves_a_checkpoint_that_is_resumed_exactly(make_baseline, loss_of_steps, monkeypatch):
    monkeypatch.setattr(base_trainer, "SECONDS_WORTH_SAVING", -1)
    make = partial(make_baseline, "info_nce", max_steps=3, save_strategy="steps", save_steps=100, dropout=0.1)
    trainer = make()
    trainer.add_callback(PressCtrlC(2))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match="Stopped at step 2 of 3. Resume from .*--resume_from_checkpoint last"):
        trainer.train()
    assert signal.getsignal(signal.SIGINT) is before and checkpoints(trainer) == ["checkpoint-2"]
    found = loss_of_steps(make(), "last")
    assert found == loss_of_steps(make(folder="alone"))


@pytest.mark.parametrize("options, kept", [
    ({"save_strategy": "steps", "save_steps": 100, "save_total_limit": 2}, {2, 3}),
    ({"save_strategy": "no"}, set()),
])  # fmt: skip
def test_checkpoints_are_also_saved_by_time_unless_saving_is_off(make_baseline, monkeypatch, options, kept):
    monkeypatch.setattr(base_trainer, "SECONDS_BETWEEN_SAVES", -1)
    trainer = make_baseline("info_nce", max_steps=3, **options)
    trainer.train()
    assert checkpoints(trainer) == [f"checkpoint-{step}" for step in sorted(kept)]


def test_the_best_checkpoint_is_kept_among_those_saved_by_time(make_baseline, monkeypatch):
    monkeypatch.setattr(base_trainer, "SECONDS_BETWEEN_SAVES", -1)
    trainer = make_baseline(
        "info_nce",
        max_steps=3,
        learning_rate=1e-9,
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="steps",
        save_steps=2,
        save_total_limit=1,
        load_best_model_at_end=True,
        greater_is_better=False,
        metric_for_best_model="eval_loss",
    )
    trainer.train()
    best = f"checkpoint-{trainer.state.best_global_step}"
    assert trainer.best_model_is_loaded and Path(trainer.state.best_model_checkpoint).name == best
    assert checkpoints(trainer) == [best]  # with save_total_limit=1 the Trainer deletes the last one at the end


@pytest.mark.parametrize("options, times", [
    ({"save_strategy": "steps", "save_steps": 100}, 1),  # a few seconds are not worth a checkpoint
    ({"save_strategy": "no"}, 1),
    ({"save_strategy": "steps", "save_steps": 100}, 2),
])  # fmt: skip
def test_ctrl_c_saves_nothing_if_saving_is_off_or_little_would_be_lost(make_baseline, options, times):
    trainer = make_baseline("info_nce", max_steps=3, **options)
    trainer.add_callback(PressCtrlC(2, times))
    with pytest.raises(KeyboardInterrupt, match="of 3. There is no checkpoint to resume from"):
        trainer.train()
    assert checkpoints(trainer) == [] and trainer.state.global_step == (2 if times == 1 else 1)


def test_resuming_from_an_earlier_checkpoint_moves_later_ones_away(make_baseline):
    trainer = make_baseline("info_nce", max_steps=3, **SAVING)
    trainer.train()
    again = make_baseline("info_nce", max_steps=3, save_strategy="no")
    again.train(str(Path(trainer.args.output_dir, "checkpoint-2")))
    assert checkpoints(again) == ["checkpoint-1", "checkpoint-2"]


@pytest.mark.parametrize("options, steps", [
    ({"max_steps": 6}, 6),  # of 4 in an epoch
    pytest.param({"num_train_epochs": 1.5}, 6, marks=pytest.mark.slow),
    ({"num_train_epochs": 1}, 4),
    pytest.param({"max_steps": 3, "gradient_accumulation_steps": 2}, 3, marks=pytest.mark.slow),  # of 2 in an epoch
    ({"max_steps": 3, "gradient_accumulation_steps": 3}, 3),  # the second of an epoch has one batch
])  # fmt: skip
def test_a_finished_run_does_no_further_step_when_it_is_resumed(make_baseline, loss_of_steps, options, steps):
    options = {"save_strategy": "steps", "save_steps": steps, **options}
    finished = make_baseline("info_nce", **options)
    expected = loss_of_steps(finished)
    resumed = make_baseline("info_nce", **options)
    assert loss_of_steps(resumed, "last") == expected
    assert resumed.state.global_step == steps and checkpoints(resumed) == [f"checkpoint-{steps}"]
    for name, weight in resumed.model.state_dict().items():
        assert weight.equal(finished.model.state_dict()[name]), name


def test_with_workers_that_stay_each_evaluation_reads_its_own_data_set(make_baseline):
    trainer = make_baseline("info_nce", dataloader_num_workers=1, dataloader_persistent_workers=True)
    for documents in (None, trainer.train_dataset):
        alone = make_baseline("info_nce", folder="alone").evaluate(documents)
        assert trainer.evaluate(documents)["eval_loss"] == alone["eval_loss"]
