"""What of an audit, which may have been edited, is applied to the examples of a snapshot as they are now."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING

from .audit_snapshot import labels_of

if TYPE_CHECKING:
    from ..store.snapshot import Snapshot
    from .audit import Audit, Labels

logger = logging.getLogger(__name__)


def corrections(audit: Audit, snapshot: Snapshot) -> tuple[dict[str, Labels], list[str]]:
    """The new labels by id, and the ids to remove, of an audit of these examples: a label keeps its last one."""
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
    counts = Counter(name for label in known.values() for name in _names(label))
    kept: dict[str, str] = {}
    for row_id, label in [*audit.new_labels.items(), *((row_id, []) for row_id in audit.to_remove)]:
        old, new = _names(known[row_id]), _names(label)
        if last := [name for name in old if counts[name] == 1 and name not in new]:
            kept[row_id] = last[0]
        else:
            counts.update(new)
            counts.subtract(old)
            known[row_id] = label
    if kept:
        which = ", ".join(f"{row_id!r} of {name!r}" for row_id, name in kept.items())
        logger.warning("Left out, as a label would lose its last example: %s. Add examples of these labels.", which)
    labels = {row_id: label for row_id, label in audit.new_labels.items() if row_id not in kept}
    return labels, [row_id for row_id in audit.to_remove if row_id not in kept]


def _names(label: Labels) -> list[str]:
    return [label] if isinstance(label, str) else label
