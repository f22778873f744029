"""Which texts say nothing that a label could be told from: no letter and no digit, or the commonest words alone."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ...encoders.text_warnings import log_at_end
from ..texts_and_labels import joined_texts
from .tfidf import words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...datastore.store import View

logger = logging.getLogger(__name__)

# A common word is in this share of the examples, and in examples of this share of the labels: it tells none apart.
SHARE_OF_EXAMPLES, SHARE_OF_LABELS, FEWEST_LABELS = 0.05, 0.5, 2
MOST_WORDS = 3  # of longer texts even common words may say something: "what can you do for me"
MOST_EXAMPLES = 10_000  # whose words are counted; more would change what is common little
MOST_SHOWN = 40  # characters of a text in the log


class KnownContent(NamedTuple):
    """What examples have: a text that is like one of them says as much as it does."""

    common: frozenset[str]  # words
    texts: frozenset[str]  # of examples without any word
    word_sets: frozenset[frozenset[str]]  # of examples of few words

    def is_missing(self, text: str) -> bool:
        """Whether a text has no content."""
        if text.strip() in self.texts:
            return False
        if not any(character.isalnum() for character in text):
            return True
        words = frozenset(words_of(text))
        return len(words) <= MOST_WORDS and words <= self.common and words not in self.word_sets


_known: WeakKeyDictionary[View, KnownContent] = WeakKeyDictionary()


def known_content(view: View) -> KnownContent:
    """What the examples of a view have; it is found once."""
    if view not in _known:
        _known[view] = _content_of_examples(view)
    return _known[view]


def _content_of_examples(view: View) -> KnownContent:
    examples = view.first(MOST_EXAMPLES)
    texts = [text.strip() for text in joined_texts(examples.texts, examples.text_pairs)]
    words = [frozenset(words_of(text)) for text in texts]
    given = examples.labels
    labels = [np.flatnonzero(row).tolist() for row in given] if view.multi_label else given[:, None].tolist()
    counts = Counter(word for own in words for word in own)
    pairs = {(word, label) for own, numbers in zip(words, labels, strict=True) for word in own for label in numbers}
    labels_of_word = Counter(word for word, _ in pairs)
    fewest_labels = max(SHARE_OF_LABELS * len({label for numbers in labels for label in numbers}), FEWEST_LABELS)
    common = frozenset(
        word
        for word, count in counts.items()
        if count >= SHARE_OF_EXAMPLES * len(texts) and labels_of_word[word] >= fewest_labels
    )
    without_words = frozenset(text for text, own in zip(texts, words, strict=True) if text and not own)
    return KnownContent(common, without_words, frozenset(own for own in words if 0 < len(own) <= MOST_WORDS))


def have_no_content(view: View, texts: Sequence[str]) -> np.ndarray:
    """Which of N texts have no content, bool ``(N,)``."""
    known = known_content(view)
    return np.array([known.is_missing(text) for text in texts], bool)


def warn_of_no_content(is_missing: np.ndarray, texts: Sequence[str], first: int) -> None:
    """Log how many texts have no content, but for those that are empty; ``first`` is the number of the first text."""
    missing = [number for number in np.flatnonzero(is_missing).tolist() if texts[number].strip()]
    example = f"text {first + missing[0]}, {texts[missing[0]][:MOST_SHOWN]!r}" if missing else ""
    log_at_end(_log_no_content, (), np.array([len(missing), len(texts)]), example)


def _log_no_content(counts: np.ndarray, example: str) -> None:
    missing, texts = counts.tolist()
    if missing:
        logger.warning(
            "%d of %d texts have no content, such as %s: no letter or digit, or only words that all labels have. What "
            "is said of them is a guess; with reject they get no label.",
            *(missing, texts, example),
        )
