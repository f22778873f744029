"""What goes for the checkpoints of all trainers."""

import os
import signal
import stat
from pathlib import Path

import pytest
from transformers import TrainerCallback

from docsplit_hf.training import base_trainer

SAVING = {"save_strategy": "steps", "save_steps": 1}


class Press(TrainerCallback):
    """Presses Ctrl-C, at the terminal of this process, while a step is computed."""

    def __init__(self, step, times=1):
        self.step, self.times = step, times

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        for _ in range(self.times if state.global_step + 1 == self.step else 0):
            os.kill(os.getpid(), signal.SIGINT)


def checkpoints(trainer):
    return sorted(path.name for path in Path(trainer.args.output_dir).glob("checkpoint-*"))


def test_a_run_that_starts_anew_never_resumes_an_older_one(make_baseline, loss_of_steps, stop_after, caplog):
    make_baseline("info_nce", max_steps=2, **SAVING).train()
    seen = []

    class BeforeTheFirstStep(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            seen.append(sorted(Path(args.output_dir).glob("checkpoint-*")))

    begun = make_baseline("info_nce", max_steps=2, seed=9, **SAVING)
    begun.add_callback(BeforeTheFirstStep())
    begun.add_callback(stop_after(1))
    begun.train()
    assert seen[0] == [] and "Older checkpoints are in" in caplog.text
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


def test_what_a_user_keeps_as_checkpoint_best_is_neither_resumed_nor_rotated_away(make_baseline, stop_after):
    options = {"max_steps": 3, "save_total_limit": 1, **SAVING}
    trainer = make_baseline("info_nce", **options)
    kept = Path(trainer.args.output_dir, "checkpoint-best")
    kept.mkdir(parents=True)
    (kept / "trainer_state.json").write_text("{}")
    trainer.add_callback(stop_after(2))
    trainer.train()
    assert checkpoints(trainer) == ["checkpoint-2", "checkpoint-best"]
    again = make_baseline("info_nce", **options)
    again.train("last")
    assert checkpoints(again) == ["checkpoint-3", "checkpoint-best"] and again.args.save_total_limit == 1


@pytest.mark.parametrize("objective, options", [
    ("info_nce", {"projection_head": True}), ("momentum_contrast", {"queue_size": 20}), ("contrastive_tension", {}),
])  # fmt: skip
def test_others_may_read_weights_as_they_may_read_all_else(make_baseline, objective, options):
    views = "simcse" if objective == "contrastive_tension" else "docsplit"
    trainer = make_baseline(objective, views, max_steps=1, **SAVING, **options)
    trainer.train()
    trainer.save_model()
    weights = list(Path(trainer.args.output_dir).rglob("*.safetensors"))
    assert len(weights) == 3
    mask = os.umask(0)
    os.umask(mask)
    assert {stat.S_IMODE(file.stat().st_mode) for file in weights} == {0o666 & ~mask}


def test_at_ctrl_c_what_would_be_lost_is_saved_and_resumed_exactly(make_baseline, loss_of_steps, monkeypatch):
    monkeypatch.setattr(base_trainer, "WORTH_SAVING", -1)
    options = {"max_steps": 3, "save_strategy": "steps", "save_steps": 100, "dropout": 0.1}
    trainer = make_baseline("info_nce", **options)
    trainer.add_callback(Press(2))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match="Stopped at step 2 of 3. .*--resume_from_checkpoint last goes on from"):
        trainer.train()
    assert signal.getsignal(signal.SIGINT) is before and checkpoints(trainer) == ["checkpoint-2"]
    found = loss_of_steps(make_baseline("info_nce", **options), "last")
    assert found == loss_of_steps(make_baseline("info_nce", folder="alone", **options))


@pytest.mark.parametrize("options, kept", [
    ({"save_strategy": "steps", "save_steps": 100, "save_total_limit": 2}, {2, 3}),
    ({"save_strategy": "no"}, set()),
])  # fmt: skip
def test_after_some_minutes_without_a_checkpoint_one_is_saved_where_any_are(make_baseline, monkeypatch, options, kept):
    monkeypatch.setattr(base_trainer, "SAVED_EVERY", -1)
    trainer = make_baseline("info_nce", max_steps=3, **options)
    trainer.train()
    assert checkpoints(trainer) == [f"checkpoint-{step}" for step in sorted(kept)]


def test_the_best_checkpoint_stays_among_those_that_the_clock_asks_for(make_baseline, monkeypatch):
    monkeypatch.setattr(base_trainer, "SAVED_EVERY", -1)
    every_two = {"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 2}
    options = {"load_best_model_at_end": True, "greater_is_better": False, "metric_for_best_model": "eval_loss"}
    trainer = make_baseline("info_nce", max_steps=3, save_total_limit=1, learning_rate=1e-9, **every_two, **options)
    trainer.train()
    best = f"checkpoint-{trainer.state.best_global_step}"
    assert trainer.best_model_is_loaded and Path(trainer.state.best_model_checkpoint).name == best
    assert checkpoints(trainer) == [best]  # at the end the Trainer deletes the last one, where one is to be kept


@pytest.mark.parametrize("options, times", [
    ({"save_strategy": "steps", "save_steps": 100}, 1),  # a few seconds are not worth a checkpoint
    ({"save_strategy": "no"}, 1),
    ({"save_strategy": "steps", "save_steps": 100}, 2),
])  # fmt: skip
def test_at_ctrl_c_it_stops_without_a_checkpoint_where_little_or_nothing_is_kept(make_baseline, options, times):
    trainer = make_baseline("info_nce", max_steps=3, **options)
    trainer.add_callback(Press(2, times))
    with pytest.raises(KeyboardInterrupt, match="of 3. There is no checkpoint to go on from"):
        trainer.train()
    assert checkpoints(trainer) == [] and trainer.state.global_step == (2 if times == 1 else 1)


def test_going_back_sets_the_steps_after_aside(make_baseline):
    trainer = make_baseline("info_nce", max_steps=3, **SAVING)
    trainer.train()
    again = make_baseline("info_nce", max_steps=3, save_strategy="no")
    again.train(str(Path(trainer.args.output_dir, "checkpoint-2")))
    assert checkpoints(again) == ["checkpoint-1", "checkpoint-2"]
