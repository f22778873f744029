"""The probe of an encoder: its embeddings of a few fixed texts, by which a datastore knows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from torch import nn

from ..checkpoints.fingerprint import PROBE_TEXTS
from ..portable.engine import engine_of, without_engine

PROBE_LENGTH = 16  # tokens: a probe does not depend on how much of a text is read


def make_probe(encoder: nn.Module, embed: Callable[[Sequence[str]], np.ndarray]) -> np.ndarray:
    """The embeddings that ``embed`` gives the texts by torch; of an encoder that runs in int8 again in int8, below."""
    engine = engine_of(encoder)
    with without_engine(encoder):
        probe = embed(PROBE_TEXTS)
    if getattr(engine, "precision", None) != "int8":
        return probe
    return np.concatenate([probe, embed(PROBE_TEXTS)])
