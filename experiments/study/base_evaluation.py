"""Few-shot scores of embeddings in the study at the size of BERT base, computed in processes of their own."""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
import threadpoolctl

from docsplit_hf.evaluation.probes import LabeledFeatures, logistic_predictions
from docsplit_hf.evaluation.systems import Features, TfidfSystem
from docsplit_hf.reading.holding_out import hold_out_of_each_class
from experiments.study.base_runs import Size
from experiments.study.run_study import VALIDATION_PER_CLASS, VALIDATION_TEST
from experiments.study.study_runs import TASKS
from experiments.tasks.load_paper_task import load_paper_task

from ..evaluation.protocols import check_features
from ..evaluation.tasks import ClassificationTask

TEST = "test"
TUNING = "tuning"  # rows held out of the training set, on which the learning rate is chosen
TUNING_SHOTS = 5
MOST_HELD_OUT = 0.3  # of the training rows


class Score(TypedDict):
    """Macro F1 of each draw of the few examples, in %."""

    split: str  # TEST or TUNING
    task: str
    shots: int
    macro_f1: list[float]


class Job(NamedTuple):
    """What a process computes: the scores with a number of shots."""

    split: str
    task: str
    features: LabeledFeatures
    label_names: Sequence[str]
    shots: int
    draws: int


def load_tasks(data: Path, size: Size) -> list[ClassificationTask]:
    """Load the tasks from their folders, cut to as many examples as are used."""
    return [
        load_paper_task(
            name,
            data / folder,
            max_train_examples=size.max_train_examples,
            max_test_examples=size.max_test_examples,
        )
        for name, folder in TASKS.items()
    ]


def score_jobs(task: ClassificationTask, train: Features, test: Features, size: Size) -> list[Job]:
    """The jobs that measure the features of a task, those for the choice of the learning rate last."""
    features = LabeledFeatures(
        train=check_features(train, "the training features", task.train_labels),
        train_labels=task.train_labels,
        test=check_features(test, "the test features", task.test_labels),
        test_labels=task.test_labels,
        train_inputs=task.train_inputs,
        test_inputs=task.test_texts,
    )
    tuning = held_out_features(features)
    jobs = [
        Job(TEST, task.name, features, task.label_names, shots, size.draws)
        for shots in size.shots
        if shots <= smallest_class(features)
    ]
    if TUNING_SHOTS <= smallest_class(tuning):
        jobs.append(Job(TUNING, task.name, tuning, task.label_names, TUNING_SHOTS, size.tuning_draws))
    return jobs


def held_out_features(features: LabeledFeatures) -> LabeledFeatures:
    """Training rows in place of the test rows, and some of the others to train on, as ``write_validation_tasks``."""
    labels = features.train_labels
    fraction = min(VALIDATION_TEST / len(labels), MOST_HELD_OUT)
    kept, held_out = hold_out_of_each_class(features.train_inputs, labels, fraction)
    order = np.random.default_rng(0).permutation(kept)
    rows = np.concatenate([order[labels[order] == label][:VALIDATION_PER_CLASS] for label in np.unique(labels)])
    return LabeledFeatures(
        train=features.train[rows],
        train_labels=labels[rows],
        test=features.train[held_out],
        test_labels=labels[held_out],
        train_inputs=[features.train_inputs[row] for row in rows],
        test_inputs=[features.train_inputs[row] for row in held_out],
    )


def smallest_class(features: LabeledFeatures) -> int:
    """The number of training examples of the smallest class."""
    return int(np.unique(features.train_labels, return_counts=True)[1].min())


def compute_score(job: Job) -> Score:
    """Measure the logistic regression of each draw."""
    macro_f1 = []
    for seed in range(job.draws):
        drawn = job.features.draw(job.shots, seed, job.label_names)
        metrics = drawn.metrics(logistic_predictions(drawn, seed))
        macro_f1.append(round(100 * metrics["macro_f1"], 3))
    return {"split": job.split, "task": job.task, "shots": job.shots, "macro_f1": macro_f1}


def start_processes(workers: int) -> ProcessPoolExecutor:
    """Processes that compute scores in one thread each while the card trains the next encoder."""
    # A forked process would inherit the state of the card's driver.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare_process)


def _prepare_process() -> None:
    threadpoolctl.threadpool_limits(1)
    warnings.simplefilter("ignore")  # scikit-learn's on many classes with one example each


def submit_embeddings(
    pool: ProcessPoolExecutor, tasks: Sequence[ClassificationTask], embeddings: np.ndarray, size: Size
) -> list[Future[Score]]:
    """Begin to measure the embeddings of ``all_texts``, ``(N, D)``."""
    futures = []
    for task, (train, test) in split_by_task(tasks, embeddings).items():
        futures += [pool.submit(compute_score, job) for job in score_jobs(task, train, test, size)]
    return futures


def submit_word_counts(
    pool: ProcessPoolExecutor, tasks: Sequence[ClassificationTask], size: Size
) -> list[Future[Score]]:
    """Begin to measure word counts, which need no encoder."""
    futures = []
    for task in tasks:
        train, test = TfidfSystem().features(task.train_texts, task.test_texts)
        futures += [pool.submit(compute_score, job) for job in score_jobs(task, train, test, size)]
    return futures


def all_texts(tasks: Sequence[ClassificationTask]) -> list[str]:
    """The training and the test texts of each task, in this order."""
    texts = []
    for task in tasks:
        texts += [*task.train_texts, *task.test_texts]
    return texts


def split_by_task(
    tasks: Sequence[ClassificationTask], embeddings: np.ndarray
) -> Mapping[ClassificationTask, tuple[np.ndarray, np.ndarray]]:
    """The embeddings of the training and of the test texts of each task, from those of ``all_texts``."""
    parts = {}
    begin = 0
    for task in tasks:
        middle = begin + len(task.train_texts)
        end = middle + len(task.test_texts)
        parts[task] = (embeddings[begin:middle], embeddings[middle:end])
        begin = end
    return parts
