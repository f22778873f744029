"""The words of a text in four groups, nouns, verbs, adjectives and others, as spaCy tells them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tqdm.auto import tqdm

from ...models.inference.batching import check_texts
from ...text.surrogates import replace_lone_surrogates

if TYPE_CHECKING:
    from spacy.language import Language

logger = logging.getLogger(__name__)

GROUPS = ("noun", "verb", "adjective", "other")
# Auxiliaries ("is", "will") are function words and repeat in every sentence, whatever a text is about: they are others.
GROUP_OF_TAG = {"NOUN": "noun", "PROPN": "noun", "VERB": "verb", "ADJ": "adjective"}
# Parsing and named entities take most of the time of a pipeline, and no tag depends on them.
UNNEEDED = ("parser", "senter", "sentencizer", "ner", "entity_ruler", "span_ruler", "entity_linker", "spancat")
UNNEEDED += ("textcat", "textcat_multilabel")
CHARACTERS = 100_000  # of one text, 15,000 words; spaCy itself refuses a text of more than a million
UNBROKEN_CHARACTERS = 300  # without a space: data, no words, in the languages that spaCy's own tokenizer is for
TEXTS_PER_BATCH = 64  # spaCy holds a batch of analysed texts in memory

# The tokenizer takes marks off a string one by one, in time quadratic in its length: minutes for a long "=====".
_SEPARATOR = re.compile(r"(?:[^\w\s]|_){50,}")
_UNBROKEN = re.compile(rf"\S{{{UNBROKEN_CHARACTERS + 1},}}")


class Word(NamedTuple):
    """A word of a text: its characters, where they start, its group and its lemma (empty where the pipeline has none).

    Example:

        >>> Word("cats", 4, "noun", "cat").end
        8
    """

    text: str
    start: int
    group: str
    lemma: str

    @property
    def end(self) -> int:
        """The character after the last."""
        return self.start + len(self.text)


@cache
def load_spacy(name: str = "en_core_web_sm") -> Language:
    """Load a pipeline of spaCy, once, or say how to install it.

    Args:
        name: An installed pipeline, or a folder with one. It has to tag parts of speech; for the redundancy, to
            lemmatize too.

    Returns:
        The pipeline.

    Raises:
        ModuleNotFoundError: If spaCy is not installed.
        OSError: If there is no such pipeline.

    Example:

        >>> load_spacy("en_core_web_small")
        Traceback (most recent call last):
        OSError: spaCy has no pipeline 'en_core_web_small' here. Install it: python -m spacy download en_core_web_small
    """
    try:
        import spacy
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "spaCy, which tells the parts of speech, is not installed: "
            f"pip install docsplit_hf[experiments] && python -m spacy download {name}"
        ) from error
    if not spacy.util.is_package(name) and not Path(name).exists():
        raise OSError(f"spaCy has no pipeline {name!r} here. Install it: python -m spacy download {name}")
    return spacy.load(name)


def tag_words(texts: Sequence[str], nlp: Language, show_progress: bool = True) -> Iterator[list[Word]]:
    """The words of texts with their groups.

    A word is a token of the pipeline with a letter or a digit in it, so punctuation and space are none. Nouns are
    the tags NOUN and PROPN, verbs VERB, adjectives ADJ of the Universal Dependencies; all others, auxiliaries and words
    without a tag among them, are ``"other"``. The papers do not say where proper nouns, auxiliaries and punctuation go.

    Args:
        texts: N texts. What a text has beyond 100,000 characters is left out, and so is what has more than 300
            characters without a space where the tokenizer goes by spaces. Both are counted in the log.
        nlp: A pipeline of spaCy. Only what tagging needs of it is run.
        show_progress: Whether to show a progress bar.

    Yields:
        The words of one text, in order. They start where they do in the text, lone surrogates replaced.

    Raises:
        TypeError: If ``texts`` is one string, or a text is not a string.
        ValueError: At the end, if the pipeline has tagged no word at all.

    Example:

        >>> import spacy
        >>> nlp = spacy.blank("en")
        >>> nlp.add_pipe("attribute_ruler").add([[{"LOWER": "cats"}]], {"POS": "NOUN", "LEMMA": "cat"})
        >>> list(tag_words(["Cats, yes."], nlp, show_progress=False))[0][0]
        Word(text='Cats', start=0, group='noun', lemma='cat')
    """
    check_texts(texts)
    valid = _within_bounds([replace_lone_surrogates(text) for text in texts], nlp)
    unneeded = [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory in UNNEEDED]
    analysed = nlp.pipe(valid, batch_size=TEXTS_PER_BATCH, disable=unneeded)
    words_seen, is_tagged = 0, False
    for document in tqdm(analysed, total=len(texts), desc="Tagging", unit="text", disable=not show_progress):
        tokens = [token for token in document if any(map(str.isalnum, token.text))]
        words_seen += len(tokens)
        is_tagged = is_tagged or any(token.pos for token in tokens)
        yield [Word(token.text, token.idx, GROUP_OF_TAG.get(token.pos_, "other"), token.lemma_) for token in tokens]
    if words_seen and not is_tagged:
        raise ValueError(
            f"The pipeline ({', '.join(nlp.pipe_names) or 'blank'}) has tagged none of {words_seen} words with a part "
            "of speech: use one with a tagger for the language of the texts, such as load_spacy('en_core_web_sm')."
        )


def _within_bounds(texts: list[str], nlp: Language) -> list[str]:
    """What spaCy reads in a time that does not grow with the square of a text; every word keeps its place."""
    from spacy.tokenizer import Tokenizer

    kept, long, cut, blanked = [], 0, 0, 0
    for text in texts:
        long, cut, text = long + (len(text) > CHARACTERS), cut + max(len(text) - CHARACTERS, 0), text[:CHARACTERS]
        if isinstance(nlp.tokenizer, Tokenizer):
            text, times = _UNBROKEN.subn(_blank, _SEPARATOR.sub(_blank, text))
            blanked += times
        kept.append(text)
    if long or blanked:
        logger.warning(
            "%d of %d texts are longer than %d characters: their last %d characters in all are left out; so are %d "
            "strings of more than %d characters without a space.",
            *(long, len(texts), CHARACTERS, cut, blanked, UNBROKEN_CHARACTERS),
        )
    return kept


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])
