"""What keys mean, and what the screen shows, without a terminal."""

import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from labeling_keys import COMMANDS, LABEL_KEYS, Document, State, press, put_back
from labeling_screen import screen_lines, wrap
from prompt_toolkit.utils import get_cwidth

DOCUMENTS = (Document("a", "The river.", label="river", score=0.6), Document("b", "The engine."))
STATE = State(DOCUMENTS, ("river", "engine", "garden"), left=2)


def press_all(state, *keys):
    """The state after some keys, and what the last one asked for."""
    for key in keys:
        state, action = press(state, key)
    return state, action


@pytest.mark.parametrize(
    "keys, label",
    [
        (["2"], "engine"),
        (["enter"], "river"),
        (["s"], None),
        ([*"/g", "enter"], "garden"),
        ([*"/ENGINE", "enter"], "engine"),
        ([*"+forest", "enter"], "forest"),
        ([*"+River", "enter"], "river"),
        ([*"+forests", "backspace", "enter"], "forest"),
        (["/", "x", "escape", "1"], "river"),
        (["/", "backspace", "1"], "river"),
        (["m", "?", "2", "2"], "engine"),  # any key leaves the help, and does no more
        ([*"/x", "enter", "3"], "garden"),
    ],
)
def test_keys_that_answer(keys, label):
    state, action = press_all(STATE, *keys)
    assert action == ("answer", label, DOCUMENTS[0])
    assert (state.documents, state.done, state.left, state.page, state.typed) == (DOCUMENTS[1:], 1, 1, 0, None)
    assert put_back(state, DOCUMENTS[0], label).documents == DOCUMENTS
    assert state.labels == (*STATE.labels, *(["forest"] if label == "forest" else []))


@pytest.mark.parametrize("key", ["4", "a", "z", "x1", "escape", "backspace", "é", " "])
def test_other_keys_do_nothing(key):
    state, action = press(STATE, key)
    assert action is None and state == replace(STATE, message=state.message) and "no meaning" in state.message


def test_where_there_is_no_answer_none_is_accepted():
    state, action = press(replace(STATE, documents=DOCUMENTS[1:]), "enter")
    assert action is None and "no answer to accept" in state.message


def test_each_label_has_a_key_of_its_own_and_the_others_are_found_by_name():
    assert not set(LABEL_KEYS) & set(COMMANDS) and len(set(LABEL_KEYS)) == len(LABEL_KEYS)
    labels = tuple(f"label {number:02}" for number in range(40))
    state = replace(STATE, labels=labels)
    assert [press(state, key)[1].label for key in LABEL_KEYS] == list(labels[: len(LABEL_KEYS)])
    ambiguous, action = press_all(state, *"/label 3", "enter")
    assert action is None and "10 labels begin so" in ambiguous.message
    assert press_all(ambiguous, "9", "enter")[1].label == "label 39"


ANY_TEXT = st.text(max_size=300)


@given(ANY_TEXT, ANY_TEXT, st.lists(ANY_TEXT, min_size=2, max_size=40), st.integers(1, 120), st.integers(1, 50))
def test_the_screen_fits_any_window_and_holds_nothing_that_a_terminal_obeys(text, reason, labels, columns, rows):
    document = Document("1", text, label=labels[0], score=0.5, words=(text,), reason=reason)
    state = State((document,), tuple(labels), left=1, learned=reason, message=text, page=3)
    for shown in (state, replace(state, help=True), replace(state, typed="/e")):
        lines = screen_lines(shown, columns, rows)
        assert len(lines) <= rows
        for _, line in lines:
            assert all(unicodedata.category(character)[0] != "C" for character in line)
            assert columns < 2 or get_cwidth(line) <= columns


def test_paging_shows_each_line_of_a_long_text_once():
    text = "\n".join(f"Line {number} of a long text." for number in range(100))
    state, shown = State((Document("1", text),), ("river", "engine")), []
    for page in range(30):
        lines = [line for _, line in screen_lines(replace(state, page=page), 60, 24) if line.startswith("Line")]
        if page and lines[0] == shown[0]:
            break
        shown += lines
    assert shown == text.split("\n")


@given(st.text(alphabet="ab 日本\n", max_size=200), st.integers(2, 20))
def test_wrapping_loses_no_character_but_spaces(text, columns):
    assert "".join("".join(wrap(text, columns)).split()) == "".join(text.split())
