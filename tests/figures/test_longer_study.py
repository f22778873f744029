"""docs/results/longer_study.md, whose tables are those of experiments/study/longer_report.py."""

import numpy as np

from docsplit_hf.evaluation.results import summarize
from experiments.study import longer_report as report
from experiments.study.study_report import by_seed_and_draw

from .page import Page
from .records import content, records


def test_figures():
    page = Page("docs/results/longer_study.md")
    rows, runs = content("longer_study/records.jsonl"), content("longer_study/runs.jsonl")
    last = report.last_step(rows, (report.OURS, report.SIMCSE))
    page.has(report.curves_table(rows, runs))
    page.has(report.verdicts_table(rows))
    page.has(report.questions_table(rows))
    page.has(report.shots_table(rows, last))

    def ahead(one, other, step, seed):
        found = summarize(list(report.ahead(rows, (one, other), step)[seed]))
        return found.mean, found.interval

    def level(method, step, seed):
        return report.level(rows, f"longer/{method}/{step}", [seed])

    crops = [n for seed in (0, 1) for n in ahead(report.CROPS, report.OURS, 2000, seed)]
    page.says("ahead by {} ± {} points with seed 0 and by {} ± {} with seed 1", *crops)
    ends = [level(method, 2000, seed) for method in (report.OURS, report.CROPS) for seed in (0, 1)]
    words = report.level(rows, "word counts", [0])
    page.says("DocSplit has {} and {} then, crops have {} and {}, and word counts {}.", *ends, words)
    parts, over_crops = "docsplit_sampled_parts", ahead("docsplit_sampled_parts", report.CROPS, 2000, 1)
    page.says(
        "as many tokens), have {} after 2,000: level with crops ({} ± {}), and", level(parts, 2000, 1), *over_crops
    )
    gain = ahead(parts, report.OURS, 2000, 1)[0]
    page.says("and {} points above halves", gain)
    pretraining = Page("docs/pretraining.md")
    pretraining.says("the whole document are {} points above halves", gain)
    assert pretraining.wrong == []
    simcse = [n for step in (100, 1000) for seed in (0, 1) for n in ahead(report.OURS, report.SIMCSE, step, seed)]
    page.says("by {} ± {} (seed 0) and {} ± {} points (seed 1) after 100 steps, by {} ± {} and {} ± {} after", *simcse)
    starts = [report.level(rows, report.START, [seed]) for seed in (0, 1)]
    page.says("({} from {} after 1,000 steps)", level(report.SIMCSE, 1000, 0), starts[0])
    page.says("and {} points above with seed 1", level(report.SIMCSE, 2000, 1) - starts[1])
    page.says("it is no better: {} after 500 steps", level("simcse_slower", 500, 1))
    assert round(level(report.SIMCSE, 500, 1), 1) == round(level("simcse_slower", 500, 1), 1)
    long = [
        n
        for step, seed in ((100, 0), (100, 1), (500, 0), (2000, 1))
        for n in ahead(report.SIMCSE, report.LONG, step, seed)
    ]
    page.says("is ahead by {} ± {} (seed 0) and {} ± {} points (seed 1) after 100 steps, and at the last", *long[:4])
    page.says("by {} ± {} (500 steps) and {} ± {} (2,000).", *long[4:])
    page.says("SimCSE_long has {} and {} then.", level(report.LONG, 500, 0), level(report.LONG, 2000, 1))
    found = [report.shots_gains(rows, last, shots) for shots in (1, 20)]
    page.says(
        "is {} with one example of each class and {} with twenty", *(np.mean(list(one[0].values())) for one in found)
    )
    page.says("base it is [{} % and {} %]", *(100 * (both[0] / both[1] - 1) for _, both in found))
    between = [
        abs(level(method, step, 0) - level(method, step, 1))
        for method in report.LONGER_RATES
        for step in report.MEASURED_STEPS
        if {0, 1} <= set(report.draws(rows, f"longer/{method}/{step}"))
    ]
    page.says("differ by up to {} points between them", max(between))
    change = report.gain_change(rows, last)
    page.says("less that with twenty is {} ± {}: no trend", change.mean, change.interval)
    changes = {
        name: report.difference(report.gains(rows, f"questions/{name}", "questions/sentences"))
        for name in ("words", "shuffled", "documents_1000", "documents_4000")
    }
    page.says("do no harm**: {} ± {} points", changes["words"].mean, changes["words"].interval)
    page.says("they gain [{} points]", changes["shuffled"].mean)
    page.says("are better**: {} ± {}. Views", changes["shuffled"].mean, changes["shuffled"].interval)
    fewer = [n for name in ("documents_1000", "documents_4000") for n in (-changes[name].mean, changes[name].interval)]
    page.says("macro F1 is {} ± {} points lower, with 4,000 it is {} ± {} lower", *fewer)
    hours = [sum(run[name] for run in runs) / 3600 for name in ("cpu_seconds", "measuring_cpu_seconds")]
    tokens = sum(run["tokens_a_step"] * run["steps"] for run in runs) / 1e6
    page.says("Training took {} hours of processor time, measuring {},", *hours)
    page.says("that are measured here read {} million tokens", tokens)
    assert {code for run in runs for code in run["ended"]} <= {0, -9}  # stopped with kill -9, and gone on
    methods = (report.OURS, report.CROPS, report.SIMCSE, report.LONG)
    seeds = [by_seed_and_draw(records("study"), f"methods/{method}", "few_shot").mean(1) for method in methods]
    page.says("was up to {} points after 100 steps", max(values.std(ddof=1) for values in seeds))
    page.without_record("half its 95 % interval", "The bars are 95 % intervals")
    page.check(at_least=60)
