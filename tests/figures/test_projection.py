"""docs/results/projection.md."""

import functools

import numpy as np

from .page import Page
from .records import chosen, content, half_interval, percent, records

TASKS = ("20News", "BBCNews", "arXiv", "FakeNews")
FIRST = ("projection", "whitening, shrinkage 1", "whitening, shrinkage 10", "CCA, shrinkage 10", "covariance to 1/4")
MORE = ("covariance to 1/2", "centered", "all but the top", "CCA, shrinkage 1", "CCA, shrinkage 3")
MORE += tuple(f"projection, shrinkage {number}" for number in ("0.1", "1", "10"))
MORE += tuple(f"projection, {count} documents" for count in (100, 300, 1000))
MORE += tuple(f"CCA, shrinkage 10, {count} documents" for count in (100, 300))
ENCODERS = ("MiniLM", "docsplit-small-en", "study_start")


@functools.cache
def scores(system, task="mean"):
    """Macro F1 by draw; of the mean over the tasks, too."""
    if task == "mean":
        return np.mean([scores(system, name) for name in TASKS], 0)
    return percent(records("projection"), "macro_f1", system=system, task=task)


def gain(encoder, kind, task="mean", against=None):
    """What a map gains on an encoder, or on another map, and half of its 95 % interval."""
    other = f"{encoder} + {against}" if against else encoder
    change = scores(f"{encoder} + {kind}", task) - scores(other, task)
    return change.mean(), half_interval(change)


def row(encoder, kind):
    if kind is None:
        return (
            "as it is",
            *(f"{scores(encoder, t).mean():.1f} ± {half_interval(scores(encoder, t)):.1f}" for t in (*TASKS, "mean")),
        )
    cells = []
    for task in (*TASKS, "mean"):
        change, half = gain(encoder, kind, task)
        cells.append(f"{scores(f'{encoder} + {kind}', task).mean():.1f} ({change:+.1f} ± {half:.1f})")
    return (kind, *cells)


def test_figures():
    page = Page("docs/results/projection.md")
    for encoder in ENCODERS:
        kinds = (None, *FIRST, *MORE) if encoder == "MiniLM" else (None, *FIRST)
        page.has_rows(row(encoder, kind) for kind in kinds)
    own = [gain(encoder, "projection")[0] for encoder in ENCODERS]
    page.says("{} points on MiniLM, where [training", own[0])
    page.says("{} on docsplit-small-en, {} on an encoder of MLM alone", own[1], own[2])
    whitening = [-gain("MiniLM", f"whitening, shrinkage {number}")[0] for number in (10, 1)]
    page.says("costs MiniLM {} to {} points", *whitening)
    best = max(gain("MiniLM", f"projection, shrinkage {number}")[0] for number in ("0.1", "1", "10"))
    page.says("It costs {} points against the best fixed one", best - own[0])
    fewer = [gain("MiniLM", f"projection, {count} documents") for count in (100, 300, 1000)]
    page.says("still gains {} points on the mean, on 300 {}, on 1,000 {};", *(change for change, _ in fewer))
    assert all(
        gain("MiniLM", f"projection, {count} documents", task)[0] > 0 for count in (100, 300, 1000) for task in TASKS
    )
    lost = [-gain("MiniLM", "CCA, shrinkage 10, 100 documents", task)[0] for task in ("20News", "arXiv")]
    page.says("loses {} and {} points on 20News and arXiv with 100", *lost)
    page.says("The fourth root of the covariance gains {} points", gain("MiniLM", "covariance to 1/4")[0])
    page.says("the projection is {} ± {} above it", *gain("MiniLM", "projection", against="covariance to 1/4"))
    page.says("above it: {} ± {} on 20News", *gain("MiniLM", "projection", "20News", "covariance to 1/4"))
    page.says("the root gains little ({} and {})", *(gain(e, "covariance to 1/4")[0] for e in ENCODERS[1:]))
    page.says(
        "is as good on MiniLM** ({} ± {} between them)", *gain("MiniLM", "projection", against="CCA, shrinkage 10")
    )
    page.says("with 1 it loses {} points", -gain("MiniLM", "CCA, shrinkage 1")[0])
    page.says("does not gain: {} ± {} on MiniLM", *gain("MiniLM", "projection", "FakeNews"))
    page.says(
        "{} ± {} on docsplit-small-en, {} ± {} on the study's start",
        *(x for e in ENCODERS[1:] for x in gain(e, "projection", "FakeNews")),
    )
    page.says("({} ± {} with a shrinkage of 10", *gain("study_start", "whitening, shrinkage 10"))
    page.says("ours {} ± {}):", *gain("study_start", "projection"))
    shrinkages(page)
    strong_encoder(page)
    page.without_record(
        "half its 95 % interval",
        "10 times 1 - cosine",
        "anything from 0.1 to 10",
        "InfoNCE at temperature 0.05",
    )
    page.check(at_least=300)


def shrinkages(page):
    """The table of what was chosen on the halves."""
    rows = content("projection/shrinkage.json")
    sizes = {}
    for one in rows:
        sizes.setdefault((one["encoder"], one["task"]), []).append(one)
    for encoder in ENCODERS:
        for place, count in enumerate(("100", "300", "1000", "all")):
            found = [sizes[encoder, task][place] for task in TASKS]
            cells = [f"{rounded(one['projection'])} ({one['error']:.2f}), {one['cca_by_info_nce']:g}" for one in found]
            page.has_rows([(encoder.replace("_", r"\_"), count, *cells)])


def rounded(shrinkage):
    return f"{shrinkage:.0f}" if shrinkage >= 1 else f"{shrinkage:.1g}"


def strong_encoder(page):
    """The table of recipes."""
    rows = content("projection/strong_encoder.json")["records"]
    systems = list(dict.fromkeys(record["system"] for record in rows))
    start = percent(rows, "macro_f1", system="start")
    names = ("none", "DocSplit", "DocSplit and distillation to the start", "DocSplit without alike negatives")
    changes = {}
    for name, system in zip(names, systems, strict=True):
        values = percent(chosen(rows, system=system), "macro_f1")
        changes[name] = (values - start).mean(), half_interval(values - start)
        change = "" if name == "none" else "{:+.1f} ± {:.1f}".format(*changes[name])
        page.has(f"| {name} | {values.mean():.1f} ± {half_interval(values):.1f} | {change} |")
    page.says("looks best ({} ± {})", *changes["DocSplit without alike negatives"])
    page.says("near the projection ({} ± {} on this set", *gain("MiniLM", "projection", "20News"))
