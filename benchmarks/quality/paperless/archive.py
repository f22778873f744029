"""The documents of the measurement: real texts with the values that a person would set."""

import gzip
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Which property of a document the labels of a set are, and every how many of its labels are taken.
SETS = {"contracts_lexpredict": ("document_type", 1), "20news": ("correspondent", 3), "bbc_news": ("tags", 1)}
FIELDS = ("document_type", "correspondent", "tags")
TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,60}>")  # with which paperless would take a text for HTML, and refuse it
SHORTEST = 200  # characters
LONGEST = 40_000  # about ten pages; the rest is cut off, as paperless would look for dates in it for minutes


@dataclass(frozen=True)
class Paper:
    """A text, and the one property that a person would set; the others stay empty.

    Args:
        name: The name of its file.
        text: Its content.
        field: The property: document_type, correspondent or tags.
        value: The name of its type, correspondent or tag.
    """

    name: str
    text: str
    field: str
    value: str

    def truth(self, field: str) -> str | None:
        """What the document should have; None for nothing."""
        return self.value if field == self.field else None


@dataclass(frozen=True)
class Archive:
    """Documents that a person has sorted at first, and batches of those that arrive later."""

    sorted_at_first: list[Paper]
    batches: list[list[Paper]]

    def values(self, field: str) -> list[str]:
        """The names of all types, correspondents or tags."""
        return sorted({paper.value for paper in self.sorted_at_first if paper.field == field})


def read_archive(folder: Path, per_value: int, arriving: int, batches: int, seed: int) -> Archive:
    """Draw an archive: equally many documents of each value at first, and later ones as they come in the sets.

    Args:
        folder: A folder with the sets, each with ``train.jsonl.gz``.
        per_value: How many documents of each value a person has sorted at first.
        arriving: How many arrive later, a third of them from each set.
        batches: In how many parts.
        seed: Which documents are drawn.

    Returns:
        The archive.
    """
    rng = random.Random(seed)
    first: list[Paper] = []
    later: list[Paper] = []
    for name, (field, step) in SETS.items():
        papers = list(_papers(folder / name / "train.jsonl.gz", name, field))
        kept = set(sorted({paper.value for paper in papers})[::step])
        papers = [paper for paper in papers if paper.value in kept]
        rng.shuffle(papers)
        of_value = defaultdict(list)
        for paper in papers:
            of_value[paper.value].append(paper)
        chosen = {paper.name for group in of_value.values() for paper in group[:per_value]}
        first += [paper for paper in papers if paper.name in chosen]
        later += [paper for paper in papers if paper.name not in chosen][: arriving // len(SETS)]
    rng.shuffle(first)
    rng.shuffle(later)
    size = len(later) // batches
    return Archive(first, [later[number * size : (number + 1) * size] for number in range(batches)])


def _papers(file: Path, name: str, field: str) -> Iterator[Paper]:
    """Yield the texts of a set that differ from earlier ones; posts without their headers and quotations."""
    seen = set()
    with gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
        for number, line in enumerate(lines):
            row = json.loads(line)
            text = _post(row["text"]) if name == "20news" else row["text"]
            text = TAG.sub(" ", text.replace("\0", "")).strip()[:LONGEST]
            if len(text) >= SHORTEST and text not in seen:
                seen.add(text)
                yield Paper(f"{name}_{number}.txt", text, field, row["label"])


def _post(text: str) -> str:
    """The text of a post: its headers name the group, and its quotations other posts."""
    body = text.partition("\n\n")[2]
    return "\n".join(line for line in body.split("\n") if not line.startswith((">", "|", "In article")))
