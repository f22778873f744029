"""Quality, size and speed of encoders side by side: docs/encoders.md."""

from __future__ import annotations

import pandas as pd

from .pages import Figure, Figures, Row
from .records import content

ENCODERS = ("docsplit-small-en", "all-MiniLM-L6-v2", "all-mpnet-base-v2")
SYSTEMS = ("ours", "ours_without_documents", "probe", "two_way")
# Million parameters, and mean accuracy over MTEB's classification tasks: embeddings-benchmark/results at f4cc6c8.
PUBLISHED = {
    "docsplit-small-en": (12, None),
    "all-MiniLM-L6-v2": (23, 69.3),
    "MongoDB/mdbr-leaf-mt": (23, 76.7),
    "BAAI/bge-small-en-v1.5": (33, 76.6),
    "all-mpnet-base-v2": (109, None),
}


def encoders() -> Figures:
    means = macro_f1()
    figures: dict[str, Figure] = {
        "quality": quality(),
        "published": published(),
        "static": static(),
        "speed": speed(),
        "int8": int8(),
        "prompt": prompt(),
    }
    for per_label in ("5", "20"):
        for encoder in ENCODERS:
            gain = means[encoder, per_label, "ours"] - means[encoder, per_label, "probe"]
            figures[f"over the probe, {encoder}, {per_label}"] = gain
    behind = behind_layers()
    figures["static behind"] = behind.mean()
    figures["static behind, 20news"] = behind["20news"]
    figures["static behind, arxiv"] = behind["arxiv"]
    figures["change by int8"] = changes_by_int8()["change"].mean()
    return figures


def macro_f1() -> pd.Series:
    """Return the mean over tasks in percent, by encoder, labels per class and system."""
    records = pd.DataFrame(content("encoders/few_labels.jsonl"))
    tasks = records.groupby(["encoder", "per_label", "system", "task"])["macro_f1"].mean()
    return 100 * tasks.groupby(["encoder", "per_label", "system"]).mean()


def quality() -> list[Row]:
    means = macro_f1()
    return [
        (encoder, *(f"{means[encoder, count, system]:.1f}" for count in ("5", "20") for system in SYSTEMS))
        for encoder in ENCODERS
    ]


def prompt() -> list[Row]:
    """Return macro F1 in percent with a prompt and without, by data set, of draws that were measured with both."""
    records = pd.DataFrame(content("encoders/prompts.jsonl"))
    both = 100 * records.pivot(index=["task", "system", "draw"], columns="encoder", values="macro_f1").dropna()
    of_sets = both.groupby(["system", "task"]).mean()
    systems = [system for system in SYSTEMS if system in of_sets.index.levels[0]]
    rows = []
    for task in (*of_sets.index.levels[1], "mean"):
        row = [task.replace("_", r"\_")]
        for system in systems:
            own = of_sets.loc[system]
            found = own.mean() if task == "mean" else own.loc[task]
            row += [f"{found['e5_query']:.1f}", f"{found['e5_plain']:.1f}"]
        rows.append(tuple(row))
    return rows


def published() -> list[Row]:
    """Return published accuracies beside what was measured here with five labels."""
    means = macro_f1()
    rows = []
    for encoder, (parameters, accuracy) in PUBLISHED.items():
        measured = ["", ""]
        if encoder in ENCODERS:
            measured = [f"{means[encoder, '5', system]:.1f}" for system in ("probe", "ours")]
        rows.append((encoder, str(parameters), "" if accuracy is None else f"{accuracy:.1f}", *measured))
    return rows


def speed() -> list[Row]:
    rows = []
    for record in content("encoders/speed.jsonl"):
        is_full = record["precision"] == "float32"  # int8 has no size of its own on the disk
        size = (f"{record['megabytes']:.0f}", f"{record['million_parameters']:.1f}") if is_full else ("–", "–")
        tokens = f"{record['tokens_per_second'] / 1000:.1f}"
        documents = f"{record['documents_per_second']:.0f}"
        rows.append((record["model"], *size, record["precision"], tokens, documents, f"{record['cosine']:.4f}"))
    return rows


def static_macro_f1() -> pd.Series:
    """Return macro F1 in percent, by encoder, system and task."""
    records = pd.DataFrame(content("encoders/static.jsonl"))
    records["encoder"] = records["encoder"].str.split().str[0]
    return 100 * records.groupby(["encoder", "system", "task"])["macro_f1"].mean()


def static() -> list[Row]:
    means = static_macro_f1().groupby(["encoder", "system"]).mean()
    speeds = {}
    for record in content("encoders/static_speed.jsonl"):
        speeds[record["model"], record["precision"]] = record["tokens_per_second"] / 1000
    rows = []
    for name in ("docsplit-small-en", "static"):
        cells = (means[name, "ours"], means[name, "probe"], speeds[name, "float32"], speeds[name, "int8"])
        rows.append((name, *(f"{cell:.1f}" for cell in cells)))
    return rows


def behind_layers() -> pd.Series:
    """Return how many points the static encoder is behind the one with layers, by task."""
    tasks = static_macro_f1()
    return tasks["docsplit-small-en", "ours"] - tasks["static", "ours"]


def changes_by_int8() -> pd.DataFrame:
    records = pd.DataFrame(content("encoders/int8.jsonl"))
    return records.assign(change=records["int8"] - records["float32"])


def int8() -> list[Row]:
    rows = []
    for task, mine in changes_by_int8().groupby("task", sort=False):
        changes = mine.set_index(["classifier", "shots"])["change"]
        cells = (f"{changes[kind, shots]:+.2f}" for kind in ("linear probe", "neighbors") for shots in (5, 10))
        rows.append((task, *cells, f"{mine['recall@10'].iloc[0]:.3f}"))
    return rows
