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

from ..models.inference.text_warnings import cut_texts_summed_up
from ..text.tokenization import check_texts

if TYPE_CHECKING:
    from .encoders import TextEncoder

logger = logging.getLogger(__name__)

Arrays = dict[str, np.ndarray]
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

    def embed(part: Sequence[str]) -> Arrays:
        return {"embeddings": encoder.encode(part, show_progress=False)}

    chunks = [chunk["embeddings"] for chunk in cached_arrays(encoder, texts, folder, on_done, embed)]
    return np.concatenate(chunks) if chunks else encoder.encode([], show_progress=False)


def cached_arrays(
    encoder: TextEncoder,
    texts: Sequence[str],
    folder: str | Path | None,
    on_done: Callable[[int], Any],
    embed: Callable[[Sequence[str]], Arrays],
) -> list[Arrays]:
    """What ``embed`` gives for each chunk of texts; ``"counts"`` is there where a text has several embeddings."""
    check_texts(texts)
    fingerprint = encoder.fingerprint
    chunks: list[Arrays] = []
    known = 0
    with cut_texts_summed_up():
        for start in range(0, len(texts), CHUNK):
            part = texts[start : start + CHUNK]
            path = None if folder is None else Path(folder, f"{_key(fingerprint, part)}.safetensors")
            arrays = None if path is None else _read(path, len(part))
            if arrays is None:
                arrays = embed(part)
                _check(encoder, arrays, part, start)
                if path is not None:
                    _write(path, arrays)
            else:
                known += len(part)
            dimensions = arrays["embeddings"].shape[1]
            if chunks and chunks[0]["embeddings"].shape[1] != dimensions:
                raise ValueError(
                    f"{encoder!r} gives {dimensions} dimensions after {chunks[0]['embeddings'].shape[1]}: its "
                    f"fingerprint is the same, but it has changed. Delete the kept embeddings in {folder}."
                )
            chunks.append(arrays)
            on_done(len(part))
    if folder is not None and texts:
        logger.info("%d of %d embeddings of %r come from %s.", known, len(texts), encoder, folder)
    return chunks


def _key(fingerprint: str, texts: Sequence[str]) -> str:
    digest = hashlib.sha256(fingerprint.encode())
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def _check(encoder: TextEncoder, arrays: Arrays, texts: Sequence[str], start: int) -> None:
    embeddings, rows = arrays["embeddings"], _rows(arrays)
    if rows != len(texts):
        raise ValueError(f"{encoder!r} gives {rows} embeddings for {len(texts)} texts.")
    broken = ~np.isfinite(embeddings).all(1)
    if broken.any():
        owners = np.repeat(np.arange(rows), arrays["counts"]) if "counts" in arrays else np.arange(rows)
        texts_of_broken = np.unique(owners[broken])
        text = texts[texts_of_broken[0]]
        raise ValueError(
            f"{encoder!r} gives NaN or infinity for {len(texts_of_broken)} of {len(texts)} texts, the first of them "
            f"text {start + texts_of_broken[0]}: {text[:80] + '...' if len(text) > 80 else text!r}. Its weights may be "
            "damaged, or too large for the precision: try float32."
        )


def _rows(arrays: Arrays) -> int:
    return len(arrays.get("counts", arrays["embeddings"]))


def _checksum(arrays: Arrays) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays, key=lambda name: (name != "embeddings", name)):
        digest.update(np.ascontiguousarray(arrays[name]))
    return digest.hexdigest()


def _write(path: Path, arrays: Arrays) -> None:
    from safetensors.numpy import save

    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    data = save(whole, {"sha256": _checksum(arrays)})
    temporary = path.with_name(f"{uuid.uuid4().hex}.tmp")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _read(path: Path, number: int) -> Arrays | None:
    """The arrays in a file; None if there is no file, or none that can be used."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        return None
    try:
        with safe_open(path, "np") as file:
            arrays, stated = (
                {name: file.get_tensor(name) for name in file.keys()},
                (file.metadata() or {}).get("sha256"),
            )
        if _rows(arrays) == number and stated == _checksum(arrays):
            return arrays
        damage = "another checksum"
    except SafetensorError as error:
        damage = str(error)
    logger.warning("%s is damaged (%s): its %d texts are embedded again.", path, damage, number)
    return None
