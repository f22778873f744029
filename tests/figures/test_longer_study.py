"""docs/results/longer_study.md, whose tables are those of experiments/study/longer_report.py."""

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
    page.has(report.long_table(rows))

    def ahead(one, other, step, seed):
        found = summarize(list(report.ahead(rows, (one, other), step)[seed]))
        return found.mean, found.interval

    def level(method, step, seed):
        return report.level(rows, f"longer/{method}/{step}", [seed])

    crops = [ahead(report.CROPS, report.OURS, step, 0) for step in (1000, 2000)]
    page.says("by {} ± {} points after 1,000 and by {} ± {} after 2,000.", *crops[0], *crops[1])
    ends = [level(method, 2000, 0) for method in (report.OURS, report.CROPS)]
    page.says("DocSplit has {} then, crops have {}, and word counts {}.", *ends, report.level(rows, "word counts", [0]))
    simcse = [ahead(report.OURS, report.SIMCSE, step, 0) for step in (100, 1000)]
    page.says("by {} ± {} points after 100 steps, by {} ± {} after 1,000", *simcse[0], *simcse[1])
    long = [ahead(report.SIMCSE, report.LONG, step, 0) for step in (100, 500)]
    page.says("ahead of it by {} ± {} points after 100 steps, and by {} ± {} after 500", *long[0], *long[1])
    page.says("next to the start then ({} and {})", *(level(m, 500, 0) for m in (report.SIMCSE, report.LONG)))
    page.says("SimCSE stays at the start ({})", report.level(rows, report.START, [0]))
    gains = []
    for shots in (1, 20):
        _, both = report.shots_gains(rows, last, shots)
        gains.append(100 * (both[0] / both[1] - 1))
    page.says("it is {} % with one example of each class and {} % with twenty", *gains)
    change = report.gain_change(rows, last)
    page.says("less that with twenty is {} ± {}: no trend", change.mean, change.interval)
    changes = {
        name: report.difference(report.gains(rows, f"questions/{name}", "questions/sentences"))
        for name in ("words", "shuffled", "documents_1000", "documents_4000")
    }
    page.says("do no harm**: {} ± {} points", changes["words"].mean, changes["words"].interval)
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
