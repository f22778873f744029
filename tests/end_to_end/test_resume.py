"""Runs that were killed, overwritten or interrupted, and resumed."""

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from docsplit_hf import AutoModelForDocSplit
from docsplit_hf.training.checkpoint_folders import complete_checkpoints

from .forked import LONGEST, finish_script, kill_script, start_script

SCRIPT = Path(__file__).parents[2] / "examples" / "run_pretrain.py"
STEPS = 12  # more than the 8 of an epoch


@pytest.fixture(scope="module")
def start(server, make_tiny_config, tokenizer, texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("resume")
    config = make_tiny_config()
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.1  # its random numbers must be resumed too
    AutoModelForDocSplit.from_config(config).save_pretrained(folder / "tiny")
    tokenizer.save_pretrained(folder / "tiny")
    (folder / "documents.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))

    def start(name, workers, *options, script=SCRIPT):
        arguments = [
            f"--output_dir={folder / name}", f"--model_name_or_path={folder / 'tiny'}",
            f"--dataset_name={folder / 'documents.jsonl'}", "--test_size=8", "--max_length=64", "--num_proc=1",
            "--per_device_train_batch_size=5", f"--max_steps={STEPS}", "--logging_steps=1", "--save_steps=4",
            "--eval_steps=4", f"--dataloader_num_workers={workers}", "--learning_rate=1e-3", "--use_cpu",
            "--save_total_limit=20", *options,
        ]  # fmt: skip
        return start_script(script, *arguments, log=folder / f"{name}.log"), folder / name

    return start


def finish(process, folder):
    finish_script(process, folder.with_suffix(".log"))


def losses(folder):
    state = json.loads((folder / f"checkpoint-{STEPS}" / "trainer_state.json").read_text())
    names = ("loss", "contrastive_loss", "mlm_loss", "in_batch_accuracy", "grad_norm", "fraction_tokens_cut")
    logs = {entry["step"]: [entry[name] for name in names] for entry in state["log_history"] if "loss" in entry}
    return logs, {entry["step"]: entry["eval_mrr"] for entry in state["log_history"] if "eval_mrr" in entry}


@pytest.fixture(scope="module")
def alone(start):
    """The folder of an uninterrupted run on a table, without workers: their number must not matter."""
    process, folder = start("alone-table", 0)
    finish(process, folder)
    return folder


def killed_and_resumed(start, name, workers, *options):
    killed, folder = start(name, workers, *options)
    state = folder / "checkpoint-4" / "trainer_state.json"
    kill_script(killed, lambda: state.exists() and state.read_text().endswith("}\n"), folder.with_suffix(".log"))
    assert not (folder / f"checkpoint-{STEPS}").exists()
    resumed, _ = start(name, workers, "--resume_from_checkpoint=last", *options)
    finish(resumed, folder)
    return losses(folder)


def test_a_killed_run_on_a_table_resumes_to_the_same_digits(start, alone):
    resumed = killed_and_resumed(start, "table", 2)  # without workers: the last test of this file
    assert list(resumed[0]) == list(range(1, STEPS + 1))
    assert resumed == losses(alone)  # to the last bit


def test_a_run_killed_after_its_last_step_does_none_when_it_is_resumed(start, alone):
    killing = alone.with_name("killing.py")
    lines = (
        "import os, runpy, signal",
        "from docsplit_hf.training import base_trainer",
        "def kill(callback, args, state, control, **_):",
        f"    if state.global_step == {STEPS}:",
        "        os.kill(os.getpid(), signal.SIGKILL)",
        "base_trainer.PeriodicAndInterruptSave.on_save = kill",
    )
    killing.write_text("\n".join([*lines, f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"]))
    killed, folder = start("last-step", 0, "--streaming", script=killing)
    finish_script(killed, folder.with_suffix(".log"), code=-signal.SIGKILL)
    before = losses(folder)
    assert list(before[0]) == list(range(1, STEPS + 1))
    assert not (folder / "model.safetensors").exists()
    resumed, _ = start("last-step", 0, "--streaming", "--resume_from_checkpoint=last")
    finish(resumed, folder)
    assert complete_checkpoints(folder)[-1].name == f"checkpoint-{STEPS}" and losses(folder) == before
    assert (folder / "model.safetensors").exists()


def test_a_killed_run_on_a_stream_resumes_to_the_same_digits(start):
    alone, folder = start("alone-stream", 2, "--streaming")  # beside the others
    resumed = killed_and_resumed(start, "stream", 2, "--streaming")
    finish(alone, folder)
    assert list(resumed[0]) == list(range(1, STEPS + 1))
    assert resumed == losses(folder)


def a_finished_run(alone, name):
    """A copy with checkpoints of the steps 4, 8, ..., and the log that further runs in it append to."""
    folder = Path(shutil.copytree(alone, alone.with_name(name)))
    return folder, folder.with_suffix(".log")


def test_a_refused_run_keeps_the_checkpoints(start, alone):
    folder, log = a_finished_run(alone, "refused")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    for option in ("--dataset_name=./missing.jsonl", "--learning_rates=1", "--text_column=txt", "--mlm_probability=0"):
        refused, _ = start("refused", 0, "--overwrite_output_dir", option)
        finish_script(refused, log, code=2)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_an_interrupted_run_prints_how_to_resume(start):
    process, folder = start("interrupted", 2)
    log = folder.with_suffix(".log")
    state = folder / "checkpoint-4" / "trainer_state.json"
    deadline = time.monotonic() + LONGEST
    while not state.exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGINT)
    printed = finish_script(process, log, code=130)
    assert "Traceback" not in printed
    assert "--resume_from_checkpoint last" in printed.splitlines()[-1] and f" of {STEPS}" in printed.splitlines()[-1]


def test_a_run_killed_before_save_steps_resumes_from_the_checkpoint_saved_by_time(start, alone):
    impatient = alone.with_name("impatient.py")
    lines = (
        "import runpy",
        "from docsplit_hf.training import base_trainer",
        "base_trainer.SECONDS_BETWEEN_SAVES = 0.01",
    )
    impatient.write_text("\n".join([*lines, f"runpy.run_path({str(SCRIPT)!r}, run_name='__main__')"]))
    options = ("--save_steps=500", "--load_best_model_at_end=false", "--save_total_limit=1")
    killed, folder = start("clock", 0, *options, script=impatient)
    log = folder.with_suffix(".log")
    kill_script(killed, lambda: len(complete_checkpoints(folder)) > 0, log)
    saved = complete_checkpoints(folder)[-1]
    assert saved.name != f"checkpoint-{STEPS}"
    resumed, _ = start("clock", 0, "--resume_from_checkpoint=last", *options)
    assert f"Resuming from {saved}" in finish_script(resumed, log)
    assert losses(folder) == losses(alone)  # to the last bit
