"""Sentences join to the text, none is blank, and every text is split quickly."""

import pickle
import threading
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from docsplit_hf.reading.segmentation import sentences
from docsplit_hf.reading.segmentation.sentences import (
    PATTERNS,
    PysbdSegmenter,
    get_segmenter,
    split_plain,
)

BRACKETED_NUMBERS = "...[484 216 622 139 651 592 379 228 242 355 ...]"
PROSE = (
    "The committee met on Tuesday, said Dr. Smith, and approved the plan of the U.S. government. Nobody was against "
    'it (not even Mr. Jones)! "Why?" he asked. It had cost 3.14 million, e.g. for the new roof. '
)
HOSTILE = {
    "empty": "",
    "bracketed numbers": BRACKETED_NUMBERS,
    "bracketed numbers, many": BRACKETED_NUMBERS * 10_000,
    "bracketed numbers, many lines": (BRACKETED_NUMBERS + "\n") * 10_000,
    "bracketed pairs of numbers": "Text." + "[1 2]" * 200 + "x",
    "one long number in brackets": "......[289852000000260698,289852000000260744",
    "prose, 0.5 MB in one line": PROSE * 2_500,
    "prose, carriage returns": PROSE.replace(". ", ".\r") * 2_500,
    "digits": "1" * 50_000,
    "full stops": "." * 25_000,
    "full stops and spaces": ". " * 50_000,
    "list markers": "a) b) c) " * 55_555,
    "list markers with full stops": "a. b. c. " * 55_555,
    "quotation marks and brackets": "\"'“”‘’«»()[]{}" * 35_000,
    "quoted letters": '"a." (b.) ' * 50_000,
    "abbreviations": "Ph.D. Mr. No. p. " * 10_000,
    "carriage returns": "\r" * 500_000,
    "newlines": "\n" * 100_000,
    "newlines and spaces": "a. \n \n" * 50_000,
    "short lines": "? a\n" * 25_000,
    "zero width and right to left": "\u200b\u202eשלום עולם. \u200fמה שלומך\u200d؟ " * 10_000,
    "lone surrogates": "\ud800. \udfff! " * 25_000,
    "null characters": "\0. \0" * 50_000,
    "backslashes and quotes": '"\\\\' * 50_000,
}
# English is cut at certain boundaries before pysbd, and other languages are not. The guards are the same for all.
EVERYTHING_BY_PYSBD = PysbdSegmenter("de")


def assert_faithful(text: str, result: list[str]) -> None:
    assert "".join(result) == text
    assert all(sentence.strip() for sentence in result) or result == [text]
    assert "" not in result


def pysbd_sentences(text: str, language: str = "en") -> list[str]:
    import pysbd

    return [span.sent for span in pysbd.Segmenter(language=language, clean=False, char_span=True).segment(text)]


any_text = st.text(alphabet=st.characters(exclude_categories=()))
fragments = [
    *"[].()!?\"'“”‘’「」。！-, 0159\n\r\t\x0b\x1c\x85\u2028\u200b\\abIXé",
    *"Dr. e.g. U.S. ph.d p.m. a) (b) 1. 2) ... [12] ∯ ☝ Yahoo! .[ --".split(),
    *("\x1c3. ", "[1 2", "no. 5", " is."),
]
pysbd_text = st.lists(st.sampled_from(fragments), max_size=60).map("".join)


@given(text=st.one_of(any_text, pysbd_text), language=st.sampled_from(["ar", "de", "kk", "sk", "zh"]))
@example("", "de")
@example(" \n ", "de")
@example("\n\n a. b\n \n", "de")
@example(BRACKETED_NUMBERS, "de")
def test_every_segmenter_is_faithful_to_any_text(text, language):
    segmenters = [get_segmenter("pysbd"), get_segmenter("pysbd", language), get_segmenter(list)]
    segmenters += [get_segmenter(name) for name in PATTERNS]
    for segmenter in segmenters:
        assert_faithful(text, segmenter(text))
    assert_faithful(text, split_plain(text))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_takes_less_than_five_seconds(text):
    start = time.process_time()  # unlike wall-clock time, independent of the machine's other processes
    sentences = PysbdSegmenter()(text)
    assert time.process_time() - start < 5
    assert_faithful(text, sentences)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two", ["One. ", "Two"]),
        ("Is it? 'Yes!' (No.) [Ok.]\n«So.» 3.14", ["Is it? ", "'Yes!' ", "(No.) ", "[Ok.]\n", "«So.» ", "3.14"]),
        ("好。好！」好？ 好", ["好。", "好！」", "好？ ", "好"]),
        ("Known.[1][23] Unknown. [4]", ["Known.[1][23] ", "Unknown. ", "[4]"]),
        ("no end", ["no end"]),
    ],
)
def test_the_plain_rule_splits_after_final_marks(text, expected):
    assert split_plain(text) == expected


def test_long_line_goes_through_pysbd_in_pieces():
    line = PROSE * 20
    assert len(line) > 4 * sentences.PIECE_CHARACTERS
    assert PysbdSegmenter()(line) == pysbd_sentences(PROSE) * 20


LIST_MARKERS = "a. b. c. " * 20
LONG = "word " * 300
REFUSED = ["A warm hand ☝ points. It does.", "A \x1c1. One", BRACKETED_NUMBERS, LIST_MARKERS, LONG + "3.14."]
REFUSED_ENGLISH = ["A ☝. It is.", BRACKETED_NUMBERS, LIST_MARKERS, LONG + "and.. so."]


@pytest.mark.parametrize(
    ("segmenter", "piece"),
    [(EVERYTHING_BY_PYSBD, piece) for piece in REFUSED] + [(PysbdSegmenter(), piece) for piece in REFUSED_ENGLISH],
)
def test_each_piece_that_pysbd_cannot_take_is_split_plainly(segmenter, piece):
    text = f"Before. Dr. Smith.\n{piece}\nAfter. Dr. Smith."
    result = segmenter(text)
    assert_faithful(text, result)
    assert result[0] == "Before. " and result[-1] == "Dr. Smith."


def test_text_that_pysbd_does_not_return_is_split_plainly(monkeypatch):
    monkeypatch.setattr("pysbd.processor.Processor.process", lambda processor: ["Two."])
    assert EVERYTHING_BY_PYSBD("One. Two. Three.") == ["One. ", "Two. ", "Three."]


def test_a_document_beyond_the_limit_is_split_by_the_plain_rule(monkeypatch):
    monkeypatch.setattr(sentences, "DOCUMENT_CHARACTERS", 100)
    text = "Dr. Smith left.\n" * 3
    assert EVERYTHING_BY_PYSBD(text) == ["Dr. Smith left.\n"] * 2 + ["Dr. ", "Smith left.\n"]


def test_works_outside_the_main_thread():
    results = []
    text = f"Dr. Smith left. He was late.\n{BRACKETED_NUMBERS}"
    thread = threading.Thread(target=lambda: results.append(PysbdSegmenter()(text)))
    thread.start()
    thread.join(timeout=60)
    assert results == [PysbdSegmenter()(text)]


def test_the_newline_segmenter_splits_at_line_ends():
    assert get_segmenter("newline")("One. Two\r\n\r\n  Three\n") == ["One. Two\r\n\r\n", "  Three\n"]


@given(text=any_text.filter(str.strip))
def test_split_at_white_space_each_sentence_is_a_word(text):
    assert [sentence.strip() for sentence in get_segmenter("whitespace")(text)] == text.split()


def test_a_callable_segmenter_attaches_blanks():
    assert get_segmenter(list)(" a b") == [" a ", "b"]


def test_a_callable_that_loses_text_is_refused_with_the_place():
    segmenter = get_segmenter(str.split)
    with pytest.raises(ValueError, match=r"at character 3 .*' two', .*'two'.*end of a sentence"):
        segmenter("one two")


@pytest.mark.parametrize("result", ["One.", None, [1], b"One."])
def test_a_callable_must_return_a_list_of_strings(result):
    with pytest.raises(TypeError, match="list of strings"):
        get_segmenter(lambda text: result)("One.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nltk",), "'nltk'.*'pysbd', 'newline', 'whitespace' or a function"),
        ((None,), "None.*'pysbd', 'newline'"),
        (("pysbd", "xx"), "'xx'.*'de', .*'en'"),
    ],
)
def test_unknown_segmenters_and_languages_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        get_segmenter(*arguments)


@pytest.mark.parametrize("segmenter", ["pysbd", *PATTERNS, split_plain])
def test_pickle_round_trip_is_stable(segmenter):
    function = get_segmenter(segmenter)
    before = pickle.dumps(function)
    expected = function("Dr. Smith left.\nHe did.")
    assert pickle.dumps(function) == before
    assert pickle.loads(before)("Dr. Smith left.\nHe did.") == expected
