"""Examples that are there twice, and equal texts with different labels: counted, and named in the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .labels import labels_by_name

if TYPE_CHECKING:
    from datasets import Dataset

logger = logging.getLogger(__name__)

MOST_SHOWN = 3
LONGEST_SHOWN = 60  # characters of a text


def without_copies(examples: Dataset, name: str) -> Dataset:
    """The examples without those whose text, pair and labels another one has already, which are counted in the log.

    A copy is no evidence: it would be answered by its twin, and make answers look surer than they are.
    """
    texts = [name for name in ("text", "text_pair") if name in examples.column_names]
    contents = list(zip(*(examples[column][:] for column in texts), strict=True))
    labels = [label_set(given) for given in labels_by_name(examples)]
    warn_of_contradictions(zip(contents, labels, strict=True))
    first: dict[Any, int] = {}
    for row, example in enumerate(zip(contents, labels, strict=True)):
        first.setdefault(example, row)
    if len(first) == len(examples):
        return examples
    copies = len(examples) - len(first)
    logger.warning(
        "%s: %d of %d examples repeat the text and the label of another one, and are left out.",
        name,
        copies,
        len(examples),
    )
    return examples.select(sorted(first.values()))


def warn_of_contradictions(examples: Iterable[tuple[Sequence[str | None], frozenset[str]]]) -> None:
    """Name the texts that have different labels."""
    found: dict[tuple[str | None, ...], list[frozenset[str]]] = {}
    for content, labels in examples:
        known = found.setdefault(tuple(content), [])
        if labels not in known:
            known.append(labels)
    different = {content: given for content, given in found.items() if len(given) > 1}
    if not different:
        return
    shown = []
    for content, given in list(different.items())[:MOST_SHOWN]:
        text = " ".join(str(content[0]).split())[:LONGEST_SHOWN]
        names = " and ".join(repr(", ".join(sorted(labels))) for labels in given)
        shown.append(f"{text!r} as {names}")
    more = ", and others" if len(different) > MOST_SHOWN else ""
    logger.warning("%d texts have different labels: %s%s. Keep one of them.", len(different), "; ".join(shown), more)


def label_set(labels: str | Iterable[str]) -> frozenset[str]:
    """The labels of an example, in no order."""
    return frozenset([labels] if isinstance(labels, str) else labels)
