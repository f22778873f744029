"""Whether an audit, which may have been edited, is of the examples of a snapshot as they are now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .audit_snapshot import labels_of

if TYPE_CHECKING:
    from ..store.snapshot import Snapshot
    from .audit import Audit


def check_audit(audit: Audit, snapshot: Snapshot) -> None:
    """Refuse one of other examples, or that was applied already."""
    known = dict(zip(snapshot.rows["id"].to_pylist(), labels_of(snapshot), strict=True))
    given = {issue.id: issue.given for issue in audit.label_issues}
    given |= {one: label for group in audit.duplicates for one, label in zip(group.ids, group.labels, strict=False)}
    given |= {outlier.id: outlier.label for outlier in audit.outliers}
    for row_id in [*audit.new_labels, *audit.to_remove]:
        if row_id not in known:
            found = "no example has that id"
        elif row_id in given and given[row_id] != known[row_id]:
            found = f"that example has the label {known[row_id]!r}, and {given[row_id]!r} in the audit"
        else:
            continue
        raise ValueError(
            f"The audit is not of these examples, or was applied already: {row_id!r}, {found}. Nothing was changed. "
            "Audit them again."
        )
    if unknown := {name for label in audit.new_labels.values() for name in _names(label)} - {*snapshot.label_names}:
        raise ValueError(f"The audit suggests labels that no example has: {', '.join(sorted(unknown))}.")


def _names(label: str | list[str]) -> list[str]:
    return [label] if isinstance(label, str) else label
