"""New values of components of the page, made from a session; events return them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gradio as gr

from . import plan, uploads, views
from .documents import Documents
from .sessions import Session, counted

MAX_SHOWN_COLUMNS = 12  # columns of a file that the preview shows
LABEL_BUTTONS = 8  # labels with a button; a list has all of them
LEAVE_OUT = "Leave out unsure answers"
Key = str | None
Values = dict[str, Any]


def answer_rows(session: Session) -> gr.Dataframe | Values:
    """Make the table of the plan; hidden if nothing was answered."""
    if not session.planned:
        return gr.skip() | {"visible": False}
    columns, rows = plan.table_rows(session.planned)
    return gr.Dataframe(
        rows,
        headers=list(columns),
        column_widths=list(columns.values()),
        label=plan.describe_plan(session.planned),
        visible=True,
    )


def opened_answer(session: Session, row: int | None) -> Values:
    """Show a row of the plan with buttons to confirm or correct it; hidden if there is no such row."""
    if row is None or row >= len(session.planned):
        return {"planned": gr.Column(visible=False)}
    one = session.planned[row]
    place = f"{one.name}, {one.page}" if one.page else one.name
    opens = "Open the file" if one.first_page is None else f"Open the file at page {one.first_page}"
    own_label = [] if one.label is None else [one.label]
    return {
        "planned": gr.Column(visible=True),
        "planned_row": row,
        "docs_passage": gr.HighlightedText(one.passage, label=f"{place}: {one.label or plan.NO_ANSWER}"),
        "docs_open": gr.Button(opens, link=one.link, visible=one.link is not None),
    } | label_choices("planned", [*own_label, *session.labels])


def failed_documents(given: Documents | None) -> gr.Dataframe | Values:
    """Make the table of documents that could not be read; hidden if there are none."""
    if given is None or not given.failed:
        return gr.skip() | {"visible": False}  # without a value: the browser fails on a table without rows
    caption = f"{counted(len(given.failed), 'file')} could not be read"
    return gr.Dataframe(given.failed_rows, label=caption, visible=True)


def first_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], text: str, label: Key) -> gr.Dataframe:
    """Make the table of a file's first rows, with the chosen columns first."""
    roles = {} if label is None else {label: "label"}  # before the text, which fills a narrow screen
    roles[text] = "text"
    shown = list(dict.fromkeys([*roles, *columns]))[:MAX_SHOWN_COLUMNS]
    caption = f"The first rows of {len(rows):,}"
    if len(roles) > 1:
        values = [str(row[label]).strip() for row in rows if row.get(label) not in (None, "")]
        caption += f": {len(values):,} have one of {counted(len(set(values)), 'label')}"
    return gr.Dataframe(
        [[uploads.shortened(row.get(name), 120) for name in shown] for row in rows[:4]],
        headers=[f"{name} ({roles[name]})" if name in roles else name for name in shown],
        column_widths=["300px" if name == text else "120px" for name in shown],
        label=caption,
        visible=True,
    )


def next_action(session: Session) -> str:
    """A sentence about what to do next."""
    counts = session.counts()
    if not counts.texts:
        return "**Start:** drop files or a folder in step 1, or click *Try it with example texts*."
    if counts.labels < 2:
        where = (
            "step 4 picks the most useful ones" if counts.unlabeled else "add some in step 1, or give labels in step 2"
        )
        return f"**Next:** give a few texts a label, with at least two different labels: {where}."
    return "**Ready:** use it in step 5. See in step 3 how far to trust it; labels from step 4 make it better."


def leave_out_box(session: Session, percent: int) -> Values:
    """Make the box that leaves out unsure answers, with the allowed errors."""
    if not views.accuracy_text(session):
        label = f"{LEAVE_OUT}: not yet, as nothing is measured. Give two texts of each label in step 4"
        return {"sure_only": gr.Checkbox(label=label, value=False, interactive=False)}
    label = f"{LEAVE_OUT}: at most {int(percent)}% wrong, as set in step 3"
    return {"sure_only": gr.Checkbox(label=label, interactive=True)}


def opened_text(session: Session, row: int) -> Values:
    """Show a text of the list with buttons to change its label."""
    if row >= len(session.listed):  # another window of this browser has searched
        return {}
    found = views.find_row(session, session.listed[row])
    caption = f"A text with the label {found.label}" if found.label else "A text without a label"
    if found.file is not None:
        caption += f", from {found.file}"
    other_labels = [name for name in session.labels if name != found.label]
    shown = {"opened": gr.Column(visible=True), "opened_text": gr.Textbox(found.text, label=caption)}
    return shown | label_choices("opened", other_labels)


def opened_finding(session: Session, row: int) -> Values:
    """Show the text of a finding with buttons to correct its label; hidden if there is no such row."""
    if row >= len(session.findings):
        return {"finding": gr.Column(visible=False)}
    finding = session.findings[row]
    names = [name for name in [finding.suggested, *session.labels] if name not in ("", finding.label)]
    shown = {
        "finding": gr.Column(visible=True),
        "finding_text": gr.Textbox(finding.text, label=f"{finding.label}: {finding.kind} {finding.why}"),
        "finding_other": gr.Button(f"Keep {finding.label}"),
    }
    return shown | label_choices("finding", names)


def label_choices(chooser: str, names: Iterable[str]) -> Values:
    """Make buttons for the first labels, and a list of all labels if there are more."""
    names = list(dict.fromkeys(names))
    buttons = [gr.Button(name, visible=True) for name in names[:LABEL_BUTTONS]]
    buttons += [gr.Button(visible=False)] * (LABEL_BUTTONS - len(buttons))
    more = gr.Dropdown(sorted(names), value=None, visible=len(names) > LABEL_BUTTONS)
    return {f"{chooser}_{number}": button for number, button in enumerate(buttons)} | {f"{chooser}_more": more}
