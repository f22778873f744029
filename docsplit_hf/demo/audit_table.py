"""The audit's findings as rows of a table."""

from __future__ import annotations

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
            f"{one.probability:.0%} sure of {one.given}; {one.near_suggested} of the nearest are "
            f"{one.suggested}, {one.near_given} are {one.given}",
            one.text,
        ]
        for one in audit.label_issues
    ]
    ids: list[str | None] = [one.id for one in audit.label_issues]
    for group in audit.duplicates:
        kind = "copies" if group.exact else "almost copies"
        labels = " / ".join(dict.fromkeys(group.labels))
        differ = ", with different labels" if group.labels_differ else ""
        rows.append([kind, labels, "", f"{len(group.ids)} texts{differ}", group.text])
        ids.append(group.ids[-1])
    for one in audit.outliers:
        rows.append(["near no other", one.label, "", f"closeness {one.closeness:.2f}", one.text])
        ids.append(one.id)
    for pair in audit.confused_labels:
        why = f"{pair.first_as_second} and {pair.second_as_first} texts are taken for the other"
        rows.append(["hard to tell apart", f"{pair.first} / {pair.second}", "", why, ""])
        ids.append(None)
    said = f"{audit.checked:,} of {audit.examples:,} labels checked, about {audit.wrong_labels:,.0f} of them wrong."
    return f"{said} {f'{len(rows):,} findings.' if rows else 'Nothing was found.'}", rows, ids
