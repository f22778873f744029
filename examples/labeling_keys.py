"""What a key means when documents are labeled by hand: a pure function of what is on the screen."""

from dataclasses import dataclass, replace
from typing import NamedTuple

COMMANDS = {"s": "skip", "u": "undo", "m": "more of the text", "+": "new label", "/": "find label", "?": "help"}
COMMANDS |= {"q": "quit"}
LABEL_KEYS = "".join(key for key in "123456789abcdefghijklmnopqrstuvwxyz" if key not in COMMANDS)


@dataclass(frozen=True)
class Document:
    """A document to label, and what the classifier says of it; nothing, if it was labeled in an earlier session."""

    id: str
    text: str
    text_pair: str | None = None
    label: str | None = None
    score: float = 0.0
    words: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class State:
    """What is on the screen: the first of ``documents``."""

    documents: tuple[Document, ...]
    labels: tuple[str, ...]
    done: int = 0  # documents that were labeled or skipped
    left: int = 0  # documents without labels
    learned: str = ""  # how good the classifier is by now
    page: int = 0
    typed: str | None = None  # after + or /, which it begins with
    help: bool = False
    message: str = ""


class Action(NamedTuple):
    """What is to be done beside showing the next state: ``"answer"`` (label None: skip), ``"undo"`` or ``"quit"``."""

    kind: str
    label: str | None = None
    document: Document | None = None


def press(state: State, key: str) -> tuple[State, Action | None]:
    """The state after a key, and what is to be done: one character, or ``enter``, ``escape``, ``backspace``."""
    state = replace(state, message="")
    if state.help:
        return replace(state, help=False), None
    if state.typed is not None:
        return _type(state, key)
    key, answer = key.lower(), state.documents[0].label
    place = LABEL_KEYS.find(key) if len(key) == 1 else -1
    if 0 <= place < len(state.labels):
        return _answer(state, state.labels[place])
    if key == "enter":
        return _answer(state, answer) if answer is not None else (_say(state, "There is no answer to accept."), None)
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
    return _say(state, "This key has no meaning: ? shows those that have."), None


def found_labels(state: State) -> list[str]:
    """The labels that begin with what was typed after /."""
    return [name for name in state.labels if name.casefold().startswith(state.typed[1:].strip().casefold())]


def put_back(state: State, document: Document, label: str | None) -> State:
    """The state after undo, with the document that had got a label, or None if it was skipped."""
    said = "skipped" if label is None else f"labeled {label}"
    documents, counts = (document, *state.documents), {"done": state.done - 1, "left": state.left + 1}
    return replace(state, documents=documents, page=0, message=f"Taken back: it was {said}.", **counts)


def _type(state: State, key: str) -> tuple[State, Action | None]:
    typed = state.typed
    if key == "escape":
        return replace(state, typed=None), None
    if key == "backspace":
        return replace(state, typed=typed[:-1] or None), None
    if key != "enter":
        return replace(state, typed=typed + key if len(key) == 1 and key.isprintable() else typed), None
    name, state = typed[1:].strip(), replace(state, typed=None)
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
        return _say(state, f"No label begins with {name}: + makes a new one."), None
    return _say(replace(state, typed=typed), f"{len(found)} labels begin so: type more."), None


def _answer(state: State, label: str | None) -> tuple[State, Action]:
    said = "Skipped" if label is None else f"Labeled {label}"
    counts = {"done": state.done + 1, "left": state.left - 1}
    answered = replace(state, documents=state.documents[1:], page=0, message=f"{said}; u takes it back.", **counts)
    return answered, Action("answer", label, state.documents[0])


def _say(state: State, message: str) -> State:
    return replace(state, message=message)
