"""A page whose figures are read from records: what it says, where it has tables, and what has no record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..commands import ROOT

NUMBER = r"[+-]?\d(?:[\d,]*\d)?(?:\.\d+)?"
# What a measurement looks like: it has a decimal point or one of these units.
FIGURE = re.compile(rf"(?<![\w.,/]){NUMBER}(?![\w./]*\w)(?=( ?%| points?\b| times\b| ms\b| GB\b| GiB\b)?)")
# What looks like one and is none: code, addresses, versions, licenses, names, comments.
NO_FIGURES = re.compile(
    r"```(?:bash|python|text)\n.*?```|`[^`\n]*`|\]\([^)]*\)|https?://\S+|<!--.*?-->"
    r"|Python 3\.\d+|Apache 2\.0|SetFit 1\.2|small-text\S* 1\.4|1\.2\.1|faiss-cpu 1\.15\.1|arXiv:[\d.]+",
    re.DOTALL,
)


class Page:
    """What is wrong is collected, and told by check(), so that one run names every figure to mend.

    ``without`` is a pattern of a part that is not read.
    """

    def __init__(self, path: str, without: str = r"\Z") -> None:
        text = (ROOT / path).read_text(encoding="utf-8")
        self.path, self.text = path, re.sub(without, "", text, count=1, flags=re.DOTALL)
        self.wrong: list[str] = []
        self.read = 0
        self._held: list[tuple[int, int]] = []

    def says(self, template: str, *values: float) -> None:
        """The page has this text once, and in its braces these values, rounded to the digits that are shown there."""
        if match := self._only(re.escape(template).replace(r"\{\}", f"({NUMBER})"), template):
            for number, value in enumerate(values, start=1):
                shown = match[number]
                digits = len(shown.partition(".")[2])
                if abs(float(shown.replace(",", "")) - value) > 0.5 * 10**-digits + 1e-9:
                    self.wrong.append(f"{template!r}: number {number} is {shown}, the records give {value:.4f}")
                self._held.append(match.span(number))
            assert len(values) == match.re.groups, template
            self.read += len(values)

    def has(self, text: str) -> None:
        """The page has this text, made of the records: a table, or a part of one."""
        found = [match.span() for match in re.finditer(re.escape(text), self.text)]
        if not found:
            self.wrong.append(f"the records give\n{text}")
        self._held += found
        self.read += len(re.findall(NUMBER, text))

    def has_rows(self, rows: Iterable[Sequence[str]]) -> None:
        """The page has a table whose lines are these, between others."""
        for row in rows:
            self.has(f"| {' | '.join(row)} |")

    def without_record(self, *texts: str) -> None:
        """Figures of no record, seen once or chosen: the page has each of these texts."""
        for text in texts:
            found = [match.span() for match in re.finditer(re.escape(text), self.text)]
            self._held += found
            self.wrong += [] if found else [f"the page has no longer {text!r}"]

    def table_without_record(self, header: str) -> None:
        """A whole table of no record, by how its first line begins."""
        self.without_record(re.search(rf"{re.escape(header)}[^\n]*(\n\|[^\n]*)*|\Z", self.text)[0] or header)

    def check(self, at_least: int) -> None:
        """Raise if a figure differs from its record, or has none; and if fewer were read than there should be."""
        hidden = [match.span() for match in NO_FIGURES.finditer(self.text)]
        for match in FIGURE.finditer(self.text):
            if "." in match[0] or match[1]:
                start, end = match.span()
                if not any(first <= start and end <= last for first, last in (*hidden, *self._held)):
                    around = self.text[max(start - 60, 0) : end + 40].replace("\n", " ")
                    self.wrong.append(f"no record is named for {match[0]} in: …{around}…")
        assert not self.wrong, f"{self.path}:\n" + "\n".join(f"- {line}" for line in self.wrong)
        assert self.read >= at_least

    def _only(self, pattern: str, text: str) -> re.Match[str] | None:
        found = list(re.finditer(pattern, self.text))
        if len(found) != 1:
            self.wrong.append(f"the page has {len(found)} places for {text!r}")
        return found[0] if len(found) == 1 else None
