"""Gradient caching: a batch as large as one likes in the memory of a small one, with the same gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

Chunk = TypeVar("Chunk")


class RandomState:
    """The state of torch's generators at one moment, so that dropout can be drawn once more.

    Args:
        device: The device whose generator draws, beside that of the CPU.

    Example:

        >>> state = RandomState(torch.device("cpu"))
        >>> first = torch.rand(3)
        >>> with state.replayed():
        ...     print(torch.equal(torch.rand(3), first))
        True
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.cpu = torch.get_rng_state()
        self.accelerator = None if device.type == "cpu" else torch.get_device_module(device).get_rng_state(device)

    @contextlib.contextmanager
    def replayed(self) -> Iterator[None]:
        """Draw from this state within, and go on outside as if nothing had been drawn."""
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
    """Cut a batch of documents with two views each, or more, into smaller batches of the same kind.

    Args:
        batch: Tensors of B documents, ``(B,)``, and of their views, ``(2B,)`` or ``(2B, L)``, rows i, B+i, ... being
            those of document i; ``document_ids`` and ``attention_mask`` among them.
        size: The number of documents in a chunk.

    Returns:
        The chunks in order, the last one maybe smaller, without columns that are padding only.

    Example:

        >>> mask = torch.tensor([[1, 1], [1, 0], [1, 1], [1, 0]])
        >>> chunks = chunk_documents({"document_ids": torch.arange(2), "attention_mask": mask}, 1)
        >>> [chunk["attention_mask"].tolist() for chunk in chunks]
        [[[1, 1], [1, 1]], [[1], [1]]]
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
    """Put the embeddings of chunks together again, first all anchors, then all positives.

    Args:
        embeddings: ``(2b, D)`` of each chunk; ``(Vb, D)`` of V views a document.
        views: V.

    Returns:
        ``(2B, D)``, or ``(VB, D)``: all first views, all second views, ...

    Example:

        >>> join_views([torch.tensor([[1.0], [3.0]]), torch.tensor([[2.0], [4.0]])]).flatten()
        tensor([1., 2., 3., 4.])
    """
    by_view = zip(*(chunk.chunk(views) for chunk in embeddings), strict=True)
    return torch.cat([part for parts in by_view for part in parts])


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

    Args:
        chunks: The parts of a batch.
        embed: Embeddings of a chunk, ``(b, D)``, and a loss that the same forward gives and that adds up over the
            chunks, or None.
        loss_of_embeddings: The loss, a scalar, of the embeddings of all chunks.
        backward: Propagates a scalar back.
        device: Where the embeddings are computed.
        loss_beside: A further loss of a chunk that adds up over the chunks and has a forward of its own.
        no_sync: Makes the context in which gradients are not averaged over processes. All backward passes but the
            last run in it: there is one all-reduce a step.

    Returns:
        The sum of all losses, without a graph.

    Example:

        >>> weight = torch.tensor(2.0, requires_grad=True)
        >>> chunks = [torch.tensor([[1.0]]), torch.tensor([[3.0]])]
        >>> def square_of_sum(embeddings):
        ...     return torch.cat(embeddings).sum() ** 2
        >>> backward_in_chunks(
        ...     chunks, lambda x: (weight * x, None), square_of_sum, torch.Tensor.backward, torch.device("cpu")
        ... )
        tensor(64.)
        >>> weight.grad  # of (4 w) ** 2
        tensor(64.)
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

    def replayed(chunk: Chunk, state: RandomState, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        with state.replayed():
            again, beside = embed(chunk)
        surrogate = (again * gradient).sum()
        return (surrogate, None) if beside is None else (surrogate + beside, beside)

    for i, (chunk, *cached) in enumerate(zip(chunks, states, gradients, strict=True)):
        is_last = i == len(chunks) - 1
        with contextlib.nullcontext() if is_last and loss_beside is None else no_sync():
            propagated, beside = replayed(chunk, *cached)
            backward(propagated)
        if loss_beside is not None:
            with contextlib.nullcontext() if is_last else no_sync():
                beside = loss_beside(chunk)
                backward(beside)
        if beside is not None:
            total = total + beside.detach()
    return total
