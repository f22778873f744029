"""Classification of contracts: whole long documents, five labels of each class, and thousands of unlabeled documents.

    OMP_NUM_THREADS=1 python -m benchmarks.quality.contracts systems --tasks data/contracts
    OMP_NUM_THREADS=1 python -m benchmarks.quality.contracts passages --tasks data/contracts data/20news data/partisan
    OMP_NUM_THREADS=1 python -m benchmarks.quality.contracts audit rejection journey --tasks data/contracts
    python -m benchmarks.quality.contracts report

A task is a folder with train.jsonl and test.jsonl (text, label, and maybe ``doubt``: why the label may be wrong).

- systems: ours with embeddings of the beginnings and of whole texts, ours without documents, a probe and word counts.
- passages: ours by how much of each text is read. Passages are embedded once; seconds are proportional to their number.
- audit: which doubtful labels an audit marks among all labels.
- rejection: answers with reject, and novelty for a class without examples.
- journey: from a folder of files to answers, once, as a user does it; seconds of the processor and by the clock.

Texts with a doubtful label are documents, but neither examples nor test texts, because a person who reads five texts of
each class labels them correctly. With --doubtful they are used like the others, in records of the task
``NAME_doubtful``. Records are lines of records.jsonl in --output; finished ones are kept.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import torch
from transformers import Pipeline, pipeline

from benchmarks.inputs import default_model
from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.protocol import METRICS, FewLabels, draw, load_few_labels, scores
from benchmarks.quality.few_labels.records import KEY, add_record, read_records
from benchmarks.quality.few_labels.systems import SYSTEMS
from docsplit_hf import DocumentEncoder
from docsplit_hf.encoding.chunking import read_chunks
from docsplit_hf.fitting.audit.audit_snapshot import out_of_fold
from docsplit_hf.fitting.experts import text_vectors as words
from docsplit_hf.training.markdown import table
from experiments.evaluation.results import summarize
from experiments.report.figures import COLORS, GRID, draw_curve, draw_legend, make_panels, save
from experiments.report.markdown_report import format_summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "contracts"
WORDS_OF = words.words_of
INT8 = {"precision": "int8"}
ENCODER = "all-MiniLM-L6-v2 int8"
SPREAD = (2, 4, 8)
CHAIN = ("first", *(f"spread_{k}" for k in SPREAD), "average")  # in order of the share that is read
TITLES = ("accuracy", "log loss", "calibration error")  # of METRICS beside macro F1
DOUBTFUL = "_doubtful"
READINGS = ("first", "head_tail", *(f"spread_{k}" for k in SPREAD), "average", "whole")
MEASURED = [  # a system, and its strategy for long documents
    ("ours", "first"),
    ("ours", "whole"),
    ("ours_without_documents", "first"),
    ("ours_without_documents", "whole"),
    ("probe", "first"),
    ("probe", "whole"),
    ("tfidf", "whole"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("parts", nargs="+", choices=PARTS, help="What is measured or drawn.")
    add("--tasks", nargs="*", default=[], help="Folders with train.jsonl and test.jsonl.")
    add("--per_label", nargs="+", default=["5", "20"], help="Labels of each class. Default: %(default)s.")
    add("--draws", type=int, default=5, help="Of the examples. Default: %(default)s.")
    add("--doubtful", action="store_true", help="Labels that may be wrong are examples and asked about, too.")
    add("--journey", type=int, nargs=2, default=[200, 100], help="Files, and texts asked. Default: %(default)s.")
    add("--embeddings", type=Path, default=Path("output/embeddings"), help="Where they are kept. Default: %(default)s.")
    add("--output", type=Path, default=RESULTS, help="A folder for records and picture. Default: %(default)s.")
    options = parser.parse_args()
    for part in options.parts:
        for folder in map(Path, options.tasks) if part != "report" else [options.output]:
            PARTS[part](folder, options)


@cache
def words_once(text: str) -> list[str]:
    """The words of a text, computed once for all draws."""
    return list(map(sys.intern, WORDS_OF(text)))


class Read(NamedTuple):
    """Embeddings ``(N, D)``, the share of the tokens that is read, and the processor's seconds for reading them."""

    embeddings: np.ndarray
    share: float
    seconds: float


class Embedded(NamedTuple):
    """A task's texts, pool and then test set, embedded by the strategies that others are computed from."""

    first: np.ndarray  # float32 (N, D)
    head_tail: np.ndarray  # float32 (N, D)
    passages: np.ndarray  # float32 (P, D), of norm 1
    counts: np.ndarray  # int64 (N,): passages of each text
    lengths: np.ndarray  # int64 (P,): tokens of each passage
    seconds: np.ndarray  # float64 (3,): of the processor, for first, head_tail and passages

    def of(self, text: int) -> slice:
        """The passages of a text."""
        end = int(self.counts[: text + 1].sum())
        return slice(end - int(self.counts[text]), end)

    def read(self, how: str) -> Read:
        """The texts by a strategy: ``"first"``, ``"head_tail"``, ``"spread_K"``, ``"average"`` or ``"whole"``."""
        if how in ("first", "head_tail"):
            lengths = np.array([self.lengths[self.of(text)].sum() for text in range(len(self.counts))])
            share = np.minimum(lengths, self.lengths.max()).sum() / self.lengths.sum()
            first_seconds, head_tail_seconds, _ = self.seconds
            if how == "first":
                return Read(self.first, share, float(first_seconds))
            return Read(self.head_tail, share, float(head_tail_seconds))
        embeddings = np.empty_like(self.first)
        rows = 0  # passages that are read
        tokens = 0
        for text, count in enumerate(self.counts):
            spread = int(how.removeprefix("spread_")) if how.startswith("spread") else count
            chosen = np.unique(np.linspace(0, count - 1, min(spread, count)).round().astype(int))
            passages = self.passages[self.of(text)][chosen]
            lengths = self.lengths[self.of(text)][chosen]
            average = unit(lengths @ passages)
            if count == 1:
                embeddings[text] = self.first[text]
            elif how == "whole":
                embeddings[text] = unit(average + passages[0])
            else:
                embeddings[text] = average
            rows += len(chosen)
            tokens += lengths.sum()
        seconds = float(self.seconds[2]) * rows / len(self.passages)
        return Read(embeddings, tokens / self.lengths.sum(), seconds)


class Remembered(Embedder):
    """An embedder of known texts by one strategy, without the encoder."""

    def __init__(self, task: FewLabels, embedded: Embedded, reading: str) -> None:
        own = reading if reading in ("first", "head_tail", "average", "whole") else "average"
        self.name = default_model()
        self.options = {"long_documents": own, **INT8}
        self.seconds_per_text = 0.0
        embeddings, self.share, self.seconds = embedded.read(reading)
        self._opened = super().pipeline()
        texts = [(text, None) for text in task.pool + task.test]
        self._known = dict(zip(texts, embeddings, strict=True))

    def pipeline(self) -> Pipeline:
        return pipeline(
            "docsplit-knn",
            model=self._opened.model,
            tokenizer=self._opened.tokenizer,
            long_documents=self.options["long_documents"],
        )

    @contextmanager
    def remembered(self) -> Iterator[None]:
        with super().remembered(), mock.patch.object(words, "words_of", words_once):
            yield


def unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def load(folder: Path) -> tuple[FewLabels, np.ndarray, np.ndarray]:
    """A task, and which texts of its pool and of its test set have a doubtful label."""
    doubtful = set()
    for split in ("train", "test"):
        for line in (folder / f"{split}.jsonl").open(encoding="utf-8"):
            row = json.loads(line)
            if row.get("doubt"):
                doubtful.add(row["text"])
    task = load_few_labels(folder)
    is_doubtful = np.array([text in doubtful for text in task.pool])
    is_doubtful_test = np.array([text in doubtful for text in task.test])
    return task, is_doubtful, is_doubtful_test


def embed(task: FewLabels, folder: Path) -> Embedded:
    """Embed all texts, or read their embeddings from the disk."""
    path = folder / f"contracts-{task.name}.npz"
    if not path.exists():
        encoder = DocumentEncoder.from_pretrained(default_model(), **INT8)
        texts = task.pool + task.test
        seconds = []
        encoder.encode(texts[:8], show_progress=False)  # compiles it

        def timed(read: Any, **how: Any) -> Any:
            start = process_time()
            found = read(texts, show_progress=False, **how)
            seconds.append(process_time() - start)
            return found

        first = timed(encoder.encode, long_documents="first")
        head_tail = timed(encoder.encode, long_documents="head_tail")
        passages = timed(encoder.encode_passages)
        found = Embedded(
            first=first,
            head_tail=head_tail,
            passages=passages.embeddings,
            counts=passages.counts,
            lengths=np.array(
                [len(chunk.input_ids) for chunk in read_chunks(texts, encoder.chunk_settings, "passages")]
            ),
            seconds=np.array(seconds),
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, **found._asdict())
    with np.load(path) as saved:
        return Embedded(**saved)


def measure(folder: Path, options: argparse.Namespace, measured: list[tuple[str, str]]) -> None:
    """A record for each system, reading, number of labels and draw."""
    records = options.output / "records.jsonl"
    done = {tuple(record[field] for field in KEY) for record in read_records(records)}
    task, is_doubtful, is_doubtful_test = load(folder)
    embedded = embed(task, options.embeddings)
    examples = np.flatnonzero(~is_doubtful | options.doubtful)
    tested = np.flatnonzero(~is_doubtful_test | options.doubtful)
    title = f"{task.name}{DOUBTFUL}" if options.doubtful else task.name
    embedders: dict[str, Remembered] = {}
    for number, per_label in product(range(options.draws), options.per_label):
        for name, reading in measured:
            values = (title, name, f"{ENCODER} {reading}", per_label, number)
            if values in done:
                continue
            if reading not in embedders:
                embedders[reading] = Remembered(task, embedded, reading)
            embedder = embedders[reading]
            rows = examples[draw(task.pool_labels[examples], int(per_label), number)]
            answer = SYSTEMS[name](task, rows, embedder, number + 1)  # with a seed of 0 they would measure speed too
            found = scores(answer.probabilities[tested], task.test_labels[tested])
            record = dict(zip(KEY, values, strict=True)) | {"examples": len(rows), "classes": len(task.names)} | found
            record |= {"share_read": embedder.share, "embedding_cpu_seconds": embedder.seconds}
            record |= {"texts": len(task.pool) + len(task.test), "tokens": int(embedded.lengths.sum())}
            add_record(records, record)
            measured = [f"{metric} {found[metric]:.4f}" for metric in METRICS]
            print(" ".join(map(str, [*values, *measured])), flush=True)


def measure_systems(folder: Path, options: argparse.Namespace) -> None:
    measure(folder, options, MEASURED)


def measure_passages(folder: Path, options: argparse.Namespace) -> None:
    measure(folder, options, [("ours", reading) for reading in READINGS])


def measure_audit(folder: Path, options: argparse.Namespace) -> None:
    """Which doubtful labels are found by an audit of all labels, by the least probable labels, and by a classifier.

    "listed": labels that the audit lists; "marked": labels that it would change; "least_sure": the given labels that
    are least probable out of fold, as many as there are doubtful ones; "contradicted": labels that a classifier with
    five certain labels of each class contradicts.
    """
    task, is_doubtful_pool, is_doubtful_test = load(folder)
    embedded = embed(task, options.embeddings)
    texts = task.pool + task.test
    labels = np.concatenate([task.pool_labels, task.test_labels])
    is_doubtful = np.concatenate([is_doubtful_pool, is_doubtful_test])
    given = [task.names[label] for label in labels]
    for reading in ("first", "whole"):
        embedder = Remembered(task, embedded, reading)
        pipe = embedder.pipeline()
        with embedder.remembered():
            ids = pipe.add_examples(texts, given)
            pipe.fit(show_progress=False)
            audit = pipe.audit(show_progress=False)
            answers = out_of_fold(pipe.datastore.snapshot)
        row_of = {row_id: row for row, row_id in enumerate(ids)}
        of_rows = answers.probabilities / answers.probabilities.sum(1, keepdims=True)
        probabilities = of_rows[np.arange(len(of_rows)), answers.labels[answers.rows]]
        rows = np.array([row_of[pipe.datastore.ids[row]] for row in answers.rows])
        found = {
            "listed": [row_of[issue.id] for issue in audit.label_issues],
            "marked": [row_of[issue.id] for issue in audit.label_issues if issue.apply],
            "least_sure": rows[np.argsort(probabilities)[: is_doubtful.sum()]],
        }
        record = {"part": "audit", "task": task.name, "encoder": f"{ENCODER} {reading}", "estimate": audit.wrong_labels}
        record |= {"examples": len(ids), "doubtful": int(is_doubtful.sum()), "copies": len(audit.duplicates)}
        for kind, of in found.items():
            record |= {kind: len(of), f"{kind}_doubtful": int(is_doubtful[np.array(of, int)].sum())}
        add_record(options.output / "audit.jsonl", record)
        print(record, flush=True)
    for number in range(options.draws):
        rows = np.flatnonzero(~is_doubtful)
        rows = rows[draw(labels[rows], 5, number)]
        others = np.setdiff1d(np.arange(len(texts)), rows)
        pipe = embedder.pipeline()
        with embedder.remembered():
            pipe.add_examples([texts[row] for row in rows], [given[row] for row in rows])
            pipe.add_documents([texts[row] for row in others])
            pipe.fit(show_progress=False)
            answers = pipe([texts[row] for row in others])
        against = np.array([answer["label"] != given[row] for answer, row in zip(answers, others, strict=True)])
        record = {"part": "contradicted", "task": task.name, "encoder": f"{ENCODER} {reading}", "draw": number}
        record |= {"texts": len(others), "doubtful": int(is_doubtful[others].sum()), "contradicted": int(against.sum())}
        record |= {"contradicted_doubtful": int(is_doubtful[others][against].sum())}
        add_record(options.output / "audit.jsonl", record)
        print(record, flush=True)


def measure_rejection(folder: Path, options: argparse.Namespace) -> None:
    """With 20 labels of each class: how many texts get a label and how many of these are wrong; and a class unknown."""
    task, *doubtful = load(folder)
    embedder = Remembered(task, embed(task, options.embeddings), "whole")
    tested = np.flatnonzero(~doubtful[1])
    labels = task.test_labels[tested]
    for number, has_all in product(range(options.draws), (True, False)):
        left_out = None if has_all else number % len(task.names)
        rows = np.flatnonzero(~doubtful[0])
        rows = rows[draw(task.pool_labels[rows], 20, number)]
        rows = rows[task.pool_labels[rows] != left_out] if left_out is not None else rows
        pipe = embedder.pipeline()
        with embedder.remembered():
            pipe.add_examples([task.pool[row] for row in rows], [task.names[i] for i in task.pool_labels[rows]])
            pipe.add_documents(np.delete(np.array(task.pool, dtype=object), rows).tolist())
            pipe.fit(show_progress=False)
            answers = pipe([task.test[row] for row in tested], reject=0.1, return_novelty=True)
        answered = np.array([answer["label"] is not None for answer in answers])
        right = np.array([task.names[label] == answer["label"] for label, answer in zip(labels, answers, strict=True)])
        novel = np.array([answer["novelty"] > 0.95 for answer in answers])
        unknown = labels == left_out
        record = {"part": "rejection", "task": task.name, "draw": number, "reject": 0.1, "texts": len(tested)}
        record |= {"left_out": None if left_out is None else task.names[left_out], "answered": int(answered.sum())}
        record |= {"wrong": int((answered & ~right).sum()), "unknown": int(unknown.sum())}
        record |= {"unknown_answered": int((answered & unknown).sum()), "unknown_novel": int((novel & unknown).sum())}
        record |= {"known_novel": int((novel & ~unknown).sum())}
        add_record(options.output / "rejection.jsonl", record)
        print(record, flush=True)


def measure_journey(folder: Path, options: argparse.Namespace) -> None:
    """From files to answers, as a user does it: five labels of each class, all other texts of the pool without one."""
    task, is_doubtful, _ = load(folder)
    files, asked = options.journey  # the first ones, since the pool is in random order
    task = replace(task, pool=task.pool[:files], test=task.test[:asked])
    rows = np.flatnonzero(~is_doubtful[:files])
    rows = rows[draw(task.pool_labels[rows], 5, 0)]
    texts = np.array(task.pool, dtype=object)
    cpu_seconds: dict[str, float] = {}
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(step: str) -> Iterator[None]:
        start = perf_counter()
        cpu_start = process_time()
        yield
        cpu_seconds[step] = process_time() - cpu_start
        seconds[step] = perf_counter() - start
        print(step, (cpu_seconds[step], seconds[step]), flush=True)

    with tempfile.TemporaryDirectory() as place:
        for row, text in enumerate(task.pool):
            Path(place, f"{row:06}.txt").write_text(text, encoding="utf-8")
        with timed("files"):
            assert task.pool == [path.read_text(encoding="utf-8") for path in sorted(Path(place).glob("*.txt"))]
        with timed("load"):
            pipe = pipeline("docsplit-knn", model=default_model(), long_documents="whole", **INT8)
        with timed("examples"):
            pipe.add_examples(texts[rows].tolist(), [task.names[label] for label in task.pool_labels[rows]])
        with timed("documents"):
            pipe.add_documents(np.delete(texts, rows).tolist())
        with timed("fit"):
            print(pipe.fit(show_progress=False))
        with timed("answers"):
            pipe(task.test)
        with timed("save"):
            pipe.save_pretrained(Path(place, "contracts"))
        with timed("explain"):
            print(json.dumps(pipe(task.test[:3], explain=True, return_neighbors=1), indent=1)[:6000])
    settings = DocumentEncoder.from_pretrained(default_model()).chunk_settings
    record = {
        "part": "journey",
        "task": task.name,
        "encoder": f"{ENCODER} whole",
        "threads": torch.get_num_threads(),
        "documents": len(task.pool),
        "test": len(task.test),
        "tokens": sum(len(chunk.input_ids) for chunk in read_chunks(task.pool, settings, "passages")),
        "test_tokens": sum(len(chunk.input_ids) for chunk in read_chunks(task.test, settings, "passages")),
        "cpu_seconds": cpu_seconds,
        "seconds": seconds,
    }
    add_record(options.output / "journey.jsonl", record)


def write_report(folder: Path, options: argparse.Namespace) -> None:
    """Print the tables of docs/contracts.md, and draw its picture."""
    frame = pd.DataFrame(read_records(folder / "records.jsonl"))
    print(table(("", "read", "macro F1, 5", "macro F1, 20", *(f"{title}, 5" for title in TITLES)), systems(frame)))
    tasks = [f"{task}, {per_label}" for task in certain_tasks(frame) for per_label in ("5", "20")]
    print(table(("read", "share", "seconds", *tasks), passages(frame)))
    save(partial(curves, frame), folder / "passages")


def systems(frame: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    """A row for each system and strategy on the first task."""
    task = frame["task"].unique()[0]
    for name, reading in MEASURED:
        five = cells_of(frame, task, name, reading, "5")
        twenty = cells_of(frame, task, name, reading, "20")
        yield name.replace("_", " "), reading, five[0], twenty[0], *five[1:]


def passages(frame: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    """A row for each strategy: the share of the tokens, seconds for 1,000 texts of the first task, and macro F1."""
    tasks = certain_tasks(frame)
    for reading in READINGS:
        mine = frame[(frame["task"] == tasks[0]) & (frame["encoder"] == f"{ENCODER} {reading}")].iloc[0]
        seconds = 1000 * mine["embedding_cpu_seconds"] / mine["texts"]
        scores = []
        for task in tasks:
            for per_label in ("5", "20"):
                cells = cells_of(frame, task, "ours", reading, per_label)
                scores.append(cells[0].partition(" ")[0] if cells else "–")
        yield f"`{reading}`", f"{100 * mine['share_read']:.1f} %", f"{seconds:,.0f}", *scores


def certain_tasks(frame: pd.DataFrame) -> list[str]:
    """The tasks without doubtful labels."""
    return [task for task in frame["task"].unique() if not task.endswith(DOUBTFUL)]


def cells_of(frame: pd.DataFrame, task: str, system: str, reading: str, per_label: str) -> list[str]:
    """Each metric as a cell of a table; empty if it was not measured."""
    mine = frame[(frame["task"] == task) & (frame["system"] == system) & (frame["per_label"] == per_label)]
    mine = mine[mine["encoder"] == f"{ENCODER} {reading}"]
    digits = ("log_loss",)
    return [
        format_summary(summarize(mine[metric].tolist()), "interval", 2 if metric in digits else None)
        for metric in METRICS
        if len(mine)
    ]


def curves(frame: pd.DataFrame) -> Figure:
    """Macro F1 by the seconds of embedding, a panel for each task; a star for the pipeline's strategy."""
    frame = frame[(frame["system"] == "ours") & ~frame["task"].str.endswith(DOUBTFUL)]
    frame = frame.assign(reading=frame["encoder"].str.removeprefix(f"{ENCODER} "))
    tasks = frame["task"].unique()
    figure, axes = make_panels(len(tasks), 3.4, 3.0)
    for axis, task in zip(axes, tasks, strict=True):
        for number, per_label in enumerate(sorted(frame["per_label"].unique(), key=int)):
            mine = frame[(frame["task"] == task) & (frame["per_label"] == per_label)]
            found = {reading: summarize(of["macro_f1"].tolist()) for reading, of in mine.groupby("reading")}
            seconds = 1000 * (mine["embedding_cpu_seconds"] / mine["texts"]).groupby(mine["reading"]).first()
            points = pd.DataFrame([found[name]._asdict() for name in CHAIN])
            places = seconds[list(CHAIN)]
            draw_curve(axis, places.tolist(), points, "std", number, f"{per_label} labels of each class")
            axis.plot(
                seconds["whole"],
                100 * found["whole"].mean,
                "*",
                color=COLORS[number],
                markersize=11,
                markeredgecolor="black",
            )
        axis.set_xscale("log")
        axis.minorticks_off()
        axis.set_xticks(places, [f"{second:,.0f}" for second in places])
        axis.set(title=task, xlabel="Seconds to embed 1,000 texts", ylabel="Macro F1 (%)")
        axis.grid(**GRID)
    draw_legend(figure, axes, [1.0], "std")
    return figure


PARTS = {
    "systems": measure_systems,
    "passages": measure_passages,
    "audit": measure_audit,
    "rejection": measure_rejection,
    "journey": measure_journey,
    "report": write_report,
}


if __name__ == "__main__":
    main()
