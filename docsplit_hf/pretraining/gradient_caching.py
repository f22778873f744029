"""Gradient caching: a batch of any size in the memory of a small one, with the same gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import nn

from .model import Batch, model_inputs


class RandomState:
    """The state of torch's generators, on the CPU and ``device``, so that dropout can be drawn once more."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.cpu = torch.get_rng_state()
        self.accelerator = None if device.type == "cpu" else torch.get_device_module(device).get_rng_state(device)

    @contextlib.contextmanager
    def replayed(self) -> Iterator[None]:
        """Draw random numbers from this state inside the context; the state outside it stays as it was."""
        devices = [] if self.accelerator is None else [self.device]
        with torch.random.fork_rng(devices, device_type=self.device.type):
            torch.set_rng_state(self.cpu)
            if self.accelerator is not None:
                torch.get_device_module(self.device).set_rng_state(self.accelerator, self.device)
            yield


def chunk_documents(batch: Batch, size: int) -> list[Batch]:
    """Cut a batch into batches of ``size`` documents, without columns of padding only."""
    documents = len(batch["document_ids"])
    chunks = []
    for numbers in torch.arange(documents).split(size):
        numbers = numbers.to(batch["document_ids"].device)
        chunk = {
            name: values[torch.cat([numbers + start for start in range(0, len(values), documents)])]
            for name, values in batch.items()
        }
        longest = int(chunk["attention_mask"].sum(1).max())
        chunks.append({name: values[:, :longest] if values.ndim == 2 else values for name, values in chunk.items()})
    return chunks


def join_views(embeddings: Sequence[torch.Tensor], views: int = 2) -> torch.Tensor:
    """Put ``(Vb, D)`` of each chunk together to ``(VB, D)``: all first views, all second views, ..."""
    by_view = zip(*(chunk.chunk(views) for chunk in embeddings), strict=True)
    return torch.cat([part for parts in by_view for part in parts])


def step_in_chunks(
    model: nn.Module,
    batch: Batch,
    size: int,
    mlm_input: str | None,
    contrastive_loss: Callable[[torch.Tensor], torch.Tensor],
    mlm_loss: Callable[[torch.Tensor, Batch], torch.Tensor],
    backward: Callable[[torch.Tensor], None],
    no_sync: Callable[[], contextlib.AbstractContextManager],
) -> torch.Tensor:
    """Propagate the losses of a batch back, ``size`` documents at a time; the sum of them, without a graph.

    The embeddings E_1 ... E_n of the chunks are computed without a graph. The contrastive loss is a function of all of
    them, and its gradients G_i = dL/dE_i are cached. Then each chunk is embedded once more, with the same dropout, and
    sum(E_i * G_i) is propagated back, whose gradient for the weights is by the chain rule that of the loss (Gao et al.
    2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", section 3.2).

    ``contrastive_loss`` is a function of the embeddings of the whole batch, ``(VB, D)``; ``mlm_loss`` one of the mean
    loss of a chunk's masked tokens, and of the chunk. ``mlm_input`` is as in ``model_inputs``. All backward passes but
    the last run in ``no_sync()``, where gradients are not averaged over processes.
    """
    chunks, masked_apart = chunk_documents(batch, size), mlm_input == "separate"

    def views(chunk: Batch) -> Batch:
        return model_inputs(model_inputs(chunk, mlm_input), None)

    states, embeddings = [], []
    with torch.no_grad():
        for chunk in chunks:
            states.append(RandomState(batch["input_ids"].device))
            embeddings.append(model(**views(chunk)).embeddings.requires_grad_())
    loss = contrastive_loss(join_views(embeddings, len(batch["input_ids"]) // len(batch["document_ids"])))
    gradients = torch.autograd.grad(loss, embeddings)
    total = loss.detach()

    for i, (chunk, state, gradient) in enumerate(zip(chunks, states, gradients, strict=True)):
        last = contextlib.nullcontext if i == len(chunks) - 1 else no_sync
        with no_sync() if masked_apart else last():
            with state.replayed():
                output = model(**(views(chunk) if masked_apart else model_inputs(chunk, mlm_input)))
            surrogate = (output.embeddings * gradient).sum()
            if output.mlm_loss is not None:
                beside = mlm_loss(output.mlm_loss, chunk)
                surrogate, total = surrogate + beside, total + beside.detach()
            backward(surrogate)
        if masked_apart:
            with last():
                output = model(**model_inputs(chunk, "shared"))
                # A projection head has no part in this loss, and DDP waits for a gradient of every parameter.
                beside = mlm_loss(output.mlm_loss, chunk) + 0 * output.embeddings.sum()
                backward(beside)
                total = total + beside.detach()
    return total
