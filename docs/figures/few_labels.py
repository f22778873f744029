"""Few labels per class: docs/results/few_labels.md, and means that other pages repeat."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from experiments.evaluation.results import Summary

from .pages import Figure, Figures, Row
from .records import benchmark, chosen, content

FOUR = ("20news", "bbc", "arxiv", "fakenews")
MORE = ("20zipf", "arxivcat", "sst2", "mrpc", "iflytek")
COMPARED = ("ours", "ours_without_documents", "probe", "tfidf")
RIVALS = {"ours_without_documents": "without documents", "probe": "a probe", "tfidf": "word counts"}
PRIORS = ("agreement", "plain prior")  # of the sharpness
NINETEEN = ("ours", "ours_without_documents", "ours_without_names", "probe", "self_training", "two_way", "tfidf")
SEVENTEEN = ("ours", "ours_without_documents", "ours_without_names", "probe", "tfidf")
OF_VERSIONS = ("ours", "ours_with_documents", "ours_by_single_texts", "probe", "tfidf")
OF_PUBLIC_VERSIONS = ("ours", "ours_with_documents", "probe", "tfidf")
OF_MANY_CLASSES = ("before", "ours", "ours_without_documents", "probe", "self_training 0.6", "self_training 0.75")
ESTIMATES = {
    "equal": "equal",
    "half_way": "likeliest, moved half way to equal ones (before)",
    "by_draws": "likeliest, moved by the spread of the draws",
    "as_fit": "the same, not used where answers are near chance (`fit()`)",
    "likeliest": "likeliest",
    "uncalibrated": "likeliest, without calibration",
    "mean_prediction": "mean prediction",
    "rlls": "RLLS",
    "true": "true",
}
BEFORE = ("ours", "ours_without_documents", "probe", "two_way", "tfidf", "setfit", "name_cosine")
ERROR = "expected_calibration_error"


def few_labels() -> Figures:
    return {
        **seventeen(),
        **unseen(),
        **nineteen(),
        **before(),
        **voters(),
        **calibration_before(),
        **setfit(),
        **documents(),
        "versions of one text": versions_of_one_text(),
        "public versions": public_versions(),
        "many classes": many_classes(),
        "proportions": proportions(),
        "learned prior": learned_prior(),
        "style prior": style_prior(),
        **compared_versions(),
        "limit of versions": limit_of_versions(),
        "parts": parts(),
    }


def learned_prior() -> list[Row]:
    """Return means over data sets with the weights of the fits and with a learned sharpness, and those of rivals."""
    records = content("few_labels/learned_prior.jsonl")
    return benchmark("quality.learned_prior.train").summary(records, ("estimated",))


def style_prior() -> list[Row]:
    """Return means over data sets with and without the expert on style, and those of its rivals."""
    return benchmark("quality.learned_prior.style").summary(content("few_labels/style_prior.jsonl"))


def compared_versions() -> Figures:
    """Return what a comparison of the examples with their versions gains: means, and each data set."""
    compared = benchmark("quality.learned_prior.compared_versions")
    records = content("few_labels/compared_versions.jsonl")
    return {"compared versions": compared.means(records), "compared versions, sets": compared.by_set(records)}


def limit_of_versions() -> list[Row]:
    """Return what the rule for versions gains by the fraction of texts that are versions of others."""
    return benchmark("quality.versions").by_fraction(content("few_labels/version_limit.jsonl"))


def parts() -> list[Row]:
    """Return how often the ensemble is below the best of its parts."""
    return benchmark("quality.learned_prior.parts").summary(content("few_labels/parts.jsonl"))


def versions_of_one_text() -> list[Row]:
    """Return macro F1 with versions held out together and with single texts, and that of rivals."""
    means: dict[tuple[str, str], dict[str, float]] = {}
    frame = pd.DataFrame(content("few_labels/versions.jsonl"))
    frame = frame[~frame["task"].isin(benchmark("quality.versions").MOSTLY_VERSIONS)]
    for (task, labels, system), macro_f1 in frame.groupby(["task", "per_label", "system"], sort=False)["macro_f1"]:
        means.setdefault((task, str(labels)), {})[system] = 100 * macro_f1.mean()
    rows = []
    for (task, labels), found in means.items():
        cells = [f"{found[system]:.1f}" if system in found else "" for system in OF_VERSIONS]
        rows.append((task, labels, *cells))
    return rows


def public_versions() -> list[Row]:
    """Return macro F1 and calibration error of public sets that are mostly versions, in the mean and of each."""
    frame = pd.DataFrame(content("few_labels/versions.jsonl"))
    frame = frame[frame["task"].isin(benchmark("quality.versions").MOSTLY_VERSIONS)]
    of_tasks = 100 * frame.groupby(["per_label", "task", "system"])[["macro_f1", ERROR]].mean()
    rows = []
    for labels in sorted(frame["per_label"].unique(), key=int):
        of_labels = of_tasks.loc[labels]
        found = {"mean": of_labels.groupby("system").mean()}
        for task in of_labels.index.unique("task"):
            found[escaped(task)] = of_labels.loc[task]
        for name, own in found.items():
            cells = [f"{own[metric][system]:.1f}" for metric in ("macro_f1", ERROR) for system in OF_PUBLIC_VERSIONS]
            rows.append((name, str(labels), *cells))
    return rows


def many_classes() -> list[Row]:
    """Return macro F1 by the number of classes, before and since the probe learns from documents, and of rivals."""
    frame = pd.DataFrame(content("few_labels/many_classes.jsonl"))
    rows = []
    for (task, classes, labels), own in frame.groupby(["task", "classes", "per_label"], sort=False):
        found = {system: f"{100 * macro_f1.mean():.1f}" for system, macro_f1 in own.groupby("system")["macro_f1"]}
        rows.append((task, str(classes), str(labels), *(found.get(system, "") for system in OF_MANY_CLASSES)))
    return rows


def proportions() -> list[Row]:
    """Return the mean figures of each estimate of proportions, by labels of each class and kind of pile."""
    rows = []
    measured = [record for record in content("few_labels/proportions.jsonl") if record["estimates"] is not None]
    for labels, exponent in sorted({(record["per_label"], record["exponent"]) for record in measured}, reverse=True):
        own = [record for record in measured if (record["per_label"], record["exponent"]) == (labels, exponent)]
        for name, shown in ESTIMATES.items():
            figures = pd.DataFrame([record["estimates"][name] for record in own]).mean()
            kind = f"{len(own)} unequal" if exponent else f"{len(own)} equal"
            rows.append((str(labels), kind, shown, *(f"{figure:.1f}" for figure in figures)))
    return rows


# Means over draws and tasks


@functools.cache
def summaries(tasks: tuple[str, ...], metric: str) -> Mapping[tuple[str, str, str], Summary]:
    """Summarize the first records of these tasks, by task (or the report's MEAN), system and labels per class."""
    frame = pd.DataFrame(content("few_labels/records.jsonl"))
    report = benchmark("quality.few_labels.report")
    merged, _ = report.merged(frame[frame["task"].isin(tasks)])
    return report.summaries(merged, metric)


def mean_of(system: str, labels: str, tasks: tuple[str, ...] = FOUR, metric: str = "macro_f1", task: str = "") -> float:
    """Return a mean over draws in percent, of one of the tasks or of all."""
    return 100 * summaries(tasks, metric)[task or benchmark("quality.few_labels.report").MEAN, system, labels].mean


class Sets(NamedTuple):
    """Summaries by task, system and labels per class, and the tasks that have so many labels."""

    summaries: Mapping[tuple[str, str, str], Summary]
    tasks: Sequence[str]


@functools.cache
def of_sets(name: str, labels: str, metric: str) -> Sets:
    frame = pd.DataFrame(content(f"few_labels/{name}.jsonl"))
    frame = frame[frame["per_label"] == labels]
    counts = frame[frame["system"].isin(("ours", "probe", "tfidf"))].groupby("task")["system"].nunique()
    tasks = counts.index[counts == 3].tolist()
    report = benchmark("quality.few_labels.report")
    merged, _ = report.merged(frame[frame["task"].isin(tasks)])
    return Sets(report.summaries(merged, metric), tasks)


def mean_of_sets(name: str, system: str, labels: str) -> float:
    """Return macro F1 in percent, over the sets and draws."""
    found = of_sets(name, labels, "macro_f1").summaries
    return 100 * found[benchmark("quality.few_labels.report").MEAN, system, labels].mean


def gain_of_sets(name: str, labels: str) -> float:
    """Return how far ours is ahead of the better of probe and word counts of each set, in the mean."""
    found, tasks = of_sets(name, labels, "macro_f1")
    best = [max(found[task, system, labels].mean for system in ("probe", "tfidf")) for task in tasks]
    return mean_of_sets(name, "ours", labels) - 100 * sum(best) / len(best)


def escaped(name: str) -> str:
    return name.replace("_", r"\_")


# Tables of both collections of sets


def means(name: str, systems: Iterable[str]) -> list[Row]:
    """Return macro F1 with its interval by system, for 1, 5, 20 and all labels."""
    report = benchmark("quality.few_labels.report")
    rows = []
    for system in systems:
        found = (of_sets(name, n, "macro_f1").summaries.get((report.MEAN, system, n)) for n in ("1", "5", "20", "all"))
        rows.append((escaped(system), *(report.format_summary(summary, "interval") for summary in found)))
    return rows


def calibration(name: str, systems: Iterable[str]) -> list[Row]:
    """Return the expected calibration error in percent and log loss by system, for 1, 5 and 20 labels."""
    mean = benchmark("quality.few_labels.report").MEAN
    rows = []
    for system in systems:
        cells = []
        for metric, factor, digits in ((ERROR, 100, 1), ("log_loss", 1, 2)):
            for n in ("1", "5", "20"):
                found = of_sets(name, n, metric).summaries.get((mean, system, n))
                cells.append("–" if found is None else f"{factor * found.mean:.{digits}f}")
        rows.append((escaped(system), *cells))
    return rows


def each_set(name: str) -> list[Row]:
    """Return macro F1 of each set with 5 and 20 labels."""
    rows = []
    for task in of_sets(name, "5", "macro_f1").tasks:
        found = [of_sets(name, n, "macro_f1").summaries.get((task, s, n)) for n in ("5", "20") for s in COMPARED]
        rows.append((escaped(task), *("–" if one is None else f"{100 * one.mean:.1f}" for one in found)))
    return rows


def below_the_best(name: str) -> str:
    """List where ours is more than a point below the best of the others."""
    found = []
    for n in ("1", "5", "20"):
        summaries, tasks = of_sets(name, n, "macro_f1")
        for task in tasks:
            values = {system: 100 * summaries[task, system, n].mean for system in COMPARED}
            best = max(RIVALS, key=values.get)
            if values[best] > values["ours"] + 1:
                found.append(f"`{task}` with {n}: {values[best] - values['ours']:.1f} ({RIVALS[best]})")
    return ", ".join(found)


def rejections(name: str, prefix: str) -> dict[str, Figure]:
    """Return how often ``reject`` kept its error rate, and which share it answers at 10 % by set."""
    rows = content(f"few_labels/{name}.jsonl")
    kept = sum(
        found["wrong"] <= float(error) * found["answers"] for row in rows for error, found in row["promises"].items()
    )
    answered = []
    for task, mine in pd.DataFrame(rows).groupby("task", sort=False):
        answers = sum(promises["0.1"]["answers"] for promises in mine["promises"])
        answered.append(f"`{task}` {100 * answers / mine['texts'].sum():.0f} %")
    return {
        f"{prefix}, kept": kept,
        f"{prefix}, cases": 3 * len(rows),
        f"{prefix}, answered at 10 %": ", ".join(answered),
    }


# Sections of the page


def calibration_error(name: str, **wanted: str) -> float:
    """Return the mean in percent over the records with these values, of which each set has as many."""
    frame = pd.DataFrame(content(f"few_labels/{name}.jsonl"))
    return 100 * frame[(frame[list(wanted)] == pd.Series(wanted)).all(axis=1)][ERROR].mean()


def seventeen() -> dict[str, Figure]:
    """Return the figures of seventeen sets with the coefficients of the prior that were learned without them."""
    figures: dict[str, Figure] = {
        "seventeen, means": means("seventeen", SEVENTEEN),
        "seventeen, calibration": calibration("seventeen", SEVENTEEN),
        "seventeen, each set": each_set("seventeen"),
        "seventeen, below the best": below_the_best("seventeen"),
    }
    for n in ("1", "5", "20", "all"):
        figures[f"seventeen, gain, {n}"] = gain_of_sets("seventeen", n)
    return figures


def unseen() -> dict[str, Figure]:
    """Return the figures of the first measurement of these sets, when nothing had been chosen on them."""
    figures: dict[str, Figure] = rejections("rejection_unseen", "unseen")
    for n in ("1", "5", "20", "all"):
        figures[f"unseen, ours, {n}"] = mean_of_sets("unseen", "ours", n)
        figures[f"unseen, gain, {n}"] = gain_of_sets("unseen", n)
    for n in ("5", "20"):
        for prior in PRIORS:
            error = calibration_error("plain_prior_development", per_label=n, sharpness=prior)
            figures[f"development error, {prior}, {n}"] = error
    for n in ("5", "20"):
        figures[f"unseen error, plain prior, {n}"] = calibration_error("unseen_plain_prior", per_label=n)
    for name, collection in (("before", "unseen_before"), ("since", "unseen")):
        error = calibration_error(collection, per_label="1", system="ours_without_documents")
        figures[f"error without documents, {name}"] = error
    frame = pd.DataFrame(content("few_labels/unseen_before.jsonl"))
    macro_f1 = 100 * frame.groupby(["system", "per_label"])["macro_f1"].mean()
    for name, system in (("before", "ours"), ("first form", "ours, first form")):
        for n in ("1", "5"):
            figures[f"unseen, {name}, {n}"] = macro_f1[system, n]
    return figures


def nineteen() -> dict[str, Figure]:
    """Return the figures of nineteen sets, some of which were used for tuning."""
    figures: dict[str, Figure] = {
        "nineteen, means": means("nineteen", NINETEEN),
        "nineteen, calibration": calibration("nineteen", NINETEEN),
        **with_a_hundred(),
        **rejections("rejection", "nineteen"),
        **out_of_scope(),
        **with_the_shipped_encoder(),
        **beside_gpt(),
        **projected(),
    }
    for n in ("1", "5", "20", "all"):
        figures[f"nineteen, gain, {n}"] = gain_of_sets("nineteen", n)
    return figures


def with_a_hundred() -> dict[str, Figure]:
    """Return macro F1 with a hundred labels per class."""
    frame = pd.DataFrame(content("few_labels/hundred.jsonl"))
    tasks = 100 * frame.groupby(["task", "system"])["macro_f1"].mean().unstack()
    figures: dict[str, Figure] = {f"hundred, {system}": tasks[system].mean() for system in COMPARED}
    figures["hundred, gain"] = tasks["ours"].mean() - tasks[["probe", "tfidf"]].max(axis=1).mean()
    return figures


def out_of_scope() -> dict[str, Figure]:
    """Return the area under the ROC curve of out-of-scope texts in percent."""
    frame = pd.DataFrame(content("few_labels/out_of_scope.jsonl"))
    means = 100 * frame.groupby("per_label")[["novelty", "max_probability", "mahalanobis"]].mean()
    return {f"out of scope, {score}, {n}": value for n, row in means.iterrows() for score, value in row.items()}


def with_the_shipped_encoder() -> dict[str, Figure]:
    """Return ours and a probe with the encoder that ships, and with MiniLM on the same draws."""
    small = pd.DataFrame(content("few_labels/small.jsonl"))
    large = pd.DataFrame(content("few_labels/nineteen.jsonl")).merge(small[["task", "system", "per_label", "draw"]])
    figures: dict[str, Figure] = {"shipped, sets": small["task"].nunique()}
    for name, frame in (("shipped", small), ("MiniLM", large)):
        for system in ("ours", "probe"):
            mine = frame[frame["system"] == system]
            figures[f"{name}, {system}"] = 100 * mine.groupby("task")["macro_f1"].mean().mean()
    return figures


def beside_gpt() -> dict[str, Figure]:
    """Return ours with four labels of each class of LEDGAR, and GPT-3.5's published answers."""
    frame = pd.DataFrame(content("few_labels/ledgar.jsonl"))
    four = 100 * frame[frame["per_label"] == "4"].groupby("system")[["macro_f1", "accuracy"]].mean()
    gpt = frame.set_index("system").loc["gpt-3.5 zero-shot"]
    return {
        "ledgar, ours": four["macro_f1"]["ours"],
        "ledgar, accuracy": four["accuracy"]["ours"],
        "ledgar, probe": four["macro_f1"]["probe"],
        "ledgar, words": four["macro_f1"]["tfidf"],
        "ledgar, GPT-3.5": 100 * gpt["macro_f1"],
        "ledgar, GPT-3.5, accuracy": 100 * gpt["accuracy"],
        "ledgar, GPT-3.5, other headings": gpt["outside"],
    }


def projected() -> dict[str, Figure]:
    """Return macro F1 before and after the projection."""
    frame = pd.DataFrame(content("few_labels/projected.jsonl"))
    figures = {}
    for system in ("two_way", "two_way, projected", "ours", "ours, projected"):
        figures[f"{system}, six sets"] = 100 * frame[frame["system"] == system]["macro_f1"].mean()
    return figures


def before() -> dict[str, Figure]:
    """Return the figures of the first version."""
    report = benchmark("quality.few_labels.report")
    found = summaries(FOUR, "macro_f1")
    rows = []
    for system in BEFORE:
        shown = (found.get((report.MEAN, system, count)) for count in ("0", "1", "5", "20", "all"))
        rows.append((escaped(system), *(report.format_summary(summary, "interval") for summary in shown)))
    figures: dict[str, Figure] = {"first version": rows}
    figures["over words, all"] = mean_of("ours", "all") - mean_of("tfidf", "all")
    figures["over the probe, all"] = mean_of("ours", "all") - mean_of("probe", "all")
    for n in ("20", "5"):
        gain = mean_of("ours_without_documents", n) - mean_of("two_way", n)
        figures[f"over neighbors, {n}"] = gain
    for task in ("bbc", "20news"):
        figures[f"no labels, {task}"] = mean_of("ours", "0", task=task)
    rows = [row for row in content("few_labels/records.jsonl") if row["system"] == "ours" and row["task"] in FOUR]
    seconds = [row["fit_cpu_seconds"] for row in rows]
    figures["seconds to fit, least"] = min(seconds)
    figures["seconds to fit, most"] = max(seconds)
    return figures


def calibration_before() -> dict[str, Figure]:
    """Return what did not hold in the first version."""
    figures: dict[str, Figure] = {}
    for n in ("1", "5", "20", "all"):
        figures[f"calibration error, {n}"] = mean_of("ours", n, metric=ERROR)
    figures["calibration error, 20, fakenews"] = mean_of("ours", "20", metric=ERROR, task="fakenews")
    for system in ("ours", "ours_without_documents", "probe"):
        figures[f"fakenews, 5, {system}"] = mean_of(system, "5", task="fakenews")
    for system in ("tfidf", "ours"):
        figures[f"fakenews, 20, {system}"] = mean_of(system, "20", task="fakenews")
    for system in ("tfidf", "ours"):
        figures[f"iflytek, 5, {system}"] = mean_of(system, "5", MORE, task="iflytek")
    return figures


class AgainstSetfit(NamedTuple):
    """Means of SetFit and of ours over the draws that SetFit has: macro F1, and seconds of the processor to fit."""

    draws: int
    setfit: float
    ours: float
    setfit_seconds: float
    our_seconds: float


def against_setfit() -> dict[tuple[str, str, str], AgainstSetfit]:
    """Compare by task, labels per class and number of pairs."""
    frame = pd.DataFrame(content("few_labels/records.jsonl"))
    found = {}
    setfit = frame[frame["system"].str.startswith("setfit")]
    for (task, labels, name), theirs in setfit.groupby(["task", "per_label", "system"]):
        ours = frame[(frame["system"] == "ours") & (frame["task"] == task) & (frame["per_label"] == labels)]
        ours = ours[ours["draw"].isin(theirs["draw"])]
        found[task, labels, name.partition("#")[2] or "default"] = AgainstSetfit(
            draws=len(theirs),
            setfit=100 * theirs["macro_f1"].mean(),
            ours=100 * ours["macro_f1"].mean(),
            setfit_seconds=theirs["fit_cpu_seconds"].mean(),
            our_seconds=ours["fit_cpu_seconds"].mean(),
        )
    return found


def setfit() -> dict[str, Figure]:
    """Return the figures of the section on SetFit."""
    found = against_setfit()
    rows = []
    order = ("bbc", "fakenews", "20news", "arxiv")
    for key in sorted(found, key=lambda key: (order.index(key[0]), int(key[1]))):
        task, labels, pairs = key
        one = found[key]
        draws = f"{one.draws} draw" + ("s" if one.draws > 1 else "")
        scores = (f"{one.setfit:.1f} ({draws})", f"{one.ours:.1f}")
        rows.append((task, labels, escaped(pairs), *scores, f"{one.setfit_seconds:.0f}", f"{one.our_seconds:.1f}"))
    news = found["fakenews", "5", "default"]
    return {
        "setfit": rows,
        "setfit, seconds, fakenews": news.setfit_seconds,
        "setfit, seconds, bbc": found["bbc", "5", "default"].setfit_seconds,
        "setfit ahead, fakenews": news.setfit - news.ours,
        **setfit_on_unseen(),
    }


def setfit_on_unseen() -> dict[str, Figure]:
    """Return SetFit and ours with twenty labels, on four of the sets that were not used for tuning."""
    theirs = pd.DataFrame(content("few_labels/unseen_setfit.jsonl")).set_index("task").sort_index()
    ours = pd.DataFrame(chosen(content("few_labels/unseen.jsonl"), system="ours", per_label="20", draw=0))
    ours = ours.set_index("task").loc[theirs.index]
    figures: dict[str, Figure] = {}
    for task in theirs.index:
        figures[f"setfit, {task}"] = 100 * theirs["macro_f1"][task]
        figures[f"ours beside setfit, {task}"] = 100 * ours["macro_f1"][task]
    figures["setfit, calibration error"] = 100 * theirs[ERROR].mean()
    figures["ours beside setfit, calibration error"] = 100 * ours[ERROR].mean()
    figures["setfit, seconds, least"] = theirs["fit_cpu_seconds"].min()
    figures["setfit, seconds, most"] = theirs["fit_cpu_seconds"].max()
    return figures


def voters() -> dict[str, Figure]:
    """Return both rules of the neighbors expert, as means over tasks and numbers of labels."""
    frame = pd.DataFrame(content("few_labels/voters.jsonl"))
    metrics = ["macro_f1", "log_loss", ERROR]
    means = frame.groupby(["encoder", "rule", "task", "per_label"])[metrics].mean()
    means = means.groupby(["encoder", "rule"]).mean()
    rules = {"before": "joined vectors, cosine^4", "since": "store, temperature 0.1"}
    figures: dict[str, Figure] = {}
    for encoder in ("all-MiniLM-L6-v2", "docsplit-small-en"):
        for metric in metrics:
            for when, rule in rules.items():
                factor = 1 if metric == "log_loss" else 100
                figures[f"voters, {encoder}, {metric}, {when}"] = factor * means[metric][encoder, rule]
    for temperature in ("0.05", "0.1", "0.15", "0.25"):
        macro_f1 = means["macro_f1"]["all-MiniLM-L6-v2", f"store, temperature {temperature}"]
        figures[f"voters, temperature {temperature}"] = 100 * macro_f1
    return figures


def documents() -> dict[str, Figure]:
    """Return macro F1 by the number of documents, and what fitting costs."""
    frame = pd.DataFrame(content("few_labels/documents.jsonl"))
    counts = frame["system"].str.partition("=")[2].replace("", "all")
    means = 100 * frame.groupby(["task", counts])["macro_f1"].mean().unstack()[["300", "1000", "3000", "all"]]
    means = means.loc[["banking77", "rt", "reuters"]]
    means.loc["**mean**"] = means.mean()
    figures: dict[str, Figure] = {
        "documents": [(task, *(f"{value:.1f}" for value in row)) for task, row in means.iterrows()]
    }
    costs = content("few_labels/fitting_growth.jsonl")
    for cost in costs:
        if cost["documents"] in (3_000, 10_000, 100_000):
            figures[f"seconds, {cost['documents']} documents"] = cost["seconds"]
        if cost["labels"] != 10:  # five examples of each
            figures[f"seconds, {cost['labels']} labels"] = cost["seconds"]
    figures["memory of documents, GB"] = max(cost["memory"] for cost in costs if cost["labels"] == 10) * 2**20 / 1e9
    figures["memory of labels, GB"] = max(cost["memory"] for cost in costs) * 2**20 / 1e9
    return figures
