"""How many labels suggest() saves: macro F1 by the number of labels, beside random choice and small-text's strategies.

    pip install -e .[benchmark]
    OMP_NUM_THREADS=1 python -m benchmarks.quality.suggestions --tasks 20news bbc_news

A task is a folder with train.jsonl and test.jsonl (text, label). All strategies begin with the same random example of
each class, and choose a batch of documents of the pool at a time, which are then labeled. All strategies have the same
classifier, the fitted experts with all other documents unlabeled; only the choice differs. Embeddings are computed
once. Each finished curve is a line of suggestions.jsonl; a killed run continues after the last one.
"""

from pathlib import Path
from typing import Any

import numpy as np
from small_text.query_strategies import BreakingTies, EmbeddingKMeans
from tqdm.auto import tqdm

from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.options import encoder_name, task_parser
from benchmarks.quality.few_labels.protocol import FewLabels, draw, load_few_labels, rest
from benchmarks.quality.few_labels.records import add_record, read_records
from docsplit_hf import KNNDatastore
from docsplit_hf.classifier.active_learning import suggest
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.problem import Problem
from docsplit_hf.fitting.ensemble.scoring import prepare_experts, score_texts
from docsplit_hf.metrics.registry import metric_class
from docsplit_hf.training.markdown import table

RANDOM = "random"
OURS = "suggest"
STRATEGIES = {OURS: "#D55E00", RANDOM: "#000000", "breaking ties": "#0072B2", "embedding k-means": "#009E73"}
BUDGETS = (0.5, 1.0)  # shares of random choice's labels at which the strategies are compared
RESAMPLES = 1_000


class SmallText:
    """A classifier for small-text; its data set is the row numbers of the pool."""

    def __init__(self, probabilities: np.ndarray) -> None:
        self.probabilities = probabilities

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        return self.probabilities[rows]


def main() -> None:
    parser = task_parser(__doc__)
    add = parser.add_argument
    add("--pool", type=int, default=2_000, help="Documents to choose from. Default: %(default)s.")
    add("--batch", type=int, default=20, help="Documents that are asked for at a time. Default: %(default)s.")
    add("--rounds", type=int, default=8, help="Batches. Default: %(default)s.")
    add("--draws", type=int, default=5, help="Draws of the first examples. Default: %(default)s.")
    options = parser.parse_args()
    encoder = encoder_name(options.encoder)
    for folder in options.tasks:
        task = load_few_labels(folder, options.pool)
        embedder = Embedder(options.encoder, task, options.embeddings)
        pool = embedder.embed(task.pool)
        test = embedder.embed(task.test)
        known = {
            (record["task"], record["encoder"], record["strategy"], record["draw"])
            for record in read_records(options.output / "suggestions.jsonl")
        }
        for number in tqdm(range(options.draws), desc=task.name, unit="draw"):
            for strategy in STRATEGIES:
                if (task.name, encoder, strategy, number) in known:
                    continue
                key = {"task": task.name, "encoder": encoder, "strategy": strategy, "draw": number}
                curve = run(task, pool, test, strategy, number, options.batch, options.rounds)
                add_record(options.output / "suggestions.jsonl", key | {"pool": len(task.pool), "curve": curve})
    report(options.output)


def run(
    task: FewLabels, pool: np.ndarray, test: np.ndarray, strategy: str, number: int, batch: int, rounds: int
) -> list[dict[str, Any]]:
    """One curve: macro F1 and accuracy by the number of labels."""
    rng = np.random.default_rng(number)
    rows = draw(task.pool_labels, 1, number)
    curve = []
    for step in range(rounds + 1):
        store = _store(task, pool, rows)
        store.fitted = fit_experts(Problem(store.snapshot), show_progress=False).to_state()
        ready = prepare_experts(store.snapshot)
        probabilities = score_texts(ready, test, task.test, None).probabilities
        point = {"labels": len(rows)}
        for metric in ("macro_f1", "accuracy"):
            found = metric_class(metric)().compute(predictions=probabilities, references=task.test_labels)
            point[metric] = float(found[metric])
        curve.append(point)
        if step < rounds:
            rows = np.concatenate([rows, _choose(strategy, store, ready, task, pool, rows, batch, rng)])
    return curve


def _store(task: FewLabels, pool: np.ndarray, rows: np.ndarray) -> KNNDatastore:
    others = rest(len(task.pool), rows)
    texts = np.array(task.pool, dtype=object)
    store = KNNDatastore(pool[rows], task.pool_labels[rows], task.names, texts[rows], ids=[f"e{row}" for row in rows])
    store.add_documents(pool[others], texts[others], ids=[str(row) for row in others])
    return store


def _choose(
    strategy: str,
    store: KNNDatastore,
    ready: Any,
    task: FewLabels,
    pool: np.ndarray,
    rows: np.ndarray,
    count: int,
    rng: Any,
) -> np.ndarray:
    others = rest(len(task.pool), rows)
    if strategy == RANDOM:
        return rng.choice(others, count, replace=False)
    if strategy == OURS:
        return np.array([int(one["id"]) for one in suggest(store, count)])
    every = np.arange(len(task.pool))
    probabilities = score_texts(ready, pool, task.pool, None, exclude_copies=True).probabilities
    if strategy == "breaking ties":
        return BreakingTies().query(SmallText(probabilities), every, others, rows, task.pool_labels[rows], count)
    np.random.seed(int(rng.integers(2**31)))  # small-text's k-means uses the global state
    both = np.concatenate([others, rows])
    query = EmbeddingKMeans().query
    return query(SmallText(probabilities), every, others, rows, task.pool_labels[rows], count, embeddings=pool[both])


def report(folder: Path) -> None:
    """Write the table and the figure of all records."""
    records = read_records(folder / "suggestions.jsonl")
    tasks = list(dict.fromkeys(record["task"] for record in records))
    lines = []
    rng = np.random.default_rng(0)
    for task in tasks:
        curves = {name: _macro_f1(records, task, name) for name in STRATEGIES}
        labels = _label_counts(records, task)
        for name in STRATEGIES:
            row = [task, name]
            for budget in BUDGETS:
                last = int(round(budget * (len(labels) - 1)))
                row.append(f"{100 * curves[name][:, last].mean():.1f} at {labels[last]}")
                row.append("" if name == RANDOM else _share(labels, curves[name], curves[RANDOM], last, rng))
            difference = curves[name][:, 1:].mean(1) - curves[RANDOM][:, 1:].mean(1)
            row.append("" if name == RANDOM else _interval(difference * 100, rng))
            lines.append(row)
    heads = (
        "task",
        "choice",
        "half way: macro F1",
        "of random's labels",
        "at the end: macro F1",
        "of random's labels",
        "mean gain over random",
    )
    text = f"# Suggestions\n\n{table(heads, lines)}"
    (folder / "suggestions.md").write_text(text + "\n", encoding="utf-8")
    print(text)
    _figure(folder, tasks, records)


def _macro_f1(records: list[dict[str, Any]], task: str, strategy: str) -> np.ndarray:
    """Macro F1 by draw and step."""
    curves = [record["curve"] for record in records if record["task"] == task and record["strategy"] == strategy]
    return np.array([[point["macro_f1"] for point in curve] for curve in curves])


def _label_counts(records: list[dict[str, Any]], task: str) -> np.ndarray:
    """The number of labels at each step, which is the same for all strategies and draws."""
    first = next(record for record in records if record["task"] == task)
    return np.array([point["labels"] for point in first["curve"]])


def _share(labels: np.ndarray, ours: np.ndarray, random: np.ndarray, last: int, rng: np.random.Generator) -> str:
    """The share of random choice's labels that is needed for its mean macro F1, and a 95 % interval over draws."""

    def share(rows: np.ndarray) -> float:
        mean = np.maximum.accumulate(ours[rows].mean(0))
        goal = random[rows, last].mean()
        return float(np.interp(goal, mean, labels) / labels[last]) if mean[-1] >= goal else np.inf

    every = np.arange(len(ours))
    found = [share(rng.choice(every, len(every))) for _ in range(RESAMPLES)]
    low, high = np.quantile(found, [0.025, 0.975], method="nearest")
    middle = share(every)
    return f"{middle:.0%} ({low:.0%} to {high:.0%})".replace("inf%", "more")


def _interval(values: np.ndarray, rng: np.random.Generator) -> str:
    means = rng.choice(values, (RESAMPLES, len(values))).mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{values.mean():+.1f} ({low:+.1f} to {high:+.1f})"


def _figure(folder: Path, tasks: list[str], records: list[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(tasks), 3.4), layout="constrained")
    for axis, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
        for name, color in STRATEGIES.items():
            labels = _label_counts(records, task)
            values = 100 * _macro_f1(records, task, name)
            mean = values.mean(0)
            half = 1.96 * values.std(0, ddof=1) / np.sqrt(len(values))
            axis.plot(labels, mean, color=color, label=name, linewidth=2 if name == OURS else 1.2)
            axis.fill_between(labels, mean - half, mean + half, color=color, alpha=0.12, linewidth=0)
        axis.set(title=task, xlabel="labels", ylabel="macro F1")
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(folder / "suggestions.png", dpi=110)


if __name__ == "__main__":
    main()
