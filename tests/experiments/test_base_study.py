"""The study at the size of BERT base: its runs are fair and valid, it continues, and its scores are the protocol's."""

import math
import multiprocessing
import shutil
from concurrent.futures import ProcessPoolExecutor
from unittest import mock

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForMaskedLM, AutoTokenizer

from docsplit_hf.apps.cli.pretrain_arguments import parse_command_line
from docsplit_hf.pretraining.objectives import OBJECTIVES
from docsplit_hf.pretraining.views import VIEWS
from experiments.baselines.objectives import BASELINES
from experiments.baselines.views import BASELINE_VIEWS
from experiments.evaluation.experiment import EvaluationSettings
from experiments.evaluation.results import ResultStore
from experiments.evaluation.runner import run_protocols
from experiments.evaluation.tasks import ClassificationTask
from experiments.study import base_evaluation, base_report, base_start, base_study
from experiments.study.base_records import RECORDS, WORD_COUNTS, read_records
from experiments.study.base_runs import BASE, FIRST_METHODS, TINY, planned_runs, run_options, tokens_per_document
from experiments.study.base_training import TimeIsUpError
from experiments.study.study_runs import START, TASKS, as_arguments

LENGTH = 128


def parsed(run):
    """The arguments of data and of training, as docsplit pretrain reads the options of a run."""
    options = run_options(run, BASE, LENGTH) | {"dataset_name": "articles.jsonl", "model_name_or_path": "start"}
    with mock.patch.dict(OBJECTIVES, BASELINES), mock.patch.dict(VIEWS, BASELINE_VIEWS):
        _, (_, data, arguments) = parse_command_line("", as_arguments(options))
    return data, arguments


def test_each_method_reads_as_many_tokens_and_mlm_fits_into_memory():
    runs = planned_runs(BASE)
    assert len(set(runs)) == len(runs) == 64
    for run in runs:
        data, arguments = parsed(run)
        rows = arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps
        views = (data.views_kwargs or {}).get("parts", 2)
        assert rows == run.batch
        assert arguments.max_steps * rows * views == pytest.approx(2 * BASE.documents, rel=0.03)
        if arguments.objective == "mlm":
            at_once = arguments.per_device_train_batch_size
            assert at_once * tokens_per_document(run, LENGTH) <= BASE.tokens_at_once
        else:
            assert arguments.forward_chunk_size == "auto"
        if views == 3:
            assert data.views_kwargs["max_tokens"] == LENGTH - 2


def test_the_first_runs_decide_the_claim_for_both_batches():
    first = planned_runs(BASE)[: 2 * len(FIRST_METHODS)]
    assert {(run.method, run.batch) for run in first} == {
        (method, batch) for method in FIRST_METHODS for batch in BASE.rates
    }
    assert {base_report.CROPS, base_report.HALVES, base_report.SIMCSE} < set(FIRST_METHODS)
    assert {run.seed for run in first} == {0}


class GivenFeatures:
    """A system whose features of a text are given."""

    name = "given"
    fingerprint = "given"

    def __init__(self, features):
        self.by_text = features

    def features(self, *lists):
        return [np.array([self.by_text[text] for text in texts], dtype=np.float32) for texts in lists]


@pytest.fixture(scope="module")
def task():
    generator = np.random.default_rng(0)
    labels = generator.integers(3, size=120)
    texts = [f"text {number}" for number in range(180)]
    return ClassificationTask(
        "letters", texts[:120], labels, texts[120:], generator.integers(3, size=60), ["a", "b", "c"]
    )


def test_scores_are_those_of_the_protocol(task, tmp_path):
    generator = np.random.default_rng(1)
    embeddings = generator.standard_normal((180, 8)).astype(np.float32)
    embeddings[:120, 0] += task.train_labels
    embeddings[120:, 0] += task.test_labels
    system = GivenFeatures(dict(zip(task.train_texts + task.test_texts, embeddings, strict=True)))
    settings = EvaluationSettings(curve_shots=list(TINY.shots), repeats=TINY.draws)
    records, _ = run_protocols({"given": system}, [task], ["curve"], settings, ResultStore(tmp_path))
    (train, test) = base_evaluation.split_by_task([task], embeddings)[task]
    jobs = base_evaluation.score_jobs(task, train, test, TINY)
    scores = [base_evaluation.compute_score(job) for job in jobs if job.split == base_evaluation.TEST]
    assert [score["shots"] for score in scores] == list(TINY.shots)
    for score in scores:
        expected = [100 * r["metrics"]["macro_f1"] for r in records if r["settings"]["shots"] == score["shots"]]
        assert score["macro_f1"] == pytest.approx(expected, abs=1e-3)


def test_learning_rates_are_chosen_on_training_rows_that_are_not_trained_on(task):
    features = np.arange(120, dtype=np.float32)[:, None]
    jobs = base_evaluation.score_jobs(task, features, np.full((60, 1), -1.0), BASE)
    tuning = next(job.features for job in jobs if job.split == base_evaluation.TUNING)
    rows = tuning.test[:, 0].astype(int)
    assert len(rows) and not set(rows) & set(tuning.train[:, 0].astype(int)) and rows.min() >= 0
    assert (tuning.test_labels == task.train_labels[rows]).all()


def test_rows_of_the_start_are_the_corpus_without_gaps():
    documents = [[5, 6, 7], [8], [9, 10, 11, 12], [13, 14]]
    segmented = Dataset.from_dict({"input_ids": documents})
    rows = base_start.rows_of_tokens(segmented.select([2, 0, 1, 3]), 4)
    assert rows["input_ids"][:] == [[9, 10, 11, 12], [5, 6, 7, 8]]
    assert rows["sentence_lengths"][:] == [[4], [4]]


@pytest.fixture(scope="module")
def forked_processes(server):
    """Fork the processes that compute scores after the imports, which are most of their time."""
    context = multiprocessing.get_context("forkserver")

    def start_processes(workers):
        return ProcessPoolExecutor(workers, mp_context=context, initializer=base_evaluation._prepare_process)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base_study, "start_processes", start_processes)
        yield


@pytest.fixture(scope="module")
def dry_run(forked_processes, tmp_path_factory):
    """The folder of a dry run of the start and one method."""
    folder = tmp_path_factory.mktemp("base")
    base_study.main(["--dry_run", "--folder", str(folder), "--runs", "1", "--workers", "1"])
    return folder / "dry_run"


def test_a_stopped_start_continues_to_the_same_weights(dry_run, tmp_path):
    def study(minutes):
        options = base_study.parse_options(
            ["--corpus", str(dry_run / "corpus.jsonl"), "--data", str(dry_run / "data"), "--folder", str(tmp_path)]
            + ["--max_length", "32", "--minutes", str(minutes)]
        )
        new = base_study.BaseStudy(options, TINY)
        new.prepare()
        return new

    shutil.copytree(dry_run / "tokenizer", tmp_path / "tokenizer")  # training breaks ties at random
    for stage in TINY.stages:
        place = f"{START}/{stage.layers}_layers"
        (tmp_path / place).mkdir(parents=True)
        shutil.copy(dry_run / place / base_start.STEPS, tmp_path / place)
    with pytest.raises(TimeIsUpError, match="the start has 1 of .* with 1 layers"):
        study(minutes=0).find_start()
    finished = study(minutes=60)
    finished.find_start()
    assert finished.start_name == base_study.digest_of_weights(dry_run / place)


def test_a_stage_begins_with_the_layers_of_the_one_before_stacked(dry_run):
    options = {"max_length": 32, "dataset_name": "none"}
    tokenizer = AutoTokenizer.from_pretrained(dry_run / "tokenizer")
    training = base_start.StartTraining(dry_run / START, tokenizer, TINY, options, minutes=1, deadline=math.inf)
    shallow = AutoModelForMaskedLM.from_pretrained(training.folder_of(TINY.stages[0])).state_dict()
    deep = training.new_model(TINY.stages[1]).state_dict()
    for name, weight in deep.items():
        origin = name.replace(".layer.1.", ".layer.0.")
        if "pooler" not in name:  # it is not trained
            assert torch.equal(weight, shallow[origin]), name
    assert len(deep) > len(shallow)


def test_the_same_command_continues_and_the_report_reads_it(dry_run, tmp_path, capsys):
    words, start, run = sorted(read_records(dry_run / RECORDS), key=lambda row: row["steps"])[:3]
    assert {words["method"], start["method"]} == {WORD_COUNTS, START}
    assert (run["method"], run["steps"], run["card"]) == (FIRST_METHODS[0], TINY.documents // run["batch"], "CPU")
    assert run["tokens"] > 0 and math.isfinite(run["loss"])
    assert len({(score["split"], score["task"], score["shots"]) for score in run["scores"]}) == 4 * 3
    base_study.main(["--dry_run", "--folder", str(dry_run.parent), "--minutes", "0"])
    assert "The same command continues" in capsys.readouterr().out
    assert len(read_records(dry_run / RECORDS)) == 3
    (tmp_path / "page.md").write_text("".join(f"<!-- table: {name} -->\n<!-- end -->\n" for name in TABLES))
    base_report.main(["--folder", str(dry_run), "--output", str(tmp_path / "page")])
    assert f"| {FIRST_METHODS[0]} | {run['batch']} | {run['rate']:g} | 1 |" in (tmp_path / "page.md").read_text()


TABLES = ("methods", "verdicts", "shots", "rates")


def made(method, batch, rate, seed, test, tuning):
    """A record with these scores of each task."""
    scores = [
        {"split": split, "task": task, "shots": 5, "macro_f1": list(values)}
        for split, values in (("test", test), ("tuning", tuning))
        for task in TASKS
    ]
    return {"method": method, "batch": batch, "rate": rate, "seed": seed, "steps": 9, "scores": scores}


def test_the_rate_is_chosen_by_held_out_rows_and_differences_are_paired_by_draw():
    records = []
    for seed in (0, 1):
        noise = np.array([0.0, 20.0, 5.0])  # the same draws for all methods
        records.append(made("cropping", 36, 1e-4, seed, noise + 60, [9.0]))  # best on the test rows
        records.append(made("cropping", 36, 3e-5, seed, noise + 50 + [0, 1, 2], [10.0]))
        records.append(made("docsplit_without_mlm", 36, 1e-4, seed, noise + 45, [10.0]))
        records.append(made("simcse", 36, 1e-4, seed, noise + 45 + [-1, 1, 0], [10.0]))
    found = base_report.gains(records, base_report.CLAIMS["crops over halves"], 36)
    assert [list(values) for values in found.values()] == [[5, 6, 7], [5, 6, 7]]
    half = base_report.difference(found).interval
    assert half == pytest.approx(4.303 / math.sqrt(3), rel=1e-3)  # Student's t with two degrees of freedom
    assert base_report.order_verdict(records, 36) == "cannot be told"
    records[-1] = records[3] = made("simcse", 36, 1e-4, 0, np.array([0.0, 20.0, 5.0]) + 40 + [-1, 1, 0], [10.0])
    assert base_report.order_verdict(records, 36) == "holds"
