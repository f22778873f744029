"""Expert on how texts are written: a linear probe of plain numbers of any language, standardized over many texts.

The numbers are lengths, richness, punctuation, capitals and layout. Function words are not among them: the experts on
words have these, and with them the product with words is worse.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from itertools import chain
from typing import NamedTuple

import numpy as np

from ...reading.characters import MAX_CHARACTERS
from .expert import Expert, Features, TrainingData
from .linear_probe import fit_probe
from .saved_types import REGRESSION_WEIGHTS, Array, Range

# Words, such as don't and 500,000; of scripts without spaces (Thai to Chinese), single characters.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|\d+(?:[.,]\d+)+|[^\W{_UNSPACED}]+(?:['’][^\W{_UNSPACED}]+)*")
_SENTENCE_END = re.compile(
    r"""
    (?: [.!?。！？…]{2,} | [!?。！？…]
      | \. (?: (?<=\s\.)  # a full stop between spaces; at a word, none of these:
            | (?<!\b[A-HJ-ZА-Я]\.) (?<!\b[DM]r\.) (?<!\bMrs\.)  # U.S. Senate, Dr. Wolf
              (?! \w | [\s"'”’)]* [a-zß-öø-ÿα-ωа-џ\d,;:])  # 3.5, No. 5, Mich., by
          )
    ) [\s"'”’)]*
    | \n\s*\n
    """,
    re.VERBOSE,
)
_LAST_OF_SENTENCE = tuple(".!?。！？")
MARKS = {
    ",": "commas", ".": "full stops", ";": "semicolons", ":": "colons", "!": "exclamation marks",
    "?": "question marks", '"': "quotation marks", "'": "apostrophes", "(": "opening brackets",
    ")": "closing brackets", "-": "hyphens", "\n": "line breaks", "/": "slashes", "%": "percent signs",
    "*": "asterisks", "#": "# signs", "@": "@ signs", "&": "ampersands",
}  # fmt: skip
SUBJECTS_OF_MARKS = {
    "opening brackets": "brackets",
    "closing brackets": "brackets",
    "line breaks": "lines",
}  # of other marks, the mark
_PATTERNS = {  # with their subjects
    "web addresses": (re.compile(r"https?://\S+|www\.\S+"), "web addresses"),
    "stretched letters, as in sooo": (re.compile(r"([^\W\d_])\1\1"), "stretched letters"),
    "ellipses": (re.compile(r"\.\.+|…"), "full stops"),
    "repeated exclamation or question marks": (re.compile(r"[!?]{2,}"), "exclamation marks"),
    "apostrophes inside words": (re.compile(r"\w['’]\w"), "apostrophes"),
}
_BULLET = re.compile(r"(?m)^\s*(?:[-*•–]|\d+[.)])\s")
LONG_WORD = 7
VERY_LONG_WORD = 11
SHORT_WORD = 3
SEEN_RATIO = 1.25  # of two numbers, or of the odds of two shares; smaller differences are not described
LEAST_TOLD = 0.1  # a smaller typical count is told as "under 0.1"
LEAST_MISSED = 0.5  # a typical count: with a smaller one, most texts of this length have none either
FEW_UNITS = 20  # words or lines: of so few, a share is told as "3 of 12, 25%"
LARGEST_DEVIATION = 4.0  # in standard deviations; numbers farther from the mean are cut
LEAST_DEVIATION = 1e-3  # of a number that all texts have alike
LARGEST_NUMBER = 1e4  # above the root or logarithm of what a text of 2**20 characters may have
LARGEST_PRIOR = 5.0  # the other experts together have about 1
LEAST_PRIOR = 1e-6  # above 0, for an ensemble of this expert alone
# Coefficients of the logarithm of the prior, learned by benchmarks/quality/learned_prior/style.py.
LEARNED_PRIOR = {"one": -0.907, "name_reliability": -1.47, "misleading_versions": 2.41}
UNKNOWN = 1.0  # reliability of names that were not embedded: with nothing known, style counts as with topics
MAX_DESCRIBED = 3
LEAST_DESCRIBED_DEVIATION = 0.5  # in standard deviations; nearer numbers are those of most texts


class Kind(Enum):
    """What a number measures, which decides how it is transformed and described."""

    LENGTH = auto()  # its logarithm is taken
    SHARE_OF_WORDS = auto()  # the square root of this and the following is taken
    SHARE_OF_LINES = auto()
    BY_WORD = auto()
    BY_CHARACTER = auto()
    VARIETY = auto()  # different words, by a power of the number of words
    FACT = auto()  # 0 or 1, and stays so


SHARES = (Kind.SHARE_OF_WORDS, Kind.SHARE_OF_LINES)


class StyleNumber(NamedTuple):
    """What one number counts."""

    name: str  # of a length: with N in the place of the number
    kind: Kind
    subject: str  # equal for numbers of which one is enough in a description

    def describe(self, value: float, typical: float, units: float) -> str:
        """Describe the number of a text, or the mean of several, beside a typical text; empty if they are near.

        ``units``: the words, lines or characters of the text, by which a share or frequency becomes a count.
        """
        if self.kind is Kind.FACT:
            return self._describe_fact(value, typical)
        is_share = self.kind in SHARES
        if _is_near(_odds(value), _odds(typical)) if is_share else _is_near(value, typical):
            return ""
        if self.kind is Kind.LENGTH:
            return _unless_equal(self._with_number, _short(value), _short(typical))
        if not value and typical * units < LEAST_MISSED:
            return ""
        own = _share(value, units) if is_share else _short(value * units)
        described = f"{self.name}: {own}" if value else f"no {self.name}"
        if is_share:
            return f"{described} (typical: {_percentage(typical)})"
        return f"{described} (typical for this length: {_typical_count(typical * units)})"

    def _describe_fact(self, value: float, typical: float) -> str:
        if value == 1:
            return f"a {self.name} (as {_percentage(typical)} of all texts have)"
        if value == 0:
            return f"no {self.name} (as in {_percentage(1 - typical)} of all texts)"
        return _unless_equal(lambda share: f"{share} with a {self.name}", _percentage(value), _percentage(typical))

    def _with_number(self, number: str) -> str:
        words = self.name if number != "1" else self.name.removesuffix("s")
        return words.replace("N", number)


def _is_near(value: float, typical: float) -> bool:
    """Whether a reader would not see the difference."""
    return max(value, typical) < SEEN_RATIO * min(value, typical)


def _odds(share: float) -> float:
    return share / max(1 - share, 1e-9)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _typical_count(count: float) -> str:
    return f"under {LEAST_TOLD}" if count < LEAST_TOLD else _short(count)


def _unless_equal(describe: Callable[[str], str], own: str, typical: str) -> str:
    return "" if own == typical else f"{describe(own)} (typical: {typical})"


def _share(share: float, units: float) -> str:
    """A share of the few words or lines of one text as "3 of 12, 25%"; others, and means of texts, as a percentage."""
    count = share * units
    is_of_one_text = math.isclose(count, round(count), abs_tol=0.01) and math.isclose(units, round(units), abs_tol=0.01)
    if is_of_one_text and units < FEW_UNITS + 0.5:
        return f"{count:.0f} of {units:.0f}, {_percentage(share)}"
    return _percentage(share)


def _percentage(share: float) -> str:
    return f"{share:.0%}" if share == 0 or share >= 0.005 else "under 1%"


STYLE_NUMBERS = (
    StyleNumber("N words", Kind.LENGTH, "length"),
    StyleNumber("N sentences", Kind.LENGTH, "sentences"),
    StyleNumber("sentences of N words on average", Kind.LENGTH, "sentences"),
    StyleNumber("sentence lengths that vary by N words", Kind.LENGTH, "sentences"),
    StyleNumber("words of N characters on average", Kind.LENGTH, "words"),
    StyleNumber("lines of N characters on average", Kind.LENGTH, "length"),
    StyleNumber("N lines", Kind.LENGTH, "lines"),
    StyleNumber(f"words of {LONG_WORD} or more characters", Kind.SHARE_OF_WORDS, "words"),
    StyleNumber(f"words of {VERY_LONG_WORD} or more characters", Kind.SHARE_OF_WORDS, "words"),
    StyleNumber(f"words of up to {SHORT_WORD} characters", Kind.SHARE_OF_WORDS, "words"),
    StyleNumber("words of one character", Kind.SHARE_OF_WORDS, "words of one character"),
    StyleNumber("different words", Kind.VARIETY, "repetition"),
    StyleNumber("words that occur once", Kind.SHARE_OF_WORDS, "repetition"),
    StyleNumber("the most frequent word", Kind.SHARE_OF_WORDS, "repetition"),
    StyleNumber("words in capitals", Kind.SHARE_OF_WORDS, "capitals"),
    StyleNumber("capitalized words", Kind.SHARE_OF_WORDS, "capitals"),
    StyleNumber("words in lower case", Kind.SHARE_OF_WORDS, "capitals"),
    StyleNumber("lines that are items of a list", Kind.SHARE_OF_LINES, "list"),
    StyleNumber("capital letters", Kind.BY_CHARACTER, "capitals"),
    StyleNumber("digits", Kind.BY_CHARACTER, "digits"),
    StyleNumber("other signs", Kind.BY_CHARACTER, "other signs"),
    StyleNumber("capital letter at the beginning", Kind.FACT, "capitals"),
    StyleNumber("full stop, exclamation or question mark at the end", Kind.FACT, "end"),
    *(StyleNumber(name, Kind.BY_WORD, subject) for name, (_, subject) in _PATTERNS.items()),
    *(StyleNumber(name, Kind.BY_CHARACTER, SUBJECTS_OF_MARKS.get(name, name)) for name in MARKS.values()),
)
_PLACES = {number.name: place for place, number in enumerate(STYLE_NUMBERS)}
_LENGTHS = np.array([number.kind is Kind.LENGTH for number in STYLE_NUMBERS])
_FACTS = np.array([number.kind is Kind.FACT for number in STYLE_NUMBERS])
VARIETY_POWER = 0.8  # of the number of words: the number of different words grows with it about so


def style_of_texts(texts: Sequence[str]) -> np.ndarray:
    """Numbers of N texts, float32 ``(N, S)``, in the order of ``STYLE_NUMBERS``."""
    found = np.array([_style(text[:MAX_CHARACTERS]) for text in texts], np.float64).reshape(-1, len(STYLE_NUMBERS))
    return np.where(_LENGTHS, np.log1p(found), np.sqrt(found)).astype(np.float32)


def as_counted(values: np.ndarray) -> np.ndarray:
    """Undo logarithms and square roots of numbers ``(S,)``."""
    return np.where(_LENGTHS, np.expm1(values), np.where(_FACTS, values, np.square(values)))


def units_of(counted: np.ndarray) -> dict[Kind, float]:
    """By what numbers of each kind are multiplied to be counts: the words, lines or characters of a text ``(S,)``."""
    words = float(counted[_PLACES["N words"]])
    lines = float(counted[_PLACES["N lines"]])
    characters_of_lines = lines * float(counted[_PLACES["lines of N characters on average"]])
    return {
        Kind.LENGTH: 1.0,
        Kind.FACT: 1.0,
        Kind.SHARE_OF_WORDS: words,
        Kind.SHARE_OF_LINES: lines,
        Kind.BY_WORD: words,
        Kind.BY_CHARACTER: characters_of_lines / max(1 - float(counted[_PLACES["line breaks"]]), 0.1),
        Kind.VARIETY: words**VARIETY_POWER,
    }


def _style(text: str) -> list[float]:
    """Lengths, and rates by word, line or character."""
    words_of_sentences = [_WORD.findall(part) for part in _SENTENCE_END.split(text)]
    sentences = [len(words) for words in words_of_sentences if words] or [0]
    words = list(chain.from_iterable(words_of_sentences))
    counts = Counter(map(str.lower, words))
    characters = Counter(text)
    sizes = list(map(len, words))
    size_counts = Counter(sizes)
    lines = [len(line) for line in text.split("\n") if line.strip()] or [0]
    by_word = 1 / max(len(words), 1)
    by_character = 1 / max(len(text), 1)
    sentence_length = sum(sentences) / len(sentences)
    variance = sum((length - sentence_length) ** 2 for length in sentences) / len(sentences)
    not_lower = [word for word in words if not word.islower()]
    return [
        len(words),
        len(sentences),
        sentence_length,
        math.sqrt(variance),
        sum(sizes) * by_word,
        sum(lines) / len(lines),
        len(lines),
        sum(count for size, count in size_counts.items() if size >= LONG_WORD) * by_word,
        sum(count for size, count in size_counts.items() if size >= VERY_LONG_WORD) * by_word,
        sum(count for size, count in size_counts.items() if size <= SHORT_WORD) * by_word,
        size_counts[1] * by_word,
        len(counts) * by_word**VARIETY_POWER,
        list(counts.values()).count(1) * by_word,
        max(counts.values(), default=0) * by_word,
        sum(len(word) > 1 and word.isupper() for word in not_lower) * by_word,  # without "I"
        sum(word[0].isupper() and not word[1:].isupper() for word in not_lower) * by_word,
        (len(words) - len(not_lower)) * by_word,
        len(_BULLET.findall(text)) / len(lines),
        sum(characters[c] for c in characters if c.isupper()) * by_character,
        sum(characters[c] for c in characters if c.isdigit()) * by_character,
        sum(n for c, n in characters.items() if not (c.isalnum() or c.isspace() or c in MARKS)) * by_character,
        float(text[:1].isupper()),
        float(text.rstrip().endswith(_LAST_OF_SENTENCE)),
        *(len(pattern.findall(text)) * by_word for pattern, _ in _PATTERNS.values()),
        *(characters[mark] * by_character for mark in MARKS),
    ]


class Style(Expert):
    """Linear probe of how the examples are written."""

    name = "style"
    needs_words = True
    needs_single_label = True
    reads_style = True
    joins_self_training = False  # documents written alike need not be about the same
    arrays = {
        "mean": Array(("style numbers",), Range(0.0, LARGEST_NUMBER)),
        "deviation": Array(("style numbers",), Range(LEAST_DEVIATION / 2, LARGEST_NUMBER)),
        "probe": Array(("labels", "style numbers and bias"), REGRESSION_WEIGHTS),
    }

    def prior(self, data: TrainingData) -> float:
        features = {
            "one": 1.0,
            "name_reliability": UNKNOWN if data.names is None else data.reliability(data.names),
            "misleading_versions": data.misleading_versions,
        }
        return prior_weight(features, len(data.rows) / data.targets.shape[1])

    def fit(self, data: TrainingData) -> dict[str, np.ndarray]:
        corpus = data.compared or data.corpus
        numbers = corpus.style[corpus.described]
        mean = numbers.mean(0, dtype=np.float64).astype(np.float32)
        deviation = np.maximum(numbers.std(0, dtype=np.float64), LEAST_DEVIATION).astype(np.float32)
        if data.compared is None:
            own = standardized(corpus.style[data.rows], mean, deviation)
        else:
            own = standardized(data.differences(corpus.style, mean), np.zeros_like(mean), deviation)
        probe = fit_probe(own, data.targets, data.multi_label)
        return {"mean": mean, "deviation": deviation, "probe": probe}

    def score(self, learned: Mapping[str, np.ndarray], features: Features) -> np.ndarray:
        numbers = standardized(features.style, learned["mean"], learned["deviation"])
        return numbers @ learned["probe"][:, :-1].T + learned["probe"][:, -1]

    def described(
        self, learned: Mapping[str, np.ndarray], style: np.ndarray, label: int, against: int | None
    ) -> list[str]:
        weights = learned["probe"][label, :-1] - (0 if against is None else learned["probe"][against, :-1])
        deviations = standardized(style[None], learned["mean"], learned["deviation"])[0]
        contributions = weights * deviations
        is_unusual = np.abs(deviations) * np.sqrt(len(deviations)) >= LEAST_DESCRIBED_DEVIATION
        counted = as_counted(style)
        typical = as_counted(learned["mean"])
        units = units_of(counted)
        found: dict[str, str] = {}
        for place in np.argsort(-contributions, kind="stable"):
            number = STYLE_NUMBERS[place]
            if contributions[place] > 0 and is_unusual[place] and number.subject not in found:
                words = number.describe(float(counted[place]), float(typical[place]), units[number.kind])
                if words:
                    found[number.subject] = words
        return list(found.values())[:MAX_DESCRIBED]


def prior_weight(
    features: dict[str, float], examples_per_label: float, learned: dict[str, float] = LEARNED_PRIOR
) -> float:
    """Prior weight by what tells style from topics: names that mean a topic, and versions of one text."""
    logarithm = sum(coefficient * features[name] for name, coefficient in learned.items())
    # One text of a label does not show what is common to its texts.
    return max(min(math.exp(logarithm), LARGEST_PRIOR) * (1 - 1 / examples_per_label), LEAST_PRIOR)


def standardized(numbers: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Standardize numbers ``(N, S)``, and divide them by the root of S: the norm is about 1."""
    scaled = np.clip((numbers - mean) / deviation, -LARGEST_DEVIATION, LARGEST_DEVIATION)
    return (scaled / np.sqrt(numbers.shape[1])).astype(np.float32)
