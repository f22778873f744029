"""Gradient caching: train a batch of any size in the memory of a small one, with the same gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import nn

from .model import Batch, masked_views


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
