"""Words and their parts of speech by NLTK's averaged perceptron, for English."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from docsplit_hf.content_hash import sha256_of_json
from docsplit_hf.reading.segmentation.sentences import get_segmenter

from .parts_of_speech import Tagger, Word, within_bounds

if TYPE_CHECKING:
    from nltk.tag import PerceptronTagger

GROUP_OF_TAG = {"NN": "noun", "VB": "verb", "JJ": "adjective"}  # by the first two letters of Penn Treebank's tags
# Penn's tags do not distinguish auxiliaries, so "have" and "do" are in the group "other" as main verbs too.
AUXILIARIES = frozenset(
    "be am is are was were been being have has had having do does did doing done 's 're 'm 've 'd".split()
)


def nltk_tagger(tagger: PerceptronTagger) -> Tagger:
    """NLTK's tagger, named by version and weights; ``Word.base`` is the Snowball stem, since lemmas need WordNet."""
    import nltk

    digest = sha256_of_json([tagger.model.weights, tagger.tagdict], sort_keys=True)[:8]
    return Tagger(f"NLTK {nltk.__version__} averaged perceptron {digest}", partial(_tag_words, tagger=tagger))


def load_nltk() -> PerceptronTagger:
    """Load the tagger with the weights in NLTK's data folders, or say how to get either."""
    try:
        from nltk.tag import PerceptronTagger
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "NLTK, the tagger of parts of speech, is not installed: pip install -e '.[experiments]'"
        ) from error
    try:
        return PerceptronTagger()
    except LookupError as error:
        raise OSError(
            "NLTK has no averaged_perceptron_tagger_eng here. Install it: "
            "python -m nltk.downloader averaged_perceptron_tagger_eng; NLTK_DATA names the folder if it is elsewhere."
        ) from error


def _tag_words(texts: Sequence[str], tagger: PerceptronTagger) -> Iterator[list[Word]]:
    from nltk.stem import SnowballStemmer
    from nltk.tokenize import NLTKWordTokenizer

    segment = get_segmenter()
    tokenizer = NLTKWordTokenizer()
    stemmer = SnowballStemmer("english")
    for text in within_bounds(texts):
        words = []
        sentence_start = 0
        for sentence in segment(text):
            spans = list(tokenizer.span_tokenize(sentence))
            tagged = tagger.tag([sentence[start:end] for start, end in spans])
            for (start, _), (token, tag) in zip(spans, tagged, strict=True):
                if any(map(str.isalnum, token)):
                    word = Word(
                        text=token,
                        start=sentence_start + start,
                        group=_group(token, tag),
                        base=stemmer.stem(token) or token,
                    )
                    words.append(word)
            sentence_start += len(sentence)
        yield words


def _group(token: str, tag: str) -> str:
    group = GROUP_OF_TAG.get(tag[:2], "other")
    is_auxiliary = group == "verb" and token.lower().replace("’", "'") in AUXILIARIES
    return "other" if is_auxiliary else group
