"""What a document encoder can be pretrained with, by name, and what goes with each."""

from __future__ import annotations

from typing import NamedTuple


class Objective(NamedTuple):
    """An objective, and what goes with it unless the arguments say otherwise.

    Args:
        mlm_weight: Weight of the MLM loss; 0: the objective is trained without MLM.
        similarity: How embeddings are compared: ``"cosine"`` or ``"dot"``.
        compares_batch: Whether the loss of a document depends on the other documents of its batch.
        many_views: Whether there may be more than two views of a document.
    """

    mlm_weight: float
    similarity: str
    compares_batch: bool
    many_views: bool = False


OBJECTIVES = {
    "info_nce": Objective(0.1, "cosine", True, many_views=True),
    "momentum_contrast": Objective(0.0, "dot", False),
    "contrastive_tension": Objective(0.0, "dot", True),
    "mlm": Objective(1.0, "cosine", False, many_views=True),
}


def get_objective(name: str) -> Objective:
    """Look an objective up by name.

    Args:
        name: A key of ``OBJECTIVES``.

    Returns:
        The objective.

    Raises:
        ValueError: If there is no objective of that name.

    Example:

        >>> get_objective("mlm").mlm_weight
        1.0
    """
    if name not in OBJECTIVES:
        raise ValueError(f"There is no objective named {name!r}. Choose one of {sorted(OBJECTIVES)}.")
    return OBJECTIVES[name]
