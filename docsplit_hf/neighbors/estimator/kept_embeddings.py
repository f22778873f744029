"""Embeddings kept in memory, so that cross-validation embeds each text once and not in every fold."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ...models.inference.reader import Reader

MOST_TEXTS = 100_000  # 150 MB of 384 dimensions

_kept: dict[bytes, np.ndarray] = {}  # the oldest first
_changing = threading.Lock()


def embed_once(reader: Reader, fingerprint: str, texts: Sequence[str], pairs: Sequence[str | None]) -> np.ndarray:
    """The retrieval embeddings ``(N, R)`` that ``reader.read`` gives, of texts that are not kept from an earlier call.

    ``fingerprint`` is that of the encoder: equal ones give equal embeddings.
    """
    config = reader.model.config
    reading = config.long_documents, config.passage_length
    setting = f"{fingerprint} {reader.length} {reading}"
    names = [_digest(setting, text, pair) for text, pair in zip(texts, pairs, strict=True)]
    with _changing:
        found = {name: _kept[name] for name in names if name in _kept}
    new = {name: i for i, name in enumerate(names) if name not in found}
    if new:
        given = [texts[i] for i in new.values()], [pairs[i] for i in new.values()]
        embeddings = reader.read(*given).retrieval_embeddings
        computed = {name: row.copy() for name, row in zip(new, embeddings, strict=True)}  # a view would keep them all
        found |= computed
        with _changing:
            _kept.update(computed)
            for name in list(_kept)[: max(len(_kept) - MOST_TEXTS, 0)]:
                del _kept[name]
    return np.array([found[name] for name in names], np.float32).reshape(len(names), config.retrieval_size)


def _digest(setting: str, text: str, pair: str | None) -> bytes:
    return hashlib.blake2b(json.dumps([setting, text, pair]).encode(), digest_size=16).digest()
