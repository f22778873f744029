"""A run killed with SIGKILL in the middle of an epoch, and resumed, against a run left alone."""

import copy
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from docsplit_hf import AutoModelForDocSplit

SCRIPT = Path(__file__).parents[2] / "examples" / "run_pretrain.py"
STEPS = 14  # more than the 10 of an epoch


@pytest.fixture(scope="module")
def start(tiny_config, tokenizer, texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("resume")
    config = copy.deepcopy(tiny_config)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.1  # its random numbers must be resumed too
    AutoModelForDocSplit.from_config(config).save_pretrained(folder / "tiny")
    tokenizer.save_pretrained(folder / "tiny")
    (folder / "documents.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))

    def start(name, workers, *options):
        command = [
            sys.executable, str(SCRIPT), f"--output_dir={folder / name}", f"--model_name_or_path={folder / 'tiny'}",
            f"--dataset_name={folder / 'documents.jsonl'}", "--test_size=8", "--max_length=64", "--num_proc=1",
            "--per_device_train_batch_size=4", f"--max_steps={STEPS}", "--logging_steps=1", "--save_steps=3",
            "--eval_steps=3", f"--dataloader_num_workers={workers}", "--learning_rate=1e-3", "--use_cpu",
            "--save_total_limit=20", *options,
        ]  # fmt: skip
        environment = {**os.environ, "HF_DATASETS_CACHE": str(folder / "cache")}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        return process, folder / name

    return start


def finish(process):
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output[-3000:]
    return output


def losses(folder):
    state = json.loads((folder / f"checkpoint-{STEPS}" / "trainer_state.json").read_text())
    names = ("loss", "contrastive_loss", "mlm_loss", "in_batch_accuracy", "grad_norm", "fraction_tokens_cut")
    logs = {entry["step"]: [entry[name] for name in names] for entry in state["log_history"] if "loss" in entry}
    return logs, {entry["step"]: entry["eval_mrr"] for entry in state["log_history"] if "eval_mrr" in entry}


@pytest.fixture(scope="module", params=["table", "stream"])
def source(request, start):
    """Options of a run, and what it gives when left alone; the number of workers must not matter."""
    options = ["--streaming"] if request.param == "stream" else []
    alone, folder = start(f"alone-{request.param}", 0, *options)
    finish(alone)
    return request.param, options, losses(folder)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_killed_run_goes_on_to_the_last_digit(start, source, workers):
    name, options, expected = source
    killed, folder = start(f"killed-{name}-{workers}", workers, *options)
    while not (folder / "checkpoint-6" / "trainer_state.json").exists():
        assert killed.poll() is None, killed.stdout.read()[-3000:]
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (folder / f"checkpoint-{STEPS}").exists()
    resumed, _ = start(folder.name, workers, "--resume_from_checkpoint=last", *options)
    finish(resumed)
    actual = losses(folder)
    assert list(actual[0]) == list(range(1, STEPS + 1))
    assert actual == expected  # to the last bit
