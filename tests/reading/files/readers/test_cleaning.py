"""Repeated lines, hyphens and line ends of printed pages."""

from docsplit_hf.reading.files.readers.cleaning import clean_pages, drop_repeated_lines, join_hyphens, join_lines


def pages(count, header="ACME Inc.", footer="Page {0} of {1}"):
    return [
        "\n".join(
            [header, f"Text {chr(97 + number)} one.", f"Text {chr(97 + number)} two.", footer.format(number + 1, count)]
        )
        for number in range(count)
    ]


def test_headers_and_page_numbers_are_dropped_but_for_the_first():
    kept, dropped = drop_repeated_lines(pages(5))
    assert dropped == 8
    assert kept[0] == "ACME Inc.\nText a one.\nText a two.\nPage 1 of 5"
    assert kept[1:] == [f"Text {letter} one.\nText {letter} two." for letter in "bcde"]


def test_a_page_of_repeated_lines_only_counts_them_all():
    assert clean_pages(["ACME Inc.", *(f"ACME Inc.\nText {letter}." for letter in "abc"), "ACME Inc."])[1] == 4


def test_numbers_that_do_not_grow_with_the_pages_are_kept():
    amounts = [f"Text {letter}.\nTotal {amount}" for letter, amount in zip("abcde", (10, 70, 20, 90, 30), strict=True)]
    assert drop_repeated_lines(amounts) == (amounts, 0)


def test_lines_on_two_pages_and_lines_in_the_middle_are_kept():
    two = pages(2)
    assert drop_repeated_lines(two) == (two, 0)
    middle = [
        "\n".join([*(f"{letter}{i}" for i in range(3)), "same", *(f"{letter}{i}" for i in range(3, 6))])
        for letter in "abcd"
    ]
    assert drop_repeated_lines(middle) == (middle, 0)


def test_headers_of_left_and_right_pages():
    alternating = [f"{'LEFT' if number % 2 else 'RIGHT'}\nText {chr(97 + number)}." for number in range(8)]
    kept, _ = drop_repeated_lines(alternating)
    assert sum(line in ("LEFT", "RIGHT") for page in kept for line in page.split("\n")) == 2


def test_hyphens_are_joined_by_the_words_of_the_document():
    words = {"long-term", "agreement"}
    assert join_hyphens("an agree-\nment and a long-\nterm plan", words) == "an agreement and a long-term plan"
    assert join_hyphens("non-\nEuropean, 1990-\n2000", set()) == "non-European, 1990-2000"
    assert join_hyphens("agree\x02ment, agree\ufffe\nment", set()) == "agreement, agreement"
    assert join_hyphens("a dash -\nand", set()) == "a dash -\nand"


def test_lines_within_a_sentence_are_joined():
    assert join_lines("The party of\nthe first part.\nthe next\nThen") == "The party of the first part.\nthe next\nThen"
    assert join_lines("élan\nétat") == "élan état"
