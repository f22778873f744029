"""Tools for assistants, served by MCP (``docsplit demo --mcp FOLDER``); all of them use one session."""

from __future__ import annotations

import json
import secrets
import shutil
from pathlib import Path

import gradio as gr

from . import uploads, views
from .changes import add_texts, give_label, learn, suggested_text
from .events import Events

REPORTED_PERCENTAGES = (1, 5, 10, 20)  # error rates for which the report gives the percentage of answered texts


def add_tools(events: Events, folder: Path) -> None:
    """Add the tools to the current ``gr.Blocks``. They read and write only below the folder."""
    key = secrets.token_urlsafe(32)
    folder = folder.resolve()

    def path_of(name: str) -> Path:
        """The path of a file below the folder; others are refused."""
        path = (folder / name).resolve()
        if not path.is_relative_to(folder):
            raise ValueError(f"{name!r} is not below {folder}: put it there.")
        return path

    def add(file: str, text_column: str, label_column: str = "", encoding: str = "utf-8", separator: str = "") -> str:
        """Add the texts of a .csv, .tsv, .jsonl, .json or .txt file below the folder of the server, and learn from \
them. Labels may be missing. A separator is comma, semicolon, tab or "bar |"; empty: as in the first line."""
        path = path_of(file)
        file_options = uploads.TableOptions(encoding, separator or None)
        with events.sessions.changing(key) as session:
            given = uploads.texts_of_file(path, text_column, label_column or None, events.limits, file_options)
            return add_texts(session, given)

    def label(labels: dict[str, str]) -> str:
        """Set or change the labels of texts and learn from them: {id: label}, with ids from suggest and audit."""
        with events.sessions.changing(key) as session:
            for row_id, name in labels.items():
                give_label(session, views.find_row(session, row_id).text, name, learn_now=False)
            learn(session)
        return report()

    def suggest() -> str:
        """Return the text to label next, with its id and a guessed label; null if all texts have labels."""
        session = events.sessions[key]
        with session.lock:
            return json.dumps(suggested_text(session))

    def report() -> str:
        """Report the number of texts, the accuracy, the accuracy of each label (texts, right, taken for), and the \
percentage of texts that get an answer if at most 1, 5, 10 or 20 percent of the answers may be wrong."""
        session = events.sessions[key]
        with session.lock:
            counts = session.counts()
            found = {"labeled": counts.labeled, "labels": counts.labels, "without_label": counts.unlabeled}
            if accuracy := views.accuracy_text(session):
                answered = views.answered_percentages(session)
                found["right"] = accuracy.replace("*", "")
                found["by_label"] = views.labels_table(session)
                found["answered"] = {str(n): float(answered[n - 1]) for n in REPORTED_PERCENTAGES}
            return json.dumps(found)

    def audit() -> str:
        """List labels that look wrong, duplicates, and texts unlike all others."""
        session = events.sessions[key]
        with session.lock:
            return json.dumps([finding._asdict() for finding in views.audit_findings(session)[1]])

    def classify(file: str, text_column: str, answers: str, reject: float = 0.0) -> str:
        """Write the rows of a file with label and score into a new .csv file, answers. reject is the error rate to \
allow, such as 0.05: texts whose label is too unsure for it get none. 0: every text gets a label."""
        percent = int(100 * reject + 1e-9)  # rounded down: no more errors than allowed
        if reject and percent not in views.ERROR_PERCENTAGES:
            raise ValueError(f"reject={reject:g} is not an error rate from 0.01 to 0.5: choose one, or 0 for none.")
        target = path_of(answers)
        if target.exists():
            raise ValueError(f"{answers!r} is there already: choose another name.")
        session = events.sessions[key]
        with session.lock:
            error = views.error_rate_of(session, percent) if percent else None
            if percent and error is None:
                raise ValueError("Nothing is measured yet, so no error rate can be guaranteed: add labels.")
            classified = uploads.classify_upload(session, path_of(file), text_column, error)
            shutil.copyfile(classified.path, target)
        return classified.summary

    for tool in (add, label, suggest, report, audit, classify):
        gr.api(tool, queue=False)
