"""How the words that a reader found are compared with those of the source."""

import pytest

from benchmarks.quality.file_readers.compare import quality, words_of


def test_words_are_counted_with_repetition_and_in_their_order():
    source = "The rent is due, the rent is paid."
    assert words_of(source) == "the rent is due the rent is paid".split()
    assert quality(source, source) == {"f1": 1.0, "recall": 1.0, "in_order": 1.0}
    with_header = quality(f"Page 1 {source}", source)
    assert with_header == pytest.approx({"f1": 2 * 0.8 / 1.8, "recall": 1.0, "in_order": 1.0})
    backwards = quality("paid is rent the due is rent the", source)
    assert backwards["f1"] == 1.0 and backwards["in_order"] == 0.0
    assert quality("", source)["f1"] == 0.0
