"""What the page does when something is clicked: a session and values in, a session and what is shown out."""

from __future__ import annotations

from pathlib import Path

import gradio as gr

from .answer import MOST_LABELS, NEIGHBORS, Answer, answer
from .audit_table import audit_table
from .classify_upload import classify_upload
from .document_map import document_map, text_of
from .label_texts import add_texts, give_label
from .limits import Limits
from .read_texts import Texts, columns_of, example_texts, pasted_texts, texts_of_file
from .saved_classifier import open_classifier, save_classifier
from .session import Session, used_labels
from .shared_model import SharedModel
from .spoken_errors import as_text
from .suggested_text import skip, suggested_text

BAR = gr.Progress()
TQDM = gr.Progress(track_tqdm=True)  # a bar of tqdm moves on the page
NO_LABELS = "(none)"
NOTHING_YET = "There are no texts yet: add some on the first tab, or take the example texts."


class Events:
    """The events of one server, which know its encoder and its limits."""

    def __init__(self, shared: SharedModel, limits: Limits) -> None:
        self.shared, self.limits = shared, limits

    def opened(self, session: Session | None) -> Session:
        """The session, made when the first text comes."""
        return session or Session(self.shared.new_pipeline(), self.limits)

    def add(self, session: Session | None, given: Texts) -> Session:
        """Add texts and tell how many."""
        session = self.opened(session)
        with session.lock:
            gr.Info(as_text(add_texts(session, given)))
        return session

    def add_pasted(self, session: Session | None, labeled: str, unlabeled: str, progress: gr.Progress = TQDM) -> tuple:
        """Pasted lines become texts, and the boxes are empty again."""
        session = self.add(session, pasted_texts(labeled or "", unlabeled or "", self.limits))
        return session, status(session), "", ""

    def add_file(
        self,
        session: Session | None,
        path: str | None,
        text_column: str,
        label_column: str,
        progress: gr.Progress = TQDM,
    ) -> tuple:
        """The rows of a file become texts."""
        column = None if label_column in (None, NO_LABELS) else label_column
        session = self.add(session, texts_of_file(_given(path), text_column, column, self.limits))
        return session, status(session), None

    def add_examples(self, session: Session | None) -> tuple:
        """The example texts, and the answer of the last one, which is long and has no label."""
        given = example_texts()
        session = self.add(session, given)
        return (
            session,
            status(session),
            given.texts[-1],
            *self.ask(session, given.texts[-1]),
            gr.Tabs(selected="answer"),
        )

    def open(self, path: str | None) -> tuple:
        """A saved classifier becomes the session."""
        session = open_classifier(_given(path), self.shared, self.limits)
        gr.Info("The classifier is loaded.")
        return session, status(session)

    def ask(self, session: Session | None, text: str) -> tuple:
        """An answer with all that speaks for it."""
        session = _with_texts(session)
        with session.lock:
            found = answer(session, text)
            names = list(found.probabilities)
            shown = [
                gr.HighlightedText(one.pieces, visible=True, label=f"{one.label} · {one.share:.0%} of the vote")
                for one in found.neighbors
            ]
        shown += [gr.HighlightedText([], visible=False)] * (NEIGHBORS - len(shown))
        return (
            gr.Label(found.probabilities, visible=True),
            gr.HighlightedText(found.pieces, visible=True),
            _shares(found),
            gr.Column(visible=True),
            *shown,
            *_buttons(_fill_up(names, session)),
        )

    def label(self, session: Session | None, text: str, label: str) -> tuple:
        """A text gets a label, which is learned."""
        session = self.opened(session)
        with session.lock:
            gr.Info(as_text(give_label(session, text, label or "")))
        return session, status(session)

    def suggest(self, session: Session | None) -> tuple:
        """The text to label next, why, and the labels that it may have."""
        session = _with_texts(session)
        with session.lock:
            found = suggested_text(session)
        names = _fill_up([found["label"]], session)
        return gr.Column(visible=True), gr.Textbox(found["text"], label=_sentence(found["reason"])), *_buttons(names)

    def skip(self, session: Session | None) -> tuple:
        """The text after the one that is shown."""
        skip(_with_texts(session))
        return self.suggest(session)

    def audit(self, session: Session | None) -> tuple:
        """The table of what was found."""
        session = _with_texts(session)
        with session.lock:
            said, rows, session.findings = audit_table(session)
        return said, gr.Dataframe(rows, visible=bool(rows)), gr.Column(visible=False)

    def open_finding(self, session: Session | None, clicked: gr.SelectData) -> tuple:
        """The text of a row of the audit's table."""
        session = _with_texts(session)
        row = clicked.index[0]
        row_id = session.findings[row] if row < len(session.findings) else None
        if row_id is None:
            return gr.Column(visible=False), "", *_buttons([])
        suggested = clicked.row_value[2]
        return self._opened_text(session, row_id, [suggested] if suggested else [])

    def map(self, session: Session | None, method: str) -> tuple:
        """The map, drawn anew."""
        if session is None or not session.counts()[0]:
            return {"points": [], "labels": []}, NOTHING_YET
        with session.lock:
            said, value = document_map(session, method)
        return value, said

    def open_point(self, session: Session | None, clicked: gr.EventData) -> tuple:
        """The text of a point of the map."""
        return self._opened_text(_with_texts(session), str(getattr(clicked, "id", None)), [])

    def classify(
        self, session: Session | None, path: str | None, text_column: str, progress: gr.Progress = BAR
    ) -> tuple:
        """The answers of a file, to download."""
        session = _with_texts(session)
        with session.lock:
            target, first, said = classify_upload(
                session,
                _given(path),
                text_column,
                lambda done, rows: progress((done, rows), "Classifying", unit="rows"),
            )
        return said, gr.DownloadButton(value=str(target), visible=True), gr.Dataframe(first, visible=True)

    def save(self, session: Session | None) -> gr.DownloadButton:
        """The classifier, to download."""
        session = _with_texts(session)
        with session.lock:
            return gr.DownloadButton(value=str(save_classifier(session)), interactive=True)

    def _opened_text(self, session: Session, row_id: str, first: list[str]) -> tuple:
        text, label = text_of(session, row_id)
        said = f"A text with the label {label}" if label else "A text without a label"
        names = [name for name in _fill_up(first, session) if name != label]
        return gr.Column(visible=True), gr.Textbox(text, label=said), *_buttons(names)


def status(session: Session | None) -> str:
    """How many texts there are; numbers alone, as it is shown as Markdown."""
    have, labels, without = (0, 0, 0) if session is None else session.counts()
    if not have + without:
        return NOTHING_YET
    return f"**{have:,}** texts with a label, of **{labels:,}** labels · **{without:,}** without"


def choose_columns(path: str | None) -> tuple:
    """The columns of an uploaded file, those chosen that are called so."""
    columns = [] if path is None else columns_of(Path(path))
    lower = {name.lower(): name for name in reversed(columns)}
    text = next((lower[name] for name in ("text", "document", "body", "content") if name in lower), None)
    label = next((lower[name] for name in ("label", "class", "category", "topic") if name in lower), NO_LABELS)
    text = text or next((name for name in columns if name != label), None)
    return (
        gr.Dropdown(columns, value=text, visible=bool(columns)),
        gr.Dropdown([NO_LABELS, *columns], value=label, visible=bool(columns)),
    )


def _given(path: str | None) -> Path:
    if path is None:
        raise ValueError("There is no file: choose one first.")
    return Path(path)


def _with_texts(session: Session | None) -> Session:
    if session is None:
        raise ValueError(NOTHING_YET)
    return session


def _fill_up(names: list[str], session: Session) -> list[str]:
    """These labels first, and others that there are."""
    store = session.pipe.datastore
    return list(dict.fromkeys([*names, *(used_labels(store) if store is not None else ())]))[:MOST_LABELS]


def _buttons(names: list[str]) -> list[gr.Button]:
    shown = [gr.Button(name, visible=True) for name in names[:MOST_LABELS]]
    return shown + [gr.Button(visible=False)] * (MOST_LABELS - len(shown))


def _shares(found: Answer) -> gr.BarPlot:
    import pandas as pd

    odds = [round(share, 3) for share in found.shares.values()]
    best = next(iter(found.probabilities))
    against = f" against {found.against}" if found.against else ""
    return gr.BarPlot(
        pd.DataFrame({"expert": list(found.shares), "log odds": odds}),
        y_lim=[min(0, *odds), max(0, *odds)] if odds else None,
        visible=bool(odds),
        label=f"For {best}{against}, by expert",
    )


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."
