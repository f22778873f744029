"""The encoder that was loaded last, so that fitting one classifier after the other reads its files once."""

from __future__ import annotations

import copy
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from transformers import pipeline

from ...models.checkpoints.checkpoint import find_checkpoint
from ...models.checkpoints.fingerprint import encoder_fingerprint

if TYPE_CHECKING:
    from ..pipeline import KNNClassifierPipeline


def encoder_pipeline(name: str | Path | None) -> tuple[KNNClassifierPipeline, str]:
    """A pipeline of its own, without examples, on an encoder by its name; and the encoder's fingerprint.

    What is in a folder is loaded again when its files have changed.
    """
    path = find_checkpoint(name)
    path = str(Path(path).resolve()) if Path(path).exists() else path
    states = ((str(file), file.stat()) for file in sorted(Path(path).rglob("*")))
    pipe, fingerprint = _load(path, tuple((file, state.st_size, state.st_mtime_ns) for file, state in states))
    return copy.deepcopy(pipe), fingerprint


@lru_cache(maxsize=1)
def _load(path: str, files: tuple[tuple[str, int, int], ...]) -> tuple[KNNClassifierPipeline, str]:
    pipe = pipeline("docsplit-knn", model=path)
    if pipe.model.config.num_labels or pipe.datastore is not None:
        raise ValueError(f"{path} is a classifier with labels of its own: pass the encoder that it was made from.")
    return pipe, encoder_fingerprint(pipe.model.encoder, pipe.tokenizer, pooling=pipe.model.config.pooling)
