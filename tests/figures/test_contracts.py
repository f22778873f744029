"""docs/contracts.md."""

import functools
import sys

import pandas as pd

from ..commands import ROOT
from .page import Page
from .records import chosen, content


@functools.cache
def benchmark():
    sys.path.append(str(ROOT / "benchmarks"))
    import contracts

    return contracts


@functools.cache
def frame():
    return pd.DataFrame(content("contracts/records.jsonl"))


def macro_f1(system, reading, per_label="5", task="contracts"):
    rows = frame()[frame()["encoder"].str.endswith(f" {reading}")]
    rows = rows[(rows["system"] == system) & (rows["per_label"] == per_label) & (rows["task"] == task)]
    return 100 * rows["macro_f1"].mean()


def gains(task, reading, counts):
    """The least and the most points above beginnings, over the draws."""
    rows = frame()[(frame()["system"] == "ours") & (frame()["task"] == task) & frame()["per_label"].isin(counts)]
    rows = rows.assign(read=rows["encoder"].str.split().str[-1])
    scores = rows.pivot_table(index=["per_label", "draw"], columns="read", values="macro_f1")
    found = 100 * (scores[reading] - scores["first"])
    return found.min(), found.max()


def test_figures():
    page = Page("docs/contracts.md")
    page.has_rows(benchmark().systems(frame()))
    page.has_rows(benchmark().passages(frame()))
    page.says("is {} % with five labels of each, where", macro_f1("ours", "whole"))
    page.says("word counts have {}. Reading", macro_f1("tfidf", "whole"))
    page.says("{} by beginnings, {} by whole texts.\n", macro_f1("ours", "first"), macro_f1("ours", "whole"))
    page.says("word counts {}, a linear", macro_f1("tfidf", "whole"))
    page.says("of whole texts {}. With twenty", macro_f1("probe", "whole"))
    page.says("all are close: {}, {} and {};", *(macro_f1(name, "whole", "20") for name in ("ours", "tfidf", "probe")))
    page.says("no longer help ({} without", macro_f1("ours_without_documents", "whole", "20"))
    doubtful = [macro_f1("ours", reading, task="contracts_doubtful") for reading in ("first", "whole")]
    page.says("with five labels is {} by beginnings and {} by whole texts", *doubtful)
    page.says("reads the end as well, is at {} and {};", *(macro_f1("ours", "head_tail", n) for n in ("5", "20")))
    page.says("the first page out: {} with five", macro_f1("ours", "average"))
    news = [macro_f1("ours", how, n, "partisan") for n in ("5", "20") for how in ("whole", "first")]
    page.says("`whole` {} and `first` {} with five labels, and {} and {} with twenty", *news)
    page.says("better in each draw ({} to {} points)", *gains("partisan", "whole", ("5", "20")))
    page.says("above them in the others ({} to {} points)", *gains("contracts", "head_tail", ("5",)))
    seconds(page)
    rejection(page)
    audit(page)
    answers = ("0.9995, and", "novelty 0.20", "names 1.59, topics 2.40, classifier 1.70, neighbors 1.60, words 0.86")
    answers += ("vocabulary 0.59, class proportions -0.29", "agreement 0.56, and", "novelty 0.98", "95 % interval")
    answers += (
        "names 0.91, topics 0.44, classifier 0.25, neighbors 0.18, vocabulary -0.14",
        "words -1.11",
        "CC BY-SA 4.0",
    )
    page.without_record(*answers, "above 0.95", "4 to 7 points")
    page.check(at_least=120)


def seconds(page):
    """Once measured; the hours of 20,000 contracts go by tokens in a second."""
    [run] = content("contracts/journey.jsonl")
    steps = [run[unit] for unit in ("cpu_seconds", "seconds")]
    cpu, clock = (of["examples"] + of["documents"] for of in steps)
    page.says("The clock showed {} times as many", clock / cpu)
    rows = {f"embed {run['documents']} contracts, {run['tokens']:,} tokens": (cpu, clock)}
    rows[f"answer {run['test']} contracts, {run['test_tokens']:,} tokens"] = [of["answers"] for of in steps]
    rows["`fit()`"], rows["save"] = ([of[name] for of in steps] for name in ("fit", "save"))
    rows["load the encoder, which had been compiled before"] = [of["load"] for of in steps]
    page.has_rows((name, *(f"{value:,.1f}" for value in values)) for name, values in rows.items())
    row = chosen(content("contracts/records.jsonl"), task="contracts")[0]
    hours = 20_000 * row["tokens"] / row["texts"] / (run["tokens"] / cpu) / 3600
    page.says("tokens in the mean take {} hours of one core to be read whole, {} hours on two", hours, hours / 2)
    page.says("are read first, for {} minutes of one core", 6 * hours)
    page.says("20,000 of them to the end takes {} hours of one core", hours)
    minutes = 20_000 / 60 * row["embedding_cpu_seconds"] / row["texts"]
    page.says("By their beginnings it is {} minutes", minutes)
    page.says("reading their beginnings takes {} minutes", minutes)
    assert row["encoder"].endswith(" first")


def total(rows, name):
    return sum(row[name] for row in rows)


def rejection(page):
    rows = content("contracts/rejection.jsonl")
    known, unknown = ([row for row in rows if (row["left_out"] is None) is has_all] for has_all in (True, False))
    answered = total(known, "answered")
    page.says("{} % of the contracts get a label", 100 * answered / total(known, "texts"))
    page.says("get a label, and {} % of these", 100 * total(known, "wrong") / answered)
    page.says("{} % of its contracts still", 100 * total(unknown, "unknown_answered") / total(unknown, "unknown"))
    others = total(unknown, "texts") - total(unknown, "unknown")
    page.says("above 0.95 finds {} % of them", 100 * total(unknown, "unknown_novel") / total(unknown, "unknown"))
    page.says("of them, and {} % of the others", 100 * total(unknown, "known_novel") / others)


def audit(page):
    rows = content("contracts/audit.jsonl")
    [whole] = [row for row in chosen(rows, part="audit") if row["encoder"].endswith("whole")]
    assert whole["listed"] == round(whole["estimate"]) == 0
    base = whole["doubtful"] / whole["examples"]
    page.says("are doubtful: {} times as many as", whole["least_sure_doubtful"] / whole["least_sure"] / base)
    found = chosen(rows, part="contradicted")
    hits, against = total(found, "contradicted_doubtful"), total(found, "contradicted")
    page.says("{} % of the doubtful labels are contradicted", 100 * hits / total(found, "doubtful"))
    page.says("and {} % of what is contradicted is doubtful", 100 * hits / against)
    page.says("is doubtful, {} times as", hits / against / (total(found, "doubtful") / total(found, "texts")))
