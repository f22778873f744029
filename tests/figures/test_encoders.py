"""docs/encoders.md: quality, size and speed of encoders side by side."""

import pandas as pd

from .page import Page
from .records import content

ENCODERS = ("docsplit-small-en", "all-MiniLM-L6-v2", "all-mpnet-base-v2")
SYSTEMS = ("ours", "ours_without_documents", "probe", "two_way")


def macro_f1():
    """The mean over tasks, in percent, by encoder, labels per class and system."""
    records = pd.DataFrame(content("encoders/few_labels.jsonl"))
    tasks = records.groupby(["encoder", "per_label", "system", "task"])["macro_f1"].mean()
    return 100 * tasks.groupby(["encoder", "per_label", "system"]).mean()


def rows():
    """The lines of both tables."""
    means = macro_f1()
    for encoder in ENCODERS:
        yield encoder, *(f"{means[encoder, count, system]:.1f}" for count in ("5", "20") for system in SYSTEMS)
    for record in content("encoders/speed.jsonl"):
        size = (record["megabytes"], record["million_parameters"]) if record["precision"] == "float32" else None
        yield (
            record["model"],
            *(("–", "–") if size is None else (f"{size[0]:.0f}", f"{size[1]:.1f}")),
            record["precision"],
            f"{record['tokens_per_second'] / 1000:.1f}",
            f"{record['documents_per_second']:.0f}",
            f"{record['cosine']:.4f}",
        )


def static(page):
    """The section on the static encoder."""
    records = pd.DataFrame(content("encoders/static.jsonl"))
    records["encoder"] = records["encoder"].str.split().str[0]
    tasks = 100 * records.groupby(["encoder", "system", "task"])["macro_f1"].mean()
    means = tasks.groupby(["encoder", "system"]).mean()
    speeds = {
        (r["model"], r["precision"]): r["tokens_per_second"] / 1000 for r in content("encoders/static_speed.jsonl")
    }
    for name in ("docsplit-small-en", "static"):
        speed = [speeds[name, precision] for precision in ("float32", "int8")]
        page.has_rows([(name, *(f"{x:.1f}" for x in (means[name, "ours"], means[name, "probe"], *speed)))])
    behind = (tasks["docsplit-small-en", "ours"] - tasks["static", "ours"]).sort_values(ascending=False)
    page.says("after `fit()` it is {} points behind", behind.mean())
    assert behind.index[:2].tolist() == ["20news", "arxiv"]
    page.says("20 Newsgroups {} points, arXiv {}.", *behind.iloc[:2])


def int8(page):
    """The table of what int8 changes in docsplit-small-en."""
    records = pd.DataFrame(content("encoders/int8.jsonl"))
    change = (records["int8"] - records["float32"]).rename("change")
    for task, rows in records.join(change).groupby("task", sort=False):
        cells = rows.set_index(["classifier", "shots"])["change"]
        page.has_rows(
            [
                (
                    task,
                    *(f"{cells[kind, shots]:+.2f}" for kind in ("linear probe", "neighbors") for shots in (5, 10)),
                    f"{rows['recall@10'].iloc[0]:.3f}",
                )
            ]
        )
    page.says("On average macro F1 changes by {} points", change.mean())


def test_figures():
    page = Page("docs/encoders.md")
    int8(page)
    page.has_rows(rows())
    static(page)
    means = macro_f1()
    gains = [means[name, n, "ours"] - means[name, n, "probe"] for n in ("5", "20") for name in ENCODERS]
    page.says("{}, {} and {} points with five labels; {}, {} and {} with twenty", *gains)
    page.without_record("69.3", "70.3")  # of others, as they say
    page.check(at_least=40)
