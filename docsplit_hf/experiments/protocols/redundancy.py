"""How much a corpus repeats itself: nouns and verbs that come again, sentences of a document that are alike."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse
from sklearn.preprocessing import normalize
from tqdm.auto import tqdm

from ...models.inference.batching import check_texts
from ...text.segmentation.sentences import get_segmenter
from ...text.surrogates import replace_lone_surrogates
from .parts_of_speech import tag_words

if TYPE_CHECKING:
    from spacy.language import Language

    from ..systems.loading import Features, System

logger = logging.getLogger(__name__)

LONGEST = (50, 100, 200, 300)  # words, of the buckets of SimDE's table 4
BUCKETS = ("0-50", "51-100", "101-200", "201-300", "more than 300")


def nouns_and_verbs_ratio(
    texts: Sequence[str], nlp: Language, show_progress: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """How often the nouns and verbs of a document come again (SimDE, appendix A.2; SimLTE, equation 2).

    R = N / D, where N is the number of nouns and verbs in a document, and D the number of distinct ones, told apart by
    their lemmas as the pipeline gives them. R = 1: none comes twice.

    The papers do not say whether a noun and a verb with one lemma ("a run", "to run") are two: here they are one.

    Args:
        texts: N documents.
        nlp: A pipeline of spaCy that tags and lemmatizes.
        show_progress: Whether to show a progress bar.

    Returns:
        R, float64 of shape ``(N,)``, NaN for a document without nouns and verbs; and the lengths in words, int64 of
        shape ``(N,)``. See :func:`docsplit_hf.experiments.protocols.parts_of_speech.tag_words` for what a word is.

    Raises:
        ValueError: If the pipeline does not tag, or gives a noun or verb no lemma.

    Example:

        >>> import spacy
        >>> nlp = spacy.blank("en")
        >>> nlp.add_pipe("attribute_ruler").add([[{"LOWER": {"IN": ["cat", "cats"]}}]], {"POS": "NOUN", "LEMMA": "cat"})
        >>> nouns_and_verbs_ratio(["A cat among cats", "Yes."], nlp, show_progress=False)
        (array([ 2., nan]), array([4, 1]))
    """
    ratios, lengths = np.full(len(texts), np.nan), np.zeros(len(texts), dtype=np.int64)
    for i, words in enumerate(tag_words(texts, nlp, show_progress)):
        nouns_and_verbs = [word for word in words if word.group in ("noun", "verb")]
        if bare := next((word.text for word in nouns_and_verbs if not word.lemma), None):
            raise ValueError(
                f"The pipeline ({', '.join(nlp.pipe_names)}) gives {bare!r} no lemma: use one with a lemmatizer, such "
                "as load_spacy('en_core_web_sm')."
            )
        if nouns_and_verbs:
            ratios[i] = len(nouns_and_verbs) / len({word.lemma for word in nouns_and_verbs})
        lengths[i] = len(words)
    return ratios, lengths


def by_length(ratios: np.ndarray, lengths: np.ndarray) -> dict[str, float]:
    """The mean R of the documents of each length, as in SimDE's table 4 and SimLTE's table 3.

    Args:
        ratios: R of each document, ``(N,)``. Documents with NaN are left out, and counted in the log.
        lengths: Their lengths in words, ``(N,)``.

    Returns:
        The mean of ``"0-50"``, ``"51-100"``, ``"101-200"``, ``"201-300"`` and ``"more than 300"`` words, and of
        ``"all"``. Buckets without a document are not there.

    Raises:
        ValueError: If no document has an R.

    Example:

        >>> by_length(np.array([1.0, 1.5, 2.0]), np.array([50, 51, 300]))
        {'0-50': 1.0, '51-100': 1.5, '201-300': 2.0, 'all': 1.5}
    """
    known = ~np.isnan(ratios)
    if not known.any():
        raise ValueError(
            f"None of {len(ratios)} documents has a noun or a verb, so there is nothing to average: give others, or a "
            "pipeline of spaCy for their language."
        )
    if not known.all():
        logger.warning("%d of %d documents have no noun or verb and are left out.", (~known).sum(), len(known))
    ratios, buckets = ratios[known], np.searchsorted(LONGEST, lengths[known])
    means = {name: float(ratios[buckets == i].mean()) for i, name in enumerate(BUCKETS) if (buckets == i).any()}
    return means | {"all": float(ratios.mean())}


def pair_similarity(features: Features, documents: np.ndarray) -> dict[str, float]:
    """The mean cosine similarity of two sentences of one document, and of two sentences of different documents.

    Over all pairs, at the cost of one pass: with v_i the vectors of norm 1 and s_d their sum over a document, the
    similarities within documents sum to sum_d |s_d|^2 - sum_i |v_i|^2, all together to |sum_d s_d|^2 - sum_i |v_i|^2.

    Args:
        features: Of N sentences, ``(N, D)``. A row of zeros has the similarity 0 to all.
        documents: The number of each sentence's document, from 0, int64 of shape ``(N,)``.

    Returns:
        ``"within"`` and ``"between"``.

    Raises:
        ValueError: If no document has two sentences, there is one document only, or the features hold NaN.

    Example:

        >>> pair_similarity(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), np.array([0, 0, 1]))
        {'within': 1.0, 'between': 0.0}
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
    alone, same, all_pairs = _square(vectors), _square(sums), _square(np.asarray(sums.sum(axis=0)))
    return {"within": float((same - alone) / pairs_within), "between": float((all_pairs - same) / pairs_between)}


def sentence_similarity(
    system: System,
    texts: Sequence[str],
    seed: int = 0,
    language: str = "en",
    max_documents: int = 1000,
    max_sentences: int = 32,
    show_progress: bool = True,
) -> dict[str, float]:
    """How alike the sentences of a document are, and those of different documents (SimDE, appendix A.2, table 5).

    The mean of the cosine similarity over every two sentences. The paper embeds them with SimCSE; here with any system.
    It takes all sentences; here they are drawn within bounds, so that no long document outweighs the others by the
    square of its length, and what is left out is counted in the log.

    Args:
        system: What gives the features. If it has to be fitted, it is fitted on the sentences.
        texts: The documents.
        seed: Decides which documents and which sentences are drawn.
        language: The language for the sentence splitter.
        max_documents: The most documents that are drawn.
        max_sentences: The most sentences that are drawn from one document.
        show_progress: Whether to show a progress bar of the splitting.

    Returns:
        ``"within"`` and ``"between"``.

    Raises:
        ValueError: If all documents are blank, none has two sentences, there is one only, or the features hold NaN.

    Example:

        >>> from docsplit_hf.experiments.systems.loading import load_system
        >>> texts = ["Cats purr. Cats sleep.", "Dogs bark. Dogs run."]
        >>> found = sentence_similarity(load_system("tfidf"), texts, show_progress=False)
        >>> found["within"] > found["between"]
        True
    """
    check_texts(texts)
    sentences, documents = _draw_sentences(texts, seed, language, max_documents, max_sentences, show_progress)
    if not sentences:
        raise ValueError(f"All of {len(texts)} documents are blank: give others.")
    [features] = system.features(sentences)
    return pair_similarity(features, documents)


def _draw_sentences(
    texts: Sequence[str], seed: int, language: str, max_documents: int, max_sentences: int, show_progress: bool
) -> tuple[list[str], np.ndarray]:
    """Sentences, and the number of each one's document among those that were drawn."""
    rng, segment = np.random.default_rng(seed), get_segmenter(language=language)
    usable = [replace_lone_surrogates(text) for text in texts if text.strip()]
    drawn = [usable[i] for i in np.sort(rng.permutation(len(usable))[:max_documents])]
    sentences, documents, found = [], [], 0
    for number, text in enumerate(tqdm(drawn, desc="Splitting", unit="text", disable=not show_progress)):
        candidates = [sentence.strip() for sentence in segment(text).sentences]
        chosen = np.sort(rng.permutation(len(candidates))[:max_sentences])
        sentences += [candidates[i] for i in chosen]
        documents += [number] * len(chosen)
        found += len(candidates)
    if len(drawn) < len(texts) or len(sentences) < found:
        logger.warning(
            "Similarity of sentences: of %d documents %d are blank, %d are drawn, and %d of their %d sentences.",
            *(len(texts), len(texts) - len(usable), len(drawn), len(sentences), found),
        )
    return sentences, np.array(documents, dtype=np.int64)


def _square(matrix: Features) -> float:
    return float(np.square(matrix.data if scipy.sparse.issparse(matrix) else matrix).sum())
