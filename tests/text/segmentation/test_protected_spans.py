"""The spans are those in which pysbd hides every mark, and no text makes finding them slow."""

import itertools
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from docsplit_hf.text.segmentation.protected_spans import find_protected_spans, merge_spans

PARTS = ["a", "b c", " ", ".", "\\", '"', "'", "(", ")", "[", "]", "“", "”", "«", "»", "‘", "’", "--", "-", "\n"]
lines = st.lists(st.sampled_from(PARTS[:-1]), max_size=40).map("".join)


def pysbd_protected(line: str) -> set[int]:
    """Positions of the full stops that pysbd hides, of a line in which there is one after each other character."""
    from pysbd.between_punctuation import BetweenPunctuation

    # pysbd ends a line without a mark with a character of its own, so that an apostrophe at the end is followed by one.
    ended = line if line.endswith(".") else line + "ȸ"
    hidden = BetweenPunctuation(ended).replace().replace("&⎋&", "'")
    assert len(hidden) == len(ended)
    return {index for index, character in enumerate(hidden) if character == "∯"}


@given(lines)
@example(" '.'")
@settings(max_examples=600, deadline=None)
def test_a_full_stop_is_protected_where_pysbd_hides_it(line):
    spans = merge_spans(find_protected_spans(line))
    stops = {index for index, character in enumerate(line) if character == "."}
    assert {index for index in stops if any(start <= index < end for start, end in spans)} == pysbd_protected(line)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("none", []),
        ("(a (b) c", ["(b)"]),
        ('""a" b', ['"a"']),
        ('"a" b "c', ['"a"']),
        (r'(\x) (a\b) "a\"', [r"(\x)"]),
        ("[a [b] c]", ["[a [b]"]),
        ("it's 'a dog's tail' or ‘one’", ["'a dog's tail'", "‘one’"]),
        ("'tis the boy's", []),
        ("a--b--c -- d", ["--b--"]),
        ("'a' at the start of a line opens nothing", []),
    ],
)
def test_spans(line, expected):
    assert sorted(line[start:end] for start, end in find_protected_spans(line).items()) == sorted(expected)


@given(st.dictionaries(st.integers(0, 30), st.integers(1, 10)))
def test_merged_spans_hold_the_same_positions_once(lengths):
    spans = {start: start + length for start, length in lengths.items()}
    merged = merge_spans(spans)
    assert {index for span in merged for index in range(*span)} == {
        index for span in spans.items() for index in range(*span)
    }
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(merged))


@pytest.mark.parametrize(
    "text",
    ['"', "(", "[", "[\\", '"\\', "“", "“\\", "‘", " ‘a", " 'a", " 'a'b", "' ", "--", "--a-", "(a\\", "()", "([“‘"],
)
def test_time_is_bounded(text):
    line = (text * 300_000)[:300_000]
    start = time.process_time()
    find_protected_spans(line)
    find_protected_spans(line + ")]”’\"'")
    assert time.process_time() - start < 2.0
