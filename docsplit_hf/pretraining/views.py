"""Positive pairs: views of one document, as pure functions of the document and a random generator."""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

ViewFunction = Callable[[np.ndarray, np.ndarray, np.random.Generator], tuple[np.ndarray, ...]]
"""``(tokens, sentence_lengths, rng) -> (anchor, positive)``: what every way of making a positive pair looks like.

``tokens`` is the document without special tokens, ``(n,)``; ``sentence_lengths`` the tokens of each sentence, ``(s,)``;
``rng`` the only source of randomness. The views are token arrays, never empty, as many of every document: two or more
for a contrastive loss.
An empty document, or an option out of range, is a ``ValueError``. Options are further keyword arguments with defaults.
The first line of the docstring goes into the model cards of what is trained with it.
"""

MOST_PARTS = 8  # with as many sentences, one assignment in 400 leaves no part empty; with 16, one in a million


def docsplit(
    tokens: np.ndarray,
    sentence_lengths: np.ndarray,
    rng: np.random.Generator,
    *,
    max_tokens: int = 0,
    probability_spread: float = 0.0,
    parts: int = 2,
) -> tuple[np.ndarray, ...]:
    """Assign each sentence at random to one of two halves (DocSplit, section 2.2; SimLTE, section 3.2).

    The papers do not say what becomes of an empty half: here the assignment is drawn again until neither is empty. A
    document of one sentence is paired with itself; ``segment_documents`` lets such documents through only on request.

    Three options go beyond the papers:

    - ``max_tokens``: of a longer half, sentences are drawn in random order until it has so many tokens; the last one is
      cut, as long sentences would be rarer were it left out. 0: the collator's ``max_length`` keeps the beginning.
    - ``probability_spread``: from 0 to 0.5; the probability of the second half is drawn for each document from
      ``U(0.5 - spread, 0.5 + spread)``, once more with each new assignment.
    - ``parts``: the number of views, up to 8, each as likely for a sentence. A document of fewer sentences has one of
      them dealt to each part, in random order and from the first again. With 1 the document is the only view, for
      distillation.
    """
    sentences = _count_sentences(sentence_lengths)
    if max_tokens < 0:
        raise ValueError(f"max_tokens must be 0 (whole halves) or above, got {max_tokens}.")
    if not 0 <= probability_spread <= 0.5:
        raise ValueError(f"probability_spread must be in [0, 0.5], got {probability_spread}. The papers have 0.")
    if not 1 <= parts <= MOST_PARTS:
        raise ValueError(f"parts must be from 1 to {MOST_PARTS}, 2 as in the papers, got {parts}.")
    if probability_spread and parts != 2:
        raise ValueError(f"probability_spread makes two halves unequal: leave it out with parts={parts}.")
    if sentences < parts:
        dealt = np.resize(rng.permutation(sentences), parts)
        chosen = [np.arange(sentences) == sentence for sentence in dealt]
    else:
        part_of = _assign_sentences(sentences, parts, probability_spread, rng)
        chosen = [part_of == part for part in range(parts)]
    return tuple(_draw_sentences(tokens, sentence_lengths, of_part, max_tokens, rng) for of_part in chosen)


def simcse(tokens: np.ndarray, sentence_lengths: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Take one sentence of the document twice (SimCSE, Gao et al. 2021, section 3).

    The two embeddings differ by dropout only. SimCSE reads a corpus of sentences; here one is drawn from the document,
    a new one in each epoch, so that an epoch has as many steps as an epoch of every other method.
    """
    number = rng.integers(_count_sentences(sentence_lengths))
    end = int(sentence_lengths[: number + 1].sum())
    sentence = tokens[end - sentence_lengths[number] : end]
    return sentence, sentence


def simcse_long(
    tokens: np.ndarray, sentence_lengths: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Take the whole document twice (SimCSE_long of SimDE and SimLTE)."""
    _count_sentences(sentence_lengths)
    return tokens, tokens


def cropping(
    tokens: np.ndarray,
    sentence_lengths: np.ndarray,
    rng: np.random.Generator,
    *,
    ratio_min: float = 0.1,
    ratio_max: float = 0.5,
    deletion: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Crop the document twice at random, each time a contiguous run of tokens (Contriever, Izacard et al. 2022).

    A crop of ``n`` tokens has ``int(n * U(ratio_min, ratio_max))``, at least 1. The released code crops chunks of 256
    tokens of a stream; its script has ``ratio_min`` 0.05. ``deletion``: the chance of each token of a crop to be
    deleted, 0.1 in Contriever's English run.
    """
    _count_sentences(sentence_lengths)
    if not 0 < ratio_min <= ratio_max <= 1:
        raise ValueError(f"Crops need 0 < ratio_min <= ratio_max <= 1, got {ratio_min} and {ratio_max}.")
    if not 0 <= deletion < 1:
        raise ValueError(f"deletion must be in [0, 1), got {deletion}. Contriever uses 0.1.")
    crops = []
    for _ in range(2):
        length = max(1, int(len(tokens) * rng.uniform(ratio_min, ratio_max)))
        start = rng.integers(len(tokens) - length + 1)
        crop = tokens[start : start + length]
        if deletion > 0:
            kept = rng.random(length) >= deletion
            kept[rng.integers(length)] |= not kept.any()
            crop = crop[kept]
        crops.append(crop)
    return crops[0], crops[1]


def inverse_cloze(
    tokens: np.ndarray,
    sentence_lengths: np.ndarray,
    rng: np.random.Generator,
    *,
    keep_span: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Take a span of whole sentences against the rest of its document (inverse cloze task, Lee et al. 2019).

    The number of sentences of the span is drawn uniformly from 1 to all but one, as in Contriever; in ORQA it is one. A
    document of one sentence is paired with itself. ``keep_span``: the chance that the span stays in its document too,
    0.1 in ORQA.
    """
    sentences = _count_sentences(sentence_lengths)
    if not 0 <= keep_span <= 1:
        raise ValueError(f"keep_span must be in [0, 1], got {keep_span}. ORQA uses 0.1.")
    if sentences == 1:
        return tokens, tokens
    chosen = rng.integers(1, sentences)
    first = rng.integers(sentences - chosen + 1)
    start, end = (int(sentence_lengths[:number].sum()) for number in (first, first + chosen))
    keeps = rng.random() < keep_span
    return tokens[start:end], tokens if keeps else np.concatenate([tokens[:start], tokens[end:]])


VIEWS: dict[str, ViewFunction] = {
    view.__name__: view for view in (docsplit, simcse, simcse_long, cropping, inverse_cloze)
}
SAME_TEXT_TWICE = (simcse, simcse_long)  # two views that dropout alone tells apart


def get_views(views: str | ViewFunction, options: Mapping[str, Any] | None = None) -> ViewFunction:
    """Look a view function up by name, a key of ``VIEWS``, and set its options."""
    if not callable(views) and views not in VIEWS:
        raise ValueError(f"There are no views named {views!r}. Choose one of {sorted(VIEWS)}, or pass a function.")
    function = views if callable(views) else VIEWS[views]
    if not options:
        return function
    if not isinstance(options, Mapping):
        raise ValueError(f"The options of views are a dictionary such as {{'ratio_min': 0.05}}, got {options!r}.")
    known = {name: value.default for name, value in list(inspect.signature(function).parameters.items())[3:]}
    name = getattr(function, "__name__", function)
    for option, value in options.items():
        if option not in known:
            listed = ", ".join(f"{key}={default}" for key, default in known.items()) or "none"
            raise ValueError(f"The views {name!r} have no option {option!r}. Their options: {listed}.")
        kind, said = numbers.Real, "a number"
        if isinstance(known[option], int):
            kind, said = numbers.Integral, "a whole number"
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"The option {option} of the views {name!r} is {said}, got {value!r}.")
    chosen = functools.partial(function, **options)
    _try(chosen)  # a wrong value shows at once
    return chosen


def count_views(function: ViewFunction) -> int:
    """How many views of a document a view function makes, by making some."""
    return len(_try(function))


def _assign_sentences(sentences: int, parts: int, probability_spread: float, rng: np.random.Generator) -> np.ndarray:
    """The part of each sentence, from 0, drawn again until no part is empty; int64 of shape ``(sentences,)``."""
    while True:
        if parts == 2:
            shift = rng.uniform(-probability_spread, probability_spread) if probability_spread else 0.0
            part_of = (rng.random(sentences) < 0.5 + shift).astype(np.int64)
        else:
            part_of = rng.integers(parts, size=sentences)
        if np.bincount(part_of, minlength=parts).all():
            return part_of


def _draw_sentences(
    tokens: np.ndarray, sentence_lengths: np.ndarray, chosen: np.ndarray, max_tokens: int, rng: np.random.Generator
) -> np.ndarray:
    """The tokens of the chosen sentences, or of random ones of them until ``max_tokens`` are reached."""
    if max_tokens == 0 or sentence_lengths[chosen].sum() <= max_tokens:
        return tokens[np.repeat(chosen, sentence_lengths)]
    order = rng.permutation(np.flatnonzero(chosen))
    lengths = sentence_lengths[order]
    kept = np.zeros_like(sentence_lengths)
    kept[order] = np.clip(max_tokens - (np.cumsum(lengths) - lengths), 0, lengths)
    starts = np.cumsum(sentence_lengths) - sentence_lengths
    places = np.arange(len(tokens)) - np.repeat(starts, sentence_lengths)  # of each token in its sentence
    return tokens[places < np.repeat(kept, sentence_lengths)]


def _try(function: ViewFunction) -> tuple[np.ndarray, ...]:
    return function(np.arange(2), np.ones(2, dtype=np.int64), np.random.default_rng(0))


def _count_sentences(sentence_lengths: np.ndarray) -> int:
    if len(sentence_lengths) == 0:
        raise ValueError("An empty document has no views: drop documents without sentences before making views.")
    return len(sentence_lengths)
