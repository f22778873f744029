"""DocSplit in closed form: docs/results/projection.md."""

from __future__ import annotations

import functools

import numpy as np

from .pages import Figure, Figures, Row
from .records import content, half_interval, percent, records

TASKS = ("20News", "BBCNews", "arXiv", "FakeNews")
FIRST = ("projection", "whitening, shrinkage 1", "whitening, shrinkage 10", "CCA, shrinkage 10", "covariance to 1/4")
MORE = ("covariance to 1/2", "centered", "all but the top", "CCA, shrinkage 1", "CCA, shrinkage 3")
MORE += tuple(f"projection, shrinkage {number}" for number in ("0.1", "1", "10"))
MORE += tuple(f"projection, {count} documents" for count in (100, 300, 1000))
MORE += tuple(f"CCA, shrinkage 10, {count} documents" for count in (100, 300))
ENCODERS = ("MiniLM", "docsplit-small-en", "study_start")
TRAININGS = ("none", "DocSplit", "DocSplit and distillation to the start", "DocSplit without alike negatives")


def projection() -> Figures:
    figures: dict[str, Figure] = {}
    for encoder in ENCODERS:
        figures[f"maps, {encoder}"] = maps(encoder, (None, *FIRST))
    return {
        **figures,
        "more maps": maps("MiniLM", MORE),
        **gains(),
        **against_simpler_maps(),
        "shrinkage": shrinkages(),
        "training": training(),
        "training, best": training_change("DocSplit without alike negatives"),
        "gain, MiniLM, 20News": gain("MiniLM", "projection", "20News"),
    }


@functools.cache
def scores(system: str, task: str = "mean") -> np.ndarray:
    """Return macro F1 of a task, or of the mean over the tasks, by draw."""
    if task == "mean":
        return np.mean([scores(system, name) for name in TASKS], 0)
    return percent(records("projection"), "macro_f1", system=system, task=task)


def gain(encoder: str, kind: str, task: str = "mean", against: str | None = None) -> tuple[float, float]:
    """Return what a map gains on an encoder, or on another map, and half of its 95 % interval."""
    other = f"{encoder} + {against}" if against else encoder
    change = scores(f"{encoder} + {kind}", task) - scores(other, task)
    return change.mean(), half_interval(change)


def maps(encoder: str, kinds: tuple[str | None, ...]) -> list[Row]:
    """Return macro F1 of maps; None is the encoder as it is."""
    rows = []
    for kind in kinds:
        row = [kind or "as it is"]
        for task in (*TASKS, "mean"):
            if kind is None:
                row.append(f"{scores(encoder, task).mean():.1f} ± {half_interval(scores(encoder, task)):.1f}")
            else:
                change, half = gain(encoder, kind, task)
                row.append(f"{scores(f'{encoder} + {kind}', task).mean():.1f} ({change:+.1f} ± {half:.1f})")
        rows.append(row)
    return rows


def gains() -> dict[str, Figure]:
    """Return what the projection gains, and by how many documents."""
    figures: dict[str, Figure] = {}
    own, _ = gain("MiniLM", "projection")
    for encoder in ENCODERS:
        figures[f"gain, {encoder}"], _ = gain(encoder, "projection")
    for shrinkage in (10, 1):
        points, _ = gain("MiniLM", f"whitening, shrinkage {shrinkage}")
        figures[f"whitening costs, shrinkage {shrinkage}"] = -points
    fixed = [gain("MiniLM", f"projection, shrinkage {shrinkage}")[0] for shrinkage in ("0.1", "1", "10")]
    figures["best fixed shrinkage over the chosen"] = max(fixed) - own
    for count in (100, 300, 1000):
        figures[f"gain, {count} documents"], _ = gain("MiniLM", f"projection, {count} documents")
    for task in ("20News", "arXiv"):
        points, _ = gain("MiniLM", "CCA, shrinkage 10, 100 documents", task)
        figures[f"CCA with 100 documents loses, {task}"] = -points
    return figures


def against_simpler_maps() -> dict[str, Figure]:
    """Return how far the projection is above maps that need no halves, and what does not hold."""
    figures: dict[str, Figure] = {}
    for encoder in ENCODERS:
        figures[f"fourth root, {encoder}"], _ = gain(encoder, "covariance to 1/4")
        if encoder == "MiniLM":
            figures["over the fourth root"] = gain("MiniLM", "projection", against="covariance to 1/4")
            over_root = gain("MiniLM", "projection", "20News", "covariance to 1/4")
            figures["over the fourth root, 20News"] = over_root
    figures["over CCA"] = gain("MiniLM", "projection", against="CCA, shrinkage 10")
    points, _ = gain("MiniLM", "CCA, shrinkage 1")
    figures["CCA with shrinkage 1 loses"] = -points
    for encoder in ENCODERS:
        figures[f"gain, {encoder}, FakeNews"] = gain(encoder, "projection", "FakeNews")
    figures["whitening, study_start"] = gain("study_start", "whitening, shrinkage 10")
    figures["projection, study_start"] = gain("study_start", "projection")
    return figures


def shrinkages() -> list[Row]:
    """Return what was chosen on the halves, by encoder and number of documents."""
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for record in content("projection/shrinkage.json"):
        found.setdefault((record["encoder"], record["task"]), []).append(record)
    rows = []
    for encoder in ENCODERS:
        for place, count in enumerate(("100", "300", "1000", "all")):
            cells = []
            for task in TASKS:
                one = found[encoder, task][place]
                shrinkage = one["projection"]
                shown = f"{shrinkage:.0f}" if shrinkage >= 1 else f"{shrinkage:.1g}"
                cells.append(f"{shown} ({one['error']:.2f}), {one['cca_by_info_nce']:g}")
            rows.append((encoder.replace("_", r"\_"), count, *cells))
    return rows


def trained(name: str) -> np.ndarray:
    """Return macro F1 of MiniLM after a training, by draw."""
    rows = content("projection/strong_encoder.json")["records"]
    systems = list(dict.fromkeys(record["system"] for record in rows))
    return percent(rows, "macro_f1", system=systems[TRAININGS.index(name)])


def training_change(name: str) -> tuple[float, float]:
    """Return what a training gains on none."""
    change = trained(name) - trained("none")
    return change.mean(), half_interval(change)


def training() -> list[Row]:
    rows = []
    for name in TRAININGS:
        change, half = training_change(name)
        shown = "" if name == "none" else f"{change:+.1f} ± {half:.1f}"
        rows.append((name, f"{trained(name).mean():.1f} ± {half_interval(trained(name)):.1f}", shown))
    return rows
