"""Remove duplicate examples, and warn about equal texts with different labels."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .labels import labels_by_name

if TYPE_CHECKING:
    from datasets import Dataset

logger = logging.getLogger(__name__)

MAX_SHOWN_TEXTS = 3
MAX_SHOWN_CHARACTERS = 60  # of a text


def without_copies(examples: Dataset, name: str) -> Dataset:
    """Drop examples that repeat the text, pair and labels of an earlier one; their number is logged.

    Duplicates of training examples among held-out ones would make the measured accuracy too high.
    """
    columns = [column for column in ("text", "text_pair") if column in examples.column_names]
    contents = list(zip(*(examples[column][:] for column in columns), strict=True))
    labels = [label_set(given) for given in labels_by_name(examples)]
    warn_of_contradictions(zip(contents, labels, strict=True))
    first_rows: dict[Any, int] = {}
    for row, example in enumerate(zip(contents, labels, strict=True)):
        first_rows.setdefault(example, row)
    if len(first_rows) == len(examples):
        return examples
    logger.warning(
        "%s: %d of %d examples repeat the text and the label of another one, and are left out.",
        name,
        len(examples) - len(first_rows),
        len(examples),
    )
    return examples.select(sorted(first_rows.values()))


def warn_of_contradictions(examples: Iterable[tuple[Sequence[str | None], frozenset[str]]]) -> None:
    """Warn about texts with different labels. ``examples`` are texts (and pairs) with their labels."""
    labels_of_texts: dict[tuple[str | None, ...], list[frozenset[str]]] = {}
    for content, labels in examples:
        found = labels_of_texts.setdefault(tuple(content), [])
        if labels not in found:
            found.append(labels)
    contradictory = {content: found for content, found in labels_of_texts.items() if len(found) > 1}
    if not contradictory:
        return
    shown = []
    for content, found in list(contradictory.items())[:MAX_SHOWN_TEXTS]:
        text = " ".join(str(content[0]).split())[:MAX_SHOWN_CHARACTERS]
        names = " and ".join(repr(", ".join(sorted(labels))) for labels in found)
        shown.append(f"{text!r} as {names}")
    more = ", and others" if len(contradictory) > MAX_SHOWN_TEXTS else ""
    logger.warning(
        "%d texts have different labels: %s%s. Keep one of them.", len(contradictory), "; ".join(shown), more
    )


def label_set(labels: str | Iterable[str]) -> frozenset[str]:
    """The labels of an example, as a set."""
    return frozenset([labels] if isinstance(labels, str) else labels)
