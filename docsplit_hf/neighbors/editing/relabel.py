"""Giving examples of a classifier's datastore other labels."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..store.store import Store

logger = logging.getLogger(__name__)


def relabel(datastore: Store, labels: Mapping[str, Any]) -> None:
    """Relabel as ``KNNClassifierPipeline.relabel`` says."""
    if not isinstance(labels, Mapping):
        raise TypeError(f"Expected {{id: label, ...}}, got {labels!r}.")
    several, known = datastore.multi_label, datastore.label_names
    for row_id, given in labels.items():
        if not isinstance(row_id, str):
            raise TypeError(f"The id {row_id!r} is no string: ids are as add_examples gave them.")
        if isinstance(given, str) == several or not isinstance(given, (str, list, tuple, set, frozenset)):
            expected = "a list of names, as a text may have several labels here" if several else "the name of a label"
            raise TypeError(f"The label of {row_id!r} is {given!r}: give {expected}.")
        for label in given if several else [given]:
            if label not in known:
                near = get_close_matches(str(label), known, n=1)
                raise ValueError(
                    f"The label {label!r} of {row_id!r} is none of {', '.join(known)}."
                    f"{f' Did you mean {near[0]!r}?' if near else ''} A new one comes with add_examples."
                )
    datastore.relabel(labels)
    if labels and datastore.fitted is not None:
        logger.info("The neighbors know the new labels from now on; the other experts learn of them by fit().")
