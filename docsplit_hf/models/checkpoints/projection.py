"""The dense layers that some checkpoints of sentence-transformers send their pooled embeddings through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from .settings import find_file, module_folders, module_kinds, normalizes_first, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ACTIVATIONS = {kind.__name__: kind for kind in (nn.Identity, nn.Tanh, nn.ReLU, nn.GELU)}
WEIGHTS = "model.safetensors"
PICKLE = "pytorch_model.bin"  # all that some released checkpoints have, INSTRUCTOR's among them


class UnitNorm(nn.Module):
    """Rows of norm 1: what sentence-transformers calls Normalize, before a dense layer."""

    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        return nn.functional.normalize(embeddings)


def load_projection(name: str, revision: str | None = None) -> nn.Sequential | None:
    """The modules ``Dense`` of a checkpoint, such as INSTRUCTOR's: ``(N, H)`` to ``(N, D)`` float32; None if none."""
    layers: list[nn.Module] = [UnitNorm()] if normalizes_first(module_kinds(name, revision=revision)) else []
    for folder in module_folders(name, "Dense", revision=revision):
        config = read_json(name, f"{folder}/config.json", revision=revision) or {}
        activation = str(config.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2]
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"{name} has the activation {activation!r} in {folder}, which is none of {', '.join(ACTIVATIONS)}: the "
                "embeddings would not be the same. Use sentence-transformers for it."
            )
        if config.get("use_residual"):
            raise ValueError(
                f"{name} adds to what comes out of {folder} what goes in (use_residual), which is not known here: the "
                "embeddings would not be the same. Use sentence-transformers for it."
            )
        weights = _read_weights(name, folder, revision)
        weight, bias = weights.get("linear.weight"), weights.get("linear.bias")
        if weight is None or weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[:1]):
            shapes = {key: tuple(tensor.shape) for key, tensor in weights.items()}
            raise ValueError(f"{folder} of {name} holds {shapes} and not the weights of a dense layer.")
        linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
        linear.load_state_dict({"weight": weight.float()} | ({} if bias is None else {"bias": bias.float()}))
        layers += [linear, ACTIVATIONS[activation]()]
    return nn.Sequential(*layers).eval().requires_grad_(False) if layers else None


def _read_weights(name: str, folder: str, revision: str | None) -> Mapping[str, torch.Tensor]:
    from safetensors.torch import load_file

    if path := find_file(name, f"{folder}/{WEIGHTS}", revision=revision):
        return load_file(path)
    path = find_file(name, f"{folder}/{PICKLE}", revision=revision)
    if path is None:
        raise OSError(
            f"{name} sends its embeddings through {folder!r}, which has neither {WEIGHTS} nor {PICKLE}: download it "
            "again."
        )
    return _read_pickle(path, f"{folder}/{PICKLE} of {name}")


def _read_pickle(path: Path, described: str) -> Mapping[str, torch.Tensor]:
    """Tensors by name; whatever else the file holds, nothing of it is executed."""
    advice = (
        f"Ask its author for {WEIGHTS}. If you trust the author, load the file with torch.load and write its tensors "
        f"to {WEIGHTS} beside it, with safetensors.torch.save_file."
    )
    try:
        weights = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a broken pickle can raise anything
        raise ValueError(f"{described} holds more than tensors, or is damaged: it is not read. {advice}") from error
    if not isinstance(weights, dict) or not all(isinstance(value, torch.Tensor) for value in weights.values()):
        raise ValueError(f"{described} holds something else than tensors by their names: it is not read. {advice}")
    return weights
