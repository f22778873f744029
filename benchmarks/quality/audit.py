"""How many planted errors an audit finds: labels changed at random, copies with a changed sentence, foreign texts.

    python -m benchmarks.quality.audit --tasks data/bbc data/20news
    python -m benchmarks.quality.audit --tasks data/20news data/bbc --parts unequal --seeds 5

All examples in the pool of a task (a folder of jsonl with train and test) have labels. For each seed:

- labels: 5 % of the labels are changed, each to any other one. Ours and cleanlab's rules get the same out-of-fold
  answers. Beside it, the same labels unchanged ("clean").
- unequal: few examples of all labels of all tasks, in numbers proportional to 1 / r for the r-th label, with documents,
  unchanged and with 5 % changed. The audit's corrections are applied unedited; macro F1 on test texts is measured
  before and after.
- copies: 100 documents are added a second time, with a sentence replaced by one of another document. Ours uses the
  texts, Datalab the embeddings.
- strangers: texts of the other tasks are added, one per hundred examples.

Run it again to continue a stopped run: finished records in audit.jsonl are kept. It ends with tables in audit.md.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.options import task_parser
from benchmarks.quality.few_labels.protocol import FewLabels, load_few_labels
from benchmarks.quality.few_labels.records import add_record, read_records
from docsplit_hf import KNNDatastore
from docsplit_hf.fitting.audit.audit_snapshot import audit_snapshot, corrections, out_of_fold
from docsplit_hf.fitting.audit.findings import duplicate_groups, nearest_examples, outliers
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.problem import Problem
from docsplit_hf.fitting.ensemble.scoring import prepare_experts, score_texts
from docsplit_hf.fitting.experts.text_vectors import unit
from docsplit_hf.metrics.registry import metric_class
from docsplit_hf.reading.segmentation.sentences import get_segmenter
from docsplit_hf.training.markdown import table
from experiments.evaluation.results import summarize
from experiments.evaluation.systems import cached_embeddings
from experiments.report.markdown_report import escape, format_summary

KEY = ("task", "part", "method", "seed")
CHANGED = 0.05  # share of the labels
COPIES = 100
STRANGERS = 0.01  # per example
UNEQUAL = 125  # examples
DOCUMENTS = 500
FILTERS = (
    "prune_by_noise_rate",
    "prune_by_class",
    "both",
    "confident_learning",
    "predicted_neq_given",
    "low_normalized_margin",
    "low_self_confidence",
)
METRICS = ("recall", "precision", "f1")
COLUMNS = {  # of the tables, by part
    "labels": (*METRICS, "right_label", "estimate", "marked", "marked_right"),
    "clean": ("found", "estimate", "marked"),
    "unequal": ("changed", "estimate", "found", "hits", "marked", "marked_right", "f1_before", "f1_after"),
    "copies": ("recall", "others"),
    "strangers": METRICS,
}
TITLES = {
    "labels": (
        "Changed labels",
        "5 % of all labels, each to any other one. Rivals have the same out-of-fold answers. right_label: the share of "
        "the changed labels among those found for which the right one is suggested. estimate: about how many labels "
        "are wrong, as the audit says. marked, marked_right: the labels that it marks to be changed, and how many of "
        "the suggestions are right.",
    ),
    "clean": (
        "Unchanged labels",
        "The same, with no label changed. These sets have wrong labels of their own.",
    ),
    "unequal": (
        "Few examples of unequal topics",
        f"About {UNEQUAL} examples, {DOCUMENTS} documents. changed: how many labels are wrong on purpose; estimate, "
        "found, hits: about how many are wrong, as the audit says, how many are worth a look, how many of these are "
        "wrong; marked, marked_right: as above; macro F1 on the test texts before and after the audit is "
        "applied unedited.",
    ),
    "copies": (
        "Copies with a sentence changed",
        "100 of them, the new sentence from another document. others: how many of the examples themselves are in a "
        "group with another one; these sets have copies of their own, and replies that quote.",
    ),
    "strangers": (
        "Texts of other tasks",
        "One in a hundred. What else is found counts as wrong, and may be as odd.",
    ),
}


def main() -> None:
    parser = task_parser(__doc__)
    add = parser.add_argument
    add("--parts", nargs="+", default=list(TITLES), choices=list(TITLES), help="Default: all.")
    add("--seeds", type=int, default=3, help="Default: %(default)s.")
    add(
        "--pool", type=int, nargs="+", default=[12_000], help="The most examples, of all tasks or each. Default: 12000."
    )
    options = parser.parse_args()
    records = options.output / "audit.jsonl"
    pools = options.pool * len(options.tasks) if len(options.pool) == 1 else options.pool
    tasks = [load_few_labels(folder, pool) for folder, pool in zip(options.tasks, pools, strict=True)]
    embedders = [Embedder(options.encoder, task, options.embeddings) for task in tasks]
    keys = [embedder.embed(task.pool) for task, embedder in zip(tasks, embedders, strict=True)]
    done = {(record["task"], record["part"], record["seed"]) for record in read_records(records)}

    def record(name: str, part: str, seed: int, found: Iterator[tuple[str, dict]]) -> None:
        for method, scores in found:
            line = dict(zip(KEY, (name, part, method, seed), strict=True)) | scores
            add_record(records, line)
            print(json.dumps(line), flush=True)

    for number, (task, embedder) in enumerate(zip(tasks, embedders, strict=True)):
        others = [keys[i] for i in range(len(tasks)) if i != number]
        for part in options.parts:
            for seed in range(options.seeds):
                if (task.name, part, seed) in done or part == "unequal" or (part == "strangers" and not others):
                    continue
                if part == "clean" and seed:
                    continue  # deterministic: one seed is enough
                rng = np.random.default_rng(seed)
                if part in ("labels", "clean"):
                    found = changed_labels(task, keys[number], rng, CHANGED if part == "labels" else 0)
                elif part == "copies":
                    found = planted_copies(task, keys[number], embedder, options.embeddings, rng)
                else:
                    found = strangers(keys[number], others, rng)
                record(task.name, part, seed, found)
    if "unequal" in options.parts:
        name = " + ".join(task.name for task in tasks)
        test_keys = [embedder.embed(task.test) for task, embedder in zip(tasks, embedders, strict=True)]
        for seed in range(options.seeds):
            if (name, "unequal", seed) not in done:
                record(name, "unequal", seed, unequal_topics(tasks, keys, test_keys, seed))
    report = write_report(pd.DataFrame(read_records(records)))
    (options.output / "audit.md").write_text(report, encoding="utf-8")


def changed_labels(
    task: FewLabels, keys: np.ndarray, rng: np.random.Generator, share: float
) -> Iterator[tuple[str, dict]]:
    """Scores of ours and of cleanlab's rules at finding changed labels."""
    from cleanlab.filter import find_label_issues

    labels = change(task.pool_labels, len(task.names), share, rng)
    store = KNNDatastore(keys, labels, task.names, task.pool)
    accuracy = {"out_of_fold_accuracy": fit(store)}
    scores, found = audit_scores(store, task.pool_labels)
    changed = labels != task.pool_labels
    if not share:
        yield "ours", scores | accuracy | {"found": len(found)}
        return
    right = []  # for each changed label that was found, whether the suggested label is the original one
    for issue in audit_snapshot(store.snapshot, show_progress=False).label_issues:
        row = int(issue.id)
        if changed[row]:
            right.append(task.names[task.pool_labels[row]] == issue.suggested)
    right_label = {"right_label": float(np.mean(right)) if right else None}
    yield "ours", of_found(changed, found) | right_label | scores | accuracy
    answers = out_of_fold(store.snapshot)
    places = np.array([int(store.ids[row]) for row in answers.rows])
    probabilities = answers.probabilities / answers.probabilities.sum(1, keepdims=True)
    for rule in FILTERS:
        issues = find_label_issues(answers.labels[answers.rows], probabilities, filter_by=rule, n_jobs=1)
        yield f"cleanlab, {rule}", of_found(changed, places[issues]) | accuracy


def labels_of_all(tasks: list[FewLabels], split: str) -> np.ndarray:
    """The labels of a split of all tasks, each task's after those of the tasks before it."""
    labels = []
    first = 0
    for task in tasks:
        labels.append(getattr(task, f"{split}_labels") + first)
        first += len(task.names)
    return np.concatenate(labels)


def unequal_topics(
    tasks: list[FewLabels], keys: list[np.ndarray], test_keys: list[np.ndarray], seed: int
) -> Iterator[tuple[str, dict]]:
    """Scores of an audit of few examples of all tasks' labels, and macro F1 before and after applying it unedited."""
    rng = np.random.default_rng(seed)
    names = [name for task in tasks for name in task.names]
    pool = np.array([text for task in tasks for text in task.pool], dtype=object)
    pool_keys = np.concatenate(keys)
    right = labels_of_all(tasks, "pool")
    test = [text for task in tasks for text in task.test]
    asked = np.concatenate(test_keys)
    test_labels = labels_of_all(tasks, "test")
    shares = 1 / np.arange(1, len(names) + 1)
    counts = np.maximum(np.round(UNEQUAL * shares / shares.sum()).astype(int), 2)
    topics = rng.permutation(len(names))
    drawn = [rng.permutation(np.flatnonzero(right == label))[:n] for label, n in zip(topics, counts, strict=True)]
    rows = rng.permutation(np.concatenate(drawn))
    documents = rng.permutation(np.setdiff1d(np.arange(len(pool)), rows))[:DOCUMENTS]
    for share in (0, CHANGED):
        labels = change(right[rows], len(names), share, rng)
        store = KNNDatastore(pool_keys[rows], labels, names, pool[rows].tolist())
        store.add_documents(pool_keys[documents], pool[documents].tolist())
        accuracy = fit(store)
        scores, found = audit_scores(store, right[rows])
        changed = labels != right[rows]
        scores |= {"changed": int(changed.sum()), "found": len(found), "hits": int(changed[found].sum())}
        f1_before = macro_f1(store, asked, test, test_labels)
        new_labels, removed = corrections(audit_snapshot(store.snapshot, show_progress=False), store.snapshot)
        store.relabel(new_labels)
        store.remove(removed)
        fit(store)
        f1_after = macro_f1(store, asked, test, test_labels)
        before_after = {"f1_before": f1_before, "f1_after": f1_after, "labels_left": len(np.unique(store.labels))}
        yield f"{share:.0%} changed", scores | before_after | {"out_of_fold_accuracy": accuracy}


def macro_f1(store: KNNDatastore, asked: np.ndarray, texts: list[str], labels: np.ndarray) -> float:
    """Macro F1 of the fitted experts."""
    answers = score_texts(prepare_experts(store.snapshot), asked, texts, None).probabilities
    return metric_class("macro_f1")().compute(predictions=answers, references=labels)["macro_f1"]


def change(labels: np.ndarray, count: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """The labels, numbers below ``count``, with a random share changed, each to any other one."""
    labels = labels.copy()
    rows = rng.choice(len(labels), round(share * len(labels)), replace=False)
    labels[rows] = (labels[rows] + rng.integers(1, count, len(rows))) % count
    return labels


def fit(store: KNNDatastore) -> float:
    """Fit the experts, and return their out-of-fold accuracy."""
    fitted = fit_experts(Problem(store.snapshot), show_progress=False)
    store.fitted = fitted.to_state()
    return float(fitted.held_out.right.mean())


def audit_scores(store: KNNDatastore, right: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    """The estimated number of wrong labels, the number of marked ones, and the rows that are worth a look."""
    audit = audit_snapshot(store.snapshot, show_progress=False)
    place = {row_id: row for row, row_id in enumerate(store.ids)}
    hits = sum(store.label_names[right[place[row_id]]] == label for row_id, label in audit.new_labels.items())
    found = np.array([place[issue.id] for issue in audit.label_issues], int)
    return {"estimate": audit.wrong_labels, "marked": len(audit.new_labels), "marked_right": hits}, found


def planted_copies(
    task: FewLabels, keys: np.ndarray, embedder: Embedder, folder: Path, rng: np.random.Generator
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Recall of copies with a replaced sentence, and the number of groups without planted copies."""
    segment = get_segmenter()
    sources = []
    texts = []
    for row in rng.permutation(len(task.pool)).tolist():
        sentences = segment(task.pool[row])
        others = segment(task.pool[rng.integers(len(task.pool))])
        if len(sentences) < 2:
            continue
        sentences[rng.integers(len(sentences))] = others[rng.integers(len(others))]
        if "".join(sentences) != task.pool[row]:
            sources.append(row)
            texts.append("".join(sentences))
        if len(texts) == COPIES:
            break
    copies = cached_embeddings(embedder, [json.dumps(text) for text in texts], folder)
    both = np.concatenate([keys, copies])
    pairs = list(zip(sources, range(len(keys), len(keys) + COPIES), strict=True))
    store = KNNDatastore(both, np.zeros(len(both), int), ["any"], [*task.pool, *texts])
    groups = duplicate_groups(store.snapshot.rows)
    yield "ours", of_pairs(pairs, [group.rows for group in groups], len(keys))
    sets = datalab(both, "near_duplicate")["near_duplicate_sets"]
    yield "Datalab", of_pairs(pairs, [[row, *near] for row, near in enumerate(sets)], len(keys))


def strangers(keys: np.ndarray, others: list[np.ndarray], rng: np.random.Generator) -> Iterator[tuple[str, dict]]:
    """Scores at finding texts of other tasks; other texts that are found may be as odd, but count as wrong."""
    each = max(round(STRANGERS * len(keys) / len(others)), 1)
    both = np.concatenate([keys, *(other[rng.choice(len(other), each, replace=False)] for other in others)])
    is_stranger = np.arange(len(both)) >= len(keys)
    found = outliers(nearest_examples(unit(both)).closeness())
    yield "ours", of_found(is_stranger, found)
    yield "Datalab", of_found(is_stranger, np.flatnonzero(datalab(both, "outlier")["is_outlier_issue"]))


def datalab(features: np.ndarray, issue: str) -> Any:
    """Datalab's issues of embeddings, with its defaults."""
    from cleanlab import Datalab

    lab = Datalab({"row": np.arange(len(features))}, verbosity=0)
    with contextlib.redirect_stdout(io.StringIO()):
        lab.find_issues(features=features, issue_types={issue: {}})
    return lab.get_issues(issue)


def of_found(wanted: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """Recall, precision and F1 of the rows that were found; ``wanted``: bool ``(N,)``."""
    hits = int(wanted[rows].sum())
    recall = hits / wanted.sum()
    precision = hits / max(len(rows), 1)
    f1 = 2 * hits / (wanted.sum() + len(rows))
    return {"recall": float(recall), "precision": precision, "f1": float(f1), "found": len(rows)}


def of_pairs(pairs: list[tuple[int, int]], groups: list[list[int]], originals: int) -> dict[str, Any]:
    """The share of pairs within one group, and the number of originals in a group with another original."""
    groups_of = defaultdict(list)
    others = set()
    for members in map(set, groups):
        for row in members:
            groups_of[row].append(members)
        in_group = {row for row in members if row < originals}
        if len(in_group) > 1:
            others |= in_group
    found = sum(any(copy in members for members in groups_of[source]) for source, copy in pairs)
    return {"recall": found / len(pairs), "others": len(others)}


def write_report(records: pd.DataFrame) -> str:
    """The tables: mean and half of the 95 % interval over the seeds."""
    lines = ["# Audit", "", "Mean ± half of the 95 % interval over the seeds; made by `benchmarks/quality/audit.py`."]
    for part, (title, words) in TITLES.items():
        mine = records[records["part"] == part]
        metrics = COLUMNS[part]
        if mine.empty:
            continue
        rows = []
        by = ["method", "seed"] if part == "unequal" else ["task", "method"]  # unequal: a row for each draw
        for (first, second), group in mine.groupby(by, sort=part == "unequal"):
            rows.append((escape(str(first)), escape(str(second)), *(cell(group[name], name) for name in metrics)))
        lines += ["", f"## {title}", "", words, "", table((*by, *metrics), rows)]
    return "\n".join(lines) + "\n"


def cell(values: pd.Series, metric: str) -> str:
    """A mean with its interval; metrics are in percent, and counts as they are."""
    values = values.dropna()
    if values.empty:
        return "–"
    if metric.startswith("f1_"):
        return f"{100 * values.mean():.2f}"
    if metric in (*METRICS, "right_label"):
        return format_summary(summarize(values.tolist()), "interval")
    return f"{values.mean():.0f}"


if __name__ == "__main__":
    main()
