"""The controlled study: docs/results/study.md, with the tables of experiments/study/study_report.py."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd

from experiments.evaluation.results import summarize
from experiments.study import study_report as report
from experiments.study.distillation import RATE, Measured, best_rate, distillation_table

from .pages import Figure, Figures, Row
from .projection import gain as gain_of_projection
from .records import Records, benchmark, content, mean, records

SHIPPED = ("docsplit-small-en", "docsplit-small-en/start", "tfidf")
TASKS = ("20News", "BBCNews", "arXiv", "FakeNews")
ADAPTATION = ("MiniLM", "docsplit", "docsplit_best_recipe", "simcse_long")
CONTRASTS = {"0.1": "halves_contrast_0.1", "1": "halves_contrast_1"}
# Documents that were read: steps by documents of a batch.
READ_BY_SHIPPED = 1600 * 256
READ_BY_METHODS = 100 * 64


def study() -> Figures:
    tuning, best = report.tuning_table(tuning_scores())
    return {
        "methods": report.methods_table(records("study"), content("study/training.json"), best),
        "shipped": shipped_table(),
        "ablations": report.ablations_table(earlier(), content("study/earlier_training.json")),
        "adaptation": report.adaptation_table(earlier()),
        "distillation": distillation_table(content("study/distillation.jsonl")),
        "kept weights": kept_weights(),
        "tuning": tuning,
        **mean_changes_of_kept_weights(),
        **methods(),
        **earlier_methods(),
        **open_questions(),
        **shipped(),
        **adaptation(),
        **distillation(),
        **larger_teacher(),
    }


def kept_weights() -> list[Row]:
    """Return macro F1 between the weights before and after pretraining."""
    return [tuple(line) for line in benchmark("quality.kept_weights").lines_of(content("study/kept_weights.jsonl"))]


def mean_changes_of_kept_weights() -> dict[str, Figure]:
    """Return mean changes of macro F1 in points with half and none of the old weights, on English and German texts."""
    frame = pd.DataFrame(content("study/kept_weights.jsonl"))
    systems = list(benchmark("quality.kept_weights").MEASURED)
    scores = 100 * frame.set_index(["kept", "encoder", "corpus"])[systems]
    figures: dict[str, Figure] = {}
    for kept, amount in ((0.5, "half"), (0.0, "none")):
        changes = (scores.loc[kept] - scores.loc[1.0]).reset_index()
        is_german = changes["corpus"] == "10kgnad"
        for language, own in (("English", changes[~is_german]), ("German", changes[is_german])):
            for system in systems:
                figures[f"{amount} kept, {language}, {system}"] = own[system].mean()
    return figures


def tuning_scores() -> dict[tuple[str, str], dict[float, float]]:
    scores: dict[tuple[str, str], dict[float, float]] = {}
    for row in content("study/tuning.json"):
        scores.setdefault((row["method"], row["pooling"]), {})[row["rate"]] = row["macro_f1"]
    return scores


@functools.cache
def earlier() -> Records:
    """Return the records of the earlier run of the study, whose start and seeds are others."""
    return content("study/earlier_results.json")["records"]


def few_shot(system: str, rows: Records | None = None) -> float:
    """Return few-shot macro F1, over the tasks, the seeds and the draws."""
    return float(report.by_seed_and_draw(rows or records("study"), system, "few_shot").mean())


def in_earlier_run(system: str) -> float:
    return few_shot(system, earlier())


def ablation(name: str) -> float:
    return in_earlier_run(f"ablations/{name}/seed0")


def standard_error(method: str) -> float:
    """Return the standard error over the seeds of the difference between a method and crops."""
    variance = 0.0
    for name in (method, "cropping"):
        by_seed = report.by_seed_and_draw(records("study"), f"methods/{name}", "few_shot").mean(1)
        variance += by_seed.var(ddof=1) / len(by_seed)
    return float(np.sqrt(variance))


def methods() -> dict[str, Figure]:
    """Return the methods, in points and relative to one another."""
    names = (
        "docsplit",
        "simcse",
        "simcse_long",
        "inverse_cloze",
        "cropping",
        "docsplit_papers",
        "docsplit_without_mlm",
        "docsplit_sampled",
        "docsplit_sampled_parts",
    )
    level = {name: few_shot(f"methods/{name}") for name in names}
    scores = tuning_scores()
    figures: dict[str, Figure] = {}
    for rival in ("simcse", "simcse_long", "inverse_cloze"):
        figures[f"docsplit over {rival}, %"] = 100 * (level["docsplit"] / level[rival] - 1)
    figures |= level
    figures["docsplit over crops"] = level["docsplit"] - level["cropping"]
    figures["docsplit over crops, error"] = standard_error("docsplit")
    figures["parts over crops"] = level["docsplit_sampled_parts"] - level["cropping"]
    figures["parts over crops, error"] = standard_error("docsplit_sampled_parts")
    figures["start"] = few_shot("start")
    figures["tuning of simcse, cls"] = scores["simcse", "cls"][0.00025]
    figures["tuning of simcse, mean"] = scores["simcse", "mean"][0.00025]
    figures["word counts"] = few_shot("tfidf")
    figures["inverse cloze over simcse"] = level["inverse_cloze"] - level["simcse"]
    figures["parts over simcse"] = level["docsplit_sampled_parts"] - level["simcse"]
    for encoder in ("MiniLM", "study_start"):
        figures[f"projection, {encoder}"], _ = gain_of_projection(encoder, "projection")
    return figures


def earlier_methods() -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    names = ("docsplit", "cropping", "inverse_cloze", "simcse", "mlm", "simcse_long", "contrastive_tension")
    for name in names:
        figures[f"earlier, {name}"] = in_earlier_run(f"methods/{name}")
    figures["earlier, start"] = in_earlier_run("start")
    figures["best recipe"] = ablation("sampled_batch_256_three_views")
    figures["plain recipe"] = in_earlier_run("methods/docsplit/seed0")
    figures["without MLM"] = ablation("without_mlm")
    figures["sampled sentences"] = ablation("sampled_sentences")
    return figures


def open_questions() -> dict[str, Figure]:
    """Return what the ablations add, and what the start finds already."""
    docsplit = report.by_seed_and_draw(earlier(), "methods/docsplit", "few_shot").mean(1)
    sampled = ablation("sampled_batch_256")
    three_parts = ablation("sampled_batch_256_three_views")
    runs = content("study/earlier_training.json")
    posts = report.few_shot_of_task(earlier(), "ablations/one_sentence_dropped", "20News")
    wikipedia = report.few_shot_of_task(earlier(), "ablations/without_mlm", "20News")
    return {
        "deviation of docsplit": docsplit.std(ddof=1),
        "sampling adds": sampled - ablation("batch_256"),
        "with sampling": sampled,
        "three parts add": three_parts - sampled,
        "with three parts": three_parts,
        "larger batch loses": ablation("batch_256") - ablation("batch_1024"),
        "start finds at 512": 100 * runs["ablations/max_length_512/seed0"]["before"],
        "start finds at 64": 100 * runs["ablations/without_mlm/seed0"]["before"],
        "20News, trained on posts": posts,
        "20News, trained on Wikipedia": wikipedia,
    }


def citation(system: str) -> float:
    return mean(earlier(), "cosine_accuracy", protocol="citation", system=system)


def shipped_table() -> str:
    """Return the table of the first docsplit-small-en, with a column on citation."""
    header, rule, *rows = report.shipped_table(earlier()).splitlines()
    rows = [f"{row} {citation(system):.1f} |" for system, row in zip(SHIPPED, rows, strict=True)]
    return "\n".join([f"{header} citation |", f"{rule} --- |", *rows])


def shipped() -> dict[str, Figure]:
    """Return the figures of the first docsplit-small-en."""
    figures: dict[str, Figure] = {}
    for system in ("docsplit-small-en", "tfidf"):
        figures[system] = in_earlier_run(system)
    for suffix in ("", "/start"):
        figures[f"first run{suffix}"] = in_earlier_run(f"docsplit-small-en/first_run{suffix}")
    figures["times as many documents"] = READ_BY_SHIPPED / READ_BY_METHODS
    for system in ("docsplit-small-en", "tfidf"):
        draws = report.by_seed_and_draw(earlier(), system, "few_shot").mean(0)
        figures[f"deviation of draws, {system}"] = draws.std(ddof=1)
    figures["over its start"] = in_earlier_run("docsplit-small-en") - in_earlier_run("docsplit-small-en/start")
    for system in ("tfidf", "docsplit-small-en"):
        figures[f"full, {system}"] = float(report.by_seed_and_draw(earlier(), system, "full").mean())
    for system in ("tfidf", "docsplit-small-en"):
        figures[f"citation, {system}"] = citation(system)
    return figures


def adaptation() -> dict[str, Figure]:
    """Return what training all-MiniLM-L6-v2 further changes."""
    few = {name: in_earlier_run(f"adaptation/{name}") for name in ADAPTATION}
    arxiv = {name: report.few_shot_of_task(earlier(), f"adaptation/{name}", "arXiv") for name in ADAPTATION}
    figures: dict[str, Figure] = {f"adaptation, {name}": value for name, value in few.items()}
    for name in ("docsplit", "docsplit_best_recipe", "simcse_long"):
        figures[f"adaptation costs, {name}"] = few["MiniLM"] - few[name]
    for name in ("docsplit", "docsplit_best_recipe", "simcse_long"):
        figures[f"adaptation costs, {name}, arXiv"] = arxiv["MiniLM"] - arxiv[name]
    figures["adaptation, docsplit over simcse_long, %"] = 100 * (few["docsplit"] / few["simcse_long"] - 1)
    best = full_macro_f1("docsplit_best_recipe")
    plain = full_macro_f1("MiniLM")
    figures["adaptation, full, best recipe"] = np.mean(list(best.values()))
    figures["adaptation, full, MiniLM"] = np.mean(list(plain.values()))
    figures["adaptation, full, without FakeNews"] = np.mean([best[task] - plain[task] for task in TASKS[:3]])
    return figures


def full_macro_f1(recipe: str) -> dict[str, float]:
    """Return macro F1 with up to 2,000 examples, by task."""
    system = f"adaptation/{recipe}"
    return {task: mean(earlier(), "macro_f1", protocol="full", system=system, task=task) for task in TASKS}


def distillation() -> dict[str, Figure]:
    """Return what the contrast adds to distillation."""
    rows = content("study/distillation.jsonl")

    def added(name: str, metric: str, rate: float | None = None) -> tuple[float, float]:
        student = Measured(rows, name, rate or best_rate(rows, name))
        halves = Measured(rows, "halves", rate or best_rate(rows, "halves"), student.seeds)
        found = summarize(list(getattr(student, metric)() - getattr(halves, metric)()))
        return found.mean, found.interval

    figures: dict[str, Figure] = {}
    for weight, name in CONTRASTS.items():
        figures[f"contrast adds, weight {weight}"] = added(name, "few_shot")
    for weight, name in CONTRASTS.items():
        figures[f"contrast adds at a higher rate, weight {weight}"] = added(name, "few_shot", RATE)
    for weight, name in CONTRASTS.items():
        figures[f"cosine, weight {weight}"] = Measured(rows, name, best_rate(rows, name)).cosine()
    figures["cosine of halves"] = Measured(rows, "halves", best_rate(rows, "halves")).cosine()
    for weight, name in CONTRASTS.items():
        figures[f"contrast finds, weight {weight}"] = added(name, "found")
    ahead, interval = added("whole", "few_shot")
    figures["halves over whole"] = (-ahead, interval)
    figures["start of the students"] = Measured(rows, "start").few_shot().mean()
    longer = content("study/distillation_longer.jsonl")
    for name in ("halves", "halves_contrast_0.1", "whole", "contrast"):
        figures[f"longer, {name}"] = Measured(longer, name, RATE).few_shot().mean()
    return figures


def larger_teacher() -> dict[str, Figure]:
    """Return docsplit-small-en before and after another hour with a larger teacher."""
    frame = pd.DataFrame(content("study/larger_teacher.jsonl"))
    by_task = 100 * frame.groupby(["system", "encoder", "task"])["macro_f1"].mean()
    means = by_task.groupby(["system", "encoder"]).mean().sort_index()
    before, after = by_task["probe"].unstack()["resumes"]
    figures: dict[str, Figure] = {}
    for system in ("probe", "ours"):
        for when, value in zip(("before", "after"), means[system], strict=True):
            figures[f"larger teacher, {system}, {when}"] = value
    figures["larger teacher, resumes lose"] = before - after
    return figures
