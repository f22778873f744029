"""Embeddings kept in memory, so that cross-validation embeds each text once and not in every fold."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...models.inference.batched_inference import input_length, predict

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from ...models.portable.modeling_knn_classifier import KNNClassifier

MOST_TEXTS = 100_000  # 150 MB of 384 dimensions

_kept: dict[bytes, np.ndarray] = {}  # the oldest first
_changing = threading.Lock()


def embed_once(
    model: KNNClassifier,
    tokenizer: PreTrainedTokenizerBase,
    fingerprint: str,
    texts: Sequence[str],
    pairs: Sequence[str | None],
) -> np.ndarray:
    """The retrieval embeddings ``(N, R)`` of ``predict``, computed for those that are not kept from an earlier call.

    ``fingerprint`` is that of the encoder: equal ones give equal embeddings.
    """
    reading = model.config.long_documents, model.config.passage_length
    setting = f"{fingerprint} {input_length(model, tokenizer)} {reading}"
    names = [_digest(setting, text, pair) for text, pair in zip(texts, pairs, strict=True)]
    with _changing:
        found = {name: _kept[name] for name in names if name in _kept}
    new = {name: i for i, name in enumerate(names) if name not in found}
    if new:
        given = [texts[i] for i in new.values()], [pairs[i] for i in new.values()]
        embeddings = predict(model, tokenizer, *given).retrieval_embeddings
        computed = {name: row.copy() for name, row in zip(new, embeddings, strict=True)}  # a view would keep them all
        found |= computed
        with _changing:
            _kept.update(computed)
            for name in list(_kept)[: max(len(_kept) - MOST_TEXTS, 0)]:
                del _kept[name]
    return np.array([found[name] for name in names], np.float32).reshape(len(names), model.config.retrieval_size)


def _digest(setting: str, text: str, pair: str | None) -> bytes:
    return hashlib.blake2b(json.dumps([setting, text, pair]).encode(), digest_size=16).digest()
