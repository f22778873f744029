"""Clean the text of printed pages: repeated lines, hyphens and line ends."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

EDGE_LINES = 3  # lines at the top, and at the bottom, among which headers and footers are looked for
LEAST_PAGES = 3  # on fewer pages nothing counts as repeated
_NUMBER = re.compile(r"\d{1,6}")
# U+0002 and U+FFFE: how PDFium marks a hyphen that ends a line.
_HYPHEN = re.compile(r"(\w+)(?:[\x02\ufffe]\n?|[-\u00ad\u2010]\n)[ \t]*(\w+)")
_LINE_END = re.compile(r"([^\s.!?:])[ \t]*\n[ \t]*(\w)")


def clean_pages(pages: Sequence[str]) -> tuple[list[str], int]:
    """Drop repeated lines, and join words and lines that end where a line ends; also return how many were dropped."""
    kept, dropped = drop_repeated_lines(pages)
    words = {word for page in kept for word in re.findall(r"\w+(?:-\w+)*", page.lower())}
    joined = (join_hyphens(page, words).replace("\x02", "-").replace("\ufffe", "-") for page in kept)
    return [join_lines(page) for page in joined], dropped


def drop_repeated_lines(pages: Sequence[str]) -> tuple[list[str], int]:
    """Drop lines at the top or bottom that repeat on at least half of the pages; also return how many were dropped.

    A line repeats if it is the same, or the same but for a number that grows with the pages. Its first copy is kept.
    """
    lines_of = [page.split("\n") for page in pages]
    least = max(LEAST_PAGES, len(pages) // 2)
    pages_with: Counter[str] = Counter()
    for number, lines in enumerate(lines_of):
        pages_with.update({key for index in _edge(lines) for key in _keys(lines[index], number)})
    seen: set[str] = set()
    kept: list[str] = []
    dropped = 0
    for number, lines in enumerate(lines_of):
        repeated: set[int] = set()
        for index in _edge(lines):
            keys = {key for key in _keys(lines[index], number) if pages_with[key] >= least}
            if keys & seen:
                repeated.add(index)
            seen |= keys
        kept.append("\n".join(line for index, line in enumerate(lines) if index not in repeated))
        dropped += len(repeated)
    return kept, dropped


def join_hyphens(page: str, words: set[str]) -> str:
    """Join words that are hyphenated at the end of a line.

    The hyphen is kept before a capital letter or a number, and if ``words`` has the word only with its hyphen.
    """

    def join(match: re.Match[str]) -> str:
        first, second = match.groups()
        hyphenated = f"{first}-{second}".lower()
        keeps_hyphen = hyphenated in words and (first + second).lower() not in words
        if keeps_hyphen or not second[0].islower() or not first[-1].isalpha():
            return f"{first}-{second}"
        return first + second

    return _HYPHEN.sub(join, page)


def join_lines(page: str) -> str:
    """Replace line ends by spaces where a line continues in lower case."""

    def join(match: re.Match[str]) -> str:
        return f"{match[1]} {match[2]}" if match[2].islower() else match[0]

    return _LINE_END.sub(join, page)


def _edge(lines: Sequence[str]) -> list[int]:
    """The indices of the first and last lines of a page that are not blank."""
    filled = [index for index, line in enumerate(lines) if line.strip()]
    return sorted({*filled[:EDGE_LINES], *filled[-EDGE_LINES:]})


def _keys(line: str, page: int) -> Iterator[str]:
    """Yield the line, and the line with each of its numbers replaced by its distance from the number of the page."""
    line = " ".join(line.split())
    yield line
    for match in _NUMBER.finditer(line):
        yield f"{line[: match.start()]}\x00{int(match[0]) - page}\x00{line[match.end() :]}"
