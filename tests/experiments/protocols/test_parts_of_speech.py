import sys
import time

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st

from docsplit_hf.experiments.protocols import parts_of_speech
from docsplit_hf.experiments.protocols.parts_of_speech import GROUPS, load_spacy, tag_words
from docsplit_hf.text.lone_surrogates import replace_lone_surrogates


def groups(text, pipeline):
    [words] = tag_words([text], pipeline)
    return {word.text: word.group for word in words}


def test_what_tagging_does_not_need_is_not_run(nlp):
    @spacy.Language.component("docsplit_test_marker")
    def mark(document):
        document.user_data["marked"] = True
        return document

    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    pipeline.add_pipe("ner")  # has no weights: to run it is an error
    pipeline.add_pipe("attribute_ruler", source=nlp)
    pipeline.add_pipe("docsplit_test_marker")  # what is not known stays: it may be what tags
    assert groups("The river moves", pipeline) == {"The": "other", "river": "noun", "moves": "verb"}
    assert pipeline.pipe_names == ["sentencizer", "ner", "attribute_ruler", "docsplit_test_marker"]


@settings(max_examples=25, deadline=None)
@given(texts=st.lists(st.text() | st.text("river \ud800\udc00.\n👍", max_size=30), max_size=4))
def test_words_lie_in_their_text(nlp, texts):
    tagged = tag_words([*texts, "a river"], nlp)
    for text, words in zip([*texts, "a river"], tagged, strict=True):
        valid, end = replace_lone_surrogates(text), 0
        for word in words:
            assert word.start >= end and valid[word.start : word.end] == word.text and word.group in GROUPS
            assert any(map(str.isalnum, word.text))
            end = word.end


def test_long_texts_are_cut_and_counted(nlp, caplog, monkeypatch):
    monkeypatch.setattr(parts_of_speech, "CHARACTERS", 11)
    first, second = tag_words(["river river river", "river"], nlp)
    assert len(first) == 2 and len(second) == 1
    assert "1 of 2 texts are longer than 11 characters: their last 6 characters in all are left out" in caplog.text


def test_time_does_not_grow_with_the_square_of_a_string(nlp, caplog):
    start = time.monotonic()
    texts = ["=" * 50_000 + " river " + "_\U0001f44d(" * 10_000 + "river", "a" * 50_000 + " river", "http://" * 9000]
    first, second, third = tag_words(texts, nlp)
    assert time.monotonic() - start < 10  # 40 minutes without the guard
    assert [word.start for word in first] == [50_001, 80_007] and {word.text for word in first} == {"river"}
    assert [word.start for word in second] == [50_001] and not third
    assert "so are 2 strings of more than 300 characters without a space" in caplog.text

    caplog.clear()
    chinese = spacy.blank("zh")  # a tokenizer of its own, which needs no spaces
    chinese.add_pipe("attribute_ruler").add([[{"LOWER": "河"}]], {"POS": "NOUN"})
    [words] = tag_words(["河" * 500], chinese)
    assert len(words) == 500 and not caplog.text


def test_errors_say_what_to_do(monkeypatch):
    assert not list(tag_words([], spacy.blank("en")))
    assert list(tag_words(["", "..."], spacy.blank("en"))) == [[], []]
    with pytest.raises(ValueError, match=r"\(blank\) has tagged none of 2 words .* with a tagger"):
        list(tag_words(["a river"], spacy.blank("en")))
    with pytest.raises(OSError, match=r"no pipeline './nowhere' here\. Install it: python -m spacy download"):
        load_spacy("./nowhere")
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install docsplit_hf\[experiments\] && python -m spacy"):
        load_spacy("en_core_web_sm")
