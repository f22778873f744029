"""Gradient caching: a batch of any size in the memory of a small one, with the same gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import nn

from .batch import model_inputs

Chunk = TypeVar("Chunk")


class RandomState:
    """The state of torch's generators, on the CPU and ``device``, so that dropout can be drawn once more."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.cpu = torch.get_rng_state()
        self.accelerator = None if device.type == "cpu" else torch.get_device_module(device).get_rng_state(device)

    @contextlib.contextmanager
    def replayed(self) -> Iterator[None]:
        """Draw random numbers from this state inside the context; the state outside it stays as it was."""
        now = RandomState(self.device)
        self._restore()
        try:
            yield
        finally:
            now._restore()

    def _restore(self) -> None:
        torch.set_rng_state(self.cpu)
        if self.accelerator is not None:
            torch.get_device_module(self.device).set_rng_state(self.accelerator, self.device)


def chunk_documents(batch: dict[str, torch.Tensor], size: int) -> list[dict[str, torch.Tensor]]:
    """Cut a batch into batches of ``size`` documents, the last one maybe smaller, without columns of padding only.

    ``batch``: ``(B,)`` per document, or ``(VB,)`` and ``(VB, L)`` per view, rows i, B+i, ... being those of document i.
    """
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
    batch: dict[str, torch.Tensor],
    size: int,
    mlm_input: str | None,
    contrastive_loss: Callable[[torch.Tensor], torch.Tensor],
    mlm_loss: Callable[[torch.Tensor, dict[str, torch.Tensor]], torch.Tensor],
    backward: Callable[[torch.Tensor], None],
    no_sync: Callable[[], contextlib.AbstractContextManager],
) -> torch.Tensor:
    """Propagate the losses of a batch back, ``size`` documents at a time; the sum of them, without a graph.

    ``contrastive_loss`` is a function of the embeddings of the whole batch, ``(VB, D)``; ``mlm_loss`` one of the mean
    loss of a chunk's masked tokens, and of the chunk. ``mlm_input`` is as in ``model_inputs``.
    """
    views = len(batch["input_ids"]) // len(batch["document_ids"])
    masked_apart = mlm_input == "separate"

    def embed(chunk: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor | None]:
        chosen = model_inputs(chunk, mlm_input)
        if masked_apart or not torch.is_grad_enabled():
            chosen = {name: chosen[name] for name in ("input_ids", "attention_mask")}
        output = model(**chosen)
        return output.embeddings, None if output.mlm_loss is None else mlm_loss(output.mlm_loss, chunk)

    def predict_masked(chunk: dict[str, torch.Tensor]) -> torch.Tensor:
        output = model(**model_inputs(chunk, "shared"))
        # A projection head has no part in this loss, and DDP waits for a gradient of every parameter.
        return mlm_loss(output.mlm_loss, chunk) + 0 * output.embeddings.sum()

    return backward_in_chunks(
        chunk_documents(batch, size),
        embed,
        lambda embeddings: contrastive_loss(join_views(embeddings, views)),
        backward,
        batch["input_ids"].device,
        loss_beside=predict_masked if masked_apart else None,
        no_sync=no_sync,
    )


def backward_in_chunks(
    chunks: Sequence[Chunk],
    embed: Callable[[Chunk], tuple[torch.Tensor, torch.Tensor | None]],
    loss_of_embeddings: Callable[[list[torch.Tensor]], torch.Tensor],
    backward: Callable[[torch.Tensor], None],
    device: torch.device,
    loss_beside: Callable[[Chunk], torch.Tensor] | None = None,
    no_sync: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext,
) -> torch.Tensor:
    """Add up the gradients of a loss over the embeddings of all chunks, one chunk in memory at a time.

    The embeddings E_1 ... E_n of the chunks are computed without a graph. The loss is a function of all of them, and
    its gradients G_i = dL/dE_i are cached. Then each chunk is embedded once more, with the same dropout, and
    sum(E_i * G_i) is propagated back, whose gradient for the weights is by the chain rule that of the loss (Gao et al.
    2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", section 3.2). It costs one more
    forward.

    ``embed`` gives the embeddings of a chunk, and a loss of the same forward that adds up over the chunks, or None;
    ``loss_beside`` is a further such loss, with a forward of its own. All backward passes but the last run in
    ``no_sync()``, where gradients are not averaged over processes. The sum of all losses is returned, without a graph.
    """
    states, embeddings = [], []
    with torch.no_grad():
        for chunk in chunks:
            states.append(RandomState(device))
            embeddings.append(embed(chunk)[0])
    embeddings = [part.requires_grad_() for part in embeddings]
    loss = loss_of_embeddings(embeddings)
    gradients = torch.autograd.grad(loss, embeddings)
    total = loss.detach()

    for i, (chunk, state, gradient) in enumerate(zip(chunks, states, gradients, strict=True)):
        is_last = i == len(chunks) - 1
        with contextlib.nullcontext() if is_last and loss_beside is None else no_sync():
            with state.replayed():
                again, beside = embed(chunk)
            surrogate = (again * gradient).sum()
            backward(surrogate if beside is None else surrogate + beside)
        if loss_beside is not None:
            with contextlib.nullcontext() if is_last else no_sync():
                beside = loss_beside(chunk)
                backward(beside)
        if beside is not None:
            total = total + beside.detach()
    return total
