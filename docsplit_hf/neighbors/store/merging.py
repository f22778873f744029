"""Two datastores in one: the examples and documents of the other after one's own."""

from __future__ import annotations

import logging
from dataclasses import replace

from .documents import PREFIX, append_documents, no_documents
from .keys.key_matrix import as_matrix, check_probe
from .labels import rename_labels
from .precision_check import in_one_precision
from .row_table import renew_automatic_ids
from .snapshot import Buffers, Snapshot, append

logger = logging.getLogger(__name__)


def merge_snapshots(snapshot: Snapshot, buffers: Buffers, other: Snapshot) -> Snapshot:
    """A snapshot with the rows of another datastore at the end. Ids that the other's counters gave are renewed."""
    if other.multi_label != snapshot.multi_label:
        raise ValueError("One of the two has several labels per row, the other has one: build both with multi_label.")
    keys = as_matrix(other.keys, "keys of the other datastore", snapshot.keys.shape[1])
    if snapshot.probe is None and len(snapshot.keys) == 0 and snapshot.documents is None:
        snapshot = replace(snapshot, probe=other.probe)
    elif snapshot.probe is None or other.probe is None:
        logger.warning("One of the datastores has no probe, so whether the encoders are the same cannot be checked.")
    else:
        check_probe(other.probe, snapshot.probe)
        if not in_one_precision(other.probe, snapshot.probe):
            raise ValueError(
                "One of the datastores was built in int8, and the other was not, or by another export: build both in "
                "one precision, with the same calibration_texts."
            )
    labels, names = rename_labels(other.labels, other.label_names, snapshot.label_names)
    own, others = (state.documents or no_documents(state) for state in (snapshot, other))
    taken = snapshot.rows, own.rows, others.rows
    rows, next_id = renew_automatic_ids(other.rows, other.next_id, snapshot.next_id, *taken)
    merged = append(snapshot, buffers, keys, labels, rows, other.passages, own.rows, label_names=names, next_id=next_id)
    if other.documents is not None:
        taken = own.rows, merged.rows
        rows, next_id = renew_automatic_ids(others.rows, others.next_id, own.next_id, *taken, prefix=PREFIX)
        merged = append_documents(merged, buffers, others.keys, rows, others.passages, next_id)
    if snapshot.fitted is not None or other.fitted is not None:
        logger.warning("What was fitted on the two datastores does not fit what they are merged to: fit it again.")
    return replace(merged, fitted=None)
