"""The controlled study: the papers' positive pairs from one common start, on equal terms.

    python -m experiments.study.run_study --stages start tuning methods ablations

It needs wikipedia.jsonl (a column "text") in the working folder and the data sets of TASKS in data/, and runs
python -m experiments.pretrain and python -m experiments, --workers at a time, with one thread each. Run it again to
continue a stopped study.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from docsplit_hf.reading.holding_out import hold_out_of_each_class
from docsplit_hf.reading.segmentation.sentences import get_segmenter
from docsplit_hf.training.checkpoint_folders import complete_checkpoints
from experiments.study.long_start import write_long_start
from experiments.study.study_runs import (
    ABLATIONS,
    ADAPTATION_RECIPES,
    ADAPTED,
    CORPORA,
    CORPUS,
    DOCUMENTS,
    FACTOR,
    FIRST_TOKEN_RATES,
    LEARNING_RATES,
    LONG_KINDS,
    LONG_LENGTH,
    LONG_OBJECTIVES,
    LONGER_RATES,
    LONGER_STEPS,
    LOWEST_RATE,
    MEASURED_STEPS,
    METHODS,
    QUESTIONS,
    SHIPPED,
    SHIPPED_MAX_LENGTH,
    SHIPPED_START,
    START,
    START_OPTIONS,
    TASKS,
    Options,
    Run,
    ablation_run,
    adaptation_run,
    as_arguments,
    first_token_run,
    long_run,
    longer_run,
    method_run,
    poolings_of,
    question_run,
    shipped_run,
    slowest_first,
    start_run,
    tuning_run,
)
from experiments.tasks.load_paper_task import load_paper_task

from ..evaluation.results import ResultStore
from ..tasks.paper_tasks import load_task

STAGES = (
    "start", "tuning", "methods", "ablations", "adaptation", "shipped", "longer", "questions", "long", "attention",
)  # fmt: skip
# 256 tokens: 512 take twice as long and give about half a point more, to the common start and to what ships.
EVALUATION = {"shots": 5, "max_length": 256, "bf16": True, "probe": "logistic", "figures": False}
LIMITS = {"max_train_examples": 2000, "max_test_examples": 1000}
VALIDATION_TEST = 400
VALIDATION_PER_CLASS = 25
TUNING_REPEATS = 5
CURVE_SHOTS = (1, 5, 20)
LONG_LIMITS = {"max_train_examples": 500, "max_test_examples": 300}
HELD_OUT_DOCUMENTS = 500  # the default of docsplit pretrain
SPENT = "cpu_seconds.jsonl"  # one line per command
RECIPE = "study_options.json"  # the options of training, beside the model


class Study:
    """The study in ``folder``, on the data sets in ``data``, with up to ``workers`` processes at a time."""

    def __init__(self, folder: str, data: str, seeds: Sequence[int], workers: int) -> None:
        self.folder = Path(folder)
        self.data = Path(data)
        self.seeds = seeds
        self.workers = workers
        self.tasks = {task: self.data / folder for task, folder in TASKS.items()}

    def start(self) -> None:
        """Train the common start."""
        self.train(start_run())
        self.evaluate("start", {START: str(self.folder / START), "tfidf": "tfidf"})

    def shipped(self) -> None:
        """Train and measure the first version of the checkpoint that ships."""
        run = shipped_run(str(self.folder))
        self.train(run)
        models = {SHIPPED: str(self.folder / run.name), SHIPPED_START: str(self.folder / START)}
        self.evaluate("shipped", models, {"max_length": SHIPPED_MAX_LENGTH})

    def tuning(self) -> None:
        """Train each method with each pooling and learning rate, and measure it on rows held out of training sets."""
        self.write_validation_tasks()
        self.in_parallel([partial(self.tune, method, pooling) for method in METHODS for pooling in poolings_of(method)])

    def tune(self, method: str, pooling: str) -> None:
        """Tune one method with one pooling: try lower and higher learning rates until the best is an inner one."""
        scores = {rate: self.tuning_score(method, pooling, rate) for rate in LEARNING_RATES}
        while True:
            best = max(scores, key=scores.get)
            if best == min(scores) and best != LOWEST_RATE:
                rate = best / FACTOR
            elif best == max(scores) and best != LOWEST_RATE:
                rate = best * FACTOR
            else:
                return
            scores[rate] = self.tuning_score(method, pooling, rate)

    def tuning_score(self, method: str, pooling: str, rate: float) -> float:
        """Few-shot macro F1 on the held-out rows."""
        run = tuning_run(str(self.folder), method, pooling, rate)
        self.train(run)
        tasks = {task: self.folder / "validation" / task for task in TASKS}
        models = {run.name: str(self.folder / run.name)}
        self.measure(run.name, models, tasks, ["few_shot"], {"repeats": TUNING_REPEATS})
        return self.mean_few_shot(run.name, run.name)

    def best_of_tuning(self, method: str) -> tuple[str, float]:
        """The pooling and the learning rate that were best on the held-out rows."""
        scores = {}
        for path in sorted((self.folder / "results" / "tuning" / method).iterdir()):
            pooling, _, rate = path.name.partition("_")
            name = f"tuning/{method}/{path.name}"
            scores[pooling, float(rate)] = self.mean_few_shot(name, name)
        if not scores:
            raise ValueError(f"{method} has no learning rate yet: run --stages tuning first.")
        return max(scores, key=scores.get)

    def mean_few_shot(self, results: str, system: str) -> float:
        """Mean few-shot macro F1 of a system over the tasks and draws."""
        records = ResultStore(self.folder / "results" / results).records
        found = [record for record in records if record["system"] == system and record["protocol"] == "few_shot"]
        if not found:
            raise ValueError(f"{results} has no few-shot results of {system}: run the stage before it.")
        if len({record["system_fingerprint"] for record in found}) > 1:
            raise ValueError(f"{results} has results of different models called {system}: delete it, and run again.")
        return float(np.mean([record["metrics"]["macro_f1"] for record in found]))

    def methods(self) -> None:
        """Train each method at its learning rate with each seed."""
        self.in_parallel([partial(self.method, method, seed) for seed in self.seeds for method in METHODS])

    def method(self, method: str, seed: int) -> None:
        """Train and measure one method with one seed."""
        pooling, rate = self.best_of_tuning(method)
        run = method_run(str(self.folder), method, pooling, rate, seed)
        self.train(run)
        self.evaluate(run.name, {run.name: str(self.folder / run.name)})

    def ablations(self) -> None:
        """Train DocSplit with one thing changed, with each seed."""
        self.write_training_texts()
        options = {name: options for name, (_, options) in ABLATIONS.items()}
        self.in_parallel(
            [partial(self.ablation, ablation, seed) for seed in self.seeds for ablation in slowest_first(options)]
        )

    def ablation(self, ablation: str, seed: int) -> None:
        """Train and measure one ablation with one seed."""
        _, rate = self.best_of_tuning("docsplit")
        run = ablation_run(str(self.folder), ablation, rate, seed)
        self.train(run)
        self.measure(run.name, {run.name: str(self.folder / run.name)}, self.tasks, ["few_shot"], LIMITS)

    def longer(self) -> None:
        """Train methods for twenty times the steps, and measure several checkpoints with fewer and more shots too."""
        for seed in self.seeds:  # one folder of results per seed, since starts of two machines differ
            self.measure_shots(f"longer/{START}/seed{seed}", {f"{START}/seed{seed}": START})
        runs = [longer_run(str(self.folder), method, seed) for seed in self.seeds for method in LONGER_RATES]
        self.in_parallel([partial(self.train_longer, run) for run in runs])

    def train_longer(self, run: Run) -> None:
        """Train one of the longer runs, and measure its checkpoints."""
        self.train(run)
        self.measure_curve(run)

    def measure_curve(self, run: Run) -> None:
        """Measure the checkpoints of a run, finished or not; delete those of the steps that are not measured."""
        steps = {step * run.options["max_steps"] // LONGER_STEPS: step for step in MEASURED_STEPS}
        method, _, seed = run.name.rpartition("/")
        models = {}
        for checkpoint in complete_checkpoints(self.folder / run.name):
            step = steps.get(int(checkpoint.name.rpartition("-")[2]))
            if step:
                models[f"{method}/{step}/{seed}"] = f"{run.name}/{checkpoint.name}"
            else:
                shutil.rmtree(checkpoint)
        self.measure_shots(run.name, models)

    def measure_shots(self, name: str, models: dict[str, str]) -> None:
        """Measure models of the folder on the test sets, by the number of shots."""
        models = {system: str(self.folder / model) for system, model in models.items()}
        self.measure(name, models, self.tasks, ["curve"], LIMITS | {"curve_shots": CURVE_SHOTS})

    def questions(self) -> None:
        """Train DocSplit without MLM with one thing changed."""
        self.write_corpora()
        runs = [question_run(str(self.folder), question, seed) for seed in self.seeds for question in QUESTIONS]
        self.in_parallel([partial(self.answer_question, run) for run in runs])

    def answer_question(self, run: Run) -> None:
        """Train and measure the run for one question."""
        self.train(run)
        self.measure_shots(run.name, {run.name: run.name})

    def write_corpora(self) -> None:
        """Write the first documents, beside the held-out ones; and all documents, one sentence per line, shuffled."""
        folder = Path(CORPORA.format(folder=self.folder))
        if (folder / "shuffled.jsonl").exists():
            return
        folder.mkdir(exist_ok=True)
        with Path(CORPUS).open(encoding="utf-8") as file:
            lines = list(file)
        for count in DOCUMENTS:
            (folder / f"first_{count}.jsonl").write_text("".join(lines[: count + HELD_OUT_DOCUMENTS]), encoding="utf-8")
        split = get_segmenter()
        generator = random.Random(0)
        documents = []
        for line in lines:
            sentences = [" ".join(sentence.split()) for sentence in split(json.loads(line)["text"])]
            shuffled = generator.sample(sentences, len(sentences))
            documents.append(json.dumps({"text": "\n".join(shuffled)}) + "\n")
        (folder / "shuffled.jsonl").write_text("".join(documents), encoding="utf-8")

    def long(self) -> None:
        """Train the start as a Longformer and a BigBird, by MLM and by DocSplit, on articles of up to 1,024 tokens."""
        for kind in LONG_KINDS:
            start = self.folder / f"long/{kind}_start"
            if not (start / "tokenizer.json").exists():
                write_long_start(
                    self.folder / START,
                    start,
                    kind,
                    positions=LONG_LENGTH,
                    trained_positions=START_OPTIONS["max_length"],
                )
            for seed in self.seeds:
                self.measure_long(f"long/{kind}_start/seed{seed}", start, kind)
        self.in_parallel(
            [
                partial(self.train_long, kind, objective, seed)
                for seed in self.seeds
                for kind in LONG_KINDS
                for objective in LONG_OBJECTIVES
            ]
        )

    def train_long(self, kind: str, objective: str, seed: int) -> None:
        """Train and measure a Longformer or BigBird."""
        run = long_run(str(self.folder), kind, objective, seed)
        self.train(run)
        self.measure_long(run.name, self.folder / run.name, kind)

    def measure_long(self, name: str, model: Path, kind: str) -> None:
        """Measure a Longformer or BigBird with its maximum length in training."""
        limits = LONG_LIMITS | LONG_KINDS[kind] | {"max_length": LONG_LENGTH}
        self.measure(name, {name: str(model)}, self.tasks, ["few_shot"], limits)

    def attention(self) -> None:
        """Measure the first token's attention of DocSplit and SimCSE, and how much texts repeat themselves."""
        runs = [first_token_run(str(self.folder), method, seed) for seed in self.seeds for method in FIRST_TOKEN_RATES]
        self.in_parallel([partial(self.train, run) for run in runs])
        models = {run.name.removeprefix("attention/"): str(self.folder / run.name) for run in runs}
        models |= {START: str(self.folder / START), "MiniLM": ADAPTED, SHIPPED: SHIPPED}
        tasks = self.tasks | {"wikipedia": Path(CORPUS)}
        options = {"seeds": 1, "max_length": 512, "tagger": "nltk", "max_test_examples": 500}
        self.measure("attention", models, tasks, ["redundancy", "attention"], options)

    def adaptation(self) -> None:
        """Train MiniLM further on the texts of each task, and measure it on that task before and after."""
        self.write_training_texts()
        self.in_parallel([partial(self.adapt, task) for task in TASKS])

    def adapt(self, task: str) -> None:
        """Train MiniLM further on one task's texts by each recipe, and measure it."""
        models = {"adaptation/MiniLM": ADAPTED}
        for recipe in ADAPTATION_RECIPES:
            run = adaptation_run(str(self.folder), task, recipe)
            self.train(run)
            models[f"adaptation/{recipe}"] = str(self.folder / run.name)
        self.measure(f"adaptation/{task}", models, {task: self.data / TASKS[task]}, ["full", "few_shot"], LIMITS)

    def train(self, run: Run) -> None:
        """Run experiments.pretrain unless its model exists; an interrupted run resumes from its last checkpoint."""
        model = self.folder / run.name / "model.safetensors"
        recipe = self.folder / run.name / RECIPE
        if not model.exists():
            recipe.parent.mkdir(parents=True, exist_ok=True)
            recipe.write_text(json.dumps(run.options, indent=1))
            begun = complete_checkpoints(recipe.parent)
            go_on = ["--resume_from_checkpoint", "last"] if begun else ["--overwrite_output_dir"]
            self.call([*run.command(str(self.folder)), *go_on], run.name)
        elif not recipe.exists() or json.loads(recipe.read_text()) != run.options:
            raise ValueError(
                f"{model.parent} was not trained with the options that study_runs.py has now, or they are not known. "
                f"Delete it, and its part of {self.folder / 'results'}, to train it anew."
            )

    def evaluate(self, name: str, models: dict[str, str], options: Options | None = None) -> None:
        """Measure systems on the test sets."""
        self.measure(name, models, self.tasks, ["full", "few_shot"], LIMITS | (options or {}))

    def measure(
        self, name: str, models: dict[str, str], tasks: dict[str, Path], protocols: list[str], options: dict
    ) -> None:
        """Run the experiments, which skip what is already in their results."""
        named = [path if path == system else f"{path}#name={system}" for system, path in models.items()]
        known = {task: path for task, path in tasks.items() if path.parent == self.data}
        chosen = [task if task in known else str(path) for task, path in tasks.items()]
        command = ["python", "-m", "experiments", "--models", *named, "--tasks", *chosen]
        if known:
            command += ["--task_folders", *(f"{task}={path}" for task, path in known.items())]
        folders = {"cache_dir": str(self.folder / "embeddings"), "output_dir": str(self.folder / "results" / name)}
        command += ["--protocol", *protocols, *as_arguments(EVALUATION | options | folders)]
        self.call(command, f"results/{name}")

    def call(self, command: list[str], name: str) -> None:
        """Run a command of the project in one thread, with a log of its own, and record its processor time."""
        log = self.folder / "logs" / f"{name.replace('/', '_')}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        print(" ".join(command), flush=True)
        executable = sys.executable if command[0] == "python" else command[0]
        with log.open("a") as output:
            environment = os.environ | {"OMP_NUM_THREADS": "1"}
            process = subprocess.Popen([executable, *command[1:]], stdout=output, stderr=output, env=environment)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        row = {"name": name, "cpu_seconds": used.ru_utime + used.ru_stime, "exit": process.returncode}
        with (self.folder / SPENT).open("a") as spent:
            spent.write(json.dumps(row) + "\n")
        if process.returncode:
            raise RuntimeError(f"{name} ended with {process.returncode}: see {log}")

    def write_validation_tasks(self) -> None:
        """Write rows of the training sets to choose learning rates on; the test sets are not used."""
        for task, folder in TASKS.items():
            target = self.folder / "validation" / task
            if (target / "test.jsonl").exists():
                continue
            train = load_task(self.data / folder, validation_size=0)["train"]
            labels = np.array(train["label"])
            kept, held_out = hold_out_of_each_class(train["text"], labels, min(VALIDATION_TEST / len(labels), 0.3))
            order = np.random.default_rng(0).permutation(kept)
            rows = np.concatenate([order[labels[order] == label][:VALIDATION_PER_CLASS] for label in set(labels)])
            target.mkdir(parents=True, exist_ok=True)
            names = train.features["label"].names
            for split, chosen in (("train", rows), ("test", held_out)):
                lines = (json.dumps({"text": train[int(i)]["text"], "label": names[labels[i]]}) for i in chosen)
                (target / f"{split}.jsonl").write_text("".join(line + "\n" for line in lines))

    def write_training_texts(self) -> None:
        """Write the training texts of each task without labels, as they are in the evaluation."""
        for task, folder in TASKS.items():
            target = self.folder / "texts" / f"{task}.jsonl"
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                texts = load_paper_task(task, self.data / folder).train_texts
                target.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))

    def in_parallel(self, jobs: list) -> None:
        """Run the jobs, ``workers`` at a time; after a failure, running jobs finish and no other starts."""
        with ThreadPoolExecutor(self.workers) as pool:
            futures = [pool.submit(job) for job in jobs]
            try:
                for future in futures:
                    future.result()
            finally:
                pool.shutdown(cancel_futures=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES, help="Default: all, in this order.")
    parser.add_argument("--folder", default="output/study", help="Checkpoints and results. Default: %(default)s.")
    parser.add_argument("--data", default="data", help="The folder of the data sets. Default: %(default)s.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="Default: 0 1 2.")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="Runs at a time. Default: one a core.")
    options = parser.parse_args()
    study = Study(options.folder, options.data, options.seeds, options.workers)
    for stage in options.stages:
        getattr(study, stage)()


if __name__ == "__main__":
    main()
