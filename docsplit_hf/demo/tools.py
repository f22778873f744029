"""``docsplit demo --mcp FOLDER``: the steps of the page as tools for assistants, which share one session."""

from __future__ import annotations

import json
import secrets
import shutil
from pathlib import Path

import gradio as gr

from . import uploads, views
from .changes import add_texts, give_label, learn, suggested_text
from .events import Events


def add_tools(events: Events, folder: Path) -> None:
    """Serve the tools beside the page whose ``gr.Blocks`` is open. They read and write below the folder alone."""
    key, folder = secrets.token_urlsafe(32), folder.resolve()

    def place(name: str) -> Path:
        path = (folder / name).resolve()
        if not path.is_relative_to(folder):
            raise ValueError(f"{name!r} is not below {folder}: put it there.")
        return path

    def add(file: str, text_column: str, label_column: str = "", encoding: str = "utf-8", separator: str = "") -> str:
        """Add the texts of a .csv, .tsv, .jsonl, .json or .txt file below the folder of the server, and learn from \
them. Labels may be missing. A separator is comma, semicolon, tab or "bar |"; empty: as in the first line."""
        reading = (place(file), text_column, label_column or None, events.limits, encoding, separator or None)
        with events.sessions.changing(key) as session:
            return add_texts(session, uploads.texts_of_file(*reading))

    def label(labels: dict[str, str]) -> str:
        """Give texts labels, or other ones, and learn from them: {id: label}, with ids of suggest and audit."""
        with events.sessions.changing(key) as session:
            for row_id, name in labels.items():
                give_label(session, views.text_of(session, row_id)[0], name, learn_now=False)
            learn(session)
        return report()

    def suggest() -> str:
        """Tell which text to label next, with its id and a guess; null if all have labels."""
        with (session := events.sessions[key]).lock:
            return json.dumps(suggested_text(session))

    def report() -> str:
        """Tell how many texts there are, how many answers are right, by label too (texts, right, taken for), and \
which percentage of texts gets an answer where at most 1, 5, 10 or 20 percent of the answers may be wrong."""
        with (session := events.sessions[key]).lock:
            found = dict(zip(("labeled", "labels", "without_label"), session.counts(), strict=True))
            if right := views.right_of(session):
                answered = {str(n): float(views.answered_shares(session)[n - 1]) for n in (1, 5, 10, 20)}
                by_label = views.labels_table(session)
                found |= {"right": right.replace("*", ""), "by_label": by_label, "answered": answered}
            return json.dumps(found)

    def audit() -> str:
        """List labels that look wrong, copies, and texts unlike all others."""
        with (session := events.sessions[key]).lock:
            return json.dumps([finding._asdict() for finding in views.audit_findings(session)[1]])

    def classify(file: str, text_column: str, answers: str, wrong_percent: int = 0) -> str:
        """Write the rows of a file with label and score into a new .csv file, answers. So many percent of the labels \
may be wrong, and unsure texts get none; 0: every text gets a label."""
        if (target := place(answers)).exists():
            raise ValueError(f"{answers!r} is there already: choose another name.")
        with (session := events.sessions[key]).lock:
            error = views.error_of(session, wrong_percent) if wrong_percent else None
            if wrong_percent and error is None:
                raise ValueError("Nothing is measured yet, so no share of wrong labels can be promised: add labels.")
            made, _, said = uploads.classify_upload(session, place(file), text_column, error)
            shutil.copyfile(made, target)
        return said

    for tool in (add, label, suggest, report, audit, classify):
        gr.api(tool, queue=False)
