"""Momentum contrast: keys from a slowly moving copy of the encoder, negatives from a queue of earlier keys."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel, TrainerCallback
from transformers.trainer_utils import has_length

from ...training.distributed import gather
from ..arguments import ContrastiveTrainingArguments
from ..checks import check_two_encoders
from ..contrastive_trainer import ContrastiveTrainer
from ..info_nce import InfoNCE, comparable

logger = logging.getLogger(__name__)

STATE_FILE = "momentum_contrast.safetensors"  # key encoder and queue, in each checkpoint: for resuming only


class KeyQueue(nn.Module):
    """The keys of the last documents, oldest out first. It begins with random directions of norm 1.

    Deviation from Contriever's code: batches may be of any size, where it asserts that they divide the queue.

    Args:
        size: The number of keys.
        dimension: Their dimension.
        seed: Draws the first keys, the same on every process.

    Example:

        >>> queue = KeyQueue(3, 2)
        >>> queue.enqueue(torch.ones(2, 2)), queue.enqueue(torch.zeros(2, 2))
        (None, None)
        >>> queue.keys
        tensor([[0., 0.],
                [1., 1.],
                [0., 0.]])
    """

    def __init__(self, size: int, dimension: int, seed: int = 0) -> None:
        super().__init__()
        first = torch.randn(size, dimension, generator=torch.Generator().manual_seed(seed))
        self.register_buffer("keys", functional.normalize(first))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def enqueue(self, keys: torch.Tensor) -> None:
        """Put keys in, and as many of the oldest out.

        Args:
            keys: ``(B, D)``, B no more than the size.

        Raises:
            ValueError: If there are more keys than the queue holds.
        """
        if len(keys) > len(self.keys):
            raise ValueError(f"A queue of {len(self.keys)} keys cannot take {len(keys)} at once: raise queue_size.")
        places = (self.position + torch.arange(len(keys), device=keys.device)) % len(self.keys)
        self.keys[places] = keys.to(self.keys.dtype)
        self.position.copy_((self.position + len(keys)) % len(self.keys))


def momentum_contrast(
    queries: torch.Tensor, keys: torch.Tensor, queue: torch.Tensor, temperature: float = 0.05, similarity: str = "dot"
) -> InfoNCE:
    """InfoNCE against a queue of earlier keys (MoCo, He et al. 2020, equation 1; Contriever, section 3.2).

    For query ``q_i`` with key ``k_i`` and a queue of ``n`` keys ``m_j``::

        positive = exp(q_i . k_i / temperature)
        loss_i = -log( positive / (positive + sum_j exp(q_i . m_j / temperature)) )

    As in Contriever's released code, the other keys of the batch are no negatives, and a document's own keys of earlier
    epochs are, if they are still in the queue. Its label smoothing, 0 by default, is left out.

    Args:
        queries: ``(B, D)``.
        keys: ``(B, D)``, without gradients.
        queue: ``(Q, D)``, as they were when they were keys: of norm 1 for ``"cosine"``.
        temperature: Above 0.
        similarity: ``"dot"``, as in Contriever, or ``"cosine"``.

    Returns:
        Loss and statistics of each query.

    Example:

        >>> same = torch.ones(2, 4)
        >>> round(momentum_contrast(same, same, torch.ones(7, 4)).loss.mean().item(), 4)  # log 8
        2.0794
    """
    with torch.autocast(queries.device.type, enabled=False):
        queries, keys = comparable(queries, similarity), comparable(keys, similarity)
        positive = (queries * keys).sum(1, keepdim=True)  # (B, 1)
        negative = queries @ queue.float().T  # (B, Q)
    logits = torch.cat([positive, negative], dim=1) / temperature
    targets = torch.zeros(len(queries), dtype=torch.int64, device=queries.device)
    return InfoNCE(
        functional.cross_entropy(logits, targets, reduction="none"),
        (logits.argmax(1) == 0).float(),
        positive.detach()[:, 0],
        negative.detach().mean(1),
        torch.full_like(positive.detach()[:, 0], len(queue)),
    )


@torch.no_grad()
def follow(follower: nn.Module, leader: nn.Module, momentum: float) -> None:
    """Move the weights of one module a little towards those of another: ``momentum * own + (1 - momentum) * other``.

    Args:
        follower: The module that is moved.
        leader: A module of the same shape.
        momentum: How much of itself the follower keeps.

    Example:

        >>> follower, leader = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.zeros_(follower.weight), nn.init.ones_(leader.weight)
        >>> follow(follower, leader, momentum=0.75)
        >>> follower.weight.item()
        0.25
    """
    for own, other in zip(follower.parameters(), leader.parameters(), strict=True):
        own.mul_(momentum).add_(other, alpha=1 - momentum)


class MomentumContrastTrainer(ContrastiveTrainer):
    """Trains queries against keys of a momentum encoder: ``objective="momentum_contrast"``, Contriever's.

    The first view of each document is the query, the second the key. The key encoder begins as a copy, gets no
    gradients, and follows the encoder after each optimizer step, as Contriever's does before each forward. What is
    evaluated and saved is the encoder of the queries. Key encoder and queue are saved in checkpoints beside it, and a
    resumed run goes on as if it had not been interrupted.

    Dropout in the key encoder stays **on**, as in Contriever's released code, whose checkpoints were trained so: it
    means to switch it off, but the condition for it is inverted.

    On several processes the keys of all are put into the queue, which is the same everywhere: the gradients are those
    of one process with the whole batch.

    Args:
        model: From ``AutoModelForDocSplit``.
        args: The arguments: ``queue_size``, ``momentum``, ``temperature``, ``similarity``.
        *others: As ``ContrastiveTrainer``.
        **kwargs: As ``ContrastiveTrainer``.

    Raises:
        ValueError: If the arguments, the collator, the model and the data do not fit together; the message says how.

    Example:

        >>> from docsplit_hf.pretraining.trainers import get_trainer_class
        >>> get_trainer_class("momentum_contrast") is MomentumContrastTrainer
        True
    """

    objective = "momentum_contrast"
    method = (
        "The two views of a document are each other's positive; the negatives are a queue of views of earlier "
        "documents, embedded by a second encoder that follows this one slowly (MoCo, as in Contriever)."
    )

    def __init__(self, model: PreTrainedModel, args: ContrastiveTrainingArguments, *others: Any, **kwargs: Any) -> None:
        check_two_encoders(model, args)
        if not args.gather_negatives:
            raise ValueError("gather_negatives=False: the queue of momentum_contrast holds the keys of all processes.")
        batch = args.per_device_train_batch_size * args.world_size
        if args.queue_size < batch:
            raise ValueError(f"queue_size={args.queue_size} is less than a batch of {batch} documents: raise it.")
        super().__init__(model, args, *others, **kwargs)
        if self.train_dataset is not None and has_length(self.train_dataset):
            documents = len(self.train_dataset)
            if documents < args.queue_size:
                logger.warning(
                    "queue_size=%d is more than the %d training documents: from the second epoch on, a document's own "
                    "old keys are among its negatives.",
                    args.queue_size,
                    documents,
                )
        self.add_callback(_Follow(self))

    def training_loss(
        self, model: PreTrainedModel, inputs: dict[str, torch.Tensor], counts: torch.Tensor
    ) -> torch.Tensor:
        """The loss of one batch, whose keys are put into the queue after it.

        Args:
            model: The model, maybe wrapped.
            inputs: A batch of the collator.
            counts: As in ``ContrastiveTrainer.training_loss``.

        Returns:
            The loss, a scalar.
        """
        ids, masks = (inputs[name].chunk(2) for name in ("input_ids", "attention_mask"))
        queries = model(input_ids=ids[0], attention_mask=masks[0]).embeddings
        with torch.no_grad(), self.accelerator.autocast():  # only what accelerate wraps computes in half by itself
            keys = self.key_encoder(input_ids=ids[1], attention_mask=masks[1]).embeddings
        args = self.args
        negatives = self.queue.keys.clone()  # the backward pass needs them as they are before the keys come in
        contrastive = momentum_contrast(queries, keys, negatives, args.temperature, args.similarity)
        self.queue.enqueue(gather(comparable(keys, args.similarity)))
        return self.contrastive_share(contrastive, counts)

    def describe_loss(self) -> str:
        """The loss in a few words, for the model card.

        Returns:
            A line of text.
        """
        return f"{super().describe_loss()}, against a queue; momentum {self.args.momentum}"

    def count_negatives(self) -> int:
        """How many negatives a document has.

        Returns:
            The size of the queue.
        """
        return self.args.queue_size

    def begin_training(self) -> None:
        """Begin with a key encoder equal to the model, and a queue of random keys."""
        self.key_encoder = copy.deepcopy(self.accelerator.unwrap_model(self.model)).requires_grad_(False).train()
        self.queue = KeyQueue(self.args.queue_size, self._docsplit_config.hidden_size, self.args.seed)
        self.queue.to(self.args.device)
        super().begin_training()

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self.args.should_save:
            safetensors.torch.save_model(self._state(), str(Path(output_dir, STATE_FILE)))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            file = Path(checkpoint, STATE_FILE)
            if not file.is_file():
                raise ValueError(f"{checkpoint} has no {STATE_FILE}: it is no checkpoint of momentum_contrast.")
            safetensors.torch.load_model(self._state(), str(file), device=str(self.args.device))

    def _state(self) -> nn.Module:
        return nn.ModuleDict({"key_encoder": self.key_encoder, "queue": self.queue})


class _Follow(TrainerCallback):
    def __init__(self, trainer: MomentumContrastTrainer) -> None:
        self.trainer = trainer

    def on_optimizer_step(self, args, state, control, **kwargs) -> None:
        leader = self.trainer.accelerator.unwrap_model(self.trainer.model)
        follow(self.trainer.key_encoder, leader, args.momentum)
