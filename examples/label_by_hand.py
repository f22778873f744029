"""Label documents by hand, those first that teach most: one key each, saved at once.

    docsplit label --documents documents/ --labels politics business sport --output_dir output/labels

The same command goes on where it was, whatever ended it. output/labels/labels.jsonl is a file for
--dataset_name of docsplit classify, and output/labels itself a classifier:

    docsplit classify --model_name_or_path output/labels --predict new.csv
"""

import contextlib
import json
import logging
import os
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from scipy.stats import binomtest
from transformers import HfArgumentParser, pipeline
from transformers.hf_argparser import HfArg

from docsplit_hf import KNNClassifierPipeline, load_labeled_examples
from docsplit_hf.content_hash import sha256_of_json
from docsplit_hf.extras import check_extra
from docsplit_hf.models.checkpoints.atomic_replacement import finish_replacement, flush, locked, open_or_make
from docsplit_hf.models.checkpoints.checkpoint import DEFAULT_CHECKPOINT, open_checkpoint
from docsplit_hf.models.checkpoints.inside_folder import open_plain
from docsplit_hf.neighbors.experts.fit_report import FitReport
from docsplit_hf.neighbors.row_files import read_rows as read_texts
from docsplit_hf.neighbors.store.files.classifier_folder import FOLDER
from docsplit_hf.text.labels import is_multi_label, labels_by_name
from docsplit_hf.text.load_documents import load_unlabeled_texts
from docsplit_hf.training.command_line import parse_arguments, run_script, show_log

check_extra("label", "Labeling by hand")

from prompt_toolkit import Application  # noqa: E402
from prompt_toolkit.input.typeahead import clear_typeahead  # noqa: E402
from prompt_toolkit.key_binding import KeyBindings  # noqa: E402
from prompt_toolkit.keys import Keys  # noqa: E402
from prompt_toolkit.layout import FormattedTextControl, Layout, Window  # noqa: E402
from prompt_toolkit.utils import get_cwidth  # noqa: E402

LABELS, PROGRESS = "labels.jsonl", "progress.jsonl"
Content = tuple[str, str | None]  # a text, and its pair: what tells documents apart


@dataclass
class LabelingArguments:
    """What to label, and how."""

    _argument_group_name = "labeling"

    documents: str | None = HfArg(
        default=None,
        help="The documents: a .jsonl, .json, .csv, .tsv or .parquet file with a column of texts; a .txt file with one "
        "in each line; a folder of .txt files; or a data set on the Hub. Without it, those of the classifier in "
        "--output_dir.",
    )
    labels: list[str] = HfArg(
        default_factory=list,
        help="The labels, at least two: name, or 'name=what its texts say'. What is said of a label is its first "
        "example. Others may be added while labeling.",
    )
    output_dir: str = HfArg(
        default="output/labels",
        help=f"The folder for {LABELS} and the classifier. Labels that are there are kept, and gone on from.",
    )
    model_name_or_path: str | None = HfArg(
        default=None,
        help="An encoder on the Hub or a folder, or a classifier made with --no_training. Read at the first start. "
        f"Default: {DEFAULT_CHECKPOINT}, which ships.",
    )
    labeled: str | None = HfArg(
        default=None, help="Examples that have labels already, in a file as for --documents with a --label_column."
    )
    batch_size: int = HfArg(default=10, help="Documents to label until the classifier learns from them.")
    text_column: str = HfArg(default="text", help="The column with the texts.")
    text_pair_column: str | None = HfArg(default=None, help="The column with the second texts, for pairs.")
    label_column: str = HfArg(default="label", help="The column with the labels of --labeled.")
    csv_separator: str | None = HfArg(default=None, help="What separates the columns of a .csv file, if no comma.")
    encoding: str | None = HfArg(default=None, help="Encoding of files, if not UTF-8, such as cp1252.")

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"--batch_size must be a whole number from 1, got {self.batch_size}.")
        self.descriptions()

    def columns(self) -> dict[str, str | None]:
        """How files are read."""
        names = ("text_column", "text_pair_column", "csv_separator", "encoding")
        return {name: getattr(self, name) for name in names}

    def descriptions(self) -> dict[str, str | None]:
        """The description of each label, or None."""
        found: dict[str, str | None] = {}
        for given in self.labels:
            name, _, description = (part.strip() for part in given.partition("="))
            if not name or not name.isprintable():
                raise ValueError(f"--labels: {given!r} has no name that can be shown: write name or name=description.")
            if name.casefold() in {other.casefold() for other in found}:
                raise ValueError(f"--labels: {name!r} is given twice, or differs by its case only: give it once.")
            found[name] = description or None
        return found


@contextlib.contextmanager
def labeling_folder(folder: Path) -> Iterator[None]:
    """Make a folder to label in, or go on in one; no other process labels there meanwhile."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--output_dir {folder} is a file: give a folder.")
    if folder.is_dir() and any(folder.iterdir()) and not ((folder / LABELS).is_file() or has_classifier(folder)):
        raise ValueError(
            f"--output_dir {folder} is not empty, and holds neither {LABELS} nor a classifier to go on with: give "
            "another folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / LABELS, wait=False))
        except BlockingIOError as error:
            raise ValueError(f"Another process labels in {folder}: end it first, or give another folder.") from error
        flush(folder)
        finish_replacement(folder)
        yield


def has_classifier(folder: Path) -> bool:
    """Whether a classifier was saved in a folder."""
    return (folder / FOLDER).is_dir()


def read_rows(path: Path, *keys: str) -> list[dict[str, Any]]:
    """The rows of a file, each with these keys. A half-written last line is cut off, with a message."""
    content = path.read_bytes() if path.exists() else b""
    *lines, rest = content.split(b"\n")
    if rest:
        if _row(rest, keys) is not None:  # it is whole: an editor has left out the end of the line
            lines.append(rest)
            append_line(path, b"\n")
        else:
            _cut(path, len(content) - len(rest))
            print(f"The last line of {path} was half written when its process was killed, and is cut off.")
    rows = [_row(line, keys) for line in lines]
    if None in rows:
        number = rows.index(None) + 1
        wanted = ", ".join(keys)
        raise ValueError(f"Line {number} of {path} is no JSON with {wanted}: mend it, or give another --output_dir.")
    return rows


def append_row(path: Path, row: dict[str, Any]) -> None:
    """Append a row, and wait until it is on disk. If the disk is full, the file stays as it was."""
    append_line(path, json.dumps(row, ensure_ascii=False).encode() + b"\n")


def append_line(path: Path, line: bytes) -> None:
    """Append bytes to a file, all of them or none."""
    with open(open_or_make(path), "r+b", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        try:
            if file.write(line) < len(line):
                raise OSError("the disk is full")
            os.fsync(file.fileno())
        except OSError as error:
            file.truncate(before)
            raise OSError(f"{path} cannot be written ({error}); what was labeled before is kept.") from error


def _cut(path: Path, length: int) -> None:
    with open(open_plain(path, os.O_RDWR), "r+b") as file:
        file.truncate(length)
        os.fsync(file.fileno())


def _row(line: bytes, keys: tuple[str, ...]) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    is_row = isinstance(row, dict) and all(key in row for key in keys)
    return row if is_row and isinstance(row.get("label"), str | None) else None


COMMANDS = {"s": "skip", "u": "undo", "m": "more of the text", "+": "new label", "/": "find label", "?": "help"}
COMMANDS |= {"q": "quit"}
LABEL_KEYS = "".join(key for key in "123456789abcdefghijklmnopqrstuvwxyz" if key not in COMMANDS)


@dataclass(frozen=True)
class Document:
    """A document to label, with the classifier's answer, if it was asked in this session."""

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
    learned: str = ""  # how good the classifier is by now
    page: int = 0
    typed: str | None = None  # after + or /, which it begins with
    help: bool = False
    message: str = ""


class Action(NamedTuple):
    """An action that a key asks for: ``"answer"`` (label None: skip), ``"undo"`` or ``"quit"``."""

    kind: str
    label: str | None = None
    document: Document | None = None


def press(state: State, key: str) -> tuple[State, Action | None]:
    """The state and the action after a key: a character, or ``enter``, ``escape``, ``backspace``."""
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
        return (
            _answer(state, answer)
            if answer is not None
            else (replace(state, message="There is no answer to accept."), None)
        )
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
    return replace(state, message="This key has no meaning: ? shows those that have."), None


def found_labels(state: State) -> list[str]:
    """The labels that begin with what was typed after /."""
    return [name for name in state.labels if name.casefold().startswith(state.typed[1:].strip().casefold())]


def put_back(state: State, document: Document, label: str | None) -> State:
    """The state after undo, with the document back; ``label`` is None if it was skipped."""
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
        return replace(state, message=f"No label begins with {name}: + makes a new one."), None
    return replace(state, typed=typed, message=f"{len(found)} labels begin so: type more."), None


def _answer(state: State, label: str | None) -> tuple[State, Action]:
    said = "Skipped" if label is None else f"Labeled {label}"
    counts = {"done": state.done + 1, "left": state.left - 1}
    answered = replace(state, documents=state.documents[1:], page=0, message=f"{said}; u takes it back.", **counts)
    return answered, Action("answer", label, state.documents[0])


Line = tuple[str, str]  # its style and its text
PLAIN, STRONG, FAINT = "", "bold", "fg:ansibrightblack"
NAMED = {Keys.Enter: "enter", Keys.ControlJ: "enter", Keys.Backspace: "backspace", Keys.Escape: "escape"}
HELP = (
    f"{LABEL_KEYS[:9]} and letters: give the label that stands beside the key.",
    "Enter: accept the present answer.",
    "s: skip; the document is never asked again.",
    "u: take the last label back, and the one before, ...",
    "m: more of the text; after its end, the beginning.",
    "+: give a new label: type its name, then Enter.",
    "/: give any label: type how it begins, then Enter. Escape leaves.",
    "q, Ctrl-D: learn from all labels, save, and end.",
    "Ctrl-C: end at once. Each label is on the disk as soon as its key is pressed.",
)


def label_on_screen(state: State, perform: Callable[[State, Action], State]) -> State:
    """Show one document after the other until none is left or the user quits; gives the last state.

    ``perform`` does what a key asks for, before the state after it is shown; it gives that state, or another one.

    Raises:
        EOFError: If the terminal was closed.
    """
    bindings = KeyBindings()

    @bindings.add(Keys.Any)
    def _(event):
        nonlocal state
        pressed = event.key_sequence[0]
        try:
            if pressed.key in (Keys.ControlC, Keys.SIGINT):
                raise KeyboardInterrupt
            for key in _keys(pressed, state):
                state, action = press(state, key)
                if action is not None:
                    state = perform(state, action)
                    if action.kind == "quit" or not state.documents:
                        event.app.exit(result=state)
        except BaseException as error:  # else the event loop would print it, and go on
            event.app.exit(exception=error)

    def content():
        size = app.output.get_size()
        lines = screen_lines(state, size.columns, size.rows) if state.documents else []
        return [part for style, line in lines for part in ((style, line), ("", "\n"))][:-1]

    window = Window(FormattedTextControl(content, show_cursor=False))
    app = Application(Layout(window), key_bindings=bindings, full_screen=True)
    app.ttimeoutlen = 0.05  # seconds until Escape is a key of its own
    with app.input.raw_mode():
        app.input.read_keys()  # what was typed when no document was to be seen labels none
        clear_typeahead(app.input)
    return app.run()


def screen_lines(state: State, columns: int, rows: int) -> list[Line]:
    """The lines of the screen, at most ``rows``, none wider than ``columns``."""
    if state.help:
        lines = [(PLAIN, line) for text in HELP for line in wrap(text, columns)]
        return [*lines[: rows - 1], (STRONG, cut("Any key goes back.", columns))]
    document = state.documents[0]
    text = document.text if document.text_pair is None else f"{document.text}\n\n{document.text_pair}"
    lines = wrap(text, columns)
    above = [(STRONG, cut(f"Document {state.done + 1}, {state.left - 1:,} after it. {document.id}", columns))]
    above += [(FAINT, line) for line in wrap(state.learned, columns, most=3)] if state.learned else []
    below = _below(state, columns, rows)
    height = max(rows - len(above) - len(below) - 2, 1)
    pages = -(-len(lines) // height)
    page = state.page % pages
    of_text = [(PLAIN, line) for line in lines[page * height : (page + 1) * height]]
    of_text += [(PLAIN, "")] * (height - len(of_text))
    ruler = "" if pages == 1 else f" page {page + 1} of {pages}, m: more "
    frame = [(FAINT, "─" * columns), (FAINT, cut(ruler, columns).center(columns, "─"))]
    return [*above, frame[0], *of_text, frame[1], *below][:rows]


def clean(text: str) -> str:
    """Text without control characters, which a terminal would obey, and without changes of direction."""
    text = re.sub(r"\r\n?|[\x85\u2028\u2029]", "\n", text).replace("\t", "    ")
    shown = {"C": "�", "Cf": ""}  # formats such as the joiners of emoji take no place
    kinds = ((one, unicodedata.category(one)) for one in text)
    return "".join(shown.get(kind, shown.get(kind[0], one)) if one != "\n" else one for one, kind in kinds)


@lru_cache(maxsize=64)
def wrap(text: str, columns: int, most: int | None = None) -> list[str]:
    """Wrap text between words where possible, into at most ``most`` lines, the last one cut."""
    lines = []
    for paragraph in clean(text).rstrip().split("\n"):
        lines += _wrap_paragraph(paragraph, columns)
    if most is not None and len(lines) > most:
        lines = [*lines[: most - 1], cut(" ".join(lines[most - 1 :]), columns)]
    return lines


def cut(text: str, columns: int) -> str:
    """A line cut to the width, with an ellipsis if anything is missing."""
    text = clean(text).replace("\n", " ")
    if get_cwidth(text) <= columns:
        return text
    return f"{_head(text, columns - 1)}…"


def _below(state: State, columns: int, rows: int) -> list[Line]:
    """The lines below the text: answer and reasons, labels and keys, commands, input or message."""
    document = state.documents[0]
    answer = "No answer yet." if document.label is None else f"{document.label} {document.score:.0%}"
    why = f" for: {', '.join(document.words)}" if document.words else ""
    keys = [f"{key} {label}" for key, label in zip(LABEL_KEYS, state.labels, strict=False)]
    if len(state.labels) > len(keys):
        keys.append(f"/ {len(state.labels) - len(keys)} more")
    if state.typed is not None and state.typed[0] == "/":
        keys = found_labels(state) or ["No label begins so."]
    small = rows < 24 or columns < 60  # the text is to have half of the screen
    commands = ["Enter accept", *(f"{key} {meaning}" for key, meaning in COMMANDS.items() if not small or key in "su?")]
    lines = [(STRONG, line) for line in wrap(f"{answer}{why}", columns, most=1 if small else 2)]
    lines += [(FAINT, line) for line in wrap(document.reason, columns, most=1 if small else 2)]
    lines += [(PLAIN, line) for line in _in_lines(keys, columns, most=max(rows // 5, 1))]
    lines += [(FAINT, line) for line in _in_lines(commands, columns, most=1 if small else 3)]
    if state.typed is None:
        return [*lines, (STRONG, cut(state.message, columns))]
    said = {"+": "New label: ", "/": "Label: "}[state.typed[0]]
    return [*lines, (STRONG, cut(f"{said}{state.typed[1:]}█ {state.message}", columns))]


def _keys(pressed, state: State) -> list[str]:
    """A key of the terminal as keys of ``press``: none, one, or those of a pasted text."""
    if pressed.key == Keys.ControlD:
        return ["q"] if state.typed is None and not state.help else ["escape", "q"]
    if pressed.key == Keys.BracketedPaste:
        return list(pressed.data) if state.typed is not None else []
    if pressed.key in NAMED:
        return [NAMED[pressed.key]]
    return [pressed.key] if len(pressed.key) == 1 else []


def _wrap_paragraph(paragraph: str, columns: int) -> list[str]:
    lines, line, width = [], "", 0
    for word in re.findall(r"\s*\S+", paragraph):
        if line and width + get_cwidth(word) > columns:
            lines.append(line)
            line, width, word = "", 0, word.lstrip()
        while width + get_cwidth(word) > columns:
            head = _head(word, columns) or word[0]
            lines.append(head)
            word = word[len(head) :]
        line, width = line + word, width + get_cwidth(word)
    return [*lines, line]


def _head(text: str, columns: int) -> str:
    """The longest beginning of a text that fits."""
    width = 0
    for place, character in enumerate(text):
        width += get_cwidth(character)
        if width > columns:
            return text[:place]
    return text


def _in_lines(items: list[str], columns: int, most: int) -> list[str]:
    """Items side by side, none broken, as many as fit."""
    lines: list[str] = []
    for item in (cut(item, columns) for item in items):
        if lines and get_cwidth(lines[-1]) + 2 + get_cwidth(item) <= columns:
            lines[-1] += f"  {item}"
        elif len(lines) < most:
            lines.append(item)
        else:
            lines[-1] = cut(f"{lines[-1]} …", columns)
            break
    return lines


BY_HAND = "hand:"  # ids of examples that were labeled by hand begin so
BARS = "▁▂▃▄▅▆▇█"


def open_classifier(folder: Path, model: str | None) -> KNNClassifierPipeline:
    """The classifier in a folder, or a new one from an encoder or from a classifier elsewhere."""
    name = str(folder) if has_classifier(folder) else model
    pipe = pipeline("docsplit-knn", model=None if name is None else open_checkpoint(name).path)
    if pipe.model.config.num_labels > 0:
        raise ValueError(
            f"{name} was trained, and learns by training only. Label on an encoder, or on a classifier that was made "
            "with --no_training; docsplit classify trains on the file of labels afterwards."
        )
    if pipe.datastore is not None and pipe.datastore.multi_label:
        raise ValueError(f"The texts of {name} may have several labels each, and a key gives one: label on an encoder.")
    return pipe


def add_what_is_new(
    pipe: KNNClassifierPipeline,
    documents: Mapping[Content, str],
    labels: Mapping[str, str | None],
    examples: tuple[Any, list[str]],
) -> bool:
    """Add documents with ids, labels with descriptions, and labeled examples; returns whether any are new.

    What is there already is not embedded again.
    """
    store, before = pipe.datastore, _state(pipe)
    known = () if store is None else store.label_names
    described = {} if store is None else dict(zip(store.ids, store.texts, strict=True))
    new_labels = {
        name: description or name
        for name, description in labels.items()
        if name not in known or description not in (None, described.get(f"label:{name}"))
    }
    if new_labels:
        pipe.add_labels(new_labels)
    store = pipe.datastore
    there = {*_contents(store), *_contents(store.documents)}
    if new := {content: name for content, name in documents.items() if content not in there}:
        _add_documents(pipe, new, show_progress=True)
    if examples[1]:
        pipe.add_examples(*examples)
    return _state(pipe) != before


def learn_labels(pipe: KNNClassifierPipeline, rows: list[dict[str, Any]]) -> bool:
    """Make the examples match the file, where a text's last row counts; returns whether anything changed.

    Skipped documents are left out of all that is learned. What was taken back is a document again.
    """
    before, store = _state(pipe), pipe.datastore
    given = {(row["text"], row.get("text_pair")): row["label"] for row in rows}
    names = {(row["text"], row.get("text_pair")): row["id"] for row in rows}
    labels = zip(store.ids, _contents(store), (store.label_names[number] for number in store.labels), strict=True)
    learned = {content: (row_id, label) for row_id, content, label in labels if row_id.startswith(BY_HAND)}
    if wrong := [content for content, (_, label) in learned.items() if given.get(content) != label]:
        pipe.remove_examples([learned[content][0] for content in wrong])
        if free := [content for content in wrong if content not in given]:
            _add_documents(pipe, {content: learned[content][0].removeprefix(BY_HAND) for content in free})
    documents = pipe.datastore.documents
    there = [] if documents is None else zip(documents.ids, _contents(documents), strict=True)
    if skipped := [row_id for row_id, content in there if content in given and given[content] is None]:
        pipe.remove_documents(skipped)
    right = learned.keys() - set(wrong)
    new = {content: label for content, label in given.items() if label is not None and content not in right}
    if unknown := {label: label for label in new.values() if label not in pipe.datastore.label_names}:
        pipe.add_labels(unknown)
    if new:
        ids = _ids({content: f"{BY_HAND}{names[content]}" for content in new}, pipe.datastore.ids)
        pipe.add_examples([_as_input(content) for content in new], list(new.values()), ids=ids)
    return _state(pipe) != before


def add_again(pipe: KNNClassifierPipeline, content: Content, name: str) -> None:
    """Add a skipped text as a document again, if it is not there."""
    if content not in {*_contents(pipe.datastore), *_contents(pipe.datastore.documents)}:
        _add_documents(pipe, {content: name})


def next_documents(pipe: KNNClassifierPipeline, most: int) -> list[Document]:
    """The documents to label next, with the present answers and their reasons."""
    left = documents_left(pipe)
    if not left:
        return []
    # again: what was suggested and got no label is still to be asked; what was labeled or skipped is gone.
    found = pipe.suggest(min(most, left), again=True)
    answers = pipe([_as_input((one["text"], one["text_pair"])) for one in found], top_k=None, explain=True)
    documents = []
    for one, labels in zip(found, answers, strict=True):
        [answer] = [answer for answer in labels if answer["label"] == one["label"]]
        words = tuple(word["word"] for word in answer["explanation"]["words"])
        shown = {name: one[name] for name in ("id", "text", "text_pair", "label", "score", "reason")}
        documents.append(Document(**shown, words=words))
    return documents


def documents_left(pipe: KNNClassifierPipeline) -> int:
    """How many documents have no label."""
    return 0 if pipe.datastore.documents is None else len(pipe.datastore.documents)


def measured(pipe: KNNClassifierPipeline, labels: int) -> dict[str, Any]:
    """A row of the file of progress: the figures on folds of the examples, after so many labels."""
    report = FitReport.of(pipe.datastore.fitted.settings)
    row = {"labels": labels, "examples": report.examples, "held_out": report.texts}
    if not report.measured:
        return row
    mixture = next(record for record in report.measured if record["expert"] == "mixture")
    right = round(mixture["accuracy"] * report.texts)
    interval = binomtest(right, report.texts).proportion_ci(0.95, method="wilson")
    low, high = report.accuracy_interval or (interval.low, interval.high)  # of several labels per text there is none
    row |= {"accuracy": mixture["accuracy"], "low": low, "high": high}
    return row | {"macro_f1": mixture["macro_f1"], "answered_at_5": report.answered["0.05"]}


def describe_progress(rows: list[dict[str, Any]]) -> str:
    """The last row in words, with a sparkline of the accuracy so far."""
    if not rows:
        return ""
    last, known = rows[-1], [row["accuracy"] for row in rows if "accuracy" in row]
    if "accuracy" not in last:
        return f"{last['labels']} labels by hand, too few to measure accuracy."
    bars = "".join(BARS[min(int(accuracy * len(BARS)), len(BARS) - 1)] for accuracy in known[-20:])
    return (
        f"{bars} {last['labels']} labels: {last['accuracy']:.0%} right on folds ({last['low']:.0%} to "
        f"{last['high']:.0%}), macro F1 {last['macro_f1']:.0%}, {last['answered_at_5']:.0%} answered at 5% error."
    )


def _state(pipe: KNNClassifierPipeline) -> tuple[Any, ...]:
    store = pipe.datastore
    if store is None:
        return ()
    documents = [] if store.documents is None else store.documents.ids
    return store.ids, store.texts, store.labels.tolist(), documents


def _contents(store: Any) -> list[Content]:
    return [] if store is None else list(zip(store.texts, store.text_pairs, strict=True))


def _as_input(content: Content) -> dict[str, str]:
    text, pair = content
    return {"text": text} if pair is None else {"text": text, "text_pair": pair}


def _add_documents(pipe: KNNClassifierPipeline, new: Mapping[Content, str], **options: Any) -> None:
    documents = [] if pipe.datastore.documents is None else pipe.datastore.documents.ids
    taken = {name.removeprefix(BY_HAND) for name in (*documents, *pipe.datastore.ids)}
    pipe.add_documents([_as_input(content) for content in new], ids=_ids(new, taken), **options)


def _ids(wanted: Mapping[Content, str], taken: Iterable[str]) -> list[str]:
    """The wanted ids; one that another text has already, such as of a changed file, gets a hash added."""
    ids = dict.fromkeys(taken)
    for content, name in wanted.items():
        ids[f"{name} {id_of(content)}" if name in ids else name] = content
    return [name for name, content in ids.items() if content is not None]


def id_of(content: Content) -> str:
    """An id that depends on the content only."""
    return sha256_of_json(content)[:16]


class Labeling:
    """A labeling session in a folder: its files, and the classifier, which learns after each batch."""

    def __init__(self, arguments: LabelingArguments) -> None:
        self.folder = Path(arguments.output_dir)
        self.rows = read_rows(self.folder / LABELS, "id", "text", "label")
        self.progress = read_rows(self.folder / PROGRESS, "labels")
        self.shown: dict[Content, Document] = {}
        documents, examples = load_documents(arguments), load_examples(arguments)
        self.pipe = open_classifier(self.folder, arguments.model_name_or_path)
        labels = arguments.descriptions()
        known = () if self.pipe.datastore is None else self.pipe.datastore.label_names
        labels |= {name: None for name in (*known, *examples[1], *self.labels()) if name not in labels}
        if len(labels) < 2:
            found = f"one label, {next(iter(labels))!r}" if labels else "no label"
            raise ValueError(f"There is {found}, and nothing to tell apart: give two or more by --labels.")
        skipped = {(row["text"], row.get("text_pair")) for row in self.rows if row["label"] is None}
        documents = {content: name for content, name in documents.items() if content not in skipped}
        self.is_new = add_what_is_new(self.pipe, documents, labels, examples)

    def labels(self) -> list[str]:
        """The labels given by hand, without skipped documents."""
        return [row["label"] for row in self.rows if row["label"] is not None]

    def learn(self) -> None:
        """Learn what is new, save the classifier, and note how good it is."""
        self.is_new |= learn_labels(self.pipe, self.rows)
        if self.is_new or self.pipe.datastore.fitted is None:
            self.pipe.fit()
            self.pipe.save_pretrained(self.folder)
            self.is_new = False
        row = measured(self.pipe, len(self.labels()))
        if not self.progress or row["labels"] != self.progress[-1]["labels"]:
            append_row(self.folder / PROGRESS, row)
            self.progress.append(row)

    def next_batch(self, size: int) -> State:
        """The next documents to show; none if all have a label."""
        documents = next_documents(self.pipe, size)
        self.shown |= {(document.text, document.text_pair): document for document in documents}
        counts = {"done": len(self.rows), "left": documents_left(self.pipe)}
        return State(
            tuple(documents), self.pipe.datastore.label_names, **counts, learned=describe_progress(self.progress)
        )

    def perform(self, state: State, action: Action) -> State:
        """Perform an action; returns the state to show."""
        path = self.folder / LABELS
        if action.kind == "answer":
            document, pair = action.document, action.document.text_pair
            row = {"id": document.id, "text": document.text, **({} if pair is None else {"text_pair": pair})}
            row |= {"label": action.label, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
            append_row(path, row)
            self.rows.append(row)
        elif action.kind == "undo":
            if not self.rows:
                return replace(state, message="There is nothing to take back.")
            _cut(path, path.read_bytes()[:-1].rfind(b"\n") + 1)  # the last row
            row = self.rows.pop()
            document = Document(row["id"], row["text"], row.get("text_pair"))
            content = document.text, document.text_pair
            if row["label"] is None:
                add_again(self.pipe, content, document.id)
                self.is_new = True
            return put_back(state, self.shown.get(content, document), row["label"])
        return state


def load_documents(arguments: LabelingArguments) -> dict[Content, str]:
    """The texts to label, with pairs or None, and their ids: the path in a folder, or a hash."""
    if arguments.documents is None:
        if not has_classifier(Path(arguments.output_dir)):
            raise ValueError("There are no documents to label: give a file or a folder by --documents.")
        return {}
    loaded = load_unlabeled_texts(arguments.documents, **arguments.columns())
    pairs = loaded["text_pair"][:] if "text_pair" in loaded.column_names else [None] * len(loaded)
    files = {}
    if Path(arguments.documents).is_dir():
        files = {row["text"]: row["id"] for row in read_texts(Path(arguments.documents), encoding=arguments.encoding)}
    return {one: files.get(one[0]) or id_of(one) for one in zip(loaded["text"][:], pairs, strict=True)}


def load_examples(arguments: LabelingArguments) -> tuple[Any, list[str]]:
    """The examples that are already labeled, and their labels."""
    if arguments.labeled is None:
        return [], []
    options = {"label_column": arguments.label_column, "validation_size": 0}
    examples = load_labeled_examples(arguments.labeled, **arguments.columns(), **options)["train"]
    if is_multi_label(examples):
        raise ValueError(f"The texts of {arguments.labeled} have several labels each, and a key gives one.")
    return examples, labels_by_name(examples)


def label(arguments: LabelingArguments, label_on_screen: Any) -> None:
    """Show batch after batch, and learn from each."""
    labeling = Labeling(arguments)
    kept = f"labels are kept in {labeling.folder / LABELS}: the same command goes on."
    try:
        while True:
            labeling.learn()
            batch = labeling.next_batch(arguments.batch_size)
            if not batch.documents:
                print("All documents are labeled, or skipped.")
                break
            if label_on_screen(batch, labeling.perform).documents:  # the user has quit
                labeling.learn()
                break
    except (KeyboardInterrupt, EOFError) as end:
        raise KeyboardInterrupt(f"Stopped. {len(labeling.labels())} {kept}") from end
    print(f"{describe_progress(labeling.progress)}\n{len(labeling.labels())} {kept}")
    print(f"The classifier is in {labeling.folder}. In Python:\n  import docsplit_hf, transformers")
    print(f'  pipe = transformers.pipeline("docsplit-knn", model="{labeling.folder}")')
    print(f"For a file: docsplit classify --model_name_or_path {labeling.folder} --predict new.csv")


def main() -> dict[str, Any]:
    parser = HfArgumentParser(LabelingArguments, description=__doc__.split("\n")[0])
    (arguments,) = parse_arguments(parser)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ValueError("Labeling by hand needs a terminal for its screen and keys, and there is none: run it in one.")
    show_log()
    logging.getLogger("docsplit_hf").setLevel(logging.WARNING)  # each batch would say again what was calibrated
    with labeling_folder(Path(arguments.output_dir)):
        label(arguments, label_on_screen)
    with open(Path(arguments.output_dir, LABELS), encoding="utf-8") as labels:
        return {"output_dir": arguments.output_dir, "labeled": sum(1 for _ in labels)}


if __name__ == "__main__":
    run_script(main, "The same command goes on.")
