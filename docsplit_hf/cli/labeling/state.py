"""State of the screen, and its change by each key. Pure functions, without a terminal."""

from dataclasses import dataclass, replace
from typing import NamedTuple

COMMANDS = {
    "s": "skip",
    "u": "undo",
    "m": "more of the text",
    "+": "new label",
    "/": "find label",
    "?": "help",
    "q": "quit",
}
LABEL_KEYS = "".join(key for key in "123456789abcdefghijklmnopqrstuvwxyz" if key not in COMMANDS)


@dataclass(frozen=True)
class Document:
    """A document to label, with the answer of the classifier, if it has one."""

    id: str
    text: str
    text_pair: str | None = None
    label: str | None = None
    score: float = 0.0
    words: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class State:
    """The state of the screen, which shows the first of ``documents``."""

    documents: tuple[Document, ...]
    labels: tuple[str, ...]
    done: int = 0  # documents that were labeled or skipped
    left: int = 0  # documents without labels
    learned: str = ""  # description of the metrics so far
    page: int = 0
    typed: str | None = None  # a name being typed, after + or /
    help: bool = False
    message: str = ""


class Action(NamedTuple):
    """Action of a key: ``"answer"`` (label None: skip), ``"undo"`` or ``"quit"``."""

    kind: str
    label: str | None = None
    document: Document | None = None


def press(state: State, key: str) -> tuple[State, Action | None]:
    """Return the state and the action after a key: a character, or ``enter``, ``escape``, ``backspace``."""
    state = replace(state, message="")
    if state.help:
        return replace(state, help=False), None
    if state.typed is not None:
        return _type(state, key)
    key = key.lower()
    place = LABEL_KEYS.find(key) if len(key) == 1 else -1
    if 0 <= place < len(state.labels):
        return _answer(state, state.labels[place])
    if key == "enter":
        answer = state.documents[0].label
        if answer is None:
            return replace(state, message="There is no answer to accept."), None
        return _answer(state, answer)
    if key == "s":
        return _answer(state, None)
    if key in ("u", "q"):
        return state, Action(COMMANDS[key])
    if key == "m":
        return replace(state, page=state.page + 1), None
    if key in ("+", "/"):
        return replace(state, typed=key), None
    if key == "?":
        return replace(state, help=True), None
    return replace(state, message="This key does nothing: press ? for help."), None


def found_labels(state: State) -> list[str]:
    """Return the labels that begin with the text typed after /."""
    typed = state.typed[1:].strip().casefold()
    return [name for name in state.labels if name.casefold().startswith(typed)]


def put_back(state: State, document: Document, label: str | None) -> State:
    """Return the state after undo, with the document back; ``label`` is None if it was skipped."""
    former_answer = "skipped" if label is None else f"labeled {label}"
    return replace(
        state,
        documents=(document, *state.documents),
        done=state.done - 1,
        left=state.left + 1,
        page=0,
        message=f"Undone: it was {former_answer}.",
    )


def _type(state: State, key: str) -> tuple[State, Action | None]:
    typed = state.typed
    if key == "escape":
        return replace(state, typed=None), None
    if key == "backspace":
        return replace(state, typed=typed[:-1] or None), None
    if key != "enter":
        is_character = len(key) == 1 and key.isprintable()
        return replace(state, typed=typed + key if is_character else typed), None
    name = typed[1:].strip()
    state = replace(state, typed=None)
    if not name:
        return state, None
    known = {label.casefold(): label for label in state.labels}
    if name.casefold() in known:
        return _answer(state, known[name.casefold()])
    if typed[0] == "+":
        return _answer(replace(state, labels=(*state.labels, name)), name)
    found = found_labels(replace(state, typed=typed))
    if len(found) == 1:
        return _answer(state, found[0])
    if not found:
        return replace(state, message=f"No label begins with {name}: press + for a new one."), None
    return replace(state, typed=typed, message=f"{len(found)} labels begin with this: type more."), None


def _answer(state: State, label: str | None) -> tuple[State, Action]:
    answer = "Skipped" if label is None else f"Labeled {label}"
    answered = replace(
        state,
        documents=state.documents[1:],
        done=state.done + 1,
        left=state.left - 1,
        page=0,
        message=f"{answer}; press u to undo.",
    )
    return answered, Action("answer", label, state.documents[0])
