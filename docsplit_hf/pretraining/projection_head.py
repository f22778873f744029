"""A layer between the embeddings and their contrastive loss, in training only."""

from __future__ import annotations

import torch
from torch import nn
from transformers import PreTrainedModel

from ..models.checkpoints.checkpoint import leave_unsaved

NAME = "projection_head"  # of the module in the model


class ProjectionHead(nn.Module):
    """A dense layer and tanh: the MLP of SimCSE (Gao et al. 2021, section 6.3, "MLP (train)").

    It computes in float32, whatever autocast says, as the similarities that follow do. Its first weights are drawn like
    those of the encoders of transformers, by ``seed``, the same on every process; the bias is 0.
    """

    def __init__(self, dimension: int, initializer_range: float = 0.02, seed: int = 0) -> None:
        super().__init__()
        self.dense = nn.Linear(dimension, dimension)
        nn.init.normal_(self.dense.weight, 0.0, initializer_range, torch.Generator().manual_seed(seed))
        nn.init.zeros_(self.dense.bias)

    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        """Project ``(N, H)``; float32."""
        with torch.autocast(embeddings.device.type, enabled=False):
            return torch.tanh(self.dense(embeddings.float()))


def use_projection_head(model: PreTrainedModel, wanted: bool, seed: int = 0) -> ProjectionHead | None:
    """Give a model a projection head, or take away the one that it has; one that it has already is kept.

    It becomes a part of the model, so that the optimizer, DDP and the random state of a run know of it. The model's own
    list of what is not to be saved keeps it out of every checkpoint.
    """
    if not wanted:
        if hasattr(model, NAME):
            delattr(model, NAME)
        return None
    if not hasattr(model, NAME):
        head = ProjectionHead(model.config.hidden_size, getattr(model.config, "initializer_range", 0.02), seed)
        model.add_module(NAME, head.to(model.device).train(model.training))
        leave_unsaved(model, (f"{NAME}.{name}" for name in head.state_dict()))
    return getattr(model, NAME).requires_grad_(True)


def project(model: PreTrainedModel, embeddings: torch.Tensor) -> torch.Tensor:
    """What the contrastive loss compares: in training, ``(N, H)`` behind the projection head, if there is one."""
    head = getattr(model, NAME, None)
    return embeddings if head is None or not model.training else head(embeddings)
