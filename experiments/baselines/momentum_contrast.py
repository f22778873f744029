"""Momentum contrast (MoCo): keys by a slowly updated copy of the encoder, negatives from a queue of earlier keys."""

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

from docsplit_hf.pretraining.arguments import overridden
from docsplit_hf.pretraining.info_nce import InfoNCE, comparable
from docsplit_hf.pretraining.model import Batch
from docsplit_hf.training.distributed import gather

from .two_encoders import TwoEncoderArguments, TwoEncoderTrainer

logger = logging.getLogger(__name__)

STATE_FILE = "momentum_contrast.safetensors"  # key encoder and queue, in each checkpoint, for resuming only


@dataclass
class MomentumContrastArguments(TwoEncoderArguments):
    """Arguments of ``MomentumContrastTrainer``: those of ``ContrastiveTrainingArguments`` and the following.

    Contriever's English run has a queue of 131,072 keys and a momentum of 0.9995; its multilingual run has 32,768 keys.
    """

    compares_batch: ClassVar[bool] = False

    objective: str = overridden("objective", "momentum_contrast")
    queue_size: int = HfArg(default=65536, help="Keys of earlier documents that are the negatives.")
    momentum: float = HfArg(default=0.9995, help="How much of itself the key encoder keeps at each step.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be in [0, 1), got {self.momentum}. Contriever uses 0.9995.")
        batch = self.per_device_train_batch_size * self.world_size
        if self.queue_size < batch:
            raise ValueError(f"queue_size={self.queue_size} is less than a batch of {batch} documents: raise it.")


class KeyQueue(nn.Module):
    """First-in, first-out queue of the keys of earlier documents; it starts with random directions of norm 1."""

    def __init__(self, size: int, dimension: int, seed: int = 0) -> None:
        super().__init__()
        first = torch.randn(size, dimension, generator=torch.Generator().manual_seed(seed))
        self.register_buffer("keys", functional.normalize(first))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def enqueue(self, keys: torch.Tensor) -> None:
        """Replace the oldest B keys by new ones, ``(B, D)``; B is at most the size of the queue."""
        places = (self.position + torch.arange(len(keys), device=keys.device)) % len(self.keys)
        self.keys[places] = keys.to(self.keys.dtype)
        self.position.copy_((self.position + len(keys)) % len(self.keys))


def momentum_contrast(
    queries: torch.Tensor, keys: torch.Tensor, queue: torch.Tensor, temperature: float = 0.05, similarity: str = "dot"
) -> InfoNCE:
    """InfoNCE against a queue of earlier keys (MoCo, He et al. 2020, equation 1; Contriever, section 3.2).

    As in Contriever's released code, the other keys of the batch are not negatives, and a document's own keys of
    earlier epochs are negatives while they are in the queue. ``queries``, ``keys``: ``(B, D)``; ``queue``: ``(Q, D)``,
    of norm 1 for ``"cosine"``.
    """
    with torch.autocast(queries.device.type, enabled=False):
        queries = comparable(queries, similarity)
        keys = comparable(keys, similarity)
        positive = (queries * keys).sum(1, keepdim=True)  # (B, 1)
        negative = queries @ queue.to(queries.dtype).T  # (B, Q)
    logits = torch.cat([positive, negative], dim=1) / temperature
    targets = torch.zeros(len(queries), dtype=torch.int64, device=queries.device)
    positive_similarity = positive.detach()[:, 0]
    return InfoNCE(
        loss=functional.cross_entropy(logits, targets, reduction="none"),
        correct=(logits.argmax(1) == 0).float(),
        positive_similarity=positive_similarity,
        negative_similarity=negative.detach().mean(1),
        negatives=torch.full_like(positive_similarity, len(queue)),
    )


@torch.no_grad()
def momentum_update(key_encoder: nn.Module, encoder: nn.Module, momentum: float) -> None:
    """Move the weights of the key encoder: ``momentum * own + (1 - momentum) * the encoder's`` (MoCo, equation 2)."""
    for own, other in zip(key_encoder.parameters(), encoder.parameters(), strict=True):
        own.mul_(momentum).add_(other, alpha=1 - momentum)


class MomentumUpdate(TrainerCallback):
    """Callback that updates the key encoder after each optimizer step."""

    def __init__(self, key_encoder: nn.Module, encoder: nn.Module, momentum: float) -> None:
        self.key_encoder = key_encoder
        self.encoder = encoder
        self.momentum = momentum

    def on_optimizer_step(self, args, state, control, **kwargs) -> None:
        momentum_update(self.key_encoder, self.encoder, self.momentum)


class MomentumContrastTrainer(TwoEncoderTrainer):
    """Train embeddings of first views (queries) against a key encoder's of second views (keys), as Contriever does.

    The query encoder is evaluated and saved; checkpoints also have the key encoder and the queue. The key encoder uses
    dropout, as in Contriever's released code.
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
        """The loss of one batch. The keys of the batch enter the queue after it is computed."""
        query_ids, key_ids = inputs["input_ids"].chunk(2)
        query_mask, key_mask = inputs["attention_mask"].chunk(2)
        queries = model(input_ids=query_ids, attention_mask=query_mask).embeddings
        with torch.no_grad(), self.accelerator.autocast():  # Accelerate wraps only the model in autocast
            keys = self.key_encoder(input_ids=key_ids, attention_mask=key_mask).embeddings
        negatives = self.queue.keys.clone()  # the backward pass needs the queue as it is now
        contrastive = momentum_contrast(queries, keys, negatives, self.args.temperature, self.args.similarity)
        self.queue.enqueue(gather(comparable(keys, self.args.similarity)))
        return self.log_and_scale_contrastive_loss(contrastive, counts)

    def begin_training(self) -> None:
        """Make a key encoder that equals the model, and a queue of random keys."""
        encoder = self.accelerator.unwrap_model(self.model)
        self.key_encoder = copy.deepcopy(encoder).requires_grad_(False).train()
        self.queue = KeyQueue(self.args.queue_size, self.encoder_config.hidden_size, self.args.seed)
        self.queue.to(self.args.device)
        self.remove_callback(MomentumUpdate)  # that of an earlier run
        self.add_callback(MomentumUpdate(self.key_encoder, encoder, self.args.momentum))
        super().begin_training()

    def encoders_to_compile(self) -> list[nn.Module]:
        """The model and the key encoder."""
        return [*super().encoders_to_compile(), self.key_encoder]

    def modules_to_resume(self) -> dict[str, nn.Module]:
        """The key encoder and the queue."""
        return {STATE_FILE: nn.ModuleDict({"key_encoder": self.key_encoder, "queue": self.queue})}
