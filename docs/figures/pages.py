"""Write figures, texts and tables behind the comments of a page that name them.

A figure in a sentence follows its name, and keeps its sign, its digits and its ``±``::

    macro F1 is <!--=ours with 5 labels-->63.9, with documents <!--=gain-->+2.0 ± 0.4

A table, or a text that is more than a figure, ends with a comment. The header of a table stays as it is in the page if
the figures have rows only::

    <!-- table: means -->
    | system | 5 |
    |---|---|
    | ours | 63.9 |
    <!-- end -->

A comment at the beginning of a line would make the line HTML, so a figure needs a word before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal

Row = Sequence[str]
# A number, a mean with half of its interval, a text, or the rows of a table.
Figure = float | tuple[float, float] | str | Sequence[Row]
Figures = Mapping[str, Figure]

NUMBER = r"[+-]?\d(?:[\d,]*\d)?(?:\.\d+)?"
IN_SENTENCE = re.compile(rf"<!--=(?P<name>[^<>]+)-->(?P<mean>{NUMBER})?(?: ± (?P<interval>{NUMBER}))?")
CLOSED = re.compile(
    r"(?P<start><!-- (?:table|text): (?P<name>[^<>]+) -->)(?P<content>.*?)(?P<end><!-- end -->)", re.DOTALL
)


def write_figures(page: str, figures: Figures) -> str:
    """Return the text of a page with its figures written anew.

    Raises:
        ValueError: If a comment names an unknown figure or has no number behind it, if a line begins with the comment
            of a figure, or if the page does not show one of the figures.
    """
    unused = figures.keys() - set(named_figures(page))
    if unused:
        raise ValueError(f"The page does not show {sorted(unused)}: write <!--=NAME-->0.0 where each belongs.")
    for line in page.splitlines():
        if re.match(r"\s*(?:[-*]\s+|\d+\.\s+)?<!--=", line):
            raise ValueError(f"A figure begins the line {line[:80]!r}: put a word before it.")
    page = CLOSED.sub(lambda found: _closed(found, figures), page)
    return IN_SENTENCE.sub(lambda found: _in_sentence(found, figures), page)


def named_figures(page: str) -> Iterator[str]:
    """Yield the names in the comments of a page."""
    for pattern in (CLOSED, IN_SENTENCE):
        for found in pattern.finditer(page):
            yield found["name"]


def _in_sentence(found: re.Match[str], figures: Figures) -> str:
    """The comment, and the figure formatted like the one behind it."""
    name = found["name"]
    figure = _named(name, figures)
    if found["mean"] is None:
        raise ValueError(f"No number follows <!--={name}-->: write 0.0, with as many digits as are to be shown.")
    if isinstance(figure, tuple) != (found["interval"] is not None):
        raise ValueError(f"{name!r} is {figure}, and the page has {found[0]!r}: one has an interval, one has not.")
    if isinstance(figure, tuple):
        mean, interval = figure
        return f"<!--={name}-->{_like(found['mean'], mean)} ± {_like(found['interval'], interval)}"
    return f"<!--={name}-->{_like(found['mean'], figure)}"


def _closed(found: re.Match[str], figures: Figures) -> str:
    """Both comments, and the text or the table between them."""
    figure = _named(found["name"], figures)
    if isinstance(figure, str):
        edge = "\n" if found["content"].startswith("\n") else ""
        return f"{found['start']}{edge}{figure}{edge}{found['end']}"
    header = found["content"].strip("\n").splitlines()[:2]
    rows = [f"| {' | '.join(row)} |" for row in figure]
    return "\n".join([found["start"], *header, *rows, found["end"]])


def _named(name: str, figures: Figures) -> Figure:
    if name not in figures:
        raise ValueError(f"There is no figure {name!r}: the page can show {sorted(figures)}.")
    return figures[name]


def _like(shown: str, value: float) -> str:
    """Format a value with the sign and the digits of another; halves are rounded up, away from zero."""
    digits = len(shown.partition(".")[2])
    exact = Decimal(f"{value:.9f}")  # computed halves are a little off
    rounded = exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP) + 0  # -0.0 becomes 0.0
    return f"{rounded:{'+' if shown.startswith('+') else ''},}"
