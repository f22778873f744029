"""The events of the page: each takes a session's key and values, and returns what to show, by the parts' names."""

from __future__ import annotations

import functools
import html
import json
import logging
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import gradio as gr

from ..text.columns import columns_of, guess_columns
from . import uploads, views
from .changes import add_texts, give_label, learn, open_classifier, save_classifier, suggested_text
from .kept_sessions import KeptSessions
from .sessions import Limits, Session, SharedModel, counted

logger = logging.getLogger(__name__)

LONGEST = 600  # characters of a sentence


def as_text(message: str) -> str:
    """A message for ``gr.Warning`` and ``gr.Info``, which take it for HTML."""
    return html.escape(message if len(message) <= LONGEST else f"{message[:LONGEST]}...")


def spoken(event: Callable[..., dict]) -> Callable[..., dict]:
    """An event whose errors are shown to the visitor; unexpected ones only as a general sentence.

    All parts stay as they are. Gradio would write "Error" over each one that an exception leaves without a value.
    """

    @functools.wraps(event)
    def wrapped(*args: Any, **kwargs: Any) -> dict:
        try:
            return event(*args, **kwargs)
        except (ValueError, TypeError) as error:
            logger.info("%s", error)
            gr.Warning(as_text(str(error)), title="Not done")
        except Exception:
            logger.exception("The page failed.")
            gr.Warning("Something went wrong here. Details are in the log of docsplit demo.", title="Not done")
        return {}

    return wrapped


MOST_COLUMNS = 12  # of a file, that are shown
FIT = 6  # rows of a table that are seen at once, also on a telephone
SCROLL = " (scroll to see all)"
BUTTONS = 8  # labels that have a button; a list has all of them
LEAVE_OUT = "Leave out unsure answers"
NO_LABELS = "(none)"
FEW = 3  # texts of a label
NEEDS = {
    "labels": "Nothing to see yet: this step needs texts. Add some in step 1, or click *Try it with example texts*.",
    "quality": "Nothing to measure yet: this step needs two labels with two texts each. Give labels in step 2 or 4.",
    "next": "Nothing to suggest: this step needs texts without a label. Add some in step 1.",
    "use": "Nothing to answer with yet: this step needs a text with a label. Give labels in step 2 or 4.",
}
Key = str | None
Values = dict[str, Any]


class Events:
    """The events of one server, which know its encoder and its limits."""

    def __init__(self, shared: SharedModel, limits: Limits) -> None:
        self.shared, self.limits = shared, limits
        self.sessions = KeptSessions(shared, limits)

    def opened(self, key: Key) -> Values:
        """Open the page, with the texts that this browser gave before."""
        try:
            return {"key": key} | self.head(key)
        except ValueError as error:
            if key is not None:
                gr.Warning(as_text(f"Your earlier texts cannot be opened: {error}"))
        key = secrets.token_urlsafe(32)
        return {"key": key} | self.head(key)

    def head(self, key: Key) -> Values:
        """The state on top of every step, what to do next, and which steps have what they need."""
        session = self.sessions[key]
        have, labels, without = session.counts()
        there, right = have + without > 0, views.right_of(session)
        state = f"**{counted(have + without, 'text')}** · **{have:,} labeled** ({counted(labels, 'label')})"
        has_needed = {"labels": there, "quality": bool(right), "next": without > 0, "use": have > 0}
        return {
            "status": f"{state} · {views.briefly(right) or 'not measured yet'}" if there else "No texts yet",
            "hint": _what_next(session),
            "example": gr.Button(visible=not there),
            "undo": gr.Button(visible=len(self.sessions.steps(key)) > 1),
            "clear": gr.Button(visible=there),
            "confirm": gr.Row(visible=False),
            **{f"{step}_need": gr.Markdown(visible=not is_met) for step, is_met in has_needed.items()},
            **{f"{step}_body": gr.Column(visible=is_met) for step, is_met in has_needed.items()},
        }

    def show(self, key: Key, step: str, percent: int, wanted: str = "") -> Values:
        """Open a step, or show it anew. What was labeled in between is learned first."""
        if key is None:
            return {}  # the first step opens before there is a key
        session, shown = self.sessions[key], {}
        with session.lock:
            if session.stale and step != "next":
                learn(session)
            if step == "labels":
                shown = self.search(key, wanted)
            elif step == "quality" and views.right_of(session):
                shown = self.measured(session) | self.allow(key, percent) | self.audit(session)
            elif step == "next":
                shown = self.suggest(key)
            elif step == "use":
                shown = _limit(session, percent)
            return self.head(key) | {"step": step} | shown

    def change(self, key: Key, change: Callable[..., str], *values: Any) -> Values:
        """Change the texts, and tell what was done."""
        with self.sessions.changing(key) as session:
            said = change(session, *values)
        gr.Info(as_text(said), duration=5)
        return self.head(key)

    def change_and_show(self, then: Callable, change: Callable, key: Key, text: str, label: Key, *values: Any) -> dict:
        """Give a text a label, keep it, or remove it, and show what comes next."""
        return self.change(key, change, text, label) | spoken(then)(key, *values)

    def undo(self, key: Key, *view: Any) -> Values:
        """Undo the last change, and show the step anew."""
        self.sessions.undo(key)
        gr.Info("The last change is undone.", duration=5)
        return {"answered": gr.Row(visible=False)} | self.show(key, *view)

    def clear(self, key: Key, *view: Any) -> Values:
        """Remove all texts."""
        return self._replace(key, self.shared.new_pipeline(), "All texts are removed.", *view)

    def open(self, key: Key, path: Key, *view: Any) -> Values:
        """Load the texts of a saved classifier in place of the present ones."""
        given = open_classifier(_given(path), self.shared, self.limits)
        return self._replace(key, given, "The classifier is loaded.", *view) | {"saved": None}

    def _replace(self, key: Key, given: Any, said: str, *view: Any) -> Values:
        self.change(key, lambda session: session.replace(given) or said)
        return {"answered": gr.Row(visible=False)} | self.show(key, *view)

    def add_pasted(self, key: Key, labeled: str, unlabeled: str) -> Values:
        """Add pasted lines, and empty the boxes."""
        given = uploads.pasted_texts(labeled or "", unlabeled or "", self.limits)
        return self.change(key, add_texts, given) | {"labeled": "", "unlabeled": ""}

    def choose_columns(
        self, name: str, path: Key, encoding: Key = None, separator: Key = None, text: Key = None, label: Key = None
    ) -> Values:
        """The encoding of an uploaded file, its separator and columns, as given or guessed, and its first rows."""
        parts = [f"{name}_{part}" for part in ("encoding", "separator", "text", "rows", "label")]
        parts = parts if name == "file" else parts[:-1]
        if path is None:
            return dict.fromkeys(parts, gr.skip() | {"visible": False})
        file = Path(path)
        uploads.check_ending(file)
        used = encoding or uploads.encoding_of(file)
        between = separator or uploads.separator_of(file, used)
        reading = [
            gr.Dropdown(uploads.ENCODINGS, value=used, visible=True),
            gr.Dropdown(list(uploads.SEPARATORS), value=between, visible=between is not None),
        ]
        try:
            rows = uploads.rows_of(file, self.limits, used, between)
        except ValueError as error:  # maybe it can be read in another way
            gr.Warning(as_text(str(error)), title="Not done")
            return dict.fromkeys(parts[2:], gr.skip() | {"visible": False}) | dict(zip(parts, reading, strict=False))
        columns = columns_of(rows)
        doubts = uploads.doubts_about_columns(columns)
        if doubts and text is None:
            gr.Warning(as_text(doubts))
        if encoding is None and used != uploads.UNICODE:
            said = f"{file.name} is not encoded in UTF-8, and is read as {used}. If letters in the"
            gr.Warning(as_text(f"{said} first rows look wrong, choose another encoding."))
        if text not in columns:
            text, label = guess_columns(rows, self.limits.labels)
            label = label if len(columns) > 1 else NO_LABELS
        roles = {label: "label"} if name == "file" and label in columns else {}
        roles[text] = "text"
        chosen = list(roles)  # the label first: on a narrow screen the text would hide it
        shown = list(dict.fromkeys([*chosen, *columns]))[:MOST_COLUMNS]
        values = [str(row[label]).strip() for row in rows if row.get(label) not in (None, "")]
        said = f"The first rows of {len(rows):,}"
        if len(chosen) > 1:
            said += f": {len(values):,} have one of {counted(len(set(values)), 'label')}"
        headers = [f"{one} ({role})" for one, role in roles.items()]
        first = [[uploads.shortened(row.get(one), 120) for one in shown] for row in rows[:4]]
        headers += shown[len(chosen) :]
        widths = ["300px" if one == text else "120px" for one in shown]
        table = gr.Dataframe(first, headers=headers, column_widths=widths, label=said, visible=True)
        texts = gr.Dropdown(columns, value=text, visible=True)
        labels = gr.Dropdown([NO_LABELS, *columns], value=label, visible=True)
        return dict(zip(parts, [*reading, texts, table, labels], strict=False))

    def add_file(self, key: Key, path: Key, text: str, label: Key, *reading: Key) -> Values:
        """Add the rows of a file."""
        file, column = _given(path), None if label == NO_LABELS else label
        if text is None:
            uploads.rows_of(file, self.limits, *reading)  # which tells why no column could be found
            raise ValueError("Choose the column of texts.")
        if label is None:
            raise ValueError(f"Choose the column of labels, or {NO_LABELS} if the texts have no labels.")
        given = uploads.texts_of_file(file, text, column, self.limits, *reading)
        return self.change(key, add_texts, given) | {"file": None}

    def add_examples(self, key: Key) -> Values:
        """Add the example texts, and answer the last one, which is long and has no label."""
        if any(self.sessions[key].counts()):
            raise ValueError("The example texts would mix with the texts that are here: clear these first.")
        given = uploads.example_texts()
        head = self.change(key, add_texts, given)
        return head | {"asked": given.texts[-1], "steps": gr.Tabs(selected="use")} | self.ask(key, given.texts[-1])

    def search(self, key: Key, wanted: str = "", near: str | None = None) -> Values:
        """List texts, and close the opened one."""
        session = self.sessions[key]
        if not any(session.counts()):
            return {}
        said, rows, session.listed = views.listed_texts(session, wanted, near)
        return {"listed": gr.Dataframe(rows, label=said), "opened": gr.Column(visible=False)}

    def open_listed(self, key: Key, clicked: gr.EventData) -> Values:
        """Open the text of a row of the list."""
        session = self.sessions[key]
        return _opened(session, session.listed[clicked.index[0]]) if clicked.index[0] < len(session.listed) else {}

    def map(self, key: Key, step: str) -> Values:
        """Draw the map, where it is looked at."""
        if key is None or step != "labels" or not any((session := self.sessions[key]).counts()):
            return {}  # the page is loading, another step is open, or there is nothing to draw
        with session.lock:
            said, value = views.document_map(session)
        return {"map": value, "mapped": said}

    def open_point(self, key: Key, clicked: gr.EventData) -> Values:
        """Open the text of a point of the map, and list those around it."""
        row_id, session = str(getattr(clicked, "id", None)), self.sessions[key]
        opened = _opened(session, row_id)
        return self.search(key, near=row_id) | opened

    def measured(self, session: Session) -> Values:
        """How good the answers are, by label, and where some texts get none."""
        import pandas as pd

        curve = pd.DataFrame({"wrong, %": views.ERRORS, "answered, %": views.answered_shares(session)})
        table = views.labels_table(session)
        labels = f"{counted(len(table), 'label')}, the weakest first{SCROLL if len(table) > FIT else ''}"
        texts = counted(session.fitted.settings["texts"], "labeled text")
        return {
            "right": f"{views.right_of(session)}. Measured on {texts}, each answered by what the others taught. "
            "The range in brackets is where the true share lies, nineteen times out of twenty. Beside it, to compare: "
            "what a program reaches that counts words, and one that always says the most frequent label.",
            "by_label": gr.Dataframe(table, label=labels),
            "curve": gr.LinePlot(curve),
        }

    def allow(self, key: Key, percent: int) -> Values:
        """What comes of allowing so many wrong answers."""
        session = self.sessions[key]
        return {"allowed": views.answered_at(session, int(percent)) if views.right_of(session) else ""}

    def audit(self, session: Session) -> Values:
        """List the findings, and open the first one."""
        said, session.findings = views.audit_findings(session)
        rows = [[f"{one.label}: {one.kind}", uploads.shortened(one.text)] for one in session.findings]
        listed = f"{counted(len(rows), 'text')}, click one to read and correct it{SCROLL if len(rows) > FIT else ''}"
        return {"audited": said, "findings": gr.Dataframe(rows, label=listed, visible=bool(rows))} | _finding(
            session, 0
        )

    def open_finding(self, key: Key, clicked: gr.EventData) -> Values:
        """Open the text of a row of the findings."""
        return _finding(self.sessions[key], clicked.index[0])

    def suggest(self, key: Key) -> Values:
        """Show the text to label next, the reason, and its possible labels."""
        session = self.sessions[key]
        with session.lock:
            found = suggested_text(session)
        if found is None:
            return {}
        guess = [found["label"]] if found["label"] else []
        text = gr.Textbox(found["text"], label=f"{found['reason'][:1].upper()}{found['reason'][1:]}.")
        return {"suggested_text": text} | _labels("suggested", [*guess, *session.labels])

    def skip(self, key: Key) -> Values:
        """Go on to the next suggestion."""
        session = self.sessions[key]
        skipped = suggested_text(session)
        session.suggestions = [one for one in session.suggestions if one is not skipped]
        return self.suggest(key)

    def ask(self, key: Key, text: str, sure_only: bool = False, percent: int = 0) -> Values:
        """Answer a text, and show the reasons."""
        session = self.sessions[key]
        with session.lock:
            if session.stale:
                learn(session)
            found = views.answer(session, text, percent if sure_only else None)
        near = [gr.HighlightedText(pieces, visible=True, label=said) for said, pieces in found.neighbors]
        near += [gr.HighlightedText([], visible=False)] * (views.NEIGHBORS - len(near))
        return {
            "answered": gr.Row(visible=True),
            "answer": views.answer_markup(found),
            "answer_label": found.label,
            "right_label": gr.Button(f"{found.label} is right"),
            "words": gr.HighlightedText(found.words, visible=bool(found.words)),
            "passage": gr.HighlightedText(found.passage, label=found.place),
            **{f"near_{number}": one for number, one in enumerate(near)},
            **(_limit(session, percent) if percent else {}),
            **_labels("answer", [one for one in [*found.probabilities, *session.labels] if one != found.label]),
        }

    def confirm(self, key: Key, label: str, text: str, *asked: Any) -> Values:
        """Add a text with the label that it was given."""
        return self.change_and_show(self.ask, give_label, key, text, label, text, *asked)

    def classify(self, key: Key, path: Key, sure_only: bool, percent: int, text: str, *reading: Key) -> Values:
        """Classify a file, and offer the answers for download."""
        session = self.sessions[key]
        with session.lock:
            error = views.error_of(session, percent) if sure_only else None
            target, first, said = uploads.classify_upload(session, _given(path), text, error, *reading)
        return {
            "classified": said,
            "answers": gr.DownloadButton(value=str(target), visible=True),
            "first": gr.Dataframe(first, visible=True),
        }

    def classify_rest(self, key: Key, sure_only: bool, percent: int) -> Values:
        """Classify the texts that have no label, and offer the answers for download."""
        session = self.sessions[key]
        if not session.store.documents:
            raise ValueError("All texts of this page have a label: choose a file.")
        path = session.folder / "texts.jsonl"
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in session.store.documents.texts))
        return self.classify(key, str(path), sure_only, percent, "text")

    def save(self, key: Key) -> Values:
        """Save the classifier, and offer it for download."""
        session = self.sessions[key]
        with session.lock:
            return {"download": gr.DownloadButton(value=str(save_classifier(session)), visible=True)}


def _what_next(session: Session) -> str:
    have, labels, without = session.counts()
    if not have + without:
        return "**Start:** add a file or some lines, or click *Try it with example texts*."
    if labels < 2:
        where = "step 4 picks the ones that tell most" if without else "add some in step 1, or give them in step 2"
        return f"**Next:** give a few texts a label, of two kinds at least: {where}."
    given = session.store.labels.tolist()
    if few := sum(given.count(number) < FEW for number in set(given)):
        return f"**Next:** label more texts, in step 4. {counted(few, 'label')} of {labels} have fewer than {FEW}."
    return "**Ready:** use it in step 5. See in step 3 how far to trust it; labels from step 4 make it better."


def _limit(session: Session, percent: int) -> Values:
    """The box that leaves out unsure answers, with its limit and what it costs."""
    said = views.limit_said(session, int(percent))
    if not said:
        label = f"{LEAVE_OUT}: not yet, as nothing is measured. Give two texts of each label in step 4"
        return {"sure_only": gr.Checkbox(label=label, value=False, interactive=False)}
    return {"sure_only": gr.Checkbox(label=f"{LEAVE_OUT}: {said} (set in step 3)", interactive=True)}


def _given(path: Key) -> Path:
    if path is None:
        raise ValueError("Choose a file first.")
    return Path(path)


def _opened(session: Session, row_id: str) -> Values:
    text, label = views.text_of(session, row_id)
    said = f"A text with the label {label}" if label else "A text without a label"
    names = [name for name in session.labels if name != label]
    return {"opened": gr.Column(visible=True), "opened_text": gr.Textbox(text, label=said)} | _labels("opened", names)


def _finding(session: Session, row: int) -> Values:
    """The text of a finding, and what to do about it; without one, nothing."""
    if row >= len(session.findings):
        return {"finding": gr.Column(visible=False)}
    one = session.findings[row]
    text = gr.Textbox(one.text, label=f"{one.label}: {one.kind} {one.why}")
    names = [name for name in [one.suggested, *session.labels] if name not in ("", one.label)]
    shown = {"finding": gr.Column(visible=True), "finding_text": text, "keep": gr.Button(f"Keep {one.label}")}
    return shown | _labels("finding", names)


def _labels(chooser: str, names: Iterable[str]) -> Values:
    """Buttons of the first labels, and a list of all where there are more."""
    names = list(dict.fromkeys(names))
    buttons = [gr.Button(name, visible=True) for name in names[:BUTTONS]]
    buttons += [gr.Button(visible=False)] * (BUTTONS - len(buttons))
    more = gr.Dropdown(sorted(names), value=None, visible=len(names) > BUTTONS)
    return {f"{chooser}_{number}": one for number, one in enumerate(buttons)} | {f"{chooser}_more": more}
