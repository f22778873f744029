"""How much of what is wrong an audit finds: labels changed at random, copies with a sentence changed, strangers.

    python benchmarks/audit.py --tasks data/bbc data/20news

Of each task (a folder of jsonl with train and test) all examples of the pool have labels. For each seed, by itself:

- labels: 5 % of the labels are changed, each to any other one. Ours and cleanlab's rules get the same out-of-fold
  answers.
- copies: 100 documents are added a second time, with a sentence replaced by one of another document. Ours reads the
  texts, or the embeddings where none are kept; Datalab reads the embeddings.
- strangers: texts of the other tasks are added, one in a hundred of the examples.

It is resumable, a record of audit.jsonl at a time, and ends with tables in audit.md.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from few_labels.embedder import Embedder
from few_labels.options import task_parser
from few_labels.protocol import FewLabels, load_few_labels
from few_labels.records import add_record, read_records

from docsplit_hf import KNNDatastore
from docsplit_hf.evaluation.embedding_cache import cached_embeddings
from docsplit_hf.evaluation.markdown_report import escape, format_summary
from docsplit_hf.evaluation.summary import summarize
from docsplit_hf.neighbors.audit.audit_snapshot import audit_snapshot
from docsplit_hf.neighbors.audit.datalab_inputs import datalab_inputs
from docsplit_hf.neighbors.audit.duplicate_groups import duplicate_groups
from docsplit_hf.neighbors.audit.nearest_examples import nearest_examples
from docsplit_hf.neighbors.audit.outliers import outliers
from docsplit_hf.neighbors.experts.document_vectors import unit
from docsplit_hf.neighbors.experts.fit_experts import fit_experts
from docsplit_hf.text.segmentation.sentences import get_segmenter
from docsplit_hf.training.markdown import table

KEY = ("task", "part", "method", "seed")
CHANGED, COPIES, STRANGERS = 0.05, 100, 0.01
FILTERS = ("prune_by_noise_rate", "prune_by_class", "both", "confident_learning", "predicted_neq_given")
FILTERS += ("low_normalized_margin", "low_self_confidence")
METRICS = ("recall", "precision", "f1")
TITLES = {
    "labels": (
        "Changed labels",
        "5 % of all labels, each to any other one. Rivals have the same out-of-fold answers. right_label: the share of "
        "the changed labels among those found for which the right one is suggested.",
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
    for number, (task, embedder) in enumerate(zip(tasks, embedders, strict=True)):
        others = [keys[i] for i in range(len(tasks)) if i != number]
        for part in options.parts:
            for seed in range(options.seeds):
                if (task.name, part, seed) in done or (part == "strangers" and not others):
                    continue
                rng = np.random.default_rng(seed)
                if part == "labels":
                    found = changed_labels(task, keys[number], rng)
                elif part == "copies":
                    found = planted_copies(task, keys[number], embedder, options.embeddings, rng)
                else:
                    found = strangers(keys[number], others, rng)
                for method, scores in found:
                    record = dict(zip(KEY, (task.name, part, method, seed), strict=True)) | scores
                    add_record(records, record)
                    print(json.dumps(record), flush=True)
    report = write_report(pd.DataFrame(read_records(records)))
    (options.output / "audit.md").write_text(report, encoding="utf-8")


def changed_labels(task: FewLabels, keys: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[str, dict]]:
    """What is found of labels that were changed."""
    from cleanlab.filter import find_label_issues

    labels = task.pool_labels.copy()
    rows = rng.choice(len(labels), round(CHANGED * len(labels)), replace=False)
    labels[rows] = (labels[rows] + rng.integers(1, len(task.names), len(rows))) % len(task.names)
    store = KNNDatastore(keys, labels, task.names, task.pool)
    fitted = fit_experts(store.snapshot, show_progress=False)
    store.fitted = fitted.to_state()
    changed = np.zeros(len(labels), bool)
    changed[rows] = True
    accuracy = {"out_of_fold_accuracy": float(fitted.held_out.right.mean())}
    issues = audit_snapshot(store.snapshot, show_progress=False).new_labels
    truth = {str(row): task.names[task.pool_labels[row]] for row in rows.tolist()}
    right = [truth[row_id] == label for row_id, label in issues.items() if row_id in truth]
    scores = of_found(changed, np.array([int(row_id) for row_id in issues], int))
    yield "ours", scores | {"right_label": float(np.mean(right))} | accuracy
    inputs = datalab_inputs(store.snapshot)
    places = np.array([int(row_id) for row_id in inputs.data["id"]])
    for rule in FILTERS:
        found = find_label_issues(np.array(inputs.data["label"]), inputs.pred_probs, filter_by=rule, n_jobs=1)
        yield f"cleanlab, {rule}", of_found(changed, places[found]) | accuracy


def planted_copies(
    task: FewLabels, keys: np.ndarray, embedder: Embedder, folder: Path, rng: np.random.Generator
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is found of copies in which a sentence was replaced, and how many groups there are without them."""
    segment = get_segmenter()
    sources, texts = [], []
    for row in rng.permutation(len(task.pool)).tolist():
        sentences = list(segment(task.pool[row]).sentences)
        others = segment(task.pool[rng.integers(len(task.pool))]).sentences
        if len(sentences) < 2:
            continue
        sentences[rng.integers(len(sentences))] = others[rng.integers(len(others))]
        if "".join(sentences) != task.pool[row]:
            sources.append(row)
            texts.append("".join(sentences))
        if len(texts) == COPIES:
            break
    copies = cached_embeddings(embedder, [json.dumps(text) for text in texts], folder)
    both, pairs = np.concatenate([keys, copies]), list(zip(sources, range(len(keys), len(keys) + COPIES), strict=True))
    for name, kept in (("ours", [*task.pool, *texts]), ("ours, no texts kept", None)):
        store = KNNDatastore(both, np.zeros(len(both), int), ["any"], kept)
        groups = duplicate_groups(store.snapshot.rows, unit(both))
        yield name, of_pairs(pairs, [group.rows for group in groups], len(keys))
    sets = datalab(both, "near_duplicate")["near_duplicate_sets"]
    yield "Datalab", of_pairs(pairs, [[row, *near] for row, near in enumerate(sets)], len(keys))


def strangers(keys: np.ndarray, others: list[np.ndarray], rng: np.random.Generator) -> Iterator[tuple[str, dict]]:
    """What is found of texts of other tasks; what else is found may be as odd, and counts as wrong."""
    each = max(round(STRANGERS * len(keys) / len(others)), 1)
    both = np.concatenate([keys, *(other[rng.choice(len(other), each, replace=False)] for other in others)])
    is_stranger = np.arange(len(both)) >= len(keys)
    found = outliers(nearest_examples(unit(both)).closeness())
    yield "ours", of_found(is_stranger, found)
    yield "Datalab", of_found(is_stranger, np.flatnonzero(datalab(both, "outlier")["is_outlier_issue"]))


def datalab(features: np.ndarray, issue: str) -> Any:
    """What Datalab says of embeddings, by its defaults."""
    from cleanlab import Datalab

    lab = Datalab({"row": np.arange(len(features))}, verbosity=0)
    with contextlib.redirect_stdout(io.StringIO()):
        lab.find_issues(features=features, issue_types={issue: {}})
    return lab.get_issues(issue)


def of_found(wanted: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """How good the rows are that were found, of those that are wanted, bool ``(N,)``."""
    hits = int(wanted[rows].sum())
    recall, precision = hits / wanted.sum(), hits / max(len(rows), 1)
    f1 = 2 * hits / (wanted.sum() + len(rows))
    return {"recall": float(recall), "precision": precision, "f1": float(f1), "found": len(rows)}


def of_pairs(pairs: list[tuple[int, int]], groups: list[list[int]], originals: int) -> dict[str, Any]:
    """The share of the pairs that a group holds, and how many originals are in a group with another one."""
    together = [set(group) for group in groups]
    of = {}
    for group in together:
        for row in group:
            of.setdefault(row, []).append(group)
    found = sum(any(copy in group for group in of.get(source, ())) for source, copy in pairs)
    of_originals = [{row for row in group if row < originals} for group in together]
    return {"recall": found / len(pairs), "others": len(set().union(*(rows for rows in of_originals if len(rows) > 1)))}


def write_report(records: pd.DataFrame) -> str:
    """The tables: mean and half of the 95 % interval over the seeds."""
    lines = ["# Audit", "", "Mean ± half of the 95 % interval over the seeds; made by `benchmarks/audit.py`."]
    for part, (title, words) in TITLES.items():
        mine = records[records["part"] == part]
        metrics = [name for name in (*METRICS, "others", "right_label") if name in mine and mine[name].notna().any()]
        if part == "copies":
            metrics = ["recall", "others"]
        if mine.empty:
            continue
        rows = []
        for (task, method), group in mine.groupby(["task", "method"], sort=False):
            rows.append((escape(task), escape(method), *(cell(group[name], name) for name in metrics)))
        lines += ["", f"## {title}", "", words, "", table(("task", "method", *metrics), rows)]
    return "\n".join(lines) + "\n"


def cell(values: pd.Series, metric: str) -> str:
    """A mean with its interval, in percent but for counts."""
    values = values.dropna()
    if values.empty:
        return "–"
    return f"{values.mean():.0f}" if metric == "others" else format_summary(summarize(values.tolist()), "interval")


if __name__ == "__main__":
    main()
