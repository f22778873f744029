import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.fitting.ensemble.style import STYLE_NUMBERS, as_counted, style_of_texts


def counted(text):
    """Numbers of a text by name."""
    values = as_counted(style_of_texts([text])[0].astype(np.float64))
    return dict(zip([number.name for number in STYLE_NUMBERS], values, strict=True))


def test_numbers_of_a_text():
    found = counted("Stop!! I saw it, however.\n\n- two dogs\n- http://a.de 42 sooo...")
    assert found["words"] == pytest.approx(12)
    assert found["lines"] == pytest.approx(3)
    assert found["words in capitals"] == pytest.approx(1 / 12)
    assert found["words with a first capital"] == pytest.approx(2 / 12, rel=1e-5)
    assert found["lines that are items of a list"] == pytest.approx(2 / 3)
    assert found["rows of exclamation or question marks"] == pytest.approx(1 / 12)
    assert found["web addresses"] == pytest.approx(1 / 12)
    assert found["letters drawn out"] == pytest.approx(1 / 12)
    assert found["begins with a capital letter"] == 1
    assert found["ends with a full stop, exclamation or question mark"] == 1


def test_sentences_of_languages_without_spaces_are_measured_in_characters():
    found = counted("我喜欢这本书。你呢？")
    assert found["sentences"] == pytest.approx(2)
    assert found["words in a sentence"] == pytest.approx(4)


@given(st.lists(st.text(), max_size=3))
def test_numbers_of_any_text_are_finite_and_no_text_changes_another(texts):
    found = style_of_texts(texts)
    assert found.shape == (len(texts), len(STYLE_NUMBERS))
    assert np.isfinite(found).all() and (found >= 0).all()
    for text, numbers in zip(texts, found, strict=True):
        np.testing.assert_array_equal(style_of_texts([text])[0], numbers)


@pytest.mark.parametrize(
    ("name", "value", "typical", "expected"),
    [
        ("words in a sentence", 31.2, 14, "31 words in a sentence (typical: 14)"),
        ("long words", 0.32, 0.08, "32% long words (typical: 8%)"),
        ("commas", 0.05, 0.01, "commas 5 times as often as in a typical text"),
        ("commas", 0, 0.01, "no commas"),
        ("begins with a capital letter", 0, 0.9, "begins with a capital letter: no"),
    ],
)
def test_a_number_is_described_beside_that_of_a_typical_text(name, value, typical, expected):
    number = next(number for number in STYLE_NUMBERS if number.name == name)
    assert number.describe(value, typical) == expected
