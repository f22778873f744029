"""Events of the page: each takes the key of a session and values, and returns new values of components by name."""

from __future__ import annotations

import functools
import html
import logging
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import gradio as gr

from ...reading.columns import columns_of, guess_columns
from . import plan, uploads, views
from .changes import add_texts, learn, save_classifier, suggested_text
from .component_values import (
    Key,
    Values,
    answer_rows,
    failed_documents,
    first_rows,
    label_choices,
    leave_out_box,
    next_action,
    opened_answer,
    opened_finding,
)
from .documents import Documents, add_files, given_files, read_documents
from .kept_sessions import KeptSessions
from .sessions import PageLimits, PlannedText, Session, SharedModel, counted

logger = logging.getLogger(__name__)


def show_errors(event: Callable[..., dict]) -> Callable[..., dict]:
    """Wrap an event so that its errors are shown to the visitor; unexpected ones only as a general sentence.

    After an error no component changes; without this wrapper, Gradio would write "Error" over all of them.
    """

    @functools.wraps(event)
    def wrapped(*args: Any, **kwargs: Any) -> dict:
        """Call the event; return no changes after an error."""
        try:
            return event(*args, **kwargs)
        except (ValueError, TypeError) as error:
            logger.info("%s", error)
            gr.Warning(html.escape(str(error)), title="Not done")
        except Exception:
            logger.exception("The page failed.")
            gr.Warning("Something went wrong here. Details are in the log of docsplit demo.", title="Not done")
        return {}

    return wrapped


MAX_COLUMN_NAME_WORDS = 3  # a longer name is probably a text
NO_LABELS = "(none)"  # the choice for files without a column of labels
# Shown in place of a step that cannot work yet.
STEP_NEEDS = {
    "labels": "Nothing to see yet: this step needs texts. Add some in step 1, or click *Try it with example texts*.",
    "quality": "Nothing to measure yet: this step needs two labels with two texts each. Give labels in step 2 or 4.",
    "next": "Nothing to suggest: this step needs texts without a label. Add some in step 1.",
    "use": "Nothing to answer with yet: this step needs a text with a label. Give labels in step 2 or 4.",
}


class Events:
    """Events of one server, with its encoder, limits and sessions."""

    def __init__(self, shared: SharedModel, limits: PageLimits) -> None:
        self.shared = shared
        self.limits = limits
        self.sessions = KeptSessions(shared, limits)

    def opened(self, key: Key) -> Values:
        """Open the page with the earlier texts of this browser."""
        try:
            return {"key": key} | self.head(key)
        except ValueError as error:
            if key is not None:
                gr.Warning(html.escape(f"Your earlier texts cannot be opened: {error}"))
        key = secrets.token_urlsafe(32)
        return {"key": key} | self.head(key)

    def head(self, key: Key) -> Values:
        """Show the state above all steps, the next thing to do, and the steps that can work."""
        session = self.sessions[key]
        counts = session.counts()
        has_texts = counts.texts > 0
        accuracy = views.accuracy_text(session)
        status = "No texts yet"
        if has_texts:
            measured = accuracy or "not measured yet"
            labeled = f"**{counts.labeled:,} labeled** ({counted(counts.labels, 'label')})"
            status = f"**{counted(counts.texts, 'text')}** · {labeled} · {measured}"
        can_work = {
            "labels": has_texts,
            "quality": bool(accuracy),
            "next": counts.unlabeled > 0,
            "use": counts.labeled > 0,
        }
        return {
            "status": status,
            "hint": next_action(session),
            "example": gr.Button(visible=not has_texts),
            "undo": gr.Button(visible=bool(session.earlier)),
            "clear": gr.Button(visible=has_texts),
            **{f"{step}_need": gr.Markdown(visible=not is_ready) for step, is_ready in can_work.items()},
            **{f"{step}_body": gr.Column(visible=is_ready) for step, is_ready in can_work.items()},
        }

    def show(self, key: Key, step: str, percent: int, wanted: str = "") -> Values:
        """Open or refresh a step, after learning from labels that were added since the last fit."""
        if key is None:
            return {}  # the first step opens before there is a key
        session = self.sessions[key]
        shown = {}
        with session.lock:
            if session.stale and step != "next":
                learn(session)
            if step == "labels":
                shown = self.search(key, wanted)
            elif step == "quality" and views.accuracy_text(session):
                shown = self.measured(session) | self.allow(key, percent) | self.audit(session)
            elif step == "next":
                shown = self.suggest(key)
            elif step == "use":
                shown = leave_out_box(session, percent)
            return self.head(key) | {"step": step} | shown

    def change(self, key: Key, change: Callable[..., str], *values: Any) -> Values:
        """Change the texts, and show what was done."""
        with self.sessions.changing(key) as session:
            message = change(session, *values)
        gr.Info(html.escape(message), duration=5)
        return self.head(key)

    def change_and_show(self, then: Callable, change: Callable, key: Key, text: str, label: Key, *values: Any) -> dict:
        """Label, keep or remove a text, and then run another event."""
        return self.change(key, change, text, label) | show_errors(then)(key, *values)

    def undo(self, key: Key, *view: Any) -> Values:
        """Undo the last change, and refresh the step and the plan."""
        self.sessions.undo(key)
        gr.Info("The last change is undone.", duration=5)
        return {"answered": gr.Row(visible=False)} | self.show(key, *view) | self.plan(key)

    def clear(self, key: Key, *view: Any) -> Values:
        """Remove all texts."""

        def remove_all(session: Session) -> str:
            session.pipe = self.shared.new_pipeline()
            session.kept = []
            session.stale = False
            return "All texts are removed: Undo brings them back."

        self.change(key, remove_all)
        return {"answered": gr.Row(visible=False)} | self.show(key, *view)

    def add_pasted(self, key: Key, labeled: str, unlabeled: str) -> Values:
        """Add pasted lines, and clear the boxes."""
        given = uploads.pasted_texts(labeled or "", unlabeled or "", self.limits)
        return self.change(key, add_texts, given) | {"labeled": "", "unlabeled": ""}

    def choose_columns(
        self,
        name: str,
        given: list[str] | None,
        encoding: Key = None,
        text: Key = None,
        label: Key = None,
    ) -> Values:
        """Show how a table is read (encoding and columns, as given or guessed) and its first rows.

        ``name`` is "file" for files to add, and "new" for files to classify, which have no labels. Documents have none
        of these choices, but OCR.
        """
        has_label = name == "file"
        file = uploads.table_of(given)
        is_documents = bool(given) and file is None
        parts = ["encoding", "text", "rows", *(["label"] if has_label else [])]
        shown: Values = {f"{name}_{part}": gr.skip() | {"visible": False} for part in parts}
        shown[f"{name}_ocr"] = gr.Checkbox(visible=is_documents)
        if has_label:
            shown["docs_label"] = gr.Textbox(visible=is_documents)
        if file is None:
            return shown
        used_encoding = encoding or uploads.encoding_of(file)
        shown[f"{name}_encoding"] = gr.Dropdown(uploads.ENCODINGS, value=used_encoding, visible=True)
        try:
            rows = uploads.rows_of_upload(file, self.limits, used_encoding)
        except ValueError as error:  # another encoding may work
            gr.Warning(html.escape(str(error)), title="Not done")
            return shown
        columns = columns_of(rows)
        if text is None:
            _warn_of_table(file.name, columns, None if encoding else used_encoding)
        if text not in columns:
            text, label = guess_columns(rows, self.limits.labels)
            label = label if len(columns) > 1 else NO_LABELS
        shown[f"{name}_text"] = gr.Dropdown(columns, value=text, visible=True)
        shown[f"{name}_rows"] = first_rows(rows, columns, text, label if has_label and label in columns else None)
        if has_label:
            shown[f"{name}_label"] = gr.Dropdown([NO_LABELS, *columns], value=label, visible=True)
        return shown

    def add_files(
        self,
        key: Key,
        files: list[str] | None,
        text: Key,
        label: Key,
        encoding: Key,
        documents_label: str = "",
        with_ocr: bool = False,
    ) -> Values:
        """Add the rows of a table, or documents; list the documents that cannot be read."""
        table = uploads.table_of(files)
        if table is None:
            given = read_documents(given_files(files or ()), self.limits, with_ocr)
            shown = {"file_failed": failed_documents(given)}
            if not given.planned:
                gr.Warning(
                    html.escape(f"None of {counted(len(given.failed), 'file')} could be read."), title="Not done"
                )
                return shown
            return self.change(key, add_files, given, documents_label or "") | shown | {"file": None, "docs_label": ""}
        encoding = encoding or uploads.UNICODE
        if text is None:
            uploads.rows_of_upload(table, self.limits, encoding)  # raises if the file itself is the cause
            raise ValueError("Choose the column of texts.")
        if label is None:
            raise ValueError(f"Choose the column of labels, or {NO_LABELS} if the texts have no labels.")
        label_column = None if label == NO_LABELS else label
        rows = uploads.texts_of_file(table, text, label_column, self.limits, encoding)
        return self.change(key, add_texts, rows) | {"file": None}

    def open_row(self, show: Callable[[Session, int], Values], key: Key, clicked: gr.EventData) -> Values:
        """Show the text of a row that was clicked, with buttons to change its label."""
        return show(self.sessions[key], clicked.index[0])

    def plan(self, key: Key, row: int | None = None) -> Values:
        """Show the plan of what was classified last, after a change of its ``row``, and the next row to check."""
        session = self.sessions[key]
        if not session.planned and not session.unread:
            return {}
        following = None if row is None else plan.next_unchecked(session.planned, row)
        return {
            "answers": gr.DownloadButton(value=str(plan.write_answers(session)), visible=True),
            "answer_rows": answer_rows(session),
        } | opened_answer(session, following)

    def add_examples(self, key: Key) -> Values:
        """Add the example texts, and answer the last one, which is long and has no label."""
        if any(self.sessions[key].counts()):
            raise ValueError("The example texts would mix with the texts that are here: clear these first.")
        given = uploads.example_texts()
        shown = {"asked": given.texts[-1], "steps": gr.Tabs(selected="use")}
        return self.change(key, add_texts, given) | shown | self.ask(key, given.texts[-1])

    def search(self, key: Key, wanted: str = "") -> Values:
        """List texts, and close the opened one."""
        session = self.sessions[key]
        if not any(session.counts()):
            return {}
        caption, rows = views.listed_texts(session, wanted)
        session.listed = [row.id for row in rows]
        shown = [[row.label or "", uploads.shortened(views.text_with_file(row), 90)] for row in rows]
        return {"listed": gr.Dataframe(shown, label=caption), "opened": gr.Column(visible=False)}

    def measured(self, session: Session) -> Values:
        """Show the accuracy, overall and by label."""
        table = views.labels_table(session)
        texts = counted(session.fitted.report.texts, "labeled text")
        return {
            "right": f"{views.accuracy_text(session)}. Measured on {texts}, each answered by a classifier that learned "
            "from the others. The range in brackets is the 95% confidence interval. For comparison: a program that "
            "counts words, and one that always gives the most frequent label.",
            "by_label": gr.Dataframe(table, label=f"{counted(len(table), 'label')}, the weakest first"),
        }

    def allow(self, key: Key, percent: int) -> Values:
        """Show how many texts get an answer at an error rate."""
        session = self.sessions[key]
        return {"allowed": views.coverage_text(session, int(percent)) if views.accuracy_text(session) else ""}

    def audit(self, session: Session) -> Values:
        """List the findings, and open the first one."""
        summary, session.findings = views.audit_findings(session)
        rows = [[f"{finding.label}: {finding.kind}", uploads.shortened(finding.text)] for finding in session.findings]
        caption = f"{counted(len(rows), 'text')}, click one to read and correct it"
        findings = gr.Dataframe(rows, label=caption, visible=bool(rows))
        return {"audited": summary, "findings": findings} | opened_finding(session, 0)

    def suggest(self, key: Key) -> Values:
        """Show the text to label next, the reason, and its possible labels."""
        session = self.sessions[key]
        with session.lock:
            suggestion = suggested_text(session)
        if suggestion is None:
            return {}
        guess = [suggestion["label"]] if suggestion["label"] else []
        reason = suggestion["reason"]
        file = views.find_row(session, suggestion["id"]).file
        source = "" if file is None else f"{file}: "
        text = gr.Textbox(suggestion["text"], label=f"{source}{reason[:1].upper()}{reason[1:]}.")
        return {"suggested_text": text} | label_choices("suggested", [*guess, *session.labels])

    def skip(self, key: Key) -> Values:
        """Show the next suggestion."""
        session = self.sessions[key]
        skipped = suggested_text(session)
        session.suggestions = [suggestion for suggestion in session.suggestions if suggestion is not skipped]
        return self.suggest(key)

    def ask(self, key: Key, text: str, sure_only: bool = False, percent: int = 0) -> Values:
        """Answer a text, and show the reasons."""
        session = self.sessions[key]
        with session.lock:
            if session.stale:
                learn(session)
            found = views.answer(session, text, percent if sure_only else None)
        neighbors = [gr.HighlightedText(passage, visible=True, label=caption) for caption, passage in found.neighbors]
        neighbors += [gr.HighlightedText([], visible=False)] * (views.SHOWN_NEIGHBORS - len(neighbors))
        labels = [found.label, *found.probabilities, *session.labels]
        return {
            "answered": gr.Row(visible=True),
            "answer": views.answer_markup(found),
            "words": gr.HighlightedText(found.words, visible=bool(found.words)),
            "passage": gr.HighlightedText(found.passage, label=found.passage_caption),
            **{f"near_{number}": one for number, one in enumerate(neighbors)},
            **(leave_out_box(session, percent) if percent else {}),
            **label_choices("answer", labels),
        }

    def classify(
        self,
        key: Key,
        files: list[str] | None,
        sure_only: bool,
        percent: int,
        text: str,
        encoding: Key = uploads.UNICODE,
        with_ocr: bool = False,
    ) -> Values:
        """Classify a table or documents, offer the answers for download, and list what cannot be read."""
        table = uploads.table_of(files)
        if table is not None:
            rows = uploads.rows_to_classify(table, text, self.limits, encoding or uploads.UNICODE)
            return self._classify(key, rows, sure_only, percent)
        given = read_documents(given_files(files or ()), self.limits, with_ocr)
        return self._classify(key, given.planned, sure_only, percent, given)

    def classify_rest(self, key: Key, sure_only: bool, percent: int) -> Values:
        """Classify the texts that have no label, and offer the answers for download."""
        documents = self.sessions[key].store.documents
        if not documents:
            raise ValueError("All texts of this page have a label: choose a file.")
        texts = [text or "" for text in documents.texts]
        rest = [PlannedText(uploads.shortened(text), {"text": text}, row={"text": text}) for text in texts]
        return self._classify(key, rest, sure_only, percent)

    def _classify(
        self,
        key: Key,
        texts: Sequence[PlannedText],
        sure_only: bool,
        percent: int,
        documents: Documents | None = None,
    ) -> Values:
        """Classify texts, or documents, and show the plan."""
        session = self.sessions[key]
        with session.lock:
            if session.stale:
                learn(session)
            error_rate = views.error_rate_of(session, percent) if sure_only else None
            answered = views.answered(session, texts, error_rate)
            session.planned = plan.with_earlier_checks(answered, session.planned)
            session.unread = [] if documents is None else documents.unread()
        noun = "row" if documents is None else "document"
        unsure = sum(one.label is None for one in answered)
        summary = f"Classified {counted(len(answered) - unsure, noun)}."
        if unsure:
            summary += f" {counted(unsure, noun)} not sure enough, or without content, got no label."
        return {
            "classified": summary if documents is None else summary + documents.failed_summary(),
            "new_failed": failed_documents(documents),
        } | self.plan(key)

    def save(self, key: Key) -> Values:
        """Save the classifier, and offer it for download."""
        session = self.sessions[key]
        with session.lock:
            return {"download": gr.DownloadButton(value=str(save_classifier(session)), visible=True)}


def _warn_of_table(name: str, columns: Sequence[str], guessed_encoding: str | None) -> None:
    """Warn of a table whose first line looks like a text, or that is not in UTF-8."""
    like_text = next((column for column in columns if len(column.split()) > MAX_COLUMN_NAME_WORDS), None)
    if like_text is not None:
        message = (
            "The first line is taken for the names of the columns, and "
            f"{uploads.shortened(like_text, 60)!r} looks like a text. If it is one, write a line such as text,label "
            "above it, and choose the file again."
        )
        gr.Warning(html.escape(message))
    if guessed_encoding not in (None, uploads.UNICODE):
        message = (
            f"{name} is not encoded in UTF-8, and is read as {guessed_encoding}. If letters in the first rows look "
            "wrong, choose another encoding."
        )
        gr.Warning(html.escape(message))
