"""Momentum contrast: keys from a slowly moving copy of the encoder, negatives from a queue of earlier keys."""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel, TrainerCallback
from transformers.hf_argparser import HfArg
from transformers.trainer_utils import has_length

from ..training.distributed import gather
from .arguments import TwoEncoderArguments, overridden
from .contrastive_trainer import ContrastiveTrainer
from .info_nce import InfoNCE, comparable
from .model import Batch

logger = logging.getLogger(__name__)

STATE_FILE = "momentum_contrast.safetensors"  # key encoder and queue, in each checkpoint: for resuming only


@dataclass
class MomentumContrastArguments(TwoEncoderArguments):
    """Arguments of ``MomentumContrastTrainer``: those of ``ContrastiveTrainingArguments`` and the following.

    Contriever's English run has a queue of 131,072 keys and a momentum of 0.9995, its multilingual one 32,768 keys.
    """

    compares_batch: ClassVar[bool] = False

    objective: str = overridden("objective", "momentum_contrast")
    queue_size: int = HfArg(default=65536, help="Keys of earlier documents that are the negatives.")
    momentum: float = HfArg(default=0.9995, help="How much of itself the key encoder keeps at each step.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be in [0, 1), got {self.momentum}. Contriever uses 0.9995.")
        if not self.gather_negatives:
            raise ValueError("gather_negatives=False: the queue of momentum_contrast holds the keys of all processes.")
        batch = self.per_device_train_batch_size * self.world_size
        if self.queue_size < batch:
            raise ValueError(f"queue_size={self.queue_size} is less than a batch of {batch} documents: raise it.")


class KeyQueue(nn.Module):
    """The keys of the last documents, oldest out first. It begins with random directions of norm 1."""

    def __init__(self, size: int, dimension: int, seed: int = 0) -> None:
        super().__init__()
        first = torch.randn(size, dimension, generator=torch.Generator().manual_seed(seed))
        self.register_buffer("keys", functional.normalize(first))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def enqueue(self, keys: torch.Tensor) -> None:
        """Put keys in, ``(B, D)``, B no more than the size, and as many of the oldest out."""
        places = (self.position + torch.arange(len(keys), device=keys.device)) % len(self.keys)
        self.keys[places] = keys.to(self.keys.dtype)
        self.position.copy_((self.position + len(keys)) % len(self.keys))


def momentum_contrast(
    queries: torch.Tensor, keys: torch.Tensor, queue: torch.Tensor, temperature: float = 0.05, similarity: str = "dot"
) -> InfoNCE:
    """InfoNCE against a queue of earlier keys (MoCo, He et al. 2020, equation 1; Contriever, section 3.2).

    As in Contriever's released code, the other keys of the batch are no negatives, and a document's own keys of earlier
    epochs are, if they are still in the queue. ``queries``, ``keys``: ``(B, D)``; ``queue``: ``(Q, D)``, of norm 1 for
    ``"cosine"``.
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
def momentum_update(key_encoder: nn.Module, encoder: nn.Module, momentum: float) -> None:
    """Move the weights of the key encoder: ``momentum * own + (1 - momentum) * the encoder's`` (MoCo, equation 2)."""
    for own, other in zip(key_encoder.parameters(), encoder.parameters(), strict=True):
        own.mul_(momentum).add_(other, alpha=1 - momentum)


class MomentumUpdate(TrainerCallback):
    """Updates the key encoder after each optimizer step."""

    def __init__(self, key_encoder: nn.Module, encoder: nn.Module, momentum: float) -> None:
        self.key_encoder, self.encoder, self.momentum = key_encoder, encoder, momentum

    def on_optimizer_step(self, args, state, control, **kwargs) -> None:
        momentum_update(self.key_encoder, self.encoder, self.momentum)


class MomentumContrastTrainer(ContrastiveTrainer):
    """Trains first views (queries) against second views (keys) of a slowly moving encoder, as Contriever.

    The encoder of the queries is evaluated and saved; key encoder and queue are in checkpoints beside it. Dropout stays
    on in the key encoder, as in Contriever's released code.
    """

    arguments_class = MomentumContrastArguments
    method = (
        "The two views of a document are each other's positive; the negatives are a queue of views of earlier "
        "documents, embedded by a second encoder that follows this one slowly (MoCo, as in Contriever)."
    )

    def __init__(self, model: PreTrainedModel, args: MomentumContrastArguments, *others: Any, **kwargs: Any) -> None:
        super().__init__(model, args, *others, **kwargs)
        documents = len(self.train_dataset) if has_length(self.train_dataset) else args.queue_size
        if documents < args.queue_size:
            logger.warning(
                "queue_size=%d is more than the %d training documents: from the second epoch on, a document's own old "
                "keys are among its negatives.",
                args.queue_size,
                documents,
            )

    def training_loss(self, model: PreTrainedModel, inputs: Batch, counts: torch.Tensor) -> torch.Tensor:
        """The loss of one batch, whose keys are put into the queue after it."""
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
        """The loss in a few words, for the model card."""
        return f"{super().describe_loss()}, against a queue; momentum {self.args.momentum}"

    def count_negatives(self) -> int:
        """The size of the queue."""
        return self.args.queue_size

    def begin_training(self) -> None:
        """Begin with a key encoder equal to the model, and a queue of random keys."""
        encoder = self.accelerator.unwrap_model(self.model)
        self.key_encoder = copy.deepcopy(encoder).requires_grad_(False).train()
        self.queue = KeyQueue(self.args.queue_size, self.encoder_config.hidden_size, self.args.seed)
        self.queue.to(self.args.device)
        self.remove_callback(MomentumUpdate)  # of a run before this one
        self.add_callback(MomentumUpdate(self.key_encoder, encoder, self.args.momentum))
        super().begin_training()

    def modules_to_resume(self) -> dict[str, nn.Module]:
        """Key encoder and queue."""
        return {STATE_FILE: nn.ModuleDict({"key_encoder": self.key_encoder, "queue": self.queue})}
