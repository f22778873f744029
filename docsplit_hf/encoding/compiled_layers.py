"""Compile the layers of an encoder one by one, in place."""

from __future__ import annotations

import importlib.util
import os
import shutil

import torch
from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer

from .portable.run_encoder import PACKED, attention_implementation

# A graph for each kind of layer (ModernBERT has three), in training and evaluation, with and without gradients.
GRAPHS_OF_ALL_LAYERS = 64
C_COMPILERS = ("cc", "gcc", "clang")  # triton builds the launchers of its kernels with one of them


def compile_layers(model: nn.Module, backend: str = "inductor") -> int:
    """Compile each layer of the encoders in a model, in place, with dynamic shapes; return the number of layers.

    The layers have the same code, so that one graph serves them all, whatever the number of tokens: compiling takes
    seconds, at the first batch. Results are equal up to rounding. Saved models, copies and pickles are not compiled.

    Args:
        model: Any module; its layers are the modules of transformers' class ``GradientCheckpointingLayer``.
        backend: A compiler of ``torch.compile``. Other ones than inductor are for debugging.

    Raises:
        ValueError: If the model has no such layers.
    """
    # By default, the ninth graph of the same code is not compiled, and the layer runs as if it were not. Private in
    # torch 2.13, which has no public way to set it.
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, GRAPHS_OF_ALL_LAYERS)
    layers = _outer_layers(model)
    if not layers:
        raise ValueError(f"{type(model).__name__} has no layers of transformers' kind to compile: leave compiling out.")
    for layer in layers:
        # In place: torch.compile(layer) would put a wrapper into the model, and its name into the names of weights.
        layer.compile(dynamic=True, backend=backend)
    return len(layers)


def why_not_compiled(model: nn.Module, device: torch.device) -> str | None:
    """Why compiling the layers would fail or not pay on a device; None if it pays."""
    if device.type != "cuda":
        return "it takes minutes on a CPU"
    if not _outer_layers(model):
        return f"{type(model).__name__} has no layers of transformers' kind"
    attentions = {attention_implementation(module) for module in model.modules() if hasattr(module, "config")}
    if not attentions <= {PACKED, "sdpa"}:
        return f"{type(model).__name__} has its own kind of attention"
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    if "CC" not in os.environ and not any(shutil.which(compiler) for compiler in C_COMPILERS):
        return f"triton needs a C compiler, and none of {', '.join(C_COMPILERS)} is installed"
    return None


def _outer_layers(model: nn.Module) -> list[nn.Module]:
    """The layers that are not inside another layer."""
    if isinstance(model, GradientCheckpointingLayer):
        return [model]
    return [layer for child in model.children() for layer in _outer_layers(child)]
