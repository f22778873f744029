"""DatalabInputs: examples and what the experts say of them, as cleanlab's Datalab takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..experts.corpus import rows_of, texts_in
from .out_of_fold import out_of_fold

if TYPE_CHECKING:
    from datasets import Dataset

    from ..store.snapshot import Snapshot


class DatalabInputs(NamedTuple):
    """The m examples that ``fit`` held out.

    Attributes:
        data: With the columns ``id``, ``text`` and ``label``: a ``ClassLabel``, or a list of numbers where a text may
            have several labels.
        pred_probs: The out-of-fold probabilities, ``(m, C)``.
        features: The embeddings, ``(m, D)``.
    """

    data: Dataset
    pred_probs: np.ndarray
    features: np.ndarray


def datalab_inputs(snapshot: Snapshot) -> DatalabInputs:
    """The inputs that ``KNNClassifierPipeline.datalab_inputs`` gives."""
    from datasets import ClassLabel, Dataset

    answers = out_of_fold(snapshot)
    rows, probabilities, labels = answers.rows, answers.probabilities, answers.labels[answers.rows]
    table = rows_of(snapshot.rows, rows)
    columns = {"id": table["id"].to_pylist(), "text": texts_in(table)}
    features = snapshot.keys[rows].astype(np.float32)
    if snapshot.multi_label:
        used = labels.any(0)  # Datalab counts the labels that it sees
        columns["label"] = [np.flatnonzero(row).tolist() for row in labels[:, used]]
        return DatalabInputs(Dataset.from_dict(columns), probabilities[:, used], features)
    data = Dataset.from_dict(columns | {"label": labels}).cast_column("label", ClassLabel(names=answers.names))
    return DatalabInputs(data, probabilities / probabilities.sum(1, keepdims=True), features)
