import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.tag import PerceptronTagger

from docsplit_hf.reading.characters import replace_lone_surrogates
from experiments.taggers.nltk_tagger import nltk_tagger
from experiments.taggers.parts_of_speech import GROUPS

WORDS = {
    "river": "NN",
    "valley": "NN",
    "dog": "NN",
    "rivers": "NNS",
    "valleys": "NNS",
    "Nile": "NNP",
    "is": "VBZ",
    "feeds": "VBZ",
    "feeding": "VBG",
    "has": "VBZ",
    "will": "MD",
    "small": "JJ",
    "smaller": "JJR",
    "the": "DT",
    "The": "DT",
    "it": "PRP",
    "n't": "RB",
    "'s": "VBZ",
    ".": ".",
}


@pytest.fixture(scope="module")
def perceptron():
    """NLTK's tagger, trained on a few words."""
    trained = PerceptronTagger(load=False)
    trained.train([[(word, tag)] for word, tag in WORDS.items()] * 30)
    return trained


@pytest.fixture(scope="module")
def tagger(perceptron):
    return nltk_tagger(perceptron)


def test_groups_places_and_stems(tagger):
    text = "The Nile has rivers.  The smaller river's feeding the valley; \nit isn't small\n\nThe valleys will"
    [words] = tagger.tag([text])
    found = {(word.text, word.group) for word in words}
    assert {word for word, group in found if group == "noun"} >= {"Nile", "rivers", "river", "valley", "valleys"}
    assert {word for word, group in found if group == "verb"} == {"feeding"}  # no auxiliary
    assert {word for word, group in found if group == "adjective"} >= {"smaller", "small"}
    assert {("The", "other"), ("has", "other"), ("is", "other"), ("n't", "other"), ("'s", "other")} <= found
    assert all(text[word.start : word.end] == word.text for word in words)
    bases = {word.text: word.base for word in words}
    assert bases["rivers"] == bases["river"] == "river" and bases["feeding"] == "feed" and bases["Nile"] == "nile"


@given(texts=st.lists(st.text() | st.text("river `'\"\ud800.…“”’\n👍[](){}<>,:;-$%s0", max_size=40), max_size=3))
def test_words_lie_in_their_text(tagger, texts):
    for text, words in zip(texts, tagger.tag(texts), strict=True):
        valid = replace_lone_surrogates(text)
        end = 0
        for word in words:
            assert word.start >= end and valid[word.start : word.end] == word.text and word.group in GROUPS
            assert word.base and any(map(str.isalnum, word.text))
            end = word.end
