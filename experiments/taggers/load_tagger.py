"""Load a tagger by the name given as an option."""

from __future__ import annotations

from functools import cache

from .nltk_tagger import load_nltk, nltk_tagger
from .parts_of_speech import Tagger
from .spacy_tagger import load_spacy, spacy_tagger

NLTK = "nltk"


@cache
def load_tagger(name: str) -> Tagger:
    """Load ``"nltk"``, or a pipeline of spaCy: an installed one by name, or a folder with one. Each is loaded once."""
    return nltk_tagger(load_nltk()) if name == NLTK else spacy_tagger(load_spacy(name))


def tagger_settings(name: str) -> dict[str, str]:
    """The settings of a record: the option, and the version or weights of the tagger."""
    return {"tagger": name, "tagger_version": load_tagger(name).name}
