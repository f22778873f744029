"""Embeddings kept on disk, so that each text is embedded once per encoder, whatever interrupts it."""

from __future__ import annotations

import hashlib
import logging
import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.inference.batching import check_texts
from ...models.inference.cut_texts import cut_texts_summed_up

if TYPE_CHECKING:
    from .encoders import TextEncoder

logger = logging.getLogger(__name__)

CHUNK = 256  # texts in a file: what a killed run loses at most


def cached_embeddings(
    encoder: TextEncoder,
    texts: Sequence[str],
    folder: str | Path | None,
    on_done: Callable[[int], Any] = lambda number: None,
) -> np.ndarray:
    """Embed N texts, or read their embeddings where they are known: float32 ``(N, D)``.

    They are written in chunks of 256. The name of a chunk's file is a checksum of the encoder's fingerprint and the
    chunk's texts, so nothing is ever served for another model or text. Files appear whole or not at all, and hold a
    checksum: a damaged one is logged, and written anew. The folder may be deleted at any time. ``on_done`` gets the
    number of texts of each chunk, to move a progress bar.
    """
    check_texts(texts)
    fingerprint = encoder.fingerprint
    chunks, known = [], 0
    with cut_texts_summed_up():
        for start in range(0, len(texts), CHUNK):
            part = texts[start : start + CHUNK]
            path = None if folder is None else Path(folder, f"{_key(fingerprint, part)}.safetensors")
            embeddings = None if path is None else _read(path, len(part))
            if embeddings is None:
                embeddings = encoder.encode(part, show_progress=False)
                _check(encoder, embeddings, part, start)
                if path is not None:
                    _write(path, embeddings)
            else:
                known += len(part)
            if chunks and chunks[0].shape[1] != embeddings.shape[1]:
                raise ValueError(
                    f"{encoder!r} gives {embeddings.shape[1]} dimensions after {chunks[0].shape[1]}: its fingerprint "
                    f"is the same, but it has changed. Delete the kept embeddings in {folder}."
                )
            chunks.append(embeddings)
            on_done(len(part))
    if folder is not None and texts:
        logger.info("%d of %d embeddings of %r come from %s.", known, len(texts), encoder, folder)
    return np.concatenate(chunks) if chunks else encoder.encode([], show_progress=False)


def _key(fingerprint: str, texts: Sequence[str]) -> str:
    digest = hashlib.sha256(fingerprint.encode())
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def _check(encoder: TextEncoder, embeddings: np.ndarray, texts: Sequence[str], start: int) -> None:
    if len(embeddings) != len(texts):
        raise ValueError(f"{encoder!r} gives {len(embeddings)} embeddings for {len(texts)} texts.")
    broken = np.flatnonzero(~np.isfinite(embeddings).all(1))
    if broken.size:
        text = texts[broken[0]]
        raise ValueError(
            f"{encoder!r} gives NaN or infinity for {broken.size} of {len(texts)} texts, the first of them text "
            f"{start + broken[0]}: {text[:80] + '...' if len(text) > 80 else text!r}. Its weights may be damaged, or "
            "too large for the precision: try float32."
        )


def _checksum(embeddings: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(embeddings)).hexdigest()


def _write(path: Path, embeddings: np.ndarray) -> None:
    from safetensors.numpy import save

    path.parent.mkdir(parents=True, exist_ok=True)
    data = save({"embeddings": np.ascontiguousarray(embeddings)}, {"sha256": _checksum(embeddings)})
    temporary = path.with_name(f"{uuid.uuid4().hex}.tmp")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _read(path: Path, number: int) -> np.ndarray | None:
    """The embeddings in a file; None if there is no file, or none that can be used."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        return None
    try:
        with safe_open(path, "np") as file:
            embeddings, stated = file.get_tensor("embeddings"), (file.metadata() or {}).get("sha256")
        if len(embeddings) == number and stated == _checksum(embeddings):
            return embeddings
        damage = "another checksum"
    except SafetensorError as error:
        damage = str(error)
    logger.warning("%s is damaged (%s): its %d texts are embedded again.", path, damage, number)
    return None
