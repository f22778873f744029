"""Detection of texts without content: no letters or digits, or only words that most labels share."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...arrays.row_table import values_of
from ...arrays.snapshot import Snapshot
from ...reading.characters import words_of
from ...reading.inputs import joined_texts
from ...reading.text_warnings import log_at_end

logger = logging.getLogger(__name__)

# Least fraction of the examples that contain a common word, and of the labels of these examples.
COMMON_WORD_EXAMPLES = 0.05
COMMON_WORD_LABELS = 0.5
MIN_COMMON_WORD_LABELS = 2
MAX_WORDS = 3  # longer texts of common words may have content: "what can you do for me"
MAX_EXAMPLES = 10_000  # the examples in which words are counted
MAX_LOGGED_CHARACTERS = 40


class KnownContent(NamedTuple):
    """Words and texts of the examples that decide whether a text has content."""

    common: frozenset[str]  # words of many labels
    texts: frozenset[str]  # examples without words, which count as content
    word_sets: frozenset[frozenset[str]]  # word sets of examples with few words

    def is_missing(self, text: str) -> bool:
        """Return whether a text has no content."""
        if text.strip() in self.texts:
            return False
        if not any(character.isalnum() for character in text):
            return True
        words = frozenset(words_of(text))
        return len(words) <= MAX_WORDS and words <= self.common and words not in self.word_sets


def content_of_examples(snapshot: Snapshot) -> KnownContent:
    """Find the common words of the examples of a snapshot, and the examples without other words."""
    first = np.arange(min(len(snapshot.keys), MAX_EXAMPLES))
    columns = [values_of(snapshot.rows[name], first) for name in ("text", "text_pair")]
    texts = [text.strip() for text in joined_texts(*columns)]
    words = [frozenset(words_of(text)) for text in texts]
    given = snapshot.labels[first]
    labels = [np.flatnonzero(row).tolist() for row in given] if snapshot.multi_label else given[:, None].tolist()
    counts = Counter(word for own in words for word in own)
    pairs = {(word, label) for own, numbers in zip(words, labels, strict=True) for word in own for label in numbers}
    labels_of_word = Counter(word for word, _ in pairs)
    all_labels = {label for numbers in labels for label in numbers}
    fewest_labels = max(COMMON_WORD_LABELS * len(all_labels), MIN_COMMON_WORD_LABELS)
    common = frozenset(
        word
        for word, count in counts.items()
        if count >= COMMON_WORD_EXAMPLES * len(texts) and labels_of_word[word] >= fewest_labels
    )
    return KnownContent(
        common=common,
        texts=frozenset(text for text, own in zip(texts, words, strict=True) if text and not own),
        word_sets=frozenset(own for own in words if 0 < len(own) <= MAX_WORDS),
    )


def warn_of_no_content(content: KnownContent, texts: Sequence[str], first: int) -> None:
    """Log the number of texts without content, except empty ones; ``first`` is the number of the first text."""
    missing = [number for number, text in enumerate(texts) if text.strip() and content.is_missing(text)]
    example = f"text {first + missing[0]}, {texts[missing[0]][:MAX_LOGGED_CHARACTERS]!r}" if missing else ""
    log_at_end(_log_no_content, (), np.array([len(missing), len(texts)]), example)


def _log_no_content(counts: np.ndarray, example: str) -> None:
    missing, texts = counts.tolist()
    logger.warning(
        "%d of %d texts have no content, such as %s: no letter or digit, or only words that all labels have. Their "
        "labels are guesses; with reject they get none.",
        missing,
        texts,
        example,
    )
