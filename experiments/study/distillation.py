"""What DocSplit's halves and its contrast add to distillation: students from one start, with equal numbers of tokens.

    python -m experiments.study.distillation --teacher sentence-transformers/all-MiniLM-L6-v2

It needs wikipedia.jsonl (a column "text") in the working folder and the data sets of TASKS in data/. The record of each
student is written as soon as it is measured; students with a record are skipped.
"""

from __future__ import annotations

import argparse
import copy
import functools
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import AutoTokenizer, set_seed

import docsplit_hf
from docsplit_hf.encoding.pruning import keep_frequent_tokens, keep_layers
from docsplit_hf.evaluation.probes import LabeledFeatures, logistic_predictions, sample_per_class
from docsplit_hf.metrics.registry import ranks_of_right
from docsplit_hf.pretraining.half_retrieval import half_texts
from docsplit_hf.pretraining.objectives import get_arguments_class, get_trainer_class
from docsplit_hf.training.markdown import table
from experiments.study.study_runs import CORPUS, TASKS
from experiments.tasks.load_paper_task import load_paper_task

from ..evaluation.results import summarize
from ..evaluation.tasks import ClassificationTask

# The start of docsplit-small-en: layers of the teacher, and the number of tokens in the vocabulary.
LAYERS = [0, 2, 5]
VOCABULARY = 16_384
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
RATE = 7e-4  # of docsplit-small-en, and of the runs that are compared
VIEWS = 64  # per step, for every student
LENGTH = 48  # tokens of a view
STEPS = 30
SEEDS = (0, 1)
DOCUMENTS = 2_000  # enough that no student reads a document twice
SHOTS = 5
DRAWS = 8
HELD_OUT = 300
HELD_OUT_WORDS = 30  # of each text: short enough that neither student nor teacher truncates it


class Student(NamedTuple):
    """How a student is trained: the number of views per document, and the objective with its options."""

    parts: int
    objective: str
    options: dict[str, float]


STUDENTS = {
    "halves": Student(2, "distillation", {}),
    "halves_contrast_0.1": Student(2, "distillation", {"contrast_weight": 0.1}),
    "halves_contrast_1": Student(2, "distillation", {"contrast_weight": 1.0}),
    "whole": Student(1, "distillation", {}),
    "contrast": Student(2, "info_nce", {"mlm_weight": 0}),
}


class CachedTeacher:
    """A teacher that embeds each text once: students with the same seed and number of views read the same texts."""

    def __init__(self, encoder: docsplit_hf.DocumentEncoder) -> None:
        self.encoder = encoder
        self.known: dict[str, np.ndarray] = {}

    def encode(self, texts: list[str], show_progress: bool) -> np.ndarray:
        """The embeddings, float32 ``(N, D)``."""
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        if new:
            self.known.update(zip(new, self.encoder.encode(new, show_progress=show_progress), strict=True))
        return np.array([self.known[text] for text in texts])


class Students:
    """Students in a folder: training, measurement, and a record of each."""

    def __init__(self, folder: Path, data: Path, teacher: str) -> None:
        self.folder = folder
        self.data = data
        self.teacher = teacher
        self.path = folder / "records.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.documents = docsplit_hf.load_documents(CORPUS, test_size=HELD_OUT)
        self.documents["train"] = self.documents["train"].take(DOCUMENTS)

    def records(self) -> list[dict[str, Any]]:
        """The records written so far."""
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    @functools.cached_property
    def start(self) -> tuple[torch.nn.Module, Any]:
        """The initial model of all students, and its tokenizer."""
        model = docsplit_hf.AutoModelForDocSplit.from_pretrained(
            self.teacher, None, mlm_head=False, config_overrides=NO_DROPOUT
        )
        keep_layers(model, LAYERS)
        texts = self.documents["train"]["text"]
        tokenizer = AutoTokenizer.from_pretrained(self.teacher)
        return model, keep_frequent_tokens(model, tokenizer, VOCABULARY, list(texts))

    @functools.cached_property
    def segmented(self) -> Any:
        """The documents to train on, split into sentences."""
        return docsplit_hf.segment_documents(self.documents["train"], self.start[1])

    @functools.cached_property
    def cached_teacher(self) -> CachedTeacher:
        """The teacher for training, in int8."""
        return CachedTeacher(docsplit_hf.DocumentEncoder.from_pretrained(self.teacher, device="cpu", precision="int8"))

    def train(self, name: str, student: str, rate: float, seed: int, steps: int) -> dict[str, Any]:
        """Train a student into the folder ``name``; return its processor time and the log of its losses."""
        parts, objective, options = STUDENTS[student]
        is_distilled = objective == "distillation"
        model, tokenizer = self.start
        set_seed(seed)
        arguments = get_arguments_class(objective)(
            str(self.folder / name),
            **options,
            **({"teacher": self.teacher} if is_distilled else {}),
            objective=objective,
            per_device_train_batch_size=VIEWS // parts,
            max_steps=max(steps, 1),
            learning_rate=rate,
            lr_scheduler_type="linear",
            warmup_steps=steps // 10,
            logging_steps=10,
            save_strategy="no",
            seed=seed,
            bf16=True,
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
        )
        collator = docsplit_hf.DataCollatorForDocSplit(
            tokenizer, max_length=LENGTH, mlm_probability=0, views_kwargs={"parts": parts}, seed=seed
        )
        trainer = get_trainer_class(objective)(copy.deepcopy(model), arguments, self.segmented, None, collator)
        if is_distilled:
            trainer.teacher = self.cached_teacher
        begun = time.process_time()
        if steps:
            trainer.train()
        trainer.save_model()
        logs = [log for log in trainer.state.log_history if "loss" in log]
        kept = ("step", "loss", "teacher_similarity", "contrastive_loss")
        return {
            "seconds": time.process_time() - begun,
            "logs": [{key: log[key] for key in kept if key in log} for log in logs],
        }

    def measure(self, name: str, model: str, settings: dict[str, Any]) -> None:
        """Measure an encoder, and write its record with its settings."""
        encoder = self.encoder(model)
        few_shot = {name: self.few_shot(encoder, task) for name, task in self.tasks.items()}
        embedded = encoder.encode(self.beginnings, show_progress=False, bf16=True)
        first, second = (encoder.encode(half, show_progress=False, bf16=True) for half in self.halves)
        similarities = torch.from_numpy(first) @ torch.from_numpy(second).T
        ranks = ranks_of_right(similarities, torch.arange(len(first))).numpy()
        self.write({
            "name": name,
            **settings,
            "few_shot": few_shot,
            "teacher_cosine": float((embedded * self.taught).sum(1).mean()),
            "documents": len(ranks),
            "not_found_first": np.flatnonzero(ranks > 1).tolist(),
        })  # fmt: skip

    def encoder(self, model: str) -> docsplit_hf.DocumentEncoder:
        """An encoder with the students' maximum length in training."""
        return docsplit_hf.DocumentEncoder.from_pretrained(model, device="cpu", max_length=LENGTH)

    def write(self, record: dict[str, Any]) -> None:
        """Add a record to the file."""
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        means = {task: round(100 * float(np.mean(values)), 1) for task, values in record["few_shot"].items()}
        print(record["name"], means, record.get("teacher_cosine"), len(record.get("not_found_first", ())), flush=True)

    @functools.cached_property
    def beginnings(self) -> list[str]:
        """The beginnings of the held-out documents."""
        return [" ".join(text.split()[:HELD_OUT_WORDS]) for text in self.documents["test"]["text"]]

    @functools.cached_property
    def taught(self) -> np.ndarray:
        """The teacher's embeddings of these beginnings."""
        teacher = docsplit_hf.DocumentEncoder.from_pretrained(self.teacher, device="cpu")
        return teacher.encode(self.beginnings, show_progress=False)

    @functools.cached_property
    def halves(self) -> tuple[list[str], list[str]]:
        """The halves of the held-out documents."""
        return half_texts(self.documents["test"]["text"], seed=0, show_progress=False)

    @functools.cached_property
    def tasks(self) -> dict[str, ClassificationTask]:
        """The tasks by name."""
        return {
            name: load_paper_task(name, self.data / folder, max_train_examples=2000, max_test_examples=200)
            for name, folder in TASKS.items()
        }

    def few_shot(self, encoder: docsplit_hf.DocumentEncoder, task: ClassificationTask) -> list[float]:
        """Macro F1 of each draw; only the drawn training texts are embedded."""
        drawn = [sample_per_class(task.train_labels, SHOTS, seed, task.label_names) for seed in range(DRAWS)]
        rows = np.unique(np.concatenate(drawn))
        train = np.zeros((len(task.train_labels), encoder.dimension), np.float32)
        train[rows] = encoder.encode([task.train_texts[row] for row in rows], show_progress=False, bf16=True)
        test = encoder.encode(list(task.test_texts), show_progress=False, bf16=True)
        features = LabeledFeatures(train, task.train_labels, test, task.test_labels, task.train_inputs)
        parts = [features.draw(SHOTS, seed, task.label_names) for seed in range(DRAWS)]
        return [part.metrics(logistic_predictions(part, seed))["macro_f1"] for seed, part in enumerate(parts)]

    def student(self, student: str, rate: float, seed: int) -> None:
        """Train a student and measure it, unless there is a record of it."""
        name = f"{student}/{rate:.2g}/seed{seed}"
        if name in {record["name"] for record in self.records()}:
            return
        model = self.folder / name
        log = model / "log.json"
        if not log.exists():
            log.write_text(json.dumps(self.train(name, student, rate, seed, STEPS)))
        settings = {"student": student, "rate": rate, "seed": seed, "steps": STEPS}
        self.measure(name, str(model), settings | json.loads(log.read_text()))

    def references(self) -> None:
        """Measure the teacher, and the start of all students."""
        known = {record["name"] for record in self.records()}
        if "teacher" not in known:
            self.measure("teacher", self.teacher, {})
        if "start" not in known:
            self.train("start", "whole", RATE, 0, 0)
            self.measure("start", str(self.folder / "start"), {})


class Measured:
    """The measurements of a student with all or the given seeds, of the teacher, or of the start."""

    def __init__(
        self, records: list[dict[str, Any]], student: str, rate: float | None = None, seeds: set[int] | None = None
    ) -> None:
        self.records = []
        for record in records:
            is_same = record.get("student", record["name"]) == student and record.get("rate") == rate
            if is_same and (seeds is None or record["seed"] in seeds):
                self.records.append(record)
        self.seeds = {record["seed"] for record in self.records if "seed" in record} or None

    def few_shot(self, tasks: Iterable[str] = tuple(TASKS)) -> np.ndarray:
        """Macro F1 of each draw in %, mean over tasks and seeds of training."""
        return 100 * np.mean([[record["few_shot"][task] for task in tasks] for record in self.records], axis=(0, 1))

    def cosine(self) -> float:
        """The mean cosine to the teacher."""
        return float(np.mean([record["teacher_cosine"] for record in self.records]))

    def found(self) -> np.ndarray:
        """Recall@1 of each held-out document's half by its other half, 0 or 100 %, mean over seeds."""
        ranks = np.full((len(self.records), self.records[0]["documents"]), 100.0)
        for row, record in zip(ranks, self.records, strict=True):
            row[record["not_found_first"]] = 0
        return ranks.mean(0)


def best_rate(records: list[dict[str, Any]], student: str) -> float:
    """The learning rate with the highest few-shot macro F1 among those that were run with the most seeds."""
    mine = [record for record in records if record.get("student") == student]
    seeds = Counter(record["rate"] for record in mine)
    most = [rate for rate, count in seeds.items() if count == max(seeds.values())]
    return max(most, key=lambda rate: Measured(records, student, rate).few_shot().mean())


def distillation_table(records: list[dict[str, Any]]) -> str:
    """Students, each at its best rate, and their differences from distillation on halves with the same seeds."""
    rows = []
    trained = {record["student"] for record in records if "steps" in record}
    known = [(student, best_rate(records, student)) for student in STUDENTS if student in trained]
    references = [(name, None) for name in ("teacher", "start") if Measured(records, name).records]
    for student, rate in (*references, *known):
        one = Measured(records, student, rate)
        base = Measured(records, "halves", best_rate(records, "halves"), one.seeds)
        cells = [f"{one.few_shot([task]).mean():.1f}" for task in TASKS]
        cells += [f"{one.few_shot().mean():.1f}", difference(one.few_shot(), base.few_shot()), f"{one.cosine():.3f}"]
        cells += [f"{one.found().mean():.1f}", difference(one.found(), base.found())]
        if rate is None:
            rows.append((student, "–", "–", *cells))
        else:
            rows.append((student, f"{rate:.3g}", str(len(one.records)), *cells))
    header = ("", "rate", "seeds", *TASKS, "mean", "change", "cosine to the teacher", "half retrieval", "change")
    return table(header, rows)


def difference(one: np.ndarray, other: np.ndarray) -> str:
    """The mean of paired differences with half its 95 % interval; a dash if all differences are 0."""
    found = summarize(list(one - other))
    return f"{found.mean + 0:+.1f} ± {found.interval:.1f}" if np.any(one != other) else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--teacher", required=True, help="On the Hub or a folder; a BERT of six layers.")
    parser.add_argument("--folder", type=Path, default=Path("output/distillation"), help="Default: %(default)s.")
    parser.add_argument("--data", type=Path, default=Path("data"), help="The data sets. Default: %(default)s.")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="Default: 0 1.")
    parser.add_argument("--rates", type=float, nargs="+", default=[RATE], help="Learning rates. Default: 0.0007.")
    parser.add_argument("--students", nargs="+", choices=STUDENTS, default=tuple(STUDENTS), help="Default: all.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    students = Students(options.folder, options.data, options.teacher)
    for seed in options.seeds:
        for student, rate in itertools.product(options.students, options.rates):
            students.student(student, rate, seed)
    students.references()
    print(distillation_table(students.records()))


if __name__ == "__main__":
    main()
