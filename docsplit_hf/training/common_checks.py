"""What both trainers check before the first step, whatever the loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .arguments import ShareableTrainingArguments
from .distributed import process_count

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def check_vocabulary(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a tokenizer with tokens that the model has no embeddings for."""
    rows = model.get_input_embeddings().num_embeddings
    if len(tokenizer) > rows:
        raise ValueError(
            f"The tokenizer has {len(tokenizer)} tokens and the model embeddings for {rows}: call "
            "model.resize_token_embeddings(len(tokenizer)), or use the tokenizer that belongs to the model."
        )


def check_weights(model: PreTrainedModel) -> None:
    """Refuse to train weights of float16: small steps get lost in them, and the squares of small gradients are 0."""
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and parameter.dtype == torch.float16:
            raise ValueError(
                f"{name} is of float16, and training would get lost in its rounding: load the model with "
                'dtype="float32". To compute in half precision, train with bf16=True or fp16=True.'
            )


def check_processes(args: ShareableTrainingArguments) -> None:
    """Refuse processes that do not know of one another, and several GPUs in one process."""
    if process_count() != args.world_size:
        raise ValueError(
            f"{process_count()} processes were started, but the arguments say {args.world_size}: each would train "
            "alone. Processes on the CPU need --use_cpu."
        )
    if args.n_gpu > 1:
        raise ValueError(
            f"{args.n_gpu} GPUs in one process would be used by DataParallel, which takes the batch apart, in which "
            "texts are compared with one another: start with accelerate launch, or show one GPU only "
            "(CUDA_VISIBLE_DEVICES=0)."
        )
