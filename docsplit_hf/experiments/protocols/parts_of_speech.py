"""The words of a text in four groups, nouns, verbs, adjectives and others, as spaCy tells them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tqdm.auto import tqdm

from ...text.lone_surrogates import replace_lone_surrogates

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
    """A word: its characters, where they start in the text, its group, and its lemma, if the pipeline gives one."""

    text: str
    start: int
    group: str
    lemma: str

    @property
    def end(self) -> int:
        """The character after the last."""
        return self.start + len(self.text)


class SpacyPipeline:
    """A pipeline of spaCy in the place of a system: how often words repeat does not depend on what embeds them."""

    def __init__(self, nlp: Language) -> None:
        self.nlp = nlp
        self.name = f"spaCy {nlp.meta['lang']}_{nlp.meta['name']} {nlp.meta['version']}"
        self.fingerprint = f"{self.name}: {' '.join(nlp.pipe_names)}"


@cache
def load_spacy(name: str) -> Language:
    """Load an installed pipeline of spaCy, or a folder with one, once; or say how to install it."""
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


def tag_words(texts: Sequence[str], nlp: Language) -> Iterator[list[Word]]:
    """The words of each text, a token with a letter or a digit being one; only what tagging needs of ``nlp`` is run.

    All that is no noun (NOUN, PROPN), verb (VERB) or adjective (ADJ of the Universal Dependencies) is ``"other"``. The
    papers do not say where proper nouns, auxiliaries and punctuation go. Words start where they do in the text, lone
    surrogates replaced. What is left out of overlong texts and strings is counted in the log.
    """
    valid = _within_bounds([replace_lone_surrogates(text) for text in texts], nlp)
    unneeded = [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory in UNNEEDED]
    analysed = nlp.pipe(valid, batch_size=TEXTS_PER_BATCH, disable=unneeded)
    words_seen, is_tagged = 0, False
    for document in tqdm(analysed, total=len(texts), desc="Tagging", unit="text"):
        tokens = [token for token in document if any(map(str.isalnum, token.text))]
        words_seen += len(tokens)
        is_tagged = is_tagged or any(token.pos for token in tokens)
        yield [Word(token.text, token.idx, GROUP_OF_TAG.get(token.pos_, "other"), token.lemma_) for token in tokens]
    if words_seen and not is_tagged:
        raise ValueError(
            f"The pipeline ({', '.join(nlp.pipe_names) or 'blank'}) has tagged none of {words_seen} words with a part "
            "of speech: use one with a tagger for the language of the texts, such as en_core_web_sm."
        )


def _within_bounds(texts: list[str], nlp: Language) -> list[str]:
    """What spaCy reads in a time that does not grow with the square of a text; every word keeps its place."""
    from spacy.tokenizer import Tokenizer

    kept, blanked = [], 0
    for text in texts:
        text = text[:CHARACTERS]
        if isinstance(nlp.tokenizer, Tokenizer):
            text, times = _UNBROKEN.subn(_blank, _SEPARATOR.sub(_blank, text))
            blanked += times
        kept.append(text)
    cut = [len(text) - CHARACTERS for text in texts if len(text) > CHARACTERS]
    if cut or blanked:
        logger.warning(
            "%d of %d texts are longer than %d characters: their last %d characters in all are left out; so are %d "
            "strings of more than %d characters without a space.",
            *(len(cut), len(texts), CHARACTERS, sum(cut), blanked, UNBROKEN_CHARACTERS),
        )
    return kept


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])
