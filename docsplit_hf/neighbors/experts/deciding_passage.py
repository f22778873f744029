"""The passage of a text that speaks most for a label: what the experts would say if they read nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .fitted_experts import ask_experts

if TYPE_CHECKING:
    from ...models.inference.batched_inference import Predictions
    from .fitted_experts import ReadyExperts


def deciding_passage(
    ready: ReadyExperts, predictions: Predictions, texts: list[str], row: int, label: int
) -> dict[str, Any] | None:
    """Where it stands in text ``row``, in characters, and its words; None for a text of one passage.

    Of passages that leave no doubt, the first. A trained classifier says of each what it says of the whole text.
    """
    passages = predictions.passages
    if passages is None or passages.counts[row] == 1:
        return None
    embeddings, spans = passages.of(row)
    parts = [texts[row][start:end] for start, end in spans]
    has_head = predictions.logits.shape[1] > 0
    logits = np.repeat(predictions.logits[[row]], len(parts), axis=0) if has_head else None
    probabilities = ask_experts(ready, embeddings, parts, logits).probabilities[:, label]
    best = int(probabilities.argmax())
    return {"start": int(spans[best, 0]), "end": int(spans[best, 1]), "text": parts[best]}
