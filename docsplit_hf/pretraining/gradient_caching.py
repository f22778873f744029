"""Gradient caching: train a batch of any size in the memory of a small one, with the same gradients.

Also what to do if a step does not fit into the memory: the next size to try, and what the error says.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import nn

from .model import Batch, masked_views

if TYPE_CHECKING:
    from .arguments import ContrastiveTrainingArguments

# A chunk of more tokens is no faster on a GPU, and needs more memory.
TOKENS_THAT_FILL_A_GPU = 32_768


class RandomState:
    """The state of torch's random generators on the CPU and ``device``, from which the same dropout is drawn again."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.cpu = torch.get_rng_state()
        self.accelerator = None if device.type == "cpu" else torch.get_device_module(device).get_rng_state(device)

    @contextlib.contextmanager
    def replayed(self) -> Iterator[None]:
        """Draw random numbers from this state within the context; the state outside it is unchanged."""
        devices = [] if self.accelerator is None else [self.device]
        with torch.random.fork_rng(devices, device_type=self.device.type):
            self.restore()
            yield

    def restore(self) -> None:
        """Draw random numbers from this state again, from now on."""
        torch.set_rng_state(self.cpu)
        if self.accelerator is not None:
            torch.get_device_module(self.device).set_rng_state(self.accelerator, self.device)


def chunk_documents(batch: Batch, size: int) -> list[Batch]:
    """Cut a batch into batches of ``size`` documents, without columns of padding only."""
    documents = len(batch["document_ids"])
    chunks = []
    for chosen in torch.arange(documents, device=batch["document_ids"].device).split(size):
        chunk = {}
        for name, values in batch.items():  # the rows of a batch are grouped by view
            rows = torch.cat([chosen + start for start in range(0, len(values), documents)])
            chunk[name] = values[rows]
        longest = int(chunk["attention_mask"].sum(1).max())
        chunks.append({name: values[:, :longest] if values.ndim == 2 else values for name, values in chunk.items()})
    return chunks


def join_views(embeddings: Sequence[torch.Tensor], views: int = 2) -> torch.Tensor:
    """Join the embeddings ``(Vb, D)`` of chunks to ``(VB, D)``: all first views, then all second views, ..."""
    by_view = zip(*(chunk.chunk(views) for chunk in embeddings), strict=True)
    return torch.cat([part for parts in by_view for part in parts])


def step_in_chunks(
    model: nn.Module,
    batch: Batch,
    size: int,
    contrastive_loss: Callable[[torch.Tensor], torch.Tensor],
    mlm_loss: Callable[[torch.Tensor, Batch], torch.Tensor],
    backward: Callable[[torch.Tensor], None],
    no_sync: Callable[[], contextlib.AbstractContextManager],
) -> torch.Tensor:
    """Backpropagate the losses of a batch, ``size`` documents at a time; return their sum, detached.

    The embeddings E_1 ... E_n of the chunks are computed without a graph. The contrastive loss is a function of all of
    them; its gradients G_i = dL/dE_i are cached. Then each chunk is embedded again with the same dropout, and
    sum(E_i * G_i) is backpropagated. By the chain rule its gradient for the weights is that of the loss (Gao et al.
    2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", section 3.2).

    Args:
        model: The model.
        batch: The batch, from the collator.
        size: Documents per chunk.
        contrastive_loss: The loss of the embeddings of the whole batch, ``(VB, D)``.
        mlm_loss: The loss to add for a chunk, given the mean loss of its masked tokens, and the chunk.
        backward: Backpropagates a loss.
        no_sync: A context in which gradients are not averaged over processes: that of all backward passes but the last.
    """
    chunks = chunk_documents(batch, size)
    has_mlm = "mlm_input_ids" in batch
    random_states = []
    embeddings = []
    with torch.no_grad():
        for chunk in chunks:
            random_states.append(RandomState(batch["input_ids"].device))
            embeddings.append(model(chunk["input_ids"], chunk["attention_mask"]).embeddings.requires_grad_())
    view_count = len(batch["input_ids"]) // len(batch["document_ids"])
    loss = contrastive_loss(join_views(embeddings, view_count))
    gradients = torch.autograd.grad(loss, embeddings)
    total = loss.detach()

    for number, chunk in enumerate(chunks):
        is_last = number == len(chunks) - 1
        sync_of_chunk = contextlib.nullcontext if is_last else no_sync
        with no_sync() if has_mlm else sync_of_chunk():
            with random_states[number].replayed():
                output = model(chunk["input_ids"], chunk["attention_mask"])
            backward((output.embeddings * gradients[number]).sum())
        if has_mlm:
            with sync_of_chunk():
                output = model(**masked_views(chunk))
                # The term of 0 includes a projection head, because DDP waits for the gradients of all parameters.
                added = mlm_loss(output.mlm_loss, chunk) + 0 * output.embeddings.sum()
                backward(added)
                total = total + added.detach()
    return total


def smaller_chunk(batch: Batch, size: int) -> int | None:
    """The number of documents per forward pass to try after ``size`` did not fit; None after a single document.

    Half of it, or as many halvings as leave ``TOKENS_THAT_FILL_A_GPU``: since gradient caching takes one more forward
    pass in any case, larger chunks would only need more memory.
    """
    if size == 1:
        return None
    tokens_per_document = batch["input_ids"].numel() / len(batch["document_ids"])
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
