"""The passage of a text that speaks most for a label: by what the experts would say if they read nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .fitted_experts import ask_experts

if TYPE_CHECKING:
    from ...models.inference.reader import Predictions
    from .fitted_experts import ReadyExperts


ALIKE = 1e-6  # of probabilities: copies of a passage differ by rounding


def passage_probabilities(
    ready: ReadyExperts, predictions: Predictions, texts: list[str], row: int
) -> np.ndarray | None:
    """What the experts would say of each passage of a text, ``(p, L)``; None for a text of one passage.

    A trained classifier says of each what it says of the whole text.
    """
    passages = predictions.passages
    if passages is None or passages.counts[row] == 1:
        return None
    embeddings, spans = passages.of(row)
    parts = [texts[row][start:end] for start, end in spans]
    has_head = predictions.logits.shape[1] > 0
    logits = np.repeat(predictions.logits[[row]], len(parts), axis=0) if has_head else None
    return ask_experts(ready, embeddings, parts, logits).probabilities


def deciding_passage(probabilities: np.ndarray, spans: np.ndarray, text: str, label: int) -> dict[str, Any]:
    """The passage of which they are surest, the first of equals: where it stands, in characters, and its words."""
    of_label = probabilities[:, label]
    start, end = spans[np.flatnonzero(of_label >= of_label.max() - ALIKE)[0]].tolist()
    return {"start": start, "end": end, "text": text[start:end]}
