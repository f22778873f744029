"""Words and their parts of speech by any pipeline of spaCy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .parts_of_speech import Tagger, Word, within_bounds

if TYPE_CHECKING:
    from spacy.language import Language

# Auxiliaries ("is", "will") are function words, which repeat in every sentence: they are in the group "other".
GROUP_OF_TAG = {"NOUN": "noun", "PROPN": "noun", "VERB": "verb", "ADJ": "adjective"}
# Parsing and named entities take most of the time of a pipeline, and no tag depends on them.
UNNEEDED = (
    "parser",
    "senter",
    "sentencizer",
    "ner",
    "entity_ruler",
    "span_ruler",
    "entity_linker",
    "spancat",
    "textcat",
    "textcat_multilabel",
)
TEXTS_PER_BATCH = 64  # spaCy holds a batch of analyzed texts in memory


def spacy_tagger(nlp: Language) -> Tagger:
    """A pipeline of spaCy as a tagger, named by its version; ``Word.base`` is the lemma."""
    return Tagger(f"spaCy {nlp.meta['lang']}_{nlp.meta['name']} {nlp.meta['version']}", partial(_tag_words, nlp=nlp))


def load_spacy(name: str) -> Language:
    """Load an installed pipeline of spaCy, or a folder with one; or say how to install it."""
    try:
        import spacy
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "spaCy, the tagger of parts of speech, is not installed: "
            f"pip install -e '.[experiments]' && python -m spacy download {name}. Or --tagger nltk."
        ) from error
    if not spacy.util.is_package(name) and not Path(name).exists():
        raise OSError(
            f"spaCy has no pipeline {name!r} here. Install it: python -m spacy download {name}. Or --tagger nltk."
        )
    return spacy.load(name)


def _tag_words(texts: Sequence[str], nlp: Language) -> Iterator[list[Word]]:
    """Run the components of ``nlp`` that tagging needs. Nouns are NOUN and PROPN of the Universal Dependencies."""
    from spacy.tokenizer import Tokenizer

    # Custom tokenizers, such as the one for Chinese, need no spaces.
    valid = within_bounds(texts, blank_unbroken=isinstance(nlp.tokenizer, Tokenizer))
    unneeded = [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory in UNNEEDED]
    words_seen = 0
    is_tagged = False
    for document in nlp.pipe(valid, batch_size=TEXTS_PER_BATCH, disable=unneeded):
        tokens = [token for token in document if any(map(str.isalnum, token.text))]
        words_seen += len(tokens)
        is_tagged = is_tagged or any(token.pos for token in tokens)
        yield [Word(token.text, token.idx, GROUP_OF_TAG.get(token.pos_, "other"), token.lemma_) for token in tokens]
    if words_seen and not is_tagged:
        raise ValueError(
            f"The pipeline ({', '.join(nlp.pipe_names) or 'blank'}) has tagged none of {words_seen} words with a part "
            "of speech: use one with a tagger for the language of the texts, such as en_core_web_sm."
        )
