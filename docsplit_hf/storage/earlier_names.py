"""Names in fitted states that were saved by earlier versions; the next save writes today's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

EARLIER_EXPERTS = {
    "words": "naive_bayes",
    "vocabulary": "word_regression",
    "names": "label_names",
    "mixture": "ensemble",
}
EARLIER_SETTINGS = {
    "several": "multi_label",
    "beside_documents": "compares_with_documents",
    "foreign": "out_of_scope",
}
EARLIER_ARRAYS = {
    "soft": "soft_labels",
    "probe": "classifier.probe",
    "word_weights": "naive_bayes.weights",
    "words.weights": "naive_bayes.weights",
    "vocabulary": "word_regression.weights",
    "vocabulary.weights": "word_regression.weights",
    "centers": "topics.centers",
    "names": "label_names.vectors",
    "names.vectors": "label_names.vectors",
    "held_out_counted": "held_out_is_counted",
}
# Of settings that the first version did not save.
LATER_DEFAULTS = {"document_vote": 1.0, "compares_with_documents": False, "log_likelihood": 0.0, "thresholds": None}


def with_present_names(
    settings: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Rename settings, arrays and experts that were saved by earlier versions, and add those that they lacked."""
    renamed = {EARLIER_SETTINGS.get(name, name): value for name, value in settings.items()}
    for name in ("weights", "shares"):
        if isinstance(renamed.get(name), dict):
            renamed[name] = {EARLIER_EXPERTS.get(expert, expert): value for expert, value in renamed[name].items()}
    # In a list, as values that were read need not be hashable.
    for record in renamed["measured"] if isinstance(renamed.get("measured"), list) else ():
        if isinstance(record, dict) and record.get("expert") in list(EARLIER_EXPERTS):
            record["expert"] = EARLIER_EXPERTS[record["expert"]]
    present = {EARLIER_ARRAYS.get(name, name): array for name, array in arrays.items()}
    if "several" not in settings:
        return renamed, present
    labels = renamed.get("labels")
    count = len(labels) if isinstance(labels, list) else 0
    if renamed["multi_label"] is True:
        renamed.setdefault("thresholds", [0.5] * count)
    present.setdefault("proportion_draws", np.zeros((0, count), np.float32))
    if "held_out_ids" in present:
        present.setdefault("held_out_is_counted", np.ones(present["held_out_ids"].size, bool))
    return LATER_DEFAULTS | renamed, present
