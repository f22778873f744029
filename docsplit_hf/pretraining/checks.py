"""Checks that model, arguments, data and collator of a contrastive run fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transformers import PreTrainedModel
from transformers.trainer_utils import has_length

from ..encoding.portable.run_encoder import check_max_length
from ..training.arguments import check_processes, check_vocabulary, check_weights
from ..training.distributed import uses_fsdp
from .arguments import ContrastiveTrainingArguments
from .model import DocSplitForward

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

    from .collator import DataCollatorForDocSplit


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
