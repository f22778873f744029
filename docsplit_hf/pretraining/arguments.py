"""Arguments of pretraining, with the papers' defaults, and checks that model, data and collator fit them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from transformers import PreTrainedModel
from transformers.hf_argparser import HfArg
from transformers.trainer_utils import has_length

from ..encoding.portable.run_encoder import check_max_length
from ..training.arguments import ShareableTrainingArguments, check_processes, check_vocabulary, check_weights
from ..training.distributed import uses_fsdp
from .info_nce import SIMILARITIES
from .model import DocSplitForward

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

    from .collator import DataCollatorForDocSplit

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
                raise ValueError(
                    f"forward_chunk_size must be a number of documents or 'auto', got {self.forward_chunk_size!r}."
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


def check_fit(
    model: PreTrainedModel,
    args: ContrastiveTrainingArguments,
    train_dataset: Dataset | IterableDataset | None,
    collator: DataCollatorForDocSplit,
) -> None:
    """Refuse model, arguments, documents and collator that do not fit together."""
    if not all(adapter.base_model_name_or_path for adapter in getattr(model, "peft_config", {}).values()):
        # The saved adapter could not be loaded without a path to its base model.
        raise ValueError(
            "LoRA needs a base model that is saved, and this one is not: train all parameters, or save the model and "
            "load it with AutoModelForDocSplit.from_pretrained first."
        )
    model = model.get_base_model() if hasattr(model, "get_base_model") else model
    if not isinstance(model, DocSplitForward):
        raise ValueError(f"{type(model).__name__} has no contrastive forward: load it with AutoModelForDocSplit.")
    check_max_length(collator.max_length, model)
    check_vocabulary(model, collator.tokenizer)
    if args.mlm_weight > 0 and not model.has_head:
        raise ValueError(f"mlm_weight={args.mlm_weight} needs a masked-LM head: load the model with mlm_head=True.")
    if (args.mlm_weight > 0) != (collator.mlm_probability > 0):
        raise ValueError(
            f"mlm_weight={args.mlm_weight} and the collator's mlm_probability={collator.mlm_probability} do not fit: "
            "both must be above 0, to train with MLM, or both must be 0."
        )
    if collator.view_count < 2 and args.compares_views:
        raise ValueError(
            f"A positive pair needs two views of a document, and {collator.views_name!r} with the options "
            f"{collator.views_kwargs} makes {collator.view_count}: choose other views or options."
        )
    check_processes(args)
    _check_batch(args)
    if train_dataset is not None:
        check_weights(model)
        _check_training_documents(args, train_dataset)


def _check_batch(args: ContrastiveTrainingArguments) -> None:
    """Refuse batches without negatives, and options that do not go together."""
    if isinstance(args.forward_chunk_size, int) and args.deepspeed_plugin:
        raise ValueError(
            f"forward_chunk_size={args.forward_chunk_size} does not go with DeepSpeed, which takes an optimizer step "
            "with each backward pass: use DDP or FSDP, or leave it out."
        )
    if args.projection_head and (uses_fsdp(args) or args.deepspeed_plugin):
        raise ValueError(
            "FSDP and DeepSpeed shard a projection head, which is saved separately: use DDP, or leave it out."
        )
    if args.compares_batch and args.per_device_train_batch_size * args.world_size < 2:
        raise ValueError(
            "A batch of one document has no negatives: raise per_device_train_batch_size. Gradient accumulation adds "
            "no negatives."
        )
    if args.world_size > 1 and args.compares_batch:
        if args.train_sampling_strategy == "batch_rebalance" or not args.accelerator_config.even_batches:
            raise ValueError(
                "Gathered negatives need the same number of documents on each process: leave out "
                "train_sampling_strategy='batch_rebalance' and even_batches=False."
            )


def _check_training_documents(args: ContrastiveTrainingArguments, train_dataset: Dataset | IterableDataset) -> None:
    """Refuse documents that are not segmented, or too few for a batch, and a stream without ``max_steps``."""
    if not has_length(train_dataset):
        if args.max_steps <= 0:
            raise ValueError("A streaming data set has no length: set max_steps.")
        return
    columns = {"input_ids", "sentence_lengths"}
    if hasattr(train_dataset, "column_names") and not columns <= set(train_dataset.column_names):
        raise ValueError(
            f"The training documents have the columns {sorted(train_dataset.column_names)}, not {sorted(columns)}: run "
            "segment_documents on them first."
        )
    batch = args.per_device_train_batch_size * args.world_size
    if len(train_dataset) < (batch if args.dataloader_drop_last else 2):
        raise ValueError(
            f"{len(train_dataset)} documents do not fill one batch of {batch}: lower per_device_train_batch_size or "
            "give more documents."
        )
