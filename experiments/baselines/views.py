"""Views of the baselines: sentences and documents twice, crops, and spans."""

from __future__ import annotations

import numpy as np

from docsplit_hf.pretraining.views import ViewFunction, count_sentences


def simcse(tokens: np.ndarray, sentence_lengths: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Take one sentence of the document twice (SimCSE, Gao et al. 2021, section 3).

    The two embeddings differ by dropout only. SimCSE reads a corpus of sentences. Here each epoch draws a new sentence
    of each document, so that an epoch has as many steps as with every other method.
    """
    number = rng.integers(count_sentences(sentence_lengths))
    end = int(sentence_lengths[: number + 1].sum())
    sentence = tokens[end - sentence_lengths[number] : end]
    return sentence, sentence


def simcse_long(
    tokens: np.ndarray, sentence_lengths: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Take the whole document twice (SimCSE_long of SimDE and SimLTE)."""
    count_sentences(sentence_lengths)
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
    count_sentences(sentence_lengths)
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
            survivor = rng.integers(length)
            if not kept.any():
                kept[survivor] = True
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

    The span has 1 to all but one of the sentences, drawn uniformly, as in Contriever; ORQA takes one sentence. A
    document of one sentence is paired with itself. ``keep_span``: the probability that the rest still contains the
    span, 0.1 in ORQA.
    """
    sentences = count_sentences(sentence_lengths)
    if not 0 <= keep_span <= 1:
        raise ValueError(f"keep_span must be in [0, 1], got {keep_span}. ORQA uses 0.1.")
    if sentences == 1:
        return tokens, tokens
    span_sentences = rng.integers(1, sentences)
    first = rng.integers(sentences - span_sentences + 1)
    start = int(sentence_lengths[:first].sum())
    end = int(sentence_lengths[: first + span_sentences].sum())
    rest = tokens
    if rng.random() >= keep_span:
        rest = np.concatenate([tokens[:start], tokens[end:]])
    return tokens[start:end], rest


BASELINE_VIEWS: dict[str, ViewFunction] = {
    view.__name__: view for view in (simcse, simcse_long, cropping, inverse_cloze)
}
