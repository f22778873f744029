"""redundancy: how much a corpus repeats itself, by nouns and verbs, and by similar sentences within a document."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.preprocessing import normalize
from tqdm.auto import tqdm

from docsplit_hf.evaluation.systems import Features, System
from docsplit_hf.reading.characters import replace_lone_surrogates
from docsplit_hf.reading.segmentation.sentences import get_segmenter

from ..evaluation.experiment import (
    Evaluation,
    Experiment,
    Plan,
    PlannedMeasurement,
    once_per_seed,
    sentence_settings,
)
from ..evaluation.tasks import EvaluationTask
from ..papers_options import NO_SEED, PaperSettings
from ..taggers.load_tagger import tagger_settings
from ..taggers.parts_of_speech import Tagger
from .jackknife import ratio_without_each, with_intervals

logger = logging.getLogger(__name__)

LONGEST = (50, 100, 200, 300)  # words, of the buckets of SimDE's table 4
BUCKETS = ("0-50", "51-100", "101-200", "201-300", "more than 300")
MAX_DOCUMENTS = 1000
MAX_SENTENCES = 32  # of one document


def nouns_and_verbs_ratio(texts: Sequence[str], tagger: Tagger) -> tuple[np.ndarray, np.ndarray]:
    """R = N / D of each text and its length in words (SimDE, appendix A.2; SimLTE, equation 2), two arrays ``(N,)``.

    N is the number of its nouns and verbs, and D the number of distinct ones by lemma as in the papers, or by stem with
    NLTK, which has no lemmas. R = 1: none is repeated; NaN: there are none. A noun and a verb with one lemma ("a run",
    "to run") count as one; the papers leave this open.
    """
    ratios = np.full(len(texts), np.nan)
    lengths = np.zeros(len(texts), dtype=np.int64)
    for i, words in enumerate(tagger.tag(texts)):
        nouns_and_verbs = [word for word in words if word.group in ("noun", "verb")]
        if bare := next((word.text for word in nouns_and_verbs if not word.base), None):
            raise ValueError(
                f"{tagger.name} gives {bare!r} no lemma: use a pipeline with a lemmatizer, such as en_core_web_sm, or "
                "--tagger nltk."
            )
        if nouns_and_verbs:
            ratios[i] = len(nouns_and_verbs) / len({word.base for word in nouns_and_verbs})
        lengths[i] = len(words)
    return ratios, lengths


def mean_by_length(ratios: np.ndarray, lengths: np.ndarray) -> dict[str, float]:
    """The mean R of all documents, and of those of each length, as in SimDE's table 4 and SimLTE's table 3.

    Each with half the 95 % confidence interval over the documents, ``"all_interval"``.
    """
    known = ~np.isnan(ratios)
    if not known.any():
        raise ValueError(
            f"None of {len(ratios)} documents has a noun or a verb, so there is nothing to average: give others, or a "
            "tagger for their language."
        )
    if not known.all():
        logger.warning("%d of %d documents have no noun or verb and are left out.", (~known).sum(), len(known))
    ratios = ratios[known]
    buckets = np.searchsorted(LONGEST, lengths[known])
    groups = {name: ratios[buckets == i] for i, name in enumerate(BUCKETS) if (buckets == i).any()}
    groups["all"] = ratios
    means = {name: float(group.mean()) for name, group in groups.items()}
    without_each = {name: ratio_without_each(group, np.ones(len(group))) for name, group in groups.items()}
    return with_intervals(means, without_each)


def pair_similarity(features: Features, documents: np.ndarray) -> dict[str, float]:
    """The mean cosine similarity of two sentences of one document, and of two sentences of different documents.

    ``features``: of N sentences, ``(N, D)``; ``documents``: the number of each one's document, ``(N,)``.

    Over all pairs, at the cost of one pass: with v_i the vectors of norm 1 and s_d their sum over a document, the
    similarities within documents sum to sum_d |s_d|^2 - sum_i |v_i|^2, all together to |sum_d s_d|^2 - sum_i |v_i|^2.
    The same sums without each of the documents give half the 95 % confidence intervals, ``"within_interval"``.
    """
    counts = np.bincount(documents)
    pairs_within = int((counts * (counts - 1)).sum())
    pairs_between = len(documents) ** 2 - int((counts**2).sum())
    if not pairs_within or not pairs_between:
        raise ValueError(
            f"{len(documents)} sentences of {np.count_nonzero(counts)} documents: similarity within and between "
            "documents takes a document of at least two sentences, and another document."
        )
    vectors = normalize(features.astype(np.float64))
    ones = np.ones(len(documents))
    members = scipy.sparse.csr_matrix((ones, (documents, np.arange(len(documents)))), (len(counts), len(documents)))
    sums = members @ vectors
    total = np.asarray(sums.sum(axis=0)).ravel()
    same = _squared_norms(sums)
    within = same - members @ _squared_norms(vectors)
    between = sums @ total - same
    found = {"within": float(within.sum() / pairs_within), "between": float(between.sum() / pairs_between)}
    without_each = {"within": ratio_without_each(within, counts * (counts - 1))}
    with np.errstate(divide="ignore", invalid="ignore"):  # with two documents, no pair is left without one of them
        # Each pair is counted in both orders, hence the factor 2.
        similarity_left = between.sum() - 2 * between
        pairs_left = pairs_between - 2 * counts * (len(documents) - counts)
        without_each["between"] = similarity_left / pairs_left
    return with_intervals(found, without_each)


def sentence_similarity(system: System, texts: Sequence[str], seed: int, language: str = "en") -> dict[str, float]:
    """Similarity of sentences of one document, and of different documents (SimDE, appendix A.2, table 5).

    The paper embeds all sentences with SimCSE. Here the sentences of each document are sampled, because the weight of a
    long document grows with the square of its length; a system that needs fitting is fitted on the sampled sentences.
    """
    rng = np.random.default_rng(seed)
    segment = get_segmenter(language=language)
    usable = [replace_lone_surrogates(text) for text in texts if text.strip()]
    drawn = [usable[i] for i in np.sort(rng.permutation(len(usable))[:MAX_DOCUMENTS])]
    sentences = []
    documents = []
    found = 0
    for number, text in enumerate(tqdm(drawn, desc="Splitting", unit="text")):
        candidates = [sentence.strip() for sentence in segment(text)]
        chosen = np.sort(rng.permutation(len(candidates))[:MAX_SENTENCES])
        sentences += [candidates[i] for i in chosen]
        documents += [number] * len(chosen)
        found += len(candidates)
    if not sentences:
        raise ValueError(f"All of {len(texts)} documents are blank: give others.")
    if len(drawn) < len(texts) or len(sentences) < found:
        logger.warning(
            "Similarity of sentences: of %d documents %d are blank, %d are drawn, and %d of their %d sentences.",
            len(texts),
            len(texts) - len(usable),
            len(drawn),
            len(sentences),
            found,
        )
    [features] = system.features(sentences)
    return pair_similarity(features, np.array(documents, dtype=np.int64))


def _squared_norms(matrix: Features) -> np.ndarray:
    squares = matrix.multiply(matrix) if scipy.sparse.issparse(matrix) else matrix**2
    return np.asarray(squares.sum(axis=1)).ravel()


def _plan(task: EvaluationTask, settings: PaperSettings) -> Plan:
    return once_per_seed("redundancy", sentence_settings(task, settings), settings, _measure)


def _measure(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    task = evaluation.task
    return sentence_similarity(evaluation.system, task.texts, seed, task.language)


def _plan_nouns_and_verbs(task: EvaluationTask, settings: PaperSettings) -> Plan:
    return [
        PlannedMeasurement("nouns_and_verbs", tagger_settings(settings.tagger), NO_SEED, _measure_nouns_and_verbs)
    ], []


def _measure_nouns_and_verbs(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    ratios, lengths = nouns_and_verbs_ratio(evaluation.task.texts, evaluation.system)
    return mean_by_length(ratios, lengths)


REDUNDANCY = Experiment("how much texts repeat themselves: nouns and verbs, sentences", None, _plan)
NOUNS_AND_VERBS = Experiment("nouns and verbs of redundancy", None, _plan_nouns_and_verbs)
