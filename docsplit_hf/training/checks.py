"""Whether model, arguments, data and collator of a contrastive run fit together."""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING

from transformers import PreTrainedModel
from transformers.trainer_utils import has_length

from ..models.positions import check_max_length
from .arguments import ContrastiveTrainingArguments
from .distributed import process_count

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset

    from ..data.collator import DataCollatorForDocSplit

logger = logging.getLogger(__name__)


def freeze_unused(model: PreTrainedModel) -> None:
    """Freeze what a run without MLM never uses: the masked-LM head, and the pooler that no embedding goes through.

    DDP waits for the gradient of every parameter that is not frozen.

    Args:
        model: From ``AutoModelForDocSplit``.

    Example:

        >>> from transformers import BertConfig
        >>> from docsplit_hf import AutoModelForDocSplit
        >>> config = BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
        >>> model = AutoModelForDocSplit.from_config(config)
        >>> freeze_unused(model)
        >>> model.cls.predictions.bias.requires_grad, model.bert.embeddings.LayerNorm.bias.requires_grad
        (False, True)
    """
    encoder = model.base_model
    used = {id(parameter) for name, parameter in encoder.named_parameters() if not name.startswith("pooler.")}
    unused = [parameter for parameter in model.parameters() if id(parameter) not in used]
    for parameter in unused:
        parameter.requires_grad_(False)
    if unused:
        logger.info("Froze %d parameters that embeddings do not depend on.", sum(p.numel() for p in unused))


def check_fit(
    model: PreTrainedModel,
    args: ContrastiveTrainingArguments,
    train_dataset: Dataset | IterableDataset | None,
    collator: DataCollatorForDocSplit,
) -> None:
    """Find out before the first step what would go wrong in it.

    Args:
        model: The model, without PEFT's wrapper.
        args: The arguments.
        train_dataset: The training documents.
        collator: What makes batches of them.

    Raises:
        ValueError: Of the first thing that does not fit, with what to do about it.
    """
    if not hasattr(model.config, "docsplit"):
        raise ValueError(f"{type(model).__name__} has no contrastive forward: load it with AutoModelForDocSplit.")
    check_max_length(collator.max_length, model)
    has_head = "mlm_labels" in inspect.signature(model.forward).parameters
    if args.mlm_weight > 0 and not has_head:
        raise ValueError(f"mlm_weight={args.mlm_weight} needs a masked-LM head: load the model with mlm_head=True.")
    if (args.mlm_weight > 0) != (collator.mlm_probability > 0):
        raise ValueError(
            f"mlm_weight={args.mlm_weight} and the collator's mlm_probability={collator.mlm_probability} do not fit: "
            "both are above 0, to train with MLM, or both are 0."
        )
    if process_count() != args.world_size:
        raise ValueError(
            f"{process_count()} processes were started, but the arguments say {args.world_size}: each would train "
            "alone. Processes on the CPU need --use_cpu."
        )
    if args.n_gpu > 1:
        raise ValueError(
            f"{args.n_gpu} GPUs in one process would be used by DataParallel, which splits documents from their other "
            "halves: start with accelerate launch, or show one GPU only (CUDA_VISIBLE_DEVICES=0)."
        )
    negatives_from = args.world_size if args.gather_negatives else 1
    if args.per_device_train_batch_size * negatives_from < 2:
        raise ValueError(
            "A batch of one document has no negatives: raise per_device_train_batch_size. Gradient accumulation does "
            "not help, it adds no negatives."
        )
    if train_dataset is None:
        return
    if not has_length(train_dataset):
        if args.max_steps <= 0:
            raise ValueError("A streaming data set has no length: say how long to train with max_steps.")
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
