"""The tables of docs/results/analyses.md."""

import functools
import math

from .page import Page
from .records import chosen, records

TASKS = {"Wikipedia": "wikipedia", "20News": "20News", "BBCNews": "BBCNews", "arXiv": "arXiv", "FakeNews": "FakeNews"}
SYSTEMS = ("start", "docsplit", "simcse", "MiniLM", "docsplit-small-en")


@functools.cache
def metrics(protocol, task, system=None):
    fields = {"system": system} if system else {}
    return chosen(records("analyses"), protocol=protocol, task=TASKS[task], **fields)[0]["metrics"]


def more(task, system, other):
    """Attention to nouns against another system's in percent, and its 95 % range."""
    one, two = (metrics("attention", task, name) for name in (system, other))
    ratio = one["noun"] / two["noun"]
    width = math.hypot(one["noun_interval"] / one["noun"], two["noun_interval"] / two["noun"])
    return [100 * (ratio * math.exp(sign * width) - 1) for sign in (0, -1, 1)]


def test_figures():
    page = Page("docs/results/analyses.md")
    for name, system, other in (
        ("DocSplit against SimCSE", "docsplit", "simcse"),
        ("DocSplit against the start", "docsplit", "start"),
        ("SimCSE against the start", "simcse", "start"),
    ):
        page.has_rows(
            [(name, *("{:+.0f} % ({:+.0f} to {:+.0f})".format(*more(task, system, other)) for task in TASKS))]
        )
    for name, other in (("the study's start", "start"), ("MiniLM", "MiniLM")):
        page.has_rows(
            [
                (
                    f"docsplit-small-en against {name}",
                    *(f"{more(t, 'docsplit-small-en', other)[0]:+.0f} %" for t in TASKS),
                )
            ]
        )
    for name, system in (
        ("a noun against another word, DocSplit", "docsplit"),
        ("the same, SimCSE", "simcse"),
        ("the same, docsplit-small-en", "docsplit-small-en"),
        ("the same, MiniLM", "MiniLM"),
    ):
        found = [metrics("attention", task, system) for task in TASKS]
        page.has_rows([(name, *(f"{one['noun'] / one['other']:.2f}" for one in found))])
    for system in SYSTEMS:
        found = [metrics("redundancy", task, system) for task in TASKS]
        cells = (
            f"{o['within']:.2f} ± {o['within_interval']:.2f} / {o['between']:.2f} ± {o['between_interval']:.2f}"
            for o in found
        )
        page.has_rows([(system, *cells)])
    assert page.wrong == [] and page.read >= 170
