"""docs/results/length.md."""

import functools

from .page import Page
from .records import summarized

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
    assert page.wrong == [] and page.read >= 400
