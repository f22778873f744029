"""docs/results/length.md."""

import functools

from .page import Page
from .records import chosen, records, summarized

SMALL, MINILM = "docsplit-small-en", "all-MiniLM-L6-v2"
TITLED, INVERTED, PAIRED = "WikipediaTitled", "WikipediaInverted", "WikipediaPaired"
TASKS = {SMALL: (TITLED, INVERTED, PAIRED, "20News", "BBCNews"), MINILM: (TITLED, INVERTED, PAIRED, "BBCNews")}
LONG = {name: [task for task in tasks if task != "BBCNews"] for name, tasks in TASKS.items()}
SHORT = {name: [task for task in tasks if task != PAIRED] for name, tasks in TASKS.items()}
WAYS = ("head_tail", "salient", "average", "passages")


@functools.cache
def cells(encoder):
    return {
        (cell.system, cell.task, cell.settings["classifier"], cell.settings["shots"]): cell.metrics
        for cell in summarized(f"length/{encoder}")
        if cell.protocol == "length"
    }


def metric(encoder, way, task, classifier, shots, name):
    system = "tfidf" if way == "tfidf" else f"{encoder} ({way})"
    return cells(encoder).get((system, task, classifier, shots), {}).get(name)


def gain(encoder, way, task, classifier, shots=10, name="gain_long"):
    return 100 * metric(encoder, way, task, classifier, shots, name).mean


def gain_row(encoder, way, task, classifier, name):
    few, full = (metric(encoder, way, task, classifier, shots, name) for shots in (10, None))
    start = "–" if few is None else f"{100 * few.mean:+.1f} ± {100 * few.interval:.1f}"
    return f"{start} ({100 * full.mean:+.1f})"


def accuracy(encoder, way, task, classifier):
    few, full = (metric(encoder, way, task, classifier, shots, "accuracy") for shots in (10, None))
    return f"{'–' if few is None else f'{100 * few.mean:.1f}'} ({100 * full.mean:.1f})"


def test_tables():
    page = Page("docs/results/length.md")
    for encoder in (SMALL, MINILM):
        for classifier in ("probe", "neighbors"):
            for way in WAYS:
                start = f"`{way}`, {classifier}"
                page.has_rows([(start, *(gain_row(encoder, way, t, classifier, "gain_long") for t in LONG[encoder]))])
                page.has_rows([(start, *(gain_row(encoder, way, t, classifier, "gain_short") for t in SHORT[encoder]))])
            for way in ("first", *WAYS, "tfidf"):
                start = f"TF-IDF, {classifier}" if way == "tfidf" else f"`{way}`, {classifier}"
                page.has_rows([(start, *(accuracy(encoder, way, t, classifier) for t in TASKS[encoder]))])
    sentences(page)
    page.without_record(
        "half the 95 % interval",
        "one of them is half a point",
    )
    page.check(at_least=400)


def sentences(page):
    every = [(c, s) for c in ("probe", "neighbors") for s in (10, None)]
    told = [gain(e, "average", t, c, s) for e in (SMALL, MINILM) for t in (TITLED,) for c, s in every]
    page.says("`average` loses at most {} points, within the noise", -min(told))
    paired = [gain(e, "average", PAIRED, c, s) for e in (SMALL, MINILM) for c, s in every]
    page.says("{} to {} points on Paired, ", min(paired), max(paired))
    inverted = [gain(MINILM, "average", INVERTED, c, s) for c, s in every]
    page.says(
        "{} to {} on Inverted with MiniLM, up to {} with docsplit-small-en",
        min(inverted),
        max(inverted),
        max(gain(SMALL, "average", INVERTED, c, s) for c, s in every),
    )
    page.says("{} on 20 Newsgroups; it costs", gain(SMALL, "average", "20News", "probe", None))
    read = {
        (way, task): chosen(records(f"length/{SMALL}"), protocol="length_read", system=f"{SMALL} ({way})", task=task)[
            0
        ]["metrics"]
        for way in ("first", "average")
        for task in TASKS[SMALL]
    }
    one = [read["first", task]["tokens_read"] for task in (TITLED, INVERTED, PAIRED)]
    page.says("{} to {} with one forward", min(one), max(one))
    page.says(
        "{} in Titled and Inverted and {} in Paired with all",
        *(read["average", t]["tokens_read"] for t in (TITLED, PAIRED)),
    )
    page.says("On Inverted the gain is {} for", gain(SMALL, "head_tail", INVERTED, "probe"))
    ways = [gain(MINILM, way, INVERTED, c, s) for way in ("head_tail", "average", "passages") for c, s in every]
    page.says("`average` and `passages`, it is {} to {}.", min(ways), max(ways))
    lost = [-gain(e, "head_tail", TITLED, "probe", s) for e in (SMALL, MINILM) for s in (10, None)]
    kept = [-gain(e, "average", TITLED, "probe", s) for e in (SMALL, MINILM) for s in (10, None)]
    page.says("`head_tail` loses {} to {} points, `average` {} to {}.", min(lost), max(lost), min(kept), max(kept))
    near = [gain(MINILM, "average", TITLED, "neighbors", s) for s in (None, 10)]
    page.says("MiniLM's neighbors gain {} to {} by `average`", *near)
    page.says("On 20News `average` gains {} points", gain(SMALL, "average", "20News", "probe", None))
    page.says("`first` reads {} % of a text of BBCNews", 100 * read["first", "BBCNews"]["share_read"])
    short = {
        (e, t, c, s): (gain(e, "average", t, c, s, "gain_short"), metric(e, "average", t, c, s, "gain_short"))
        for e in (SMALL, MINILM)
        for t in SHORT[e]
        for c, s in every
        if metric(e, "average", t, c, s, "gain_short")
    }
    page.says(
        "no loss of `average` is larger than {} points",
        -min(v for (_, _, c, _), (v, _) in short.items() if c == "probe"),
    )
    few = short[MINILM, INVERTED, "neighbors", 10]
    page.says("{} ± {} points (MiniLM, Inverted, few examples)", -few[0], 100 * few[1].interval)
    page.says("and {} (docsplit-small-en, Titled, all", -short[SMALL, TITLED, "neighbors", None][0])
    assert sorted(short, key=lambda key: short[key][0])[:2] == [
        (SMALL, TITLED, "neighbors", None),
        (MINILM, INVERTED, "neighbors", 10),
    ]
    passages = [-gain(SMALL, "passages", TITLED, "probe", s, "gain_short") for s in (10, None)]
    page.says("`passages` lose {} points with the probe", *passages[:1])
