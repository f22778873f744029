"""The study for more steps: docs/results/longer_study.md, with the tables of experiments/study/longer_report.py."""

from __future__ import annotations

import numpy as np

from experiments.evaluation.results import Summary, summarize
from experiments.report.paper_results import FEW_SHOT
from experiments.study import base_report
from experiments.study import longer_report as report
from experiments.study.base_records import WORD_COUNTS
from experiments.study.study_report import by_seed_and_draw
from experiments.study.study_runs import START

from .pages import Figure, Figures
from .records import Records, content, records

SEEDS = (0, 1, 2)
CROPS = (report.CROPS, report.OURS)
SIMCSE = (report.OURS, report.SIMCSE)
PARTS = "docsplit_sampled_parts"
KINDS = ("longformer", "big_bird")


def longer_study() -> Figures:
    rows = measured()
    runs = content("longer_study/runs.jsonl")
    return {
        "curves": report.curves_table(rows, runs),
        "verdicts": report.verdicts_table(rows),
        "questions": report.questions_table(rows),
        "shots": report.shots_table(rows, report.last_step(rows, SIMCSE)),
        "long": report.long_table(rows),
        **halves_and_crops(),
        **sampled_parts(),
        **against_simcse(),
        **shots(),
        **between_seeds(),
        **open_questions(),
        **long_encoders(),
        **costs(),
        **at_base_size(),
    }


def at_base_size() -> dict[str, Figure]:
    """Return few-shot macro F1 with an encoder of the size of BERT base, of what was run."""
    rows = content("base_study/records.jsonl")
    found = {
        "start": base_report.untrained(rows, START),
        "word counts": base_report.untrained(rows, WORD_COUNTS),
        "halves": base_report.chosen(rows, base_report.HALVES, 36),
    }
    levels: dict[str, Figure] = {f"{name}, BERT base": base_report.level(records) for name, records in found.items()}
    gain = base_report.draws(found["halves"][0]) - base_report.draws(found["start"][0])
    summary = summarize(list(gain))
    return levels | {"halves over the start, BERT base": (summary.mean, summary.interval)}


def measured() -> Records:
    return content("longer_study/records.jsonl")


def ahead(pair: tuple[str, str], step: int, seed: int) -> Summary:
    """Summarize by how many points the first of two methods is ahead, over the draws."""
    return summarize(list(report.ahead(measured(), pair, step)[seed]))


def over_seeds(pair: tuple[str, str], step: int) -> tuple[float, float]:
    """Return by how many points the first of two methods is ahead, over the seeds."""
    found = report.over_seeds({step: report.ahead(measured(), pair, step)})[step]
    return found.mean, found.interval


def level(method: str, step: int, seed: int) -> float:
    """Return few-shot macro F1 of a method after so many steps."""
    return report.level(measured(), f"longer/{method}/{step}", [seed])


def with_interval(found: Summary, sign: int = 1) -> tuple[float, float]:
    return sign * found.mean, found.interval


def halves_and_crops() -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    for seed in SEEDS:
        figures[f"crops ahead, seed {seed}"] = ahead(CROPS, 2000, seed).mean
    figures["crops ahead"] = over_seeds(CROPS, 2000)
    for name, method in (("halves", report.OURS), ("crops", report.CROPS)):
        for seed in SEEDS:
            figures[f"{name}, seed {seed}"] = level(method, 2000, seed)
    figures["word counts"] = report.level(measured(), "word counts", [0])
    figures["inverse cloze"] = level("inverse_cloze", 2000, 1)
    return figures


def parts_over_halves() -> dict[int, float]:
    """Return the points of three sampled parts above halves, by seed."""
    return {seed: ahead((PARTS, report.OURS), 2000, seed).mean for seed in (1, 2)}


def sampled_parts() -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    for seed in (1, 2):
        figures[f"parts, seed {seed}"] = level(PARTS, 2000, seed)
    for seed, points in parts_over_halves().items():
        figures[f"parts over halves, seed {seed}"] = points
    return figures


def against_simcse() -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    for step in (100, 1000):
        figures[f"over SimCSE, {step} steps"] = over_seeds(SIMCSE, step)
    for seed in SEEDS:
        figures[f"SimCSE, seed {seed}"] = level(report.SIMCSE, 1000, seed)
    for seed in SEEDS:
        figures[f"start, seed {seed}"] = report.level(measured(), report.START, [seed])
    figures["SimCSE slower"] = level("simcse_slower", 500, 1)
    for step, seed in ((100, 0), (100, 1), (500, 0), (2000, 1)):
        found = ahead((report.SIMCSE, report.LONG), step, seed)
        figures[f"SimCSE over SimCSE_long, {step} steps, seed {seed}"] = with_interval(found)
    figures["SimCSE_long, 500 steps"] = level(report.LONG, 500, 0)
    figures["SimCSE_long, 2000 steps"] = level(report.LONG, 2000, 1)
    return figures


def shots() -> dict[str, Figure]:
    """Return the gain on SimCSE with one example of each class and with twenty."""
    rows = measured()
    last = report.last_step(rows, SIMCSE)
    figures: dict[str, Figure] = {}
    for count in (1, 20):
        gains, levels = report.shots_gains(rows, last, count)
        figures[f"gain with {count}"] = np.mean(list(gains.values()))
        figures[f"gain with {count}, %"] = 100 * (levels[0] / levels[1] - 1)
    change = report.gain_change(rows, last)
    figures["gain with 1 less gain with 20"] = with_interval(change)
    return figures


def between_seeds() -> dict[str, Figure]:
    """Return by how many points seeds differ, and their standard deviation in the shorter study."""
    differences = []
    for method in report.LONGER_RATES:
        for step in report.MEASURED_STEPS:
            levels = [draws.mean() for draws in report.draws(measured(), f"longer/{method}/{step}").values()]
            if len(levels) > 1:
                differences.append(max(levels) - min(levels))
    methods = (report.OURS, report.CROPS, report.SIMCSE, report.LONG)
    by_seed = [by_seed_and_draw(records("study"), f"methods/{method}", "few_shot").mean(1) for method in methods]
    return {
        "difference of seeds": max(differences),
        "deviation of seeds in the study": max(levels.std(ddof=1) for levels in by_seed),
    }


def open_questions() -> dict[str, Figure]:
    def change(name: str) -> Summary:
        return report.difference(report.gains(measured(), f"questions/{name}", "questions/sentences"))

    return {
        "words": with_interval(change("words")),
        "shuffled, points": change("shuffled").mean,
        "shuffled": with_interval(change("shuffled")),
        "1,000 documents": with_interval(change("documents_1000"), sign=-1),
        "4,000 documents": with_interval(change("documents_4000"), sign=-1),
    }


def long_encoders() -> dict[str, Figure]:
    rows = measured()
    figures: dict[str, Figure] = {}
    above = {}
    for kind in KINDS:
        above[kind] = report.difference(report.gains(rows, f"long/{kind}_docsplit", f"long/{kind}_start"))
        figures[f"{kind} over start"] = with_interval(above[kind])
    for kind in KINDS:
        start = report.level(rows, f"long/{kind}_start", [1])
        figures[f"{kind} over start, %"] = 100 * above[kind].mean / start
    for task, objectives in (("BBCNews", ("docsplit", "mlm")), ("arXiv", ("mlm", "docsplit"))):
        for kind in KINDS:
            for objective in objectives:
                macro_f1 = report.level(rows, f"long/{kind}_{objective}", [1], tasks=(task,))
                figures[f"{kind} by {objective}, {task}"] = macro_f1
    ratios = np.array(FEW_SHOT.rows["DocSplit_long"][1::2]) / FEW_SHOT.rows["LongFormer"][1::2]
    figures["paper's gain, %"] = 100 * (ratios.mean() - 1)
    return figures


def costs() -> dict[str, Figure]:
    runs = content("longer_study/runs.jsonl")
    return {
        "hours of training": sum(run["cpu_seconds"] for run in runs) / 3600,
        "hours of measuring": sum(run["measuring_cpu_seconds"] for run in runs) / 3600,
        "million tokens": sum(run["tokens_a_step"] * run["steps"] for run in runs) / 1e6,
    }
