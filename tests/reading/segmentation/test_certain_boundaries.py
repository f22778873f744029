"""Certain boundaries are boundaries of pysbd, in prose of every kind and in random combinations of fragments."""

import itertools
import time

import pysbd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from docsplit_hf.reading.package_documentation import _documents, _folder_of
from docsplit_hf.reading.segmentation import sentences
from docsplit_hf.reading.segmentation.certain_boundaries import (
    cut_at_certain_boundaries,
    find_protected_spans,
    merge_spans,
)
from docsplit_hf.reading.segmentation.sentences import PysbdSegmenter

from .test_sentences import HOSTILE

PARAGRAPHS = {
    "plain prose": "The mill stood by the river. It had been empty for years! Who would buy it? Nobody knew.",
    "titles": "Dr. Adams met Mrs. Lee and Gen. Ford at St. Mary's. Prof. Hall was late. It was Lee vs. Moss.",
    "companies": "Acme Inc. was sold to Bolt Corp. for little. Smith & Co. followed. Later came Ltd. The rest stayed.",
    "latin": "Bring fruit, e.g. apples, pears, etc. and bread, i.e. food. See Fig. 3 or p. 12. See Lee et al. (2001).",
    "numbers": "It rose by 3.5 percent in 1990. In 1991 it fell to 2.25. No. 5 was first. The nos. (see below) differ.",
    "initials": "J. R. R. Tolkien and C.S. Lewis met there. Harry S. Truman did not. World War I. It was long.",
    "countries": "He left the U.S. in May. In the U.S. She stayed. The U.K. economy grew. In the E.U. That is less.",
    "times": "They met at 5 p.m. then. It ended at 9 a.m. Everybody left. At 7 P.M. The doors close. By 6 A.M. then.",
    "months": "It began on Jan. 3 and ended in Dec. They were glad. On Sept. 4 it snowed. In Feb. the ice broke.",
    "quotation": 'He said "I will come. I promise." She laughed. "Why?" she asked. "Because," he said. "I must."',
    "curly quotation": "He said “I do. I promise.” She laughed. “Why?” she asked. “Oh,” he said. “Go.” Then he left.",
    "single quotation": "He called it 'The End. Or not.' and the boys' club did. It's 'done'. ‘Fine. Go.’ So be it.",
    "quotation first": '"Blue Moon" is a song. "Red Sun" Was another. "Old," Joe said. It sold well.',
    "open quotation": 'She said: "It is new. "And it is cheap." Mr Hall agreed. "But the rest is not.',
    "asides": "It worked (once. Or twice). It failed. (Nobody saw.) Everybody (even I) knew. (The end) Is near.",
    "nested asides": "It worked (more (or less). Well). Then (it (really) stopped.) We left.",
    "brackets": "It was known.[1] Others [see e.g. Lee. 2001] knew. It is cited.[12][13] Then more.[a] Why.12 Because.",
    "dashes": 'He came--late. As ever.--and left. It is -- was. It -- pre-" War. The end-of-line. Well.',
    "exclamations": "Stop! he said. No way! Really!! Oh no!!! Then what? Who?! What!? Stop!, he said.",
    "exclamation word": "The firm is Yahoo! It is big. Is it Yum! Brands? No.",
    "ellipses": "Well... maybe. He waited... Then he left. It ended.... Or did it.... no. It went... on.",
    "addresses": "Write to a.b@c.org or see www.d.org/e?f=g. It is x.py. Get http://h.io/i. Version 1.2.3 is new.",
    "code": "Call model.fit(x). It returns None. `a.b` is `c`. Use tensor([1.]).sum() here. Add .txt to it.",
    "numbered list": "1. Open the box. 2. Take the key. 3. Close it.",
    "numbered line": "12. The box is old. It was built in 12. 7 men lifted it.",
    "numbers in parentheses": "It has 1) a door 2) a window 3) a roof. All are old.",
    "lettered list": "There are a) the door b) the window c) the roof. All (in 1990) are old (as of 1991).",
    "lettered asides": "There are (a) the door and (b) the window. Also (i) one and (ii) two. Vitamin (c) is none.",
    "possessives": "It was Acme Inc.'s plan. It was the U.S.'s plan. The Smiths' plan was better. James's was not.",
    "places": "He lives in Portland, Ore. with his dog. She lives on 5th Ave. in Mass. It is at 30°. 5 was less.",
    "no mark": "Contents and index",
    "marks alone": "Well. ... So! Is it ? It is .",
    "foreign marks": "He wrote 好。 It means good. She wrote it twice.",
    "other spaces": "It is old.\tIt is\u00a0new.  It is both.\u2003Is it? Yes.  \n",
}
FRAGMENTS = (
    "word Word the He I A x b Dr No etc Inc p U.S e.g a.m P.M Ph.D J 12 1990 5 3.14 is $5 Yahoo a.bc/d?e=f x@y "
    '-- - \\ [1] (see (x) foo) (b) ii) "hi hi" " said\' “ab ab” ‘q q’ : ; , ° «z z» KG Co'
).split()
ENDS = [".", ".", ".", "!", "?", "...", "..", "?!", '."', ".”", ".)", ".]", ",", "", "!!!", "....", '?"']
SPACES = [" ", " ", " ", "  ", "\t", ""]
words = st.tuples(st.sampled_from(FRAGMENTS), st.sampled_from(ENDS), st.sampled_from(SPACES)).map("".join)
any_line = st.text(alphabet=st.characters(exclude_characters="\r\n", exclude_categories=()))


def split_with_pysbd(text: str) -> list[str] | None:
    found = sentences._split_with_pysbd(text, "en")
    return None if found is None else sentences._attach_blanks(found)


def boundaries(split: list[str]) -> set[int]:
    """The ends of sentences, without the white space after them."""
    ends = itertools.accumulate(map(len, split))
    return {end - len(sentence) + len(sentence.rstrip()) for end, sentence in zip(ends, split, strict=True)}


def pysbd_boundaries(text: str) -> set[int]:
    spans = pysbd.Segmenter(language="en", clean=False, char_span=True).segment(text)
    return {span.start + len(span.sent.rstrip()) for span in spans if span.sent.strip()}


@pytest.mark.parametrize("paragraph", PARAGRAPHS.values(), ids=PARAGRAPHS)
def test_paragraphs_are_split_like_by_pysbd(paragraph):
    assert boundaries(PysbdSegmenter()(paragraph)) == pysbd_boundaries(paragraph)


@given(st.one_of(any_line, st.lists(words, max_size=12).map("".join)))
def test_pieces_join_to_any_line(line):
    pieces = cut_at_certain_boundaries(line)
    assert "".join(piece for piece, _ in pieces) == line
    assert all(piece for piece, _ in pieces) or not line


@given(st.lists(words, min_size=1, max_size=9).map("".join), st.sampled_from(["", "\n", "\n  "]))
@example('word. (see." word.) Word." word.. ', "")
@example("12.] Word. ., ", "")
@example("word! .. .. ", "")
@example('word." \\." \\." Word. ', "")
def test_certain_boundaries_are_boundaries_of_pysbd(line, line_end):
    line += line_end
    expected = split_with_pysbd(line) if sentences._is_within_limits(line) else None
    if expected is None:
        return
    found: list[str] = []
    for piece, is_sentence in cut_at_certain_boundaries(line):
        found += [piece] if is_sentence else sentences._split_with_pysbd(piece, "en") or [piece]
    assert sentences._attach_blanks(found) == expected


def test_documentation_of_packages_is_split_like_by_pysbd():
    documents = itertools.islice(_documents(["accelerate"], [_folder_of("accelerate")], versions=[""]), 80)
    lines = itertools.chain.from_iterable(document["text"].splitlines(keepends=True) for document in documents)
    common = 0  # boundaries
    ours = 0
    theirs = 0
    uncertain = 0  # characters
    total = 0
    for line in lines:
        if not line.strip() or not sentences._is_within_limits(line):
            continue
        found = boundaries(PysbdSegmenter()(line))
        expected = pysbd_boundaries(line)
        common += len(found & expected)
        ours += len(found)
        theirs += len(expected)
        uncertain += sum(len(piece) for piece, is_sentence in cut_at_certain_boundaries(line) if not is_sentence)
        total += len(line)
    assert total > 30_000
    assert 2 * common / (ours + theirs) >= 0.99
    assert uncertain / total < 0.05


GROWING = ["(a. ", '"a. ', "“a\\. ", "'a. ", "‘a. ", "a.b.c.", "a?b..", "1. 2) ", "(i) (ii) ", "!!", "? ", ".'s "]


@pytest.mark.parametrize("text", [*HOSTILE.values(), *(text * (100_000 // len(text)) for text in GROWING)])
def test_time_is_bounded(text):
    line = text.replace("\n", " ").replace("\r", " ")[:100_000]
    start = time.process_time()
    cut_at_certain_boundaries(line)
    cut_at_certain_boundaries(line + ")”’\"'")
    assert time.process_time() - start < 5


def test_pysbd_gets_uncertain_pieces_only(monkeypatch):
    seen = []
    monkeypatch.setattr(sentences, "_split_with_pysbd", lambda piece, language: seen.append(piece))
    result = PysbdSegmenter()("Dr. Who left at 3.14 today. He had no.. umbrella. Why?\nIt rained.")
    assert seen == ["He had no.. umbrella. "]
    assert result == [
        "Dr. Who left at 3.14 today. ",
        "He had no.. ",
        "umbrella. ",
        "Why?\n",
        "It rained.",
    ]


def test_lines_in_other_languages_go_to_pysbd_uncut(monkeypatch):
    seen = []
    monkeypatch.setattr(sentences, "_split_with_pysbd", lambda piece, language: seen.append((piece, language)))
    PysbdSegmenter("de")("Es regnete. Er ging.")
    PysbdSegmenter("fr")("Il pleuvait. Il partit.")
    assert seen == [("Es regnete. Er ging.", "de"), ("Il pleuvait. Il partit.", "fr")]


PARTS = ["a", "b c", " ", ".", "\\", '"', "'", "(", ")", "[", "]", "“", "”", "«", "»", "‘", "’", "--", "-", "\n"]
lines = st.lists(st.sampled_from(PARTS[:-1]), max_size=40).map("".join)


def pysbd_protected(line: str) -> set[int]:
    """Positions of the full stops that pysbd hides in a line."""
    from pysbd.between_punctuation import BetweenPunctuation

    # pysbd appends a character of its own to a line without a final mark, so that one follows a final apostrophe.
    ended = line if line.endswith(".") else line + "ȸ"
    hidden = BetweenPunctuation(ended).replace().replace("&⎋&", "'")
    assert len(hidden) == len(ended)
    return {index for index, character in enumerate(hidden) if character == "∯"}


@given(lines)
@example(" '.'")
def test_a_full_stop_is_protected_where_pysbd_hides_it(line):
    spans = merge_spans(find_protected_spans(line))
    stops = {index for index, character in enumerate(line) if character == "."}
    assert {index for index in stops if any(start <= index < end for start, end in spans)} == pysbd_protected(line)


@pytest.mark.parametrize(
    "text",
    ['"', "(", "[", "[\\", '"\\', "“", "“\\", "‘", " ‘a", " 'a", " 'a'b", "' ", "--", "--a-", "(a\\", "()", "([“‘"],
)
def test_time_to_find_spans_is_bounded(text):
    line = (text * 150_000)[:150_000]
    start = time.process_time()
    find_protected_spans(line)
    find_protected_spans(line + ")]”’\"'")
    assert time.process_time() - start < 5
