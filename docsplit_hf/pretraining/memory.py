"""What to do when a training step does not fit into the memory of a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .model import Batch

if TYPE_CHECKING:
    from .arguments import ContrastiveTrainingArguments

# A chunk of more tokens is no faster on a GPU, and needs more memory.
TOKENS_THAT_FILL_A_GPU = 32_768


def smaller_chunk(batch: Batch, size: int) -> int | None:
    """The number of documents per forward pass to try after ``size`` did not fit; None after a single document.

    Half of it, or as many halvings as leave ``TOKENS_THAT_FILL_A_GPU``: since gradient caching takes one more forward
    pass in any case, larger chunks would only need more memory.
    """
    if size == 1:
        return None
    documents = len(batch["document_ids"])
    tokens_per_document = batch["input_ids"].numel() / documents
    size //= 2
    while size > 1 and size * tokens_per_document > TOKENS_THAT_FILL_A_GPU:
        size //= 2
    return size


def describe_memory(batch: Batch, size: int, device: torch.device) -> str:
    """Describe a step that did not fit, for an error: its documents and tokens, and the memory of the device."""
    documents = len(batch["document_ids"])
    views, length = batch["input_ids"].shape
    text = f"{documents} documents with {views // documents} views of up to {length:,} tokens"
    if size < documents:
        text += f", {size} per forward pass,"
    if device.type != "cuda":
        return f"{text} do not fit into the memory of {device}"
    free, total = torch.cuda.mem_get_info(device)
    used = torch.cuda.max_memory_allocated(device)
    return (
        f"{text} needed more than the {used / 1e9:.1f} GB that this run had at most: of {total / 1e9:.1f} GB on the "
        f"GPU, {free / 1e9:.1f} GB are free"
    )


def ways_to_need_less(batch: Batch, size: int, args: ContrastiveTrainingArguments, max_length: int) -> str:
    """The options that lower the memory of a step and that its objective takes, with the numbers of this run."""
    ways = []
    smaller = smaller_chunk(batch, size)
    if not args.compares_batch:
        documents = len(batch["document_ids"])
        if documents > 1:
            ways.append(
                f"per_device_train_batch_size={documents // 2} and "
                f"gradient_accumulation_steps={2 * args.gradient_accumulation_steps} (the same gradients)"
            )
    elif smaller is not None and not args.deepspeed_plugin:
        ways.append(f"forward_chunk_size={smaller} (the same gradients, one more forward pass)")
    if not args.activation_checkpointing:
        ways.append("activation_checkpointing=True (computes each layer again in the backward pass)")
    if max_length > 1:
        ways.append(f"max_length={max_length // 2} (half of each view is not read)")
    return f"Use {', or '.join(ways)}."
