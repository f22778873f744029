"""Records, tables and figure of the longer study; the text between the tables is written by hand.

    python -m experiments.study.longer_report --folder output/study --output docs/results/longer_study

It also reads an unfinished study, and adds to the existing records. Rows of the same seed are replaced, so runs from a
newly trained start need a new seed. Tables are written as by study_report.py.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from transformers import AutoTokenizer

import docsplit_hf
from docsplit_hf.pretraining.views import get_views
from docsplit_hf.training.markdown import table
from experiments.study.run_study import CURVE_SHOTS, RECIPE, SPENT
from experiments.study.study_report import REPEATS, fill
from experiments.study.study_runs import (
    LONG_KINDS,
    LONG_OBJECTIVES,
    LONGER_RATES,
    LONGER_STEPS,
    MEASURED_STEPS,
    QUESTIONS,
    START,
    TASKS,
)

from ..baselines.objectives import register
from ..evaluation.results import ResultStore, Summary, summarize
from ..report.figures import draw_curve, draw_legend, make_panels, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Records = Sequence[dict[str, Any]]
PARTS = ("longer", "questions", "long")
SHOTS = 5
ALL_SHOTS = ("20News", "BBCNews", "FakeNews")  # arXiv's smallest class has fewer than 20 examples
COUNTED_DOCUMENTS = 640  # ten batches, for counting tokens
SPECIAL_TOKENS = 2
OURS = "docsplit_without_mlm"
SIMCSE = "simcse"
CROPS = "cropping"
LONG = "simcse_long"
# Claims of the papers and of ours, and two methods each: the first should be better.
CLAIMS = {
    "DocSplit over SimCSE": (OURS, SIMCSE),
    "SimCSE over SimCSE_long": (SIMCSE, LONG),
    "halves over crops": (OURS, CROPS),
    "DocSplit over SimCSE at a quarter of the rate": (OURS, "simcse_slower"),
    "halves over inverse cloze": (OURS, "inverse_cloze"),
    "three sampled parts over crops": ("docsplit_sampled_parts", CROPS),
}


def measured(folder: Path) -> Records:
    """A row for each system, task and number of shots with all draws: macro F1 of each draw, in %."""
    rows: dict[tuple[str, str, int], dict[int, float]] = {}
    for part in PARTS:
        for path in sorted((folder / "results" / part).rglob("results.json")):
            for record in ResultStore(path.parent).records:
                if part != "longer" and not record["system"].startswith(f"{part}/"):
                    continue  # word counts, which are measured with each part, are taken from the longer runs
                key = (record["system"], record["task"], record["settings"]["shots"])
                rows.setdefault(key, {})[record["seed"]] = round(100 * record["metrics"]["macro_f1"], 3)
    return [
        {"system": system, "task": task, "shots": shots, "macro_f1": [draws[seed] for seed in sorted(draws)]}
        for (system, task, shots), draws in sorted(rows.items())
        if len(draws) == REPEATS["few_shot"]
    ]


def trained(folder: Path, records: Records) -> Records:
    """A row for each measured run: its processor time, the exit codes of its commands, and its tokens per step."""
    spent = [json.loads(line) for line in (folder / SPENT).read_text().splitlines()]
    rows = []
    for recipe in sorted(path for part in PARTS for path in (folder / part).rglob(RECIPE)):
        options = json.loads(recipe.read_text())
        name = str(recipe.parent.relative_to(folder))
        mine = [row for row in spent if row["name"] == name]
        part, method, seed = name.split("/")
        if part == "longer":
            steps = max(curve(records, method, int(seed.removeprefix("seed"))), default=0)
        else:  # measured at its end only
            steps = LONGER_STEPS if any(row["system"] == name for row in records) else 0
        if not mine or not steps:
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
    """The number of tokens per step without padding, estimated from the first documents of the corpus."""
    documents = docsplit_hf.load_documents(options["dataset_name"], test_size=0)["train"].take(COUNTED_DOCUMENTS)
    segmented = docsplit_hf.segment_documents(
        documents, AutoTokenizer.from_pretrained(start), segmenter=options.get("segmenter", "pysbd")
    )
    register()
    make_views = get_views(options.get("views", "docsplit"), options.get("views_kwargs"))
    generator = np.random.default_rng(0)
    longest = options["max_length"] - SPECIAL_TOKENS
    tokens = 0
    for row in segmented:
        for view in make_views(np.array(row["input_ids"]), np.array(row["sentence_lengths"]), generator):
            tokens += min(len(view), longest) + SPECIAL_TOKENS
    return round(tokens / len(segmented) * options["per_device_train_batch_size"])


def draws(
    records: Records, system: str, shots: int = SHOTS, tasks: Sequence[str] = tuple(TASKS)
) -> dict[int, np.ndarray]:
    """Macro F1 of a system by draw in %, mean over the tasks, for each training seed with all tasks measured."""
    found: dict[int, dict[str, list[float]]] = {}
    for row in records:
        name, _, seed = row["system"].partition("/seed")
        if name == system and row["shots"] == shots and row["task"] in tasks:
            found.setdefault(int(seed or 0), {})[row["task"]] = row["macro_f1"]
    return {
        seed: np.mean(list(by_task.values()), 0)
        for seed, by_task in sorted(found.items())
        if len(by_task) == len(tasks)
    }


def level(records: Records, system: str, seeds: Iterable[int], **about: Any) -> float:
    """Macro F1 of a system in %, mean over tasks, draws and these seeds of training."""
    found = draws(records, system, **about)
    return float(np.mean([found[seed] for seed in seeds]))


def curve(records: Records, method: str, seed: int) -> dict[int, np.ndarray]:
    """The draws of a method by measured step."""
    found = {step: draws(records, f"longer/{method}/{step}").get(seed) for step in MEASURED_STEPS}
    return {step: values for step, values in found.items() if values is not None}


def gains(records: Records, one: str, other: str, **about: Any) -> dict[int, np.ndarray]:
    """The differences of two systems by draw, for each training seed that both have."""
    first = draws(records, one, **about)
    second = draws(records, other, **about)
    return {seed: first[seed] - second[seed] for seed in first if seed in second}


def ahead(records: Records, pair: Sequence[str], step: int, **about: Any) -> dict[int, np.ndarray]:
    """The differences of two methods after this many steps, as of ``gains``."""
    one, other = pair
    return gains(records, f"longer/{one}/{step}", f"longer/{other}/{step}", **about)


def difference(by_seed: dict[int, np.ndarray]) -> Summary:
    """The mean over the seeds, with its interval over the draws."""
    return summarize(list(np.mean(list(by_seed.values()), 0)))


def last_step(records: Records, pair: Sequence[str]) -> int:
    """The last step at which some seed has both methods."""
    return max(step for step in MEASURED_STEPS if ahead(records, pair, step))


def shown(found: Summary) -> str:
    """A difference with half its 95 % interval."""
    return f"{found.mean + 0:+.1f} ± {found.interval:.1f}"


def curves_table(records: Records, runs: Records) -> str:
    """Few-shot macro F1 of the runs by steps, and the cost of a step."""
    rows = []
    dashes = ["–"] * (len(MEASURED_STEPS) + 3)
    for name in ("word counts", START):
        for seed, values in draws(records, name).items():
            rows.append((name, "–" if name == "word counts" else str(seed), f"{values.mean():.1f}", *dashes))
    for run in longer_runs(runs):
        method, seed = method_and_seed(run)
        by_step = curve(records, method, seed)
        cells = [f"{by_step[step].mean():.1f}" if step in by_step else "–" for step in MEASURED_STEPS]
        million = f"{run['tokens_a_step'] * run['max_steps'] / 1e6:.1f}"
        cpu = f"{run['cpu_seconds'] / run['steps']:.2f}"
        rows.append((method, str(seed), "–", *cells, f"{run['rate']:g}", million, cpu))
    steps = (f"{step:,}" for step in MEASURED_STEPS)
    titles = ("steps", "seed", "0", *steps, "learning rate", "million tokens, all steps", "CPU seconds a step")
    return table(titles, rows)


def longer_runs(runs: Records) -> Records:
    """The runs of the methods, ordered as in ``LONGER_RATES``, then by seed."""
    order = list(LONGER_RATES)

    def place(run: dict[str, Any]) -> tuple[int, int]:
        method, seed = method_and_seed(run)
        return order.index(method), seed

    return sorted((run for run in runs if run["run"].startswith("longer/")), key=place)


def method_and_seed(run: dict[str, Any]) -> tuple[str, int]:
    """The method of a run, and its seed."""
    _, method, seed = run["run"].split("/")
    return method, int(seed.removeprefix("seed"))


def verdict(found: Summary) -> str:
    """Whether an interval of differences supports the claim that the first is better."""
    if found.mean - found.interval > 0:
        return "holds"
    return "does not hold" if found.mean + found.interval < 0 else "cannot be told"


def verdicts_table(records: Records) -> str:
    """The differences behind each claim: by seed, with intervals over draws, and over three seeds."""
    rows = []
    for claim, pair in CLAIMS.items():
        by_step = {step: ahead(records, pair, step) for step in MEASURED_STEPS}
        differences: dict[str, dict[int, Summary]] = {}
        for seed in sorted(set().union(*by_step.values())):
            differences[str(seed)] = {
                step: summarize(list(by_seed[seed])) for step, by_seed in by_step.items() if seed in by_seed
            }
        differences["over seeds"] = over_seeds(by_step)
        for name, found in differences.items():
            if found:
                cells = [shown(found[step]) if step in found else "–" for step in MEASURED_STEPS]
                rows.append((claim, name, *cells, verdict(found[max(found)])))
    return table(("claim", "seed", *(f"{step:,}" for step in MEASURED_STEPS), "at the last"), rows)


def over_seeds(by_step: dict[int, dict[int, np.ndarray]]) -> dict[int, Summary]:
    """By step, the mean over seeds with its interval over them (Student's t), if there are at least three."""
    means = {step: [float(values.mean()) for values in by_seed.values()] for step, by_seed in by_step.items()}
    return {step: summarize(found) for step, found in means.items() if len(found) > 2}


def shots_table(records: Records, step: int) -> str:
    """DocSplit's gains over SimCSE by the number of shots, on the tasks with enough examples for all of them."""
    rows = []
    for shots in CURVE_SHOTS:
        found = shots_gains(records, step, shots)
        ours, simcse = found.levels
        gain = shown(difference(found.by_seed))
        rows.append((str(shots), f"{ours:.1f}", f"{simcse:.1f}", gain, f"{100 * (ours / simcse - 1):.1f} %"))
    return table(("shots", OURS, SIMCSE, "gain, points", "gain, relative"), rows)


class ShotsGains(NamedTuple):
    """DocSplit's gains over SimCSE by draw for each training seed, and both mean scores over these seeds in %."""

    by_seed: dict[int, np.ndarray]
    levels: tuple[float, float]


def shots_gains(records: Records, step: int, shots: int) -> ShotsGains:
    """DocSplit's gains over SimCSE with this number of shots."""
    by_seed = ahead(records, (OURS, SIMCSE), step, shots=shots, tasks=ALL_SHOTS)
    ours = level(records, f"longer/{OURS}/{step}", by_seed, shots=shots, tasks=ALL_SHOTS)
    simcse = level(records, f"longer/{SIMCSE}/{step}", by_seed, shots=shots, tasks=ALL_SHOTS)
    return ShotsGains(by_seed, (ours, simcse))


def gain_change(records: Records, step: int) -> Summary:
    """The gain with the fewest shots less the gain with the most, in points, paired by draws."""
    fewest = shots_gains(records, step, min(CURVE_SHOTS)).by_seed
    most = shots_gains(records, step, max(CURVE_SHOTS)).by_seed
    return difference({seed: fewest[seed] - most[seed] for seed in fewest})


def questions_table(records: Records) -> str:
    """The effect of each change of DocSplit without MLM."""
    rows = []
    for question in QUESTIONS:
        found = gains(records, f"questions/{question}", "questions/sentences")
        if found:
            change = shown(difference(found)) if question != "sentences" else "–"
            rows.append((question, f"{level(records, f'questions/{question}', found):.1f}", change))
    return table(("", "few-shot macro F1", "change"), rows)


def long_table(records: Records) -> str:
    """A Longformer and a BigBird before and after training by either objective; gains over training by MLM."""
    rows = []
    for kind in LONG_KINDS:
        for trained_by in (START, *LONG_OBJECTIVES):
            system = f"long/{kind}_{trained_by}"
            system_by_mlm = f"long/{kind}_mlm"
            found = gains(records, system, system_by_mlm)
            if found:
                score = level(records, system, found)
                score_by_mlm = level(records, system_by_mlm, found)
                if trained_by == "mlm":
                    cells = ("–", "–")
                else:
                    cells = (shown(difference(found)), f"{100 * (score / score_by_mlm - 1):+.1f} %")
                rows.append((kind, trained_by, f"{score:.1f}", *cells))
    return table(("encoder", "trained by", "few-shot macro F1", "against MLM, points", "relative"), rows)


def curves_figure(records: Records, runs: Records) -> Figure:
    """Few-shot macro F1 over steps and over tokens, of the seed with the most runs."""
    figure, panels = make_panels(2, 4.2, 3.2)
    counts = Counter(seed for _, seed in map(method_and_seed, longer_runs(runs)))
    shown_seed = max(counts, key=counts.get)
    shown_runs = [run for run in longer_runs(runs) if method_and_seed(run)[1] == shown_seed]
    for number, run in enumerate(shown_runs):
        method, seed = method_and_seed(run)
        by_step = {0: draws(records, START)[seed]} | curve(records, method, seed)
        found = [summarize(list(values)) for values in by_step.values()]
        points = pd.DataFrame(found, columns=Summary._fields) / 100
        tokens = run["tokens_a_step"] * run["max_steps"] / max(MEASURED_STEPS) / 1e6
        for panel, scale in zip(panels, (1, tokens), strict=True):
            draw_curve(panel, [step * scale for step in by_step], points, "interval", number, method)
    for panel, label in zip(panels, ("Steps", "Tokens, millions"), strict=True):
        panel.set_xlabel(label)
        panel.set_ylabel("Few-shot macro F1 (%)")
    draw_legend(figure, panels, [math.nan], "interval")  # NaN leaves out the note on intervals, which is about seeds
    return figure


def read_lines(path: Path) -> Records:
    """The rows that ``write_lines`` wrote; none if there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def together(old: Records, new: Records, *names: str) -> Records:
    """Old and new rows, sorted by the named columns; a new row replaces an old one with equal values there."""
    rows = {tuple(row[name] for name in names): row for row in (*old, *new)}
    return [rows[key] for key in sorted(rows)]


def write_lines(path: Path, rows: Records) -> None:
    """Write one row per line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("output/study"), help="Default: %(default)s.")
    parser.add_argument("--output", type=Path, default=Path("docs/results/longer_study"), help="Default: %(default)s.")
    options = parser.parse_args()
    records_path = options.output / "records.jsonl"
    runs_path = options.output / "runs.jsonl"
    records = measured(options.folder)
    runs = together(read_lines(runs_path), trained(options.folder, records), "run")
    records = together(read_lines(records_path), records, "system", "task", "shots")
    write_lines(records_path, records)
    write_lines(runs_path, runs)
    tables = {
        "curves": curves_table(records, runs),
        "verdicts": verdicts_table(records),
        "shots": shots_table(records, last_step(records, (OURS, SIMCSE))),
        "questions": questions_table(records),
    }
    if any(row["system"].startswith("long/") for row in records):  # only then the page has a section for it
        tables["long"] = long_table(records)
    save(lambda: curves_figure(records, runs), options.output / "curves")
    for name, content in tables.items():
        print(f"{name}\n{content}\n")
    fill(options.output.with_suffix(".md"), tables)


if __name__ == "__main__":
    main()
