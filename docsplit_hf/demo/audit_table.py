"""The audit's findings as rows of a table."""

from __future__ import annotations

from .limits import counted
from .session import Session

HEADER = ["Finding", "Label", "Suggested", "Why", "Text"]


def audit_table(session: Session) -> tuple[str, list[list[str]], list[str | None]]:
    """A sentence on what was found; for each finding a row, and the id of its text or None. Wrong labels come first."""
    _ = session.store
    audit = session.pipe.audit(show_progress=False)
    rows = [
        [
            "wrong label?",
            one.given,
            one.suggested,
            f"{one.given} has a probability of {one.probability:.0%}; of the nearest texts {one.near_suggested} are "
            f"{one.suggested}, {one.near_given} {one.given}",
            one.text,
        ]
        for one in audit.label_issues
    ]
    ids: list[str | None] = [one.id for one in audit.label_issues]
    for group in audit.duplicates:
        kind = "copies" if group.exact else "almost copies"
        labels = " / ".join(dict.fromkeys(group.labels))
        differ = ", with different labels" if group.labels_differ else ""
        rows.append([kind, labels, "", f"{counted(len(group.ids), 'text')}{differ}", group.text])
        ids.append(group.ids[-1])
    for one in audit.outliers:
        rows.append(["like no other", one.label, "", f"similarity {one.closeness:.2f}", one.text])
        ids.append(one.id)
    for pair in audit.confused_labels:
        why = f"texts mistaken for the other: {pair.first_as_second} and {pair.second_as_first}"
        rows.append(["hard to tell apart", f"{pair.first} / {pair.second}", "", why, ""])
        ids.append(None)
    said = f"{audit.checked:,} of {counted(audit.examples, 'label')} checked."
    return f"{said} {counted(len(rows), 'finding')}.", rows, ids
