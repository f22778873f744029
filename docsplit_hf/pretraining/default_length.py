"""How much of a view is read where nobody says."""

from __future__ import annotations

import logging

from transformers import PreTrainedModel

from ..models.portable.positions import max_positions

logger = logging.getLogger(__name__)


def default_max_length(model: PreTrainedModel) -> int:
    """The length that the checkpoint states, or up to 512 tokens; logged where the model could read more."""
    positions = max_positions(model)
    stated = (getattr(model.config, "docsplit", None) or {}).get("max_length")
    length = stated or min(512, positions or 512)
    if positions and positions > length:
        logger.warning(
            "%s could read %d tokens, and %d of each view are read: set --max_length (max_length of the collator) up "
            "to %d to read more, at the cost of time and memory.",
            *(type(model).__name__, positions, length, positions),
        )
    return length
