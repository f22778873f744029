"""Measure labels that are a tree: accuracy by level, and how well ``reject`` keeps its promise at each level.

    OMP_NUM_THREADS=1 python -m benchmarks.quality.label_trees --tasks 20news_tree trec_tree

A task is a folder with train.jsonl and test.jsonl (text, label), with labels such as "comp > graphics". Each draw takes
5, 20 and 50 examples of each class, or all of a smaller class; up to 400 other documents have no labels. 50 is left out
where most classes have fewer. The included encoder in int8 reads the beginnings of the texts; up to 1,000 are tested.
Beside the rule of ``reject``, which holds at all levels together in nine of ten draws: labels alone; a rule that holds
at each level in nine of ten draws; and one threshold for all levels, with an error rate for all answers together. The
first draw also fits experts on the labels of the top level. Finished records are kept.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.protocol import FewLabels, Text, load_few_labels
from benchmarks.quality.few_labels.records import add_record, read_records
from benchmarks.quality.label_sets import draw_rows, shortened
from docsplit_hf.encoding.checkpoints.checkpoint import DEFAULT_FOLDER
from docsplit_hf.fitting.ensemble.guarantees import Guarantees
from docsplit_hf.fitting.ensemble.held_out_metrics import REPORTED_ERRORS
from docsplit_hf.fitting.ensemble.scoring import PreparedExperts, score_texts
from docsplit_hf.fitting.label_tree import (
    FLAT,
    answered_levels,
    label_paths,
    level_failure,
    level_thresholds,
    node_probabilities,
    path_probabilities,
    right_by_level,
)
from docsplit_hf.fitting.rejection import GUARANTEE_CONFIDENCE, TESTED_GROUPS, Groups, tail_probability

ERRORS_IN_FIRST_GROUP = 1  # of the rule with one threshold
FIRST_GROUP_DIVISOR = 10
RESULTS = Path(__file__).parents[2] / "docs" / "results" / "few_labels"
ERRORS = (*REPORTED_ERRORS[1:], 0.2)
POOL = 3_000  # most training texts to draw from
TEST_TEXTS = 1_000
DOCUMENTS = 400
MOST_EXAMPLES = 1_600
DRAWS_WITH_PARENTS = 1  # in which experts are fitted on the labels of the top level, too
KEY = ("task", "per_label", "draw")


class Scored(NamedTuple):
    """N test texts with their scores, by fitted experts."""

    probabilities: np.ndarray  # (N, C)
    novelty: np.ndarray  # (N,)
    labels: np.ndarray  # bool (N, C)
    guarantees: Guarantees


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--tasks", nargs="+", required=True, help="Folders with train.jsonl and test.jsonl.")
    add("--per_label", type=int, nargs="+", default=[5, 20, 50], help="Examples of a class. Default: %(default)s.")
    add("--draws", type=int, default=4, help="Draws of the examples. Default: %(default)s.")
    add("--embeddings", default="output/embeddings", help="Where they are kept. Default: %(default)s.")
    add("--output", type=Path, default=RESULTS, help="Folder for the records. Default: %(default)s.")
    options = parser.parse_args()
    records = options.output / "label_trees.jsonl"
    for folder in options.tasks:
        task = shortened(load_few_labels(folder, POOL, TEST_TEXTS))
        sizes = np.bincount(task.pool_labels, minlength=len(task.names))
        known = {tuple(record[name] for name in KEY) for record in read_records(records)}
        drawn = {}
        for draw in range(options.draws):
            for per_label in options.per_label:
                rows, documents = draw_rows(task, per_label, draw)
                is_usual = per_label <= np.median(sizes) and len(rows) <= MOST_EXAMPLES
                if is_usual and (task.name, per_label, draw) not in known:
                    drawn[per_label, draw] = rows, documents
        if not drawn:
            continue
        embedder = _embedder(task, list(drawn.values()), options.embeddings)
        for (per_label, draw), (rows, documents) in tqdm(drawn.items(), desc=task.name):
            with embedder.remembered():
                found = measure(embedder, task, rows, documents, with_parents=draw < DRAWS_WITH_PARENTS)
            add_record(records, dict(zip(KEY, (task.name, per_label, draw), strict=True)) | found)


def _embedder(task: FewLabels, drawn: list[tuple[np.ndarray, np.ndarray]], folder: str) -> Embedder:
    """Embed the texts of all draws, and the test texts."""
    used = np.unique(np.concatenate([rows for parts in drawn for rows in parts]))
    read = replace(task, pool=[task.pool[row] for row in used], pool_labels=task.pool_labels[used])
    return Embedder(str(DEFAULT_FOLDER), read, folder, precision="int8")


def measure(
    embedder: Embedder, task: FewLabels, rows: np.ndarray, documents: np.ndarray, with_parents: bool
) -> dict[str, Any]:
    """Fit and answer, and count right nodes by level, and answers by rule, error rate and level."""
    examples = [task.pool[row] for row in rows]
    others = [task.pool[row] for row in documents]
    names = [task.names[label] for label in task.pool_labels[rows]]
    right = [task.names[label] for label in task.test_labels]
    scored = fit_and_score(embedder, examples, names, others, task.test, right)
    tree = scored.guarantees.tree
    by_level = right_by_level(scored.probabilities, scored.labels, tree)
    best_sums = []
    for level in tree:
        best = node_probabilities(scored.probabilities, level).argmax(1)
        best_sums.append(int((best == level.node_of_label[scored.labels.argmax(1)]).sum()))
    found = {
        "examples": len(rows),
        "texts": len(right),
        "nodes": [*(len(level.names) for level in tree), len(task.names)],
        "right": by_level.sum(0).tolist(),
        "right_by_sums": [*best_sums, int(by_level[:, -1].sum())],
        "rules": {str(error): answers_by_rule(scored, error) for error in ERRORS},
    }
    if with_parents:
        parents = [_top(name) for name in names]
        of_parents = fit_and_score(embedder, examples, parents, others, task.test, [_top(name) for name in right])
        found["right_by_experts_of_parents"] = int(
            right_by_level(of_parents.probabilities, of_parents.labels, FLAT).sum()
        )
    return found


def fit_and_score(
    embedder: Embedder,
    examples: list[Text],
    names: list[str],
    documents: list[Text],
    texts: list[Text],
    right: list[str],
) -> Scored:
    """Fit a pipeline, and score texts of which the right labels are known."""
    pipe = embedder.pipeline()
    pipe.add_examples(examples, names)
    pipe.add_documents(documents)
    pipe.fit(show_progress=False)
    view = pipe.datastore.snapshot
    experts = pipe._prepare_experts(view)
    scored = score_texts(experts, embedder.embed(texts), list(texts), None, with_closeness=True)
    guarantees = experts.fitted.guarantees
    return Scored(
        probabilities=scored.probabilities[:, scored.columns],
        novelty=guarantees.novelty(scored.familiarity()),
        labels=_one_hot(experts, right),
        guarantees=guarantees,
    )


def _one_hot(experts: PreparedExperts, right: list[str]) -> np.ndarray:
    return np.array(right)[:, None] == np.array(experts.ensemble.labels)


def _top(label: str) -> str:
    [path] = label_paths([label])
    return path[0]


def answers_by_rule(scored: Scored, error: float) -> dict[str, dict[str, list[int]]]:
    """Count answers and wrong answers at each level, by rule."""
    guarantees = scored.guarantees
    tree = guarantees.tree
    by_level = right_by_level(scored.probabilities, scored.labels, tree)
    labels_alone = guarantees._replace(tree=FLAT).answered_levels(scored.probabilities, scored.novelty, error)
    levels = {
        "by level": guarantees.answered_levels(scored.probabilities, scored.novelty, error),
        "labels alone": np.where(labels_alone == 0, len(tree), labels_alone),
        "each level in nine of ten draws": each_level_alone(scored, error),
        "one threshold": one_threshold(scored, error),
    }
    counts = {}
    for rule, found in levels.items():
        answers = [int((found == level).sum()) for level in range(len(tree) + 1)]
        wrong = [int((~by_level[found == level, level]).sum()) for level in range(len(tree) + 1)]
        counts[rule] = {"answers": answers, "wrong": wrong}
    return counts


def each_level_alone(scored: Scored, error: float) -> np.ndarray:
    """Level of each answer if the error rate holds at each level in nine of ten draws, and not at all in the same."""
    guarantees = scored.guarantees
    held_out = guarantees.held_out
    thresholds = level_thresholds(
        _confidence(guarantees, held_out.probabilities, guarantees.novelty(held_out.familiarity)),
        right_by_level(held_out.probabilities, held_out.labels, guarantees.tree),
        error,
        guarantees.importance_weights(),
        level_failure(1),
    )
    return answered_levels(_confidence(guarantees, scored.probabilities, scored.novelty), thresholds)


def _confidence(guarantees: Guarantees, probabilities: np.ndarray, novelty: np.ndarray) -> np.ndarray:
    found = path_probabilities(probabilities, guarantees.tree).astype(np.float32)
    found[novelty > guarantees.novelty_limit()] = 0
    return found


def one_threshold(scored: Scored, error: float) -> np.ndarray:
    """Level of each answer if all levels have one threshold, and the error rate is that of all answers together."""
    guarantees = scored.guarantees
    held_out = guarantees.held_out
    tree = guarantees.tree
    limit = guarantees.novelty_limit()
    is_known = guarantees.novelty(held_out.familiarity) <= limit
    confidence = path_probabilities(held_out.probabilities, tree)[is_known]
    right = right_by_level(held_out.probabilities, held_out.labels, tree)[is_known]
    importance = guarantees.importance_weights()[:, is_known]
    ranked = np.argsort(-confidence[:, 0], kind="stable")  # the top is the most probable node
    confidence = confidence[ranked]
    right = right[ranked]
    importance = importance[:, ranked]
    total = len(ranked)
    sizes = Groups.of(np.ones(total, bool), importance).sizes.mean(0)
    enough = np.flatnonzero(tail_probability(ERRORS_IN_FIRST_GROUP, sizes, error) <= 1 - GUARANTEE_CONFIDENCE)
    first = max(enough[0] + 1, total // FIRST_GROUP_DIVISOR) if len(enough) else total
    threshold = np.inf
    for count in np.unique(np.linspace(first, total, TESTED_GROUPS).astype(int)):
        tried = confidence[count - 1, 0]
        levels = answered_levels(confidence[:count], np.full(len(tree) + 1, tried))
        groups = Groups.of(right[np.arange(count), levels], importance[:, :count])
        if tail_probability(groups.wrong[:, -1], groups.sizes[:, -1], error).mean() > 1 - GUARANTEE_CONFIDENCE:
            break
        threshold = tried
    found = _confidence(guarantees, scored.probabilities, scored.novelty)
    return answered_levels(found, np.full(len(tree) + 1, threshold))


if __name__ == "__main__":
    main()
