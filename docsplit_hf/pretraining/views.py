"""View functions: make the views of a document that are a positive pair, given a random generator."""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

ViewFunction = Callable[[np.ndarray, np.ndarray, np.random.Generator], tuple[np.ndarray, ...]]
"""``(tokens, sentence_lengths, rng) -> (anchor, positive)``: a function that makes a positive pair, or more views.

``tokens`` is the document without special tokens, ``(n,)``; ``sentence_lengths`` has the number of tokens of each
sentence, ``(s,)``; ``rng`` is the only source of randomness. The views are nonempty token arrays, the same number for
every document; a contrastive loss needs two or more. An empty document, or an option out of range, raises a
``ValueError``. Options are further keyword arguments with defaults.
"""

# Assignments are drawn until no part is empty. For a document with as many sentences as parts, one assignment in 400
# has no empty part with 8 parts, and one in a million with 16.
MOST_PARTS = 8


def docsplit(
    tokens: np.ndarray,
    sentence_lengths: np.ndarray,
    rng: np.random.Generator,
    *,
    max_tokens: int = 0,
    parts: int = 2,
) -> tuple[np.ndarray, ...]:
    """Assign each sentence at random to one of two halves (DocSplit, section 2.2; SimLTE, section 3.2).

    If a half is empty, a case that the papers leave open, the assignment is drawn again. A document of one sentence is
    paired with itself; ``segment_documents`` keeps such documents only on request.

    Two options are not in the papers:

    - ``max_tokens``: from a half with more tokens, sentences are drawn at random up to this number. The last of them is
      cut, not left out, because otherwise long sentences would become rarer. 0: the collator cuts off the end of a half
      with more than ``max_length`` tokens.
    - ``parts``: the number of views, up to 8, equally likely for each sentence. If a document has fewer sentences, each
      part gets one of them, in random order, starting again after the last. With 1 the document itself is the only
      view, for distillation.
    """
    sentences = count_sentences(sentence_lengths)
    if max_tokens < 0:
        raise ValueError(f"max_tokens must be 0 (whole halves) or above, got {max_tokens}.")
    if not 1 <= parts <= MOST_PARTS:
        raise ValueError(f"parts must be from 1 to {MOST_PARTS}, 2 as in the papers, got {parts}.")
    if sentences < parts:
        dealt = np.resize(rng.permutation(sentences), parts)
        chosen = [np.arange(sentences) == sentence for sentence in dealt]
    else:
        chosen = _assign_sentences(sentences, parts, rng)
    return tuple(_draw_sentences(tokens, sentence_lengths, in_part, max_tokens, rng) for in_part in chosen)


# A script may add views of its own before it makes a collator or runs the command.
VIEWS: dict[str, ViewFunction] = {"docsplit": docsplit}


def get_views(views: str | ViewFunction, options: Mapping[str, Any] | None = None) -> ViewFunction:
    """Return a view function, given by its name in ``VIEWS`` or itself, with its options set."""
    if not callable(views) and views not in VIEWS:
        raise ValueError(f"There are no views named {views!r}. Choose one of {sorted(VIEWS)}, or pass a function.")
    function = views if callable(views) else VIEWS[views]
    if not options:
        return function
    if not isinstance(options, Mapping):
        raise ValueError(f"The options of views are a dictionary such as {{'parts': 3}}, got {options!r}.")
    _check_options(function, options)
    with_options = functools.partial(function, **options)
    _try(with_options)  # raises an error for a value out of range
    return with_options


def _check_options(function: ViewFunction, options: Mapping[str, Any]) -> None:
    """Refuse options that a view function does not have, and values that are not numbers."""
    parameters = list(inspect.signature(function).parameters.values())
    defaults = {parameter.name: parameter.default for parameter in parameters[3:]}
    name = getattr(function, "__name__", function)
    for option, value in options.items():
        if option not in defaults:
            listed = ", ".join(f"{known}={default}" for known, default in defaults.items()) or "none"
            raise ValueError(f"The views {name!r} have no option {option!r}. Their options: {listed}.")
        is_whole = isinstance(defaults[option], int)
        number_type = numbers.Integral if is_whole else numbers.Real
        if not isinstance(value, number_type) or isinstance(value, bool):
            expected = "a whole number" if is_whole else "a number"
            raise ValueError(f"The option {option} of the views {name!r} is {expected}, got {value!r}.")


def count_views(function: ViewFunction) -> int:
    """Find by a trial how many views a view function makes of a document."""
    return len(_try(function))


def _assign_sentences(sentences: int, parts: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Assign each sentence to a part, again until no part is empty; for each part bool of shape ``(sentences,)``."""
    while True:
        if parts == 2:
            in_second = rng.random(sentences) < 0.5
            chosen = [~in_second, in_second]
        else:
            part_of = rng.integers(parts, size=sentences)
            chosen = [part_of == part for part in range(parts)]
        if all(np.count_nonzero(in_part) for in_part in chosen):
            return chosen


def _draw_sentences(
    tokens: np.ndarray, sentence_lengths: np.ndarray, chosen: np.ndarray, max_tokens: int, rng: np.random.Generator
) -> np.ndarray:
    """The tokens of the chosen sentences, or of sentences drawn from these up to ``max_tokens``."""
    if max_tokens == 0 or sentence_lengths[chosen].sum() <= max_tokens:
        return tokens[np.repeat(chosen, sentence_lengths)]
    order = rng.permutation(np.flatnonzero(chosen))
    lengths = sentence_lengths[order]
    kept = np.zeros_like(sentence_lengths)
    kept[order] = np.clip(max_tokens - (np.cumsum(lengths) - lengths), 0, lengths)
    starts = np.cumsum(sentence_lengths) - sentence_lengths
    places_in_sentence = np.arange(len(tokens)) - np.repeat(starts, sentence_lengths)
    return tokens[places_in_sentence < np.repeat(kept, sentence_lengths)]


def _try(function: ViewFunction) -> tuple[np.ndarray, ...]:
    """Make the views of a document of two sentences with one token each."""
    return function(np.arange(2), np.ones(2, dtype=np.int64), np.random.default_rng(0))


def count_sentences(sentence_lengths: np.ndarray) -> int:
    """The number of sentences of a document; an empty document is refused."""
    if len(sentence_lengths) == 0:
        raise ValueError("An empty document has no views: drop documents without sentences before making views.")
    return len(sentence_lengths)
