"""What the longer study gave: its records, tables and figure; the text between the tables is written by hand.

    python -m experiments.study.longer_report --folder output/study --output docs/results/longer_study

It reads a study that is not finished, too. Tables are written as study_report.py writes them.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from transformers import AutoTokenizer

import docsplit_hf
from docsplit_hf.evaluation.figures import draw_curve, draw_legend, make_panels, save
from docsplit_hf.evaluation.results import ResultStore, Summary, summarize
from docsplit_hf.pretraining.views import get_views
from docsplit_hf.training.markdown import table
from experiments.study.run_study import CURVE_SHOTS, RECIPE, SPENT
from experiments.study.study_report import REPEATS, fill
from experiments.study.study_runs import LONGER_RATES, LONGER_STEPS, MEASURED_STEPS, QUESTIONS, START, TASKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Records = Sequence[dict[str, Any]]
SHOTS = 5
ALL_SHOTS = ("20News", "BBCNews", "FakeNews")  # arXiv's smallest class has fewer than 20 examples
COUNTED_DOCUMENTS = 640  # ten batches, of which tokens are counted
SPECIAL_TOKENS = 2
OURS, SIMCSE, CROPS, LONG = "docsplit_without_mlm", "simcse", "cropping", "simcse_long"
# What the papers claim, and the two methods of which the first should be ahead.
CLAIMS = {
    "DocSplit over SimCSE": (OURS, SIMCSE),
    "SimCSE_long no better than SimCSE": (SIMCSE, LONG),
    "halves over crops": (OURS, CROPS),
}


def measured(folder: Path) -> Records:
    """A row for each system, task and number of shots that has all draws: macro F1 of each draw, in %."""
    rows: dict[tuple[str, str, int], dict[int, float]] = {}
    for part in ("longer", "questions"):
        for path in sorted((folder / "results" / part).rglob("results.json")):
            for record in ResultStore(path.parent).records:
                key = record["system"], record["task"], record["settings"]["shots"]
                rows.setdefault(key, {})[record["seed"]] = round(100 * record["metrics"]["macro_f1"], 3)
    return [
        {"system": system, "task": task, "shots": shots, "macro_f1": [draws[seed] for seed in sorted(draws)]}
        for (system, task, shots), draws in sorted(rows.items())
        if len(draws) == REPEATS["few_shot"]
    ]


def trained(folder: Path, records: Records) -> Records:
    """A row for each run that is measured: its processor time, how its commands ended, and what its steps read."""
    spent = [json.loads(line) for line in (folder / SPENT).read_text().splitlines()]
    rows = []
    for recipe in sorted(path for part in ("longer", "questions") for path in (folder / part).rglob(RECIPE)):
        options, name = json.loads(recipe.read_text()), str(recipe.parent.relative_to(folder))
        mine = [row for row in spent if row["name"] == name]
        steps = max(curve(records, name.split("/")[1]), default=LONGER_STEPS)  # of a question, all of its steps
        if not mine:
            continue
        rows.append({
            "run": name,
            "rate": options["learning_rate"],
            "max_steps": options["max_steps"],
            "steps": steps * options["max_steps"] // LONGER_STEPS,
            "cpu_seconds": round(sum(row["cpu_seconds"] for row in mine)),
            "measuring_cpu_seconds": round(
                sum(row["cpu_seconds"] for row in spent if row["name"] == f"results/{name}")
            ),
            "ended": [row["exit"] for row in mine],
            "tokens_a_step": tokens_a_step(str(folder / START), options),
        })  # fmt: skip
    return rows


def tokens_a_step(start: str, options: dict[str, Any]) -> int:
    """The tokens that a step reads, less padding, from the first documents of the corpus."""
    documents = docsplit_hf.load_documents(options["dataset_name"], test_size=0)["train"].take(COUNTED_DOCUMENTS)
    segmented = docsplit_hf.segment_documents(
        documents, AutoTokenizer.from_pretrained(start), segmenter=options.get("segmenter", "pysbd")
    )
    make, generator = get_views(options.get("views", "docsplit"), options.get("views_kwargs")), np.random.default_rng(0)
    longest = options["max_length"] - SPECIAL_TOKENS
    lengths = [
        min(len(view), longest) + SPECIAL_TOKENS
        for row in segmented
        for view in make(np.array(row["input_ids"]), np.array(row["sentence_lengths"]), generator)
    ]
    return round(sum(lengths) / len(segmented) * options["per_device_train_batch_size"])


def draws(records: Records, system: str, shots: int = SHOTS, tasks: Sequence[str] = tuple(TASKS)) -> np.ndarray | None:
    """Macro F1 of a system by draw in %, mean over tasks and seeds of training; None where one is missing."""
    by_task = {task: [] for task in tasks}
    for row in records:
        if row["system"].partition("/seed")[0] == system and row["shots"] == shots and row["task"] in by_task:
            by_task[row["task"]].append(row["macro_f1"])
    return np.mean([np.mean(rows, 0) for rows in by_task.values()], 0) if all(by_task.values()) else None


def curve(records: Records, method: str) -> dict[int, np.ndarray]:
    """The draws of a method by the steps that are measured."""
    found = {step: draws(records, f"longer/{method}/{step}") for step in MEASURED_STEPS}
    return {step: values for step, values in found.items() if values is not None}


def last_step(records: Records, methods: Sequence[str]) -> int:
    """The last step at which all of them are measured."""
    return max(set.intersection(*(set(curve(records, method)) for method in methods)))


def difference(records: Records, one: str, other: str, step: int, **about: Any) -> Summary:
    """By how much a method is ahead of another, paired by draws."""
    first, second = (draws(records, f"longer/{method}/{step}", **about) for method in (one, other))
    return summarize(list(first - second))


def shown(found: Summary) -> str:
    """A difference with half its 95 % interval."""
    return f"{found.mean + 0:+.1f} ± {found.interval:.1f}"


def curves_table(records: Records, runs: Records) -> str:
    """Few-shot macro F1 of the methods by steps, and what a step takes."""
    untrained = [(name, f"{draws(records, name).mean():.1f}") for name in ("word counts", START)]
    rows = [(*row, *["–"] * (len(MEASURED_STEPS) + 3)) for row in untrained]
    for run in (run for run in runs if run["run"].startswith("longer/")):
        method = run["run"].split("/")[1]
        by_step = curve(records, method)
        cells = [f"{by_step[step].mean():.1f}" if step in by_step else "–" for step in MEASURED_STEPS]
        million = f"{run['tokens_a_step'] * run['max_steps'] / 1e6:.1f}"
        cpu = f"{run['cpu_seconds'] / run['steps']:.2f}"
        rows.append((method, "–", *cells, f"{run['rate']:g}", million, cpu))
    steps = (f"{step:,}" for step in MEASURED_STEPS)
    return table(("steps", "0", *steps, "learning rate", "million tokens, all steps", "CPU seconds a step"), rows)


def verdict(found: Summary) -> str:
    """What an interval says of a claim that the first is ahead."""
    if found.mean - found.interval > 0:
        return "holds"
    return "does not hold" if found.mean + found.interval < 0 else "cannot be told"


def verdicts_table(records: Records) -> str:
    """The claims, by how much the first is ahead of the second at each step, and what the last step says."""
    rows = []
    for claim, pair in CLAIMS.items():
        found = {
            step: difference(records, *pair, step)
            for step in MEASURED_STEPS
            if all(step in curve(records, method) for method in pair)
        }
        cells = [shown(found[step]) if step in found else "–" for step in MEASURED_STEPS]
        rows.append((claim, *cells, verdict(found[max(found)]) if found else "–"))
    return table(("claim", *(f"{step:,}" for step in MEASURED_STEPS), "at the last"), rows)


def shots_table(records: Records, step: int) -> str:
    """What DocSplit gains on SimCSE by the number of shots, on the tasks that have so many."""
    rows = []
    for shots in CURVE_SHOTS:
        about = {"shots": shots, "tasks": ALL_SHOTS}
        both = [draws(records, f"longer/{method}/{step}", **about).mean() for method in (OURS, SIMCSE)]
        gain = shown(difference(records, OURS, SIMCSE, step, **about))
        rows.append((str(shots), *(f"{value:.1f}" for value in both), gain, f"{100 * (both[0] / both[1] - 1):.1f} %"))
    return table(("shots", OURS, SIMCSE, "gain, points", "gain, relative"), rows)


def gain_change(records: Records, step: int) -> Summary:
    """The gain with the fewest shots less that with the most, in points, paired by draws."""
    gains = [
        draws(records, f"longer/{OURS}/{step}", shots, ALL_SHOTS)
        - draws(records, f"longer/{SIMCSE}/{step}", shots, ALL_SHOTS)
        for shots in (min(CURVE_SHOTS), max(CURVE_SHOTS))
    ]
    return summarize(list(gains[0] - gains[1]))


def questions_table(records: Records) -> str:
    """What each change does to DocSplit without MLM."""
    base, rows = draws(records, "questions/sentences"), []
    for question in QUESTIONS:
        if (values := draws(records, f"questions/{question}")) is not None:
            change = shown(summarize(list(values - base))) if question != "sentences" else "–"
            rows.append((question, f"{values.mean():.1f}", change))
    return table(("", "few-shot macro F1", "change"), rows)


def curves_figure(records: Records, runs: Records) -> Figure:
    """Few-shot macro F1 over steps and over tokens."""
    figure, panels = make_panels(2, 4.2, 3.2)
    start = draws(records, START)
    for number, method in enumerate(LONGER_RATES):
        run = next((run for run in runs if run["run"].startswith(f"longer/{method}/")), None)
        by_step = {0: start} | curve(records, method)
        if run is None or len(by_step) == 1:
            continue
        found = [summarize(list(values)) for values in by_step.values()]
        points = pd.DataFrame(found, columns=Summary._fields) / 100
        tokens = run["tokens_a_step"] * run["max_steps"] / max(MEASURED_STEPS) / 1e6
        for panel, scale in zip(panels, (1, tokens), strict=True):
            draw_curve(panel, [step * scale for step in by_step], points, "interval", number, method)
    for panel, label in zip(panels, ("Steps", "Tokens, millions"), strict=True):
        panel.set_xlabel(label)
        panel.set_ylabel("Few-shot macro F1 (%)")
    draw_legend(figure, panels, [math.nan], "interval")  # its words are of seeds, and these are draws
    return figure


def write_lines(path: Path, rows: Records) -> None:
    """A row a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("output/study"), help="Default: %(default)s.")
    parser.add_argument("--output", type=Path, default=Path("docs/results/longer_study"), help="Default: %(default)s.")
    options = parser.parse_args()
    records = measured(options.folder)
    runs = trained(options.folder, records)
    write_lines(options.output / "records.jsonl", records)
    write_lines(options.output / "runs.jsonl", runs)
    tables = {"curves": curves_table(records, runs), "verdicts": verdicts_table(records)}
    tables["shots"] = shots_table(records, last_step(records, (OURS, SIMCSE)))
    if draws(records, "questions/sentences") is not None:
        tables["questions"] = questions_table(records)
    save(lambda: curves_figure(records, runs), options.output / "curves")
    for name, content in tables.items():
        print(f"{name}\n{content}\n")
    fill(options.output.with_suffix(".md"), tables)


if __name__ == "__main__":
    main()
