import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.fitting.experts.style import STYLE_NUMBERS, as_counted, style_of_texts


def counted(text):
    """Numbers of a text by name."""
    values = as_counted(style_of_texts([text])[0].astype(np.float64))
    return dict(zip([number.name for number in STYLE_NUMBERS], values, strict=True))


def test_numbers_of_a_text():
    found = counted("Stop!! I saw it, however.\n\n- two dogs\n- http://a.de 42 sooo...")
    assert found["N words"] == pytest.approx(12)
    assert found["N lines"] == pytest.approx(3)
    assert found["words in capitals"] == pytest.approx(1 / 12)
    assert found["words with a first capital"] == pytest.approx(2 / 12, rel=1e-5)
    assert found["lines that are items of a list"] == pytest.approx(2 / 3)
    assert found["rows of exclamation or question marks"] == pytest.approx(1 / 12)
    assert found["web addresses"] == pytest.approx(1 / 12)
    assert found["letters drawn out"] == pytest.approx(1 / 12)
    assert found["capital letter at the beginning"] == 1
    assert found["full stop, exclamation or question mark at the end"] == 1


def test_sentences_of_languages_without_spaces_are_measured_in_characters():
    found = counted("我喜欢这本书。你呢？")
    assert found["N sentences"] == pytest.approx(2)
    assert found["sentences of N words"] == pytest.approx(4)


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
        ("sentences of N words", 31.2, 14, "sentences of 31 words (typical: 14)"),
        ("N sentences", 1, 2.4, "1 sentence (typical: 2.4)"),
        ("N lines", 3.01, 2.99, ""),
        ("words of 7 or more letters", 0.32, 0.08, "32% words of 7 or more letters (typical: 8%)"),
        ("words of 7 or more letters", 0, 0.002, "no words of 7 or more letters"),
        ("words in capitals", 0.2, 0.002, "20% words in capitals (typical: under 1%)"),
        ("commas", 0.05, 0.01, "many commas for the length (5 times as many as typical)"),
        ("commas", 0.01, 0.022, "few commas for the length (typical: 2.2 times as many)"),
        ("commas", 0.05, 0, "commas (rare in other texts)"),
        ("commas", 0, 0.01, "no commas"),
        ("capital letter at the beginning", 1, 0.4, "a capital letter at the beginning (as 40% of all texts)"),
        ("capital letter at the beginning", 0, 0.9, "no capital letter at the beginning (as 10% of all texts)"),
        ("capital letter at the beginning", 0.65, 0.4, "65% with a capital letter at the beginning (typical: 40%)"),
    ],
)
def test_a_number_is_described_beside_that_of_a_typical_text(name, value, typical, expected):
    number = next(number for number in STYLE_NUMBERS if number.name == name)
    assert number.describe(value, typical) == expected
