"""Arguments of pretraining, with the papers' defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from transformers.hf_argparser import HfArg

from ..training.arguments import ShareableTrainingArguments
from .info_nce import SIMILARITIES

AUTO = "auto"


@dataclass
class ContrastiveTrainingArguments(ShareableTrainingArguments):
    """Arguments of ``ContrastiveTrainer``: those of ``TrainingArguments`` and the following.

    Each other objective has a subclass: ``docsplit_hf.pretraining.objectives.get_arguments_class`` returns it.

    Args:
        objective: ``"info_nce"``. Each subclass accepts its own objective only.
        temperature: Divisor of the similarities in InfoNCE.
        similarity: ``"cosine"``, as in the papers, or ``"dot"``, as in Contriever.
        mlm_weight: Weight of the masked-LM loss. 0 trains without MLM, with ``mlm_probability=0`` in the collator. The
            encoder reads a masked copy in addition to the views; the papers do not state how they mask.
        projection_head: Whether to compare embeddings after a dense layer and tanh, in training only, as SimCSE does.
        forward_chunk_size: Documents per forward pass. A batch of any size then needs the memory of one chunk, and has
            the same gradients, for one additional forward pass (gradient caching, Gao et al. 2021). None: the whole
            batch. ``"auto"``: the whole batch, or if it does not fit into the memory of a GPU, half of it, a quarter,
            and so on. The size that was found is logged and saved with the checkpoints, for resuming. Several
            processes, FSDP, DeepSpeed, and objectives that do not compare the documents of a batch need a number.

    > Defaults that differ from ``TrainingArguments``

    - ``num_train_epochs=1`` and ``per_device_train_batch_size=36``: as in the papers (BERT).
    - ``dataloader_drop_last=True``: every step has the same number of negatives.
    - ``metric_for_best_model="recall@1"``, ``greater_is_better=True``: half-document retrieval on held-out documents.
    - On CUDA, ``dataloader_num_workers`` is half of the cores, up to 8.
    - ``accelerator_config.dispatch_batches=False``: each process reads its own part of a stream.
    - ``hub_strategy="end"``, ``ddp_find_unused_parameters=False``, and no re-entrant activation checkpointing.

    Gradient accumulation adds up gradients; it does **not** add negatives. 2 steps of 18 documents have 17 negatives
    per document; a batch of 36 with ``forward_chunk_size=18`` has 35. The MLM loss is averaged over the accumulated
    batch.

    Raises:
        ValueError: If a value is out of range, or the objective belongs to another class.
    """

    compares_batch: ClassVar[bool] = True  # whether the loss of a document depends on the others of its batch
    compares_views: ClassVar[bool] = True  # whether the loss compares views of a document, which then needs two

    objective: str = "info_nce"
    temperature: float = HfArg(default=0.05, help="Divides the similarities in InfoNCE. The papers use 0.05.")
    similarity: str = HfArg(
        default="cosine",
        help="How embeddings are compared: 'cosine', or 'dot' as in Contriever.",
        metadata={"choices": list(SIMILARITIES)},
    )
    mlm_weight: float = HfArg(
        default=0.1, help="Weight of the masked-LM loss; 0 trains without it. The papers use 0.1 with info_nce."
    )
    projection_head: bool = HfArg(
        default=False, help="Compare embeddings behind a dense layer and tanh, in training only, as SimCSE does."
    )
    forward_chunk_size: int | str | None = HfArg(
        default=AUTO,
        help="Documents per forward pass. A batch of any size then needs only their memory, with the same gradients, "
        "for one additional forward pass (gradient caching). 'auto': the whole batch, or as large a part of it as "
        "fits into the memory of the GPU.",
    )
    num_train_epochs: float = HfArg(default=1.0, help="Passes over the documents. The papers use 1.")
    per_device_train_batch_size: int = HfArg(
        default=36, help="Documents per process and step. The papers use 36 (BERT) and 12 (Longformer)."
    )
    dataloader_drop_last: bool = HfArg(
        default=True, help="Leave the last, smaller batch out: it would have fewer negatives."
    )
    metric_for_best_model: str | None = HfArg(default="recall@1", help="The metric that decides the best checkpoint.")
    greater_is_better: bool | None = HfArg(default=True, help="Whether a higher value of that metric is better.")

    def __new__(cls, *args: Any, **kwargs: Any) -> ContrastiveTrainingArguments:
        # Checked before __init__, where an option of another objective would cause an error without this advice.
        objective = kwargs.get("objective", cls.objective)
        if objective != cls.objective:
            raise ValueError(
                f"objective={objective!r} has other arguments than {cls.__name__}: "
                f"get_arguments_class({objective!r}) of docsplit_hf.pretraining.objectives returns their class, and "
                "get_trainer_class its trainer."
            )
        return super().__new__(cls)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.accelerator_config.dispatch_batches is None:
            self.accelerator_config.dispatch_batches = False
        if self.temperature <= 0:
            raise ValueError(f"temperature must be above 0, got {self.temperature}. The papers use 0.05.")
        if self.mlm_weight < 0:
            raise ValueError(f"mlm_weight must be 0 (no MLM) or above, got {self.mlm_weight}.")
        if self.forward_chunk_size not in (None, AUTO):
            try:
                size = int(self.forward_chunk_size)
            except ValueError as error:
                given = self.forward_chunk_size
                raise ValueError(
                    f"forward_chunk_size must be a number of documents or 'auto', got {given!r}."
                ) from error
            if size < 1:
                raise ValueError(f"forward_chunk_size must be at least 1 document, got {size}.")
            self.forward_chunk_size = size
        if self.similarity not in SIMILARITIES:
            raise ValueError(f"similarity must be one of {SIMILARITIES}, got {self.similarity!r}.")
        if isinstance(self.forward_chunk_size, int) and not self.compares_batch:
            raise ValueError(
                f"forward_chunk_size={self.forward_chunk_size} does not go with objective={self.objective!r}, which "
                "does not compare the documents of a batch: gradient_accumulation_steps has the same effect without "
                "the additional forward pass."
            )


def overridden(name: str, default: Any, **options: Any) -> Any:
    """Make a field of ``ContrastiveTrainingArguments`` with another default; ``init=False`` removes it as an option."""
    inherited = ContrastiveTrainingArguments.__dataclass_fields__[name]
    return field(default=default, metadata=inherited.metadata, **options)
