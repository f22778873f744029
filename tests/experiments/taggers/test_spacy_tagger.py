import time

from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.reading.characters import replace_lone_surrogates
from experiments.taggers import parts_of_speech
from experiments.taggers.parts_of_speech import GROUPS, within_bounds
from experiments.taggers.spacy_tagger import spacy_tagger


@given(texts=st.lists(st.text() | st.text("river \ud800\udc00.\n👍", max_size=30), max_size=4))
def test_words_lie_in_their_text(tagger, texts):
    for text, words in zip([*texts, "a river"], tagger.tag([*texts, "a river"]), strict=True):
        valid = replace_lone_surrogates(text)
        end = 0
        for word in words:
            assert word.start >= end and valid[word.start : word.end] == word.text and word.group in GROUPS
            assert any(map(str.isalnum, word.text))
            end = word.end


def test_long_strings_do_not_take_quadratic_time(tagger, caplog):
    import spacy  # takes seconds in each worker

    start = time.monotonic()
    texts = ["=" * 50_000 + " river " + "_\U0001f44d(" * 10_000 + "river", "a" * 50_000 + " river", "http://" * 9000]
    first, second, third = tagger.tag(texts)
    assert time.monotonic() - start < 120  # 40 minutes without the guard
    assert [word.start for word in first] == [50_001, 80_007] and {word.text for word in first} == {"river"}
    assert [word.start for word in second] == [50_001] and not third
    assert "so are 2 strings of more than 300 characters without a space" in caplog.text

    caplog.clear()
    chinese = spacy.blank("zh")  # a tokenizer of its own, which needs no spaces
    chinese.add_pipe("attribute_ruler").add([[{"LOWER": "河"}]], {"POS": "NOUN"})
    [words] = spacy_tagger(chinese).tag(["河" * 500])
    assert len(words) == 500 and not caplog.text


def test_long_texts_are_cut_and_counted(caplog, monkeypatch):
    monkeypatch.setattr(parts_of_speech, "CHARACTERS", 11)
    assert within_bounds(["river river river", "river\ud800"]) == ["river river", "river\ufffd"]
    assert "1 of 2 texts are longer than 11 characters: their last 6 characters in all are left out" in caplog.text


def test_overlong_strings_are_blanked_and_counted_and_words_keep_their_positions(caplog):
    assert within_bounds(["=" * 50 + "river", "a" * 301 + " river"]) == [" " * 50 + "river", " " * 302 + "river"]
    assert "so are 1 strings of more than 300 characters without a space" in caplog.text
    caplog.clear()
    assert within_bounds(["河" * 500], blank_unbroken=False) == ["河" * 500] and not caplog.text
