"""A run killed with SIGKILL in the middle of an epoch, and resumed, against a run left alone."""

import json
from pathlib import Path

import pytest

from docsplit_hf import AutoModelForDocSplit

from .forked import finish_script, kill_script, start_script

SCRIPT = Path(__file__).parents[2] / "examples" / "run_pretrain.py"
STEPS = 14  # more than the 10 of an epoch


@pytest.fixture(scope="module")
def start(server, run_python, make_tiny_config, tokenizer, texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("resume")
    config = make_tiny_config()
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.1  # its random numbers must be resumed too
    AutoModelForDocSplit.from_config(config).save_pretrained(folder / "tiny")
    tokenizer.save_pretrained(folder / "tiny")
    (folder / "documents.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))

    def start(name, workers, *options, fresh=False):
        arguments = [
            f"--output_dir={folder / name}", f"--model_name_or_path={folder / 'tiny'}",
            f"--dataset_name={folder / 'documents.jsonl'}", "--test_size=8", "--max_length=64", "--num_proc=1",
            "--per_device_train_batch_size=4", f"--max_steps={STEPS}", "--logging_steps=1", "--save_steps=3",
            "--eval_steps=3", f"--dataloader_num_workers={workers}", "--learning_rate=1e-3", "--use_cpu",
            "--save_total_limit=20", *options,
        ]  # fmt: skip
        if fresh:
            run_python(SCRIPT, *arguments)
            return None, folder / name
        return start_script(SCRIPT, *arguments, log=folder / f"{name}.log"), folder / name

    return start


def finish(process, folder):
    finish_script(process, folder.with_suffix(".log"))


def losses(folder):
    state = json.loads((folder / f"checkpoint-{STEPS}" / "trainer_state.json").read_text())
    names = ("loss", "contrastive_loss", "mlm_loss", "in_batch_accuracy", "grad_norm", "fraction_tokens_cut")
    logs = {entry["step"]: [entry[name] for name in names] for entry in state["log_history"] if "loss" in entry}
    return logs, {entry["step"]: entry["eval_mrr"] for entry in state["log_history"] if "eval_mrr" in entry}


@pytest.fixture(scope="module")
def table(start):
    """What a run on a table gives when left alone, without workers: their number must not matter.

    In a fresh Python, which hashes strings in another way than those that are forked.
    """
    _, folder = start("alone-table", 0, fresh=True)
    return losses(folder)


def killed_and_resumed(start, name, workers, *options):
    killed, folder = start(name, workers, *options)
    state = folder / "checkpoint-6" / "trainer_state.json"
    kill_script(killed, lambda: state.exists() and state.read_text().endswith("}\n"), folder.with_suffix(".log"))
    assert not (folder / f"checkpoint-{STEPS}").exists()
    resumed, _ = start(name, workers, "--resume_from_checkpoint=last", *options)
    finish(resumed, folder)
    return losses(folder)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_killed_run_on_a_table_goes_on_to_the_last_digit(start, table, workers):
    resumed = killed_and_resumed(start, f"table-{workers}", workers)
    assert list(resumed[0]) == list(range(1, STEPS + 1))
    assert resumed == table  # to the last bit


@pytest.mark.parametrize("workers", [0, 2])
def test_a_killed_run_on_a_stream_goes_on_to_the_last_digit(start, workers):
    alone, folder = start(f"alone-stream-{workers}", workers, "--streaming")
    resumed = killed_and_resumed(start, f"stream-{workers}", workers, "--streaming")
    finish(
        alone, folder
    )  # beside the others; a worker shuffles in its own way, so each number of workers has its own order
    assert list(resumed[0]) == list(range(1, STEPS + 1))
    assert resumed == losses(folder)
