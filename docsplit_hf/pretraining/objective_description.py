"""What a model card says of the objective that a model was trained with."""

from __future__ import annotations

import math
from typing import NamedTuple

from .arguments import ContrastiveTrainingArguments


class ObjectiveDescription(NamedTuple):
    """An objective in words."""

    method: str  # how documents are trained on, in a sentence or two
    loss: str  # in a few words
    negatives: int  # per document and step


def describe_info_nce(args: ContrastiveTrainingArguments, view_count: int, processes: int) -> ObjectiveDescription:
    """InfoNCE with in-batch negatives, in words."""
    each_other = "The two" if view_count == 2 else f"Each two of the {view_count}"
    similarity = "" if args.similarity == "cosine" else f" of {args.similarity} products"
    head = " behind a projection head that the model is saved without" if args.projection_head else ""
    both = ", both directions" if args.symmetric else ""
    pairs = math.comb(view_count, 2)
    mean = f", mean over {pairs} pairs of views" if pairs > 1 else ""
    mlm = f", + {args.mlm_weight} x MLM ({args.mlm_input} input)" if args.mlm_weight else ""
    return ObjectiveDescription(
        f"{each_other} views of a document are each other's positive, and the other documents of the batch are "
        "negatives.",
        f"InfoNCE{similarity}{head}, temperature {args.temperature}{both}{mean}{mlm}",
        args.per_device_train_batch_size * (processes if args.gather_negatives else 1) - 1,
    )
