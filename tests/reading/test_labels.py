"""Spellings of labels."""

import pytest

from docsplit_hf.reading.labels import alike_labels, describe_alike, plain_spelling


@pytest.mark.parametrize("other", ["Crème", "CRÈME", "cre\u0300me", " crème", "crème\n", "crème\u00a0"])
def test_case_unicode_form_and_white_space_do_not_matter(other):
    assert plain_spelling(other) == plain_spelling("crème")


@pytest.mark.parametrize("other", ["creme", "crèmes", "crème 2", "crè me"])
def test_other_letters_are_other_labels(other):
    assert plain_spelling(other) != plain_spelling("crème")


def test_the_most_frequent_spelling_comes_first():
    counts = {"Sport": 2, "sport": 7, "sport ": 7, "news": 1}
    assert alike_labels(counts) == [["sport", "sport ", "Sport"]]
    remark = describe_alike(counts)
    assert "'sport' and 'sport ' and 'Sport'. If they are the same" in remark and "news" not in remark


def test_different_labels_give_no_warning():
    assert describe_alike({"a": 1, "b": 2}) is None


def test_a_warning_names_a_few_labels_and_counts_the_rest():
    counts = {name: 1 for number in range(9) for name in (f"label {number}", f"Label {number}")}
    assert "; and 4 more" in describe_alike(counts)
