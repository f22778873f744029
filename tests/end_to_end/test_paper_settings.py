"""``docsplit classify --task_name`` against table 3 of Liang et al. 2023."""

import json

import pytest
from transformers import BertConfig, BertModel

from docsplit_hf.apps.cli.paper_settings import paper_settings
from docsplit_hf.reading.paper_tasks import TASKS

from ..reading.test_paper_tasks import hub_splits
from .conftest import ROOT

SCRIPT = ROOT / "examples" / "run_classification.py"
# As it is printed; of MNLI the name.
TABLE_3 = """
config OCNLI TNEWS AFQMC IFLYTEK WSC CSL
Best Lambda 0.2 0.8 0.0 0.1 0.1 0.2
Batch Size 64 64 64 64 64 64
Learning Rate 2E-05 2E-05 2E-05 2E-05 2E-05 2E-05
Init Model MacBERT MacBERT MacBERT MacBERT MacBERT MacBERT
Warmup Steps 100 300 100 100 300 300
Training Epochs 3 5 3 3 3 3
Max Len 150 200 128 512 200 512

config CoLA SST-2 MRPC QQP MNLI QNLI
Best Lambda 0.3 0.0 0.0 0.5 0.0 0.2
Batch Size 32 32 32 32 32 32
Learning Rate 1E-5 1E-5 1E-5 1E-5 1E-5 1E-5
Init Model RoBERTa RoBERTa RoBERTa RoBERTa RoBERTa RoBERTa
Warmup Steps 100 100 100 100 100 100
Training Epochs 3 3 3 3 3 3
Max Len 128 128 128 128 128 128
"""
PAPER = {}
for half in TABLE_3.strip().split("\n\n"):
    rows = [line.split() for line in half.splitlines()]
    for column in range(1, 7):
        PAPER[rows[0][column]] = {" ".join(row[:-6]): row[column - 7] for row in rows[1:]}


@pytest.fixture(scope="module")
def hub(tokenizer, tmp_path_factory):
    """A folder in place of the Hub: a small encoder and the data set of a task, by the same names."""
    folder = tmp_path_factory.mktemp("hub")
    task = TASKS["CoLA"]
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64
    )
    BertModel(config).save_pretrained(folder / "FacebookAI/roberta-large")
    tokenizer.save_pretrained(folder / "FacebookAI/roberta-large")
    for split, rows in hub_splits(task).items():
        rows.to_parquet(folder / task.dataset / task.config_name / f"{split}.parquet")
    files = [{"split": split, "path": f"{task.config_name}/{split}.parquet"} for split in hub_splits(task)]
    configs = [{"config_name": task.config_name, "data_files": files}]
    (folder / task.dataset / "README.md").write_text(f"---\nconfigs: {json.dumps(configs)}\n---\n")
    return folder


@pytest.fixture
def run_task(hub, run_script, tmp_path):
    """Run a task; returns what it printed, the arguments, the Trainer's state, and the configuration."""

    def run(name, *options):
        options = [f"--task_name={name}", f"--output_dir={tmp_path}", "--use_cpu", "--logging_steps=1", *options]
        options.append("--save_total_limit=9")  # so that the last checkpoint is there
        printed = run_script(SCRIPT, *options, folder=hub)
        files = tmp_path / "training_args.json", max(tmp_path.glob("*/trainer_state.json")), tmp_path / "config.json"
        return printed, *(json.loads(file.read_text()) for file in files)

    return run


def test_the_table_has_all_tasks():
    assert set(PAPER) == set(TASKS)


@pytest.mark.parametrize("name", PAPER)
def test_the_defaults_of_a_task_are_the_settings_of_the_paper(name):
    paper = PAPER[name]
    encoders = {"MacBERT": "hfl/chinese-macbert-large", "RoBERTa": "FacebookAI/roberta-large"}
    assert paper_settings(TASKS[name], 1) == {
        "model_name_or_path": encoders[paper["Init Model"]],
        "learning_rate": float(paper["Learning Rate"]),
        "num_train_epochs": int(paper["Training Epochs"]),
        "warmup_steps": int(paper["Warmup Steps"]),
        "per_device_train_batch_size": int(paper["Batch Size"]),
        "max_length": int(paper["Max Len"]),
        "metric_for_best_model": "matthews_correlation" if name == "CoLA" else "accuracy",
        "knn_weight": float(paper["Best Lambda"]),
    }


def test_a_task_trains_with_the_settings_of_the_paper(run_task, tmp_path):
    printed, arguments, state, config = run_task("CoLA", "--num_train_epochs=1")
    rates = [log["learning_rate"] for log in state["log_history"] if "learning_rate" in log]
    assert rates == pytest.approx([step / 100 * 1e-5 for step in range(2)]) and state["train_batch_size"] == 32
    assert "model_name_or_path: FacebookAI/roberta-large (the paper's)" in printed
    assert "calibrated on held-out examples (the paper's lambda, 0.3, was" in printed
    assert config["max_length"] == 128 and config["knn_calibration"]["source"] == "held-out examples"
    best = max(log.get("eval_matthews_correlation", -1) for log in state["log_history"])
    assert state["best_metric"] == best
    assert "test_mixture_matthews_correlation" in json.loads((tmp_path / "metrics.json").read_text())["test"]


def test_options_of_the_user_override_the_paper(run_task):
    options = ("--learning_rate=1e-3", "--max_length=32", "--num_train_epochs=1", "--gradient_accumulation_steps=2")
    printed, arguments, state, config = run_task("cola", *options, "--neighbors_protocol=fixed")
    assert (arguments["learning_rate"], config["max_length"], state["num_train_epochs"]) == (1e-3, 32, 1)
    assert "learning_rate: 0.001 (yours; the paper's: 1e-05)" in printed
    assert arguments["per_device_train_batch_size"] == 16  # two make the paper's batch
    assert "per_device_train_batch_size: 16 (the paper's; 32 in a step, 32 in the paper)" in printed
    fixed = {"k": 64, "knn_temperature": 10, "knn_weight": 0.3, "knn_calibration": None}
    assert {name: config.get(name) for name in fixed} == fixed
    assert "knn_weight: 0.3 (the paper's)" in printed and "Not calibrated: k 64, T 10, lambda 0.3." in printed
