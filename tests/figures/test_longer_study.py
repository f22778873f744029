"""docs/results/longer_study.md, whose tables are those of experiments/study/longer_report.py."""

import numpy as np

from docsplit_hf.evaluation.results import summarize
from experiments.report.paper_results import FEW_SHOT
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

    def over_seeds(pair, step):
        found = report.over_seeds({step: report.ahead(rows, pair, step)})[step]
        return found.mean, found.interval

    crops, seeds = (report.CROPS, report.OURS), (0, 1, 2)
    behind = [ahead(*crops, 2000, seed)[0] for seed in seeds]
    page.says("ahead by {}, {} and {} points with the three seeds, {} ± {} over", *behind, *over_seeds(crops, 2000))
    assert min(ahead(*crops, step, seed)[0] for step in (500, 1000, 2000) for seed in seeds) > 0
    ends = [level(method, 2000, seed) for method in (report.OURS, report.CROPS) for seed in seeds]
    words = report.level(rows, "word counts", [0])
    page.says("DocSplit has {}, {} and {} then, crops have {}, {} and {}, and word counts {}.", *ends, words)
    page.says("Inverse cloze is level with halves ({}, seed 1)", level("inverse_cloze", 2000, 1))
    parts = "docsplit_sampled_parts"
    gains = [ahead(parts, report.OURS, 2000, seed)[0] for seed in (1, 2)]
    page.says("have {} and {} after 2,000 (seeds", *(level(parts, 2000, seed) for seed in (1, 2)))
    page.says("level with crops, and {} and {} points above halves", *gains)
    for mean, interval in (ahead(parts, report.CROPS, 2000, seed) for seed in (1, 2)):
        assert abs(mean) < interval
    pretraining = Page("docs/pretraining.md")
    pretraining.says("the whole document are {} points above halves", np.mean(gains))
    assert pretraining.wrong == []
    pair = report.OURS, report.SIMCSE
    simcse = [n for step in (100, 1000) for n in over_seeds(pair, step)]
    page.says("over three seeds by {} ± {} points after 100 steps and {} ± {} after 1,000", *simcse)
    starts = [report.level(rows, report.START, [seed]) for seed in seeds]
    ends = [level(report.SIMCSE, 1000, seed) for seed in seeds]
    page.says("after 1,000 steps it has {}, {} and {}, from starts of {}, {} and {}.", *ends, *starts)
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
    by_seed = [report.draws(rows, f"longer/{m}/{step}") for m in report.LONGER_RATES for step in report.MEASURED_STEPS]
    levels = [[draws.mean() for draws in found.values()] for found in by_seed if len(found) > 1]
    between = [max(found) - min(found) for found in levels]
    page.says("the same method differs by up to {} points", max(between))
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
    page.has(report.long_table(rows))
    kinds = ("longformer", "big_bird")
    above = [report.difference(report.gains(rows, f"long/{kind}_docsplit", f"long/{kind}_start")) for kind in kinds]
    by_kind = [n for found in above for n in (found.mean, found.interval)]
    page.says("{} ± {} points above it with the Longformer and {} ± {} with the BigBird", *by_kind)
    long_start = [report.level(rows, f"long/{kind}_start", [1]) for kind in kinds]
    page.says(
        "with the BigBird, {} and {} %; against", *(100 * n.mean / s for n, s in zip(above, long_start, strict=True))
    )
    for kind in kinds:
        found = report.difference(report.gains(rows, f"long/{kind}_docsplit", f"long/{kind}_mlm"))
        assert abs(found.mean) < found.interval
    docsplit, mlm = (
        {
            task: [report.level(rows, f"long/{kind}_{objective}", [1], tasks=(task,)) for kind in kinds]
            for task in ("BBCNews", "arXiv")
        }
        for objective in ("docsplit", "mlm")
    )
    by_kind = [n for pair in zip(docsplit["BBCNews"], mlm["BBCNews"], strict=True) for n in pair]
    page.says("all on BBCNews ({} against {} and {} against {})", *by_kind)
    page.says("MLM is ahead ({} and {} against {} and {})", *mlm["arXiv"], *docsplit["arXiv"])
    ratios = np.array(FEW_SHOT.rows["DocSplit_long"][1::2]) / FEW_SHOT.rows["LongFormer"][1::2]
    page.says("DocSplit_long has {} % more few-shot macro F1", 100 * (ratios.mean() - 1))
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
