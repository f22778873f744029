"""results.json, tables and figures of the study; the text between them is written by hand.

    python -m experiments.study.study_report --folder output/study --output docs/results/study

Tables are written into the file beside the folder (docs/results/study.md), between the lines <!-- table: NAME --> and
<!-- end -->.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from docsplit_hf.training.markdown import table
from experiments.study.study_runs import ABLATION_BASES, ADAPTATION_RECIPES, METHODS, SHIPPED, SHIPPED_START, TASKS

from ..evaluation.results import ResultStore, summarize
from ..report.figures import COLORS, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPEATS = {"few_shot": 10, "full": 3}
BOTH = {"few_shot": TASKS, "full": TASKS}
MERGED = {"start": BOTH, "methods": BOTH, "ablations": {"few_shot": TASKS}, "adaptation": BOTH, "shipped": BOTH}
ADAPTATION = [f"adaptation/{recipe}" for recipe in ("MiniLM", *ADAPTATION_RECIPES)]
UNTRAINED = ("tfidf", "start")
SUMMARY = ("mean", "± draws", "full")
Records = Sequence[dict[str, Any]]
Runs = Mapping[str, dict[str, float]]  # what ``logged`` finds, by the name of the run
TuningScores = Mapping[tuple[str, str], dict[float, float]]  # macro F1 by method and pooling, and by learning rate


def merge(folder: Path, output: Path) -> Records:
    """Write all records of the test sets into a new results.json; unfinished results are left out."""
    finished = []
    for part, expected in MERGED.items():
        for path in sorted((folder / "results" / part).rglob("results.json")):
            results = ResultStore(path.parent)
            if part == "adaptation":  # a folder for each task
                task = path.parent.name
                missing = missing_parts(results.records, {protocol: (task,) for protocol in BOTH}, ADAPTATION)
            else:
                systems = {record["system"] for record in results.records}
                missing = missing_parts(results.records, expected, systems)
            if missing:
                print(f"{path} is left out: it has not all of {', '.join(missing)} yet.")
            else:
                finished.append(results)
    if not finished:
        raise ValueError(f"{folder} has no finished results: run run_study.py with --folder {folder} first.")
    fingerprints: dict[str, set[str]] = {}
    for results in finished:
        for record in results.records:
            fingerprints.setdefault(record["system"], set()).add(record["system_fingerprint"])
    several = sorted(name for name, prints in fingerprints.items() if len(prints) > 1)
    if several:
        raise ValueError(f"{folder} has results of different models called {several}: delete those of the older ones.")
    (output / "results.json").unlink(missing_ok=True)
    store = ResultStore(output)
    for results in finished:
        store.take(results)
    return store.records


def missing_parts(records: Records, expected: Mapping[str, Iterable[str]], systems: Iterable[str]) -> list[str]:
    """The tasks on which some system still lacks draws or repeats of a protocol."""
    counts = Counter((record["protocol"], record["task"], record["system"]) for record in records)
    missing = set()
    for protocol, tasks in expected.items():
        for task in tasks:
            if any(counts[protocol, task, system] < REPEATS[protocol] for system in systems):
                missing.add(task)
    return sorted(missing)


def logged(folder: Path, name: str) -> dict[str, float]:
    """Seconds of training, and recall@1 of half-document retrieval before and after, from the log of a run."""
    path = folder / "logs" / f"{name.replace('/', '_')}.log"
    text = path.read_text(errors="replace") if path.exists() else ""
    runtimes = re.findall(r"'train_runtime': '([\d.]+)'", text)
    recalls = re.findall(r"'eval_recall@1': '([\d.]+)'", text)
    if not (runtimes and recalls):
        return {}
    return {"seconds": float(runtimes[-1]), "before": float(recalls[0]), "after": float(recalls[-1])}


def by_training_seed(records: Records, system: str, protocol: str) -> dict[int, np.ndarray]:
    """Macro F1 of a system in %, mean over its tasks, by draw (or repeat), for each training seed (0 without seeds)."""
    values: dict[int, dict[int, list[float]]] = {}
    for record in records:
        if record["protocol"] == protocol and _is(record["system"], system):
            seed = int(record["system"].rpartition("/seed")[2]) if record["system"] != system else 0
            draws = values.setdefault(seed, {}).setdefault(record["seed"], [])
            draws.append(100 * record["metrics"]["macro_f1"])
    return {seed: np.array([np.mean(draws[draw]) for draw in sorted(draws)]) for seed, draws in sorted(values.items())}


def by_seed_and_draw(records: Records, system: str, protocol: str) -> np.ndarray:
    """The values of ``by_training_seed`` as an array, training seeds by draws."""
    return np.array(list(by_training_seed(records, system, protocol).values()))


def few_shot_of_task(records: Records, system: str, task: str) -> float:
    """Few-shot macro F1 of a system on a task in %, mean over training seeds and draws."""
    values = [
        record["metrics"]["macro_f1"]
        for record in records
        if record["protocol"] == "few_shot" and record["task"] == task and _is(record["system"], system)
    ]
    return 100 * float(np.mean(values)) if values else float("nan")


def _is(name: str, system: str) -> bool:
    return name == system or name.rpartition("/seed")[0] == system


def spread(values: Iterable[float]) -> str:
    """Mean and standard deviation."""
    summary = summarize(list(values))
    return f"{summary.mean:.1f}" + (f" ± {summary.std:.1f}" if summary.repeats > 1 else "")


def methods_table(records: Records, runs: Runs, best: dict[str, tuple[str, float]]) -> str:
    """The methods of the study, best first, with the common start and word counts among them."""
    rows = []
    for system in (*UNTRAINED, *METHODS):
        name = f"methods/{system}" if system in METHODS else system
        scores = _scores(records, name)
        if not scores:
            continue
        few_shot = by_training_seed(records, name, "few_shot")
        trained = [runs.get(f"{name}/seed{seed}", {}) for seed in few_shot] if system in METHODS else []
        recall = spread(100 * run["after"] for run in trained) if all(trained) and trained else "–"
        pooling = best[system][0] if system in best else "–"
        rate = f"{best[system][1]:g}" if system in best else "–"
        seeds = str(len(trained) or "–")
        rows.append((np.mean(list(few_shot.values())), (system, pooling, rate, seeds, *scores, recall)))
    header = ("system", "pooling", "learning rate", "seeds", *TASKS, *SUMMARY, "half retrieval")
    return table(header, [row for _, row in sorted(rows, reverse=True)])


def shipped_table(records: Records) -> str:
    """The checkpoint that ships, its start, and word counts."""
    systems = (SHIPPED, SHIPPED_START, "tfidf")
    scores = {system: _scores(records, system) for system in systems}
    return table(("system", *TASKS, *SUMMARY), [(system, *row) for system, row in scores.items() if row])


def _scores(records: Records, system: str) -> tuple[str, ...]:
    few = by_seed_and_draw(records, system, "few_shot")
    full = by_seed_and_draw(records, system, "full")
    if not len(few):
        return ()
    tasks = (f"{few_shot_of_task(records, system, task):.1f}" for task in TASKS)
    draws = f"{few.mean(0).std(ddof=1):.1f}"
    return (*tasks, spread(few.mean(1)), draws, spread(full.mean(1)))


def ablation_scores(records: Records) -> dict[str, dict[int, float]]:
    """Few-shot macro F1 of DocSplit and each ablation, for the training seeds that all of them have."""
    names = {"docsplit": "methods/docsplit"} | {name: f"ablations/{name}" for name in ABLATION_BASES}
    scores = {name: by_training_seed(records, system, "few_shot") for name, system in names.items()}
    scores = {name: values for name, values in scores.items() if values}
    shared = set.intersection(*map(set, scores.values())) if scores else set()
    return {name: {seed: float(values[seed].mean()) for seed in sorted(shared)} for name, values in scores.items()}


def change(scores: dict[str, dict[int, float]], name: str) -> float | None:
    """The difference of an ablation from its base, in points; None if the base was not run with the same seeds."""
    base = scores.get(ABLATION_BASES[name])
    if not base:
        return None
    return float(np.mean(list(scores[name].values())) - np.mean(list(base.values())))


def ablations_table(records: Records, runs: Runs) -> str:
    """The effect of each change of DocSplit on few-shot macro F1."""
    scores = ablation_scores(records)
    rows = [("docsplit", spread(scores["docsplit"].values()), "–", "–", *_cost(runs, "methods/docsplit"))]
    for name in ABLATION_BASES:
        points = change(scores, name) if name in scores else None
        if points is not None:
            points = round(points, 1) + 0  # adding 0 turns -0.0 into 0.0
            cost = _cost(runs, f"ablations/{name}")
            rows.append((name, spread(scores[name].values()), f"{points:+.1f}", ABLATION_BASES[name], *cost))
    return table(("recipe", "few-shot macro F1", "change", "of", "half retrieval", "seconds"), rows)


def _cost(runs: Runs, name: str) -> tuple[str, str]:
    run = runs.get(f"{name}/seed0")
    return (f"{100 * run['after']:.1f}", f"{run['seconds']:.0f}") if run else ("–", "–")


def adaptation_table(records: Records) -> str:
    """MiniLM before and after further training on a task's own texts, and word counts, on the tasks that were run."""
    measured = {(record["system"], record["task"]) for record in records}
    tasks = [task for task in TASKS if {(name, task) for name in ADAPTATION} <= measured]
    records = [record for record in records if record["task"] in tasks]
    rows = []
    for name in (*ADAPTATION, "tfidf"):
        few = by_seed_and_draw(records, name, "few_shot")
        full = by_seed_and_draw(records, name, "full")
        if len(few) and len(full):
            scores = (f"{few_shot_of_task(records, name, task):.1f}" for task in tasks)
            draws = few.mean(0)
            summary = (f"{draws.mean():.1f}", f"{draws.std(ddof=1):.1f}", spread(full.mean(1)))
            rows.append((name.rpartition("/")[2], *scores, *summary))
    return table(("encoder", *tasks, "mean", "± draws", "full"), rows)


def tuning_scores(folder: Path) -> TuningScores:
    """Few-shot macro F1 on held-out rows of the training sets."""
    scores: dict[tuple[str, str], dict[float, float]] = {}
    for path in sorted((folder / "results" / "tuning").glob("*/*/results.json")):
        pooling, _, rate = path.parent.name.partition("_")
        method = path.parent.parent.name
        values = by_seed_and_draw(ResultStore(path.parent).records, f"tuning/{method}/{path.parent.name}", "few_shot")
        scores.setdefault((method, pooling), {})[float(rate)] = float(values.mean())
    return scores


def tuning_table(scores: TuningScores) -> tuple[str, dict[str, tuple[str, float]]]:
    """The scores of the tuning, and the best pooling and rate of each method."""
    rates = sorted({rate for by_rate in scores.values() for rate in by_rate})
    best = {}
    rows = []
    for method in METHODS:
        mine = {key: by_rate for key, by_rate in scores.items() if key[0] == method}
        if not mine:
            continue
        highest = max(max(by_rate.values()) for by_rate in mine.values())
        for (_, pooling), by_rate in mine.items():
            cells = []
            for rate in rates:
                score = by_rate.get(rate)
                if score is None:
                    cells.append("")
                elif score == highest:
                    cells.append(f"**{score:.1f}**")
                    best[method] = (pooling, rate)
                else:
                    cells.append(f"{score:.1f}")
            rows.append((method, pooling, *cells))
    return table(("method", "pooling", *(f"{rate:g}" for rate in rates)), rows), best


def write_tuning(scores: TuningScores, path: Path) -> None:
    """Write the scores of the tuning as rows."""
    rows = [
        {"method": method, "pooling": pooling, "rate": rate, "macro_f1": round(score, 2)}
        for (method, pooling), by_rate in scores.items()
        for rate, score in by_rate.items()
    ]
    lines = ",\n".join(json.dumps(row) for row in rows)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def methods_figure(records: Records) -> Figure:
    """Few-shot macro F1 of the methods as bars: mean and standard deviation over the training seeds."""
    from matplotlib.figure import Figure

    systems = {name: name for name in UNTRAINED} | {name: f"methods/{name}" for name in METHODS}
    values = {name: by_seed_and_draw(records, system, "few_shot") for name, system in systems.items()}
    values = {name: value for name, value in values.items() if len(value)}
    names = sorted(values, key=lambda name: values[name].mean())
    figure = Figure(figsize=(7, 0.4 * len(names) + 1.2), layout="constrained")
    axes = figure.subplots()
    for place, name in enumerate(names):
        per_seed = values[name].mean(1)
        error = per_seed.std(ddof=1) if len(per_seed) > 1 else 0
        if name in UNTRAINED:
            color = COLORS[6]
            hatch = "//"
        else:
            color = COLORS[5] if name.startswith("docsplit") else COLORS[0]
            hatch = ""
        axes.barh(place, per_seed.mean(), xerr=error, color=color, hatch=hatch, capsize=3)
        axes.text(per_seed.mean() + error + 0.4, place, f"{per_seed.mean():.1f}", va="center", fontsize=9)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("Few-shot macro F1 (%), 5 examples per class, mean of four data sets")
    return figure


def ablations_figure(records: Records) -> Figure:
    """The effect of each change on few-shot macro F1, in points, as bars."""
    from matplotlib.figure import Figure

    scores = ablation_scores(records)
    changes = {name: change(scores, name) for name in scores if name in ABLATION_BASES}
    names = sorted((name for name in changes if changes[name] is not None), key=changes.get)
    figure = Figure(figsize=(7, 0.32 * len(names) + 1.2), layout="constrained")
    axes = figure.subplots()
    colors = [COLORS[0] if changes[name] > 0 else COLORS[5] for name in names]
    axes.barh(range(len(names)), [changes[name] for name in names], color=colors)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(names)), [f"{name} (of {ABLATION_BASES[name]})" for name in names])
    axes.set_xlabel("Change of few-shot macro F1, points")
    return figure


def fill(path: Path, tables: dict[str, str]) -> None:
    """Write tables between their marks in a Markdown file."""
    text = path.read_text(encoding="utf-8")
    for name, content in tables.items():
        pattern = rf"(<!-- table: {name} -->\n).*?(<!-- end -->)"
        text, count = re.subn(pattern, lambda m, c=content: f"{m[1]}{c}\n{m[2]}", text, flags=re.DOTALL)
        if count != 1:
            raise ValueError(f"{path} has {count} places for the table {name!r}: write <!-- table: {name} --> once.")
    path.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("output/study"), help="Default: %(default)s.")
    parser.add_argument("--output", type=Path, default=Path("docs/results/study"), help="Default: %(default)s.")
    options = parser.parse_args()
    records = merge(options.folder, options.output)
    scores_of_tuning = tuning_scores(options.folder)
    tuning, best = tuning_table(scores_of_tuning)
    runs = {name: logged(options.folder, name) for name in sorted({record["system"] for record in records})}
    runs = {name: run for name, run in runs.items() if run}
    tables = {"methods": methods_table(records, runs, best)}
    if any(record["system"] == SHIPPED for record in records):
        tables["shipped"] = shipped_table(records)
    save(lambda: methods_figure(records), options.output / "methods")
    if best:
        tables["tuning"] = tuning
    scores = ablation_scores(records)
    if {"docsplit"} < set(scores) and scores["docsplit"]:
        tables["ablations"] = ablations_table(records, runs)
        save(lambda: ablations_figure(records), options.output / "ablations")
    if any(record["system"].startswith("adaptation/") for record in records):
        tables["adaptation"] = adaptation_table(records)
    for name, content in tables.items():
        print(f"{name}\n{content}\n")
    fill(options.output.with_suffix(".md"), tables)
    (options.output / "training.json").write_text(f"{json.dumps(runs, indent=1)}\n", encoding="utf-8")
    write_tuning(scores_of_tuning, options.output / "tuning.json")


if __name__ == "__main__":
    main()
