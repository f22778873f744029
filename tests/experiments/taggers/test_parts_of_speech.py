from experiments.taggers import parts_of_speech
from experiments.taggers.parts_of_speech import within_bounds


def test_long_texts_are_cut_and_counted(caplog, monkeypatch):
    monkeypatch.setattr(parts_of_speech, "CHARACTERS", 11)
    assert within_bounds(["river river river", "river\ud800"]) == ["river river", "river\ufffd"]
    assert "1 of 2 texts are longer than 11 characters: their last 6 characters in all are left out" in caplog.text


def test_what_is_no_words_is_blanked_and_counted_and_words_keep_their_place(caplog):
    assert within_bounds(["=" * 50 + "river", "a" * 301 + " river"]) == [" " * 50 + "river", " " * 302 + "river"]
    assert "so are 1 strings of more than 300 characters without a space" in caplog.text
    caplog.clear()
    assert within_bounds(["河" * 500], blank_unbroken=False) == ["河" * 500] and not caplog.text
