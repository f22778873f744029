"""The events of the page: each takes a session's key and values, and returns what to show."""

from __future__ import annotations

import functools
import html
import logging
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr

from . import uploads
from .changes import add_texts, open_classifier, save_classifier, suggested_text
from .sessions import KeptSessions, Limits, Session, SharedModel, counted
from .uploads import classify_upload
from .views import NEIGHBORS, Answer, answer, audit_table, document_map, text_of

logger = logging.getLogger(__name__)

LONGEST = 600  # characters of a sentence


def as_text(message: str) -> str:
    """A message for ``gr.Warning`` and ``gr.Info``, which take it for HTML."""
    return html.escape(message if len(message) <= LONGEST else f"{message[:LONGEST]}...")


def spoken(event: Callable[..., Any]) -> Callable[..., Any]:
    """An event whose errors are shown to the visitor; unexpected ones only as a general sentence.

    All outputs stay as they are. Gradio would write "Error" over each one that an exception leaves without a value.
    """

    @functools.wraps(event)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return event(*args, **kwargs)
        except (ValueError, TypeError) as error:
            logger.info("%s", error)
            gr.Warning(as_text(str(error)), title="Not done")
        except Exception:
            logger.exception("The page failed.")
            gr.Warning("Something went wrong here. Details are in the log of docsplit-demo.", title="Not done")
        return gr.skip()

    return wrapped


TQDM = gr.Progress(track_tqdm=True)  # a bar of tqdm moves on the page
BUTTONS = 8  # labels that have a button; a list has all of them
NO_LABELS = "(none)"
NOTHING_YET = "No texts yet: add some on the tab Texts."
CLOSED = [gr.skip() | {"visible": False}] * 4  # the texts that are open on other tabs
Key = str | None


class Events:
    """The events of one server, which know its encoder and its limits."""

    def __init__(self, shared: SharedModel, limits: Limits) -> None:
        self.shared, self.limits = shared, limits
        self.sessions = KeptSessions(shared, limits)

    def opened(self, key: Key) -> tuple:
        """Open the page, with the texts that this browser gave before."""
        if key is not None:
            try:
                return key, *self.head(key)
            except ValueError as error:
                gr.Warning(as_text(f"Your earlier texts cannot be opened: {error}"))
        key = secrets.token_urlsafe(32)
        return key, *self.head(key)

    def head(self, key: Key) -> tuple:
        """The head of the page: how many texts there are, and the buttons for them."""
        session = self.sessions[key]
        have, labels, without = session.counts()
        there = have + without > 0
        said = f"**{counted(have, 'text')}** with a label (**{counted(labels, 'label')}**) · **{without:,}** without"
        return (
            said if there else NOTHING_YET,
            gr.Button(visible=not there),
            gr.Button(visible=len(self.sessions.steps(key)) > 1),
            gr.Button(visible=there),
            gr.Row(visible=False),
            gr.Dataframe(session.measured, visible=session.fitted),
        )

    def change(self, key: Key, change: Callable[..., str], *values: Any) -> tuple:
        """Change the texts, and tell what was done."""
        with self.sessions.changing(key) as session:
            said = change(session, *values)
        gr.Info(as_text(said), duration=5)
        return self.head(key)

    def change_and_show(
        self, then: Callable, outputs: int, change: Callable, key: Key, text: str, label: Key, *values: Any
    ) -> tuple:
        """Give a text a label, or remove it, and show what comes next, if something does."""
        head = self.change(key, change, text, label)
        shown = spoken(then)(key, *values)
        return *head, *(shown if isinstance(shown, tuple) else [gr.skip()] * outputs)

    def undo(self, key: Key) -> tuple:
        """Undo the last change, and close all opened texts."""
        self.sessions.undo(key)
        gr.Info("The last change is undone.", duration=5)
        return *self.head(key), *CLOSED

    def clear(self, key: Key) -> tuple:
        """Remove all texts."""
        given = self.shared.new_pipeline()
        return *self.change(key, lambda session: session.replace(given) or "All texts are removed."), *CLOSED

    def open(self, key: Key, path: Key) -> tuple:
        """Load the texts of a saved classifier in place of the present ones."""
        given = open_classifier(_given(path), self.shared, self.limits)
        return *self.change(key, lambda session: session.replace(given) or "The classifier is loaded."), *CLOSED

    def add_pasted(self, key: Key, labeled: str, unlabeled: str, progress: gr.Progress = TQDM) -> tuple:
        """Add pasted lines, and empty the boxes."""
        given = uploads.pasted_texts(labeled or "", unlabeled or "", self.limits)
        return *self.change(key, add_texts, given), "", ""

    def choose_columns(
        self, with_labels: bool, path: Key, encoding: Key = None, text: Key = None, label: Key = None
    ) -> tuple:
        """The encoding of an uploaded file, its columns, as given or guessed, and its first rows."""
        if path is None:
            return *[gr.Dropdown(visible=False)] * 3, gr.Dataframe(visible=False)
        used = encoding or uploads.encoding_of(Path(path))
        rows = uploads.rows_of(Path(path), self.limits, used)
        columns = uploads.columns_of(rows)
        if encoding is None and used != uploads.UNICODE:
            said = f"{Path(path).name} is not encoded in UTF-8, and is read as {used}. If letters in the"
            gr.Warning(as_text(f"{said} first rows look wrong, choose another encoding."))
        if text is None:
            text, label = uploads.guess_columns(rows, self.limits.labels)
            label = label if with_labels and len(columns) > 1 else NO_LABELS
        shown = [name for name in (text, label) if name not in (None, NO_LABELS)]
        first = [[str(row.get(name) or "")[:200] for name in shown] for row in rows[:3]]
        return (
            gr.Dropdown(value=used, visible=True),
            gr.Dropdown(columns, value=text, visible=True),
            gr.Dropdown([NO_LABELS, *columns], value=label, visible=with_labels),
            gr.Dataframe({"headers": shown, "data": first}, visible=True),
        )

    def add_file(
        self, key: Key, path: Key, encoding: str, text: str, label: Key, progress: gr.Progress = TQDM
    ) -> tuple:
        """Add the rows of a file."""
        file = _given(path)
        if label is None:
            raise ValueError(f"Choose the column of labels, or {NO_LABELS} if the texts have no labels.")
        column = None if label == NO_LABELS else label
        return *self.change(key, add_texts, uploads.texts_of_file(file, text, column, self.limits, encoding)), None

    def add_examples(self, key: Key) -> tuple:
        """Add the example texts, and answer the last one, which is long and has no label."""
        if any(self.sessions[key].counts()):
            raise ValueError("The example texts would mix with the texts that are here: clear these first.")
        given = uploads.example_texts()
        head = self.change(key, add_texts, given)
        return *head, given.texts[-1], *self.ask(key, given.texts[-1]), gr.Tabs(selected="answer")

    def ask(self, key: Key, text: str) -> tuple:
        """Answer a text, and show the reasons."""
        session = self.sessions[key]
        with session.lock:
            found = answer(session, text)
        shown = [
            gr.HighlightedText(pieces, visible=True, label=f"{label} · {share:.0%} of the vote")
            for label, share, pieces in found.neighbors
        ]
        shown += [gr.HighlightedText([], visible=False)] * (NEIGHBORS - len(shown))
        label = gr.Label(found.probabilities, num_top_classes=len(found.probabilities))
        return (
            gr.Row(visible=True),
            label,
            found.pieces,
            _shares(found),
            *shown,
            *_labels([*found.probabilities, *session.labels]),
        )

    def suggest(self, key: Key) -> tuple:
        """Show the text to label next, the reason, and its possible labels."""
        session = self.sessions[key]
        with session.lock:
            found = suggested_text(session)
        if found is None:
            gr.Info("No text is without a label: add some on the tab Texts.")
            return gr.Column(visible=False), "", *_labels([])
        reason = found["reason"]
        text = gr.Textbox(found["text"], label=f"{reason[:1].upper()}{reason[1:]}.")
        return gr.Column(visible=True), text, *_labels([found["label"], *session.labels])

    def skip(self, key: Key) -> tuple:
        """Go on to the next suggestion."""
        session = self.sessions[key]
        session.suggestions = session.suggestions[1:]
        return self.suggest(key)

    def audit(self, key: Key) -> tuple:
        """Show the table of findings, and close the opened text."""
        session = self.sessions[key]
        with session.lock:
            said, rows, session.findings = audit_table(session)
        return said, gr.Dataframe(rows, visible=bool(rows)), gr.Column(visible=False)

    def open_finding(self, key: Key, clicked: gr.SelectData) -> tuple:
        """Open the text of a row of the table."""
        session, row = self.sessions[key], clicked.index[0]
        row_id = session.findings[row] if row < len(session.findings) else None
        if row_id is None:
            return gr.Column(visible=False), "", *_labels([])
        return _opened_text(session, row_id, *filter(None, clicked.row_value[2:3]))

    def map(self, key: Key) -> tuple:
        """Draw the map again, and close the opened text."""
        session = self.sessions[key]
        with session.lock:
            there = session.counts()[0] > 0
            said, value = document_map(session) if there else (NOTHING_YET, {"points": [], "labels": []})
        return value, said, gr.Column(visible=False)

    def open_point(self, key: Key, clicked: gr.EventData) -> tuple:
        """Open the text of a point of the map."""
        return _opened_text(self.sessions[key], str(getattr(clicked, "id", None)))

    def classify(self, key: Key, path: Key, encoding: str, text: str, progress: gr.Progress = TQDM) -> tuple:
        """Classify a file, and offer the answers for download."""
        session = self.sessions[key]
        with session.lock:
            target, first, said = classify_upload(session, _given(path), text, encoding)
        return said, gr.DownloadButton(value=str(target), visible=True), gr.Dataframe(first, visible=True)

    def save(self, key: Key) -> gr.DownloadButton:
        """Save the classifier, and offer it for download."""
        session = self.sessions[key]
        with session.lock:
            return gr.DownloadButton(value=str(save_classifier(session)), interactive=True)


def _given(path: Key) -> Path:
    if path is None:
        raise ValueError("Choose a file first.")
    return Path(path)


def _opened_text(session: Session, row_id: str, *first: str) -> tuple:
    text, label = text_of(session, row_id)
    said = f"A text with the label {label}" if label else "A text without a label"
    names = [name for name in [*first, *session.labels] if name != label]
    return gr.Column(visible=True), gr.Textbox(text, label=said), *_labels(names)


def _labels(names: list[str]) -> list[gr.Button | gr.Dropdown]:
    """Buttons of the first labels, and a list of all where there are more."""
    names = list(dict.fromkeys(names))
    buttons = [gr.Button(name, visible=True) for name in names[:BUTTONS]]
    hidden = [gr.Button(visible=False)] * (BUTTONS - len(buttons))
    return [*buttons, *hidden, gr.Dropdown(sorted(names), value=None, visible=len(names) > BUTTONS)]


def _shares(found: Answer) -> gr.BarPlot:
    import pandas as pd

    odds = [round(share, 3) for share in found.shares.values()]
    best = next(iter(found.probabilities))
    instead = f", not {found.against}" if found.against else ""
    return gr.BarPlot(
        pd.DataFrame({"expert": list(found.shares), "log odds": odds}),
        y_lim=[min(0, *odds), max(0, *odds)] if odds else None,
        visible=bool(odds),
        label=f"Why {best}{instead}",
    )
