"""Systems with embeddings cached on disk, so that a killed run continues."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from docsplit_hf.content_hash import sha256_of_parts
from docsplit_hf.encoding.backends.endpoint_classifier import split_name
from docsplit_hf.encoding.document_encoder import DocumentEncoder
from docsplit_hf.evaluation import systems
from docsplit_hf.evaluation.systems import EncoderWithOptions, Features, System, TextEncoder, TfidfSystem
from docsplit_hf.reading.text_warnings import sum_up_warnings
from docsplit_hf.reading.tokenization import check_texts
from docsplit_hf.storage.inside_folder import write_file

logger = logging.getLogger(__name__)

NAME = "embeddings"  # of the array in a file
CHUNK = 256  # texts in a file of embeddings; a killed run loses at most this many embeddings


def cached_embeddings(
    encoder: TextEncoder,
    texts: Sequence[str],
    folder: str | Path | None,
    on_done: Callable[[int], Any] | None = None,
) -> np.ndarray:
    """Embed N texts, or read their cached embeddings: float32 ``(N, D)``.

    A file of the cache has the embeddings of 256 texts, and is named by a checksum of the encoder's fingerprint and the
    texts. The folder may be deleted.

    Args:
        encoder: The encoder.
        texts: The texts.
        folder: The folder of the cache. None: no cache.
        on_done: Called with the number of texts after each file.
    """

    check_texts(texts)
    fingerprint = encoder.fingerprint
    chunks: list[np.ndarray] = []
    cached = 0
    with sum_up_warnings():
        for start in range(0, len(texts), CHUNK):
            part = texts[start : start + CHUNK]
            path = None if folder is None else Path(folder, f"{_chunk_key(fingerprint, part)}.safetensors")
            embeddings = None if path is None else _read(path, len(part))
            if embeddings is None:
                embeddings = encoder.encode(part, show_progress=False)
                _check(encoder, embeddings, part, start)
                if path is not None:
                    _write(path, embeddings)
            else:
                cached += len(part)
            chunks.append(embeddings)
            if embeddings.shape[1] != chunks[0].shape[1]:
                raise ValueError(
                    f"{encoder!r} gives {embeddings.shape[1]} dimensions after {chunks[0].shape[1]}: delete the "
                    f"embeddings in {folder}."
                )
            if on_done is not None:
                on_done(len(part))
    if folder is not None and texts:
        logger.info("%d of %d embeddings of %r come from %s.", cached, len(texts), encoder, folder)
    return np.concatenate(chunks) if chunks else encoder.encode([], show_progress=False)


def _chunk_key(fingerprint: str, texts: Sequence[str]) -> str:
    """The checksum that names the file of a chunk of texts."""
    contents = [text.encode("utf-8", "surrogatepass") for text in texts]
    return sha256_of_parts([fingerprint.encode(), *(len(data).to_bytes(8, "big") + data for data in contents)])


def _check(encoder: TextEncoder, embeddings: np.ndarray, texts: Sequence[str], start: int) -> None:
    """Refuse a wrong number of embeddings, NaN and infinity; ``start``: the number of the first text."""
    if len(embeddings) != len(texts):
        raise ValueError(f"{encoder!r} gives {len(embeddings)} embeddings for {len(texts)} texts.")
    broken = np.flatnonzero(~np.isfinite(embeddings).all(1))
    if len(broken):
        text = texts[broken[0]]
        raise ValueError(
            f"{encoder!r} gives NaN or infinity for {len(broken)} of {len(texts)} texts, the first of them text "
            f"{start + broken[0]}: {text[:80] + '...' if len(text) > 80 else text!r}. Its weights may be damaged, or "
            "its states too large for the precision: try float32."
        )


def _checksum(embeddings: np.ndarray) -> str:
    """The SHA-256 of the embeddings in a file."""
    return sha256_of_parts([np.ascontiguousarray(embeddings)])


def _write(path: Path, embeddings: np.ndarray) -> None:
    """Write embeddings with their checksum."""
    from safetensors.numpy import save

    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, save({NAME: np.ascontiguousarray(embeddings)}, {"sha256": _checksum(embeddings)}))


def _read(path: Path, number: int) -> np.ndarray | None:
    """Read the embeddings of ``number`` texts; None if the file does not exist or is damaged."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        return None
    try:
        with safe_open(path, "np") as file:
            embeddings = file.get_tensor(NAME)
            stated = (file.metadata() or {}).get("sha256")
        if len(embeddings) == number and stated == _checksum(embeddings):
            return embeddings
        damage = "checksum mismatch"
    except SafetensorError as error:
        damage = str(error)
    logger.warning("%s is damaged (%s): its %d texts are embedded again.", path, damage, number)
    return None


@dataclass(eq=False)
class EncoderSystem:
    """An encoder with embeddings cached in ``cache_folder``; the encoder must not be changed."""

    name: str
    encoder: TextEncoder
    cache_folder: str | Path | None = None

    @cached_property
    def fingerprint(self) -> str:
        """The encoder's fingerprint."""
        return self.encoder.fingerprint

    def features(self, train: Sequence[str], *others: Sequence[str]) -> list[Features]:
        """Embed the training texts and each other list of texts: float32 ``(N, D)``, of norm 1."""
        return self.embed_lists(cached_embeddings, train, *others)

    def embed_lists(self, embed_one: Callable[..., Any], *lists: Sequence[str]) -> list[Any]:
        """Call ``embed_one`` on each list of texts, with one progress bar for all."""
        total = sum(len(texts) for texts in lists)
        with tqdm(total=total, desc=f"Embedding by {self.name}", unit="text") as progress:
            return [embed_one(self.encoder, texts, self.cache_folder, progress.update) for texts in lists]

    def with_strategies(self, strategies: Sequence[str]) -> list[EncoderSystem]:
        """Make a system for each strategy for long documents, all with the same encoder in memory."""
        encoder = self.encoder
        options: dict[str, str | bool] = {"bf16": False}
        if isinstance(encoder, EncoderWithOptions):
            options = encoder.options
            encoder = encoder.encoder
        if not isinstance(encoder, DocumentEncoder):  # an endpoint has no strategies
            return [self]
        systems = []
        for strategy in strategies:
            reader = EncoderWithOptions(encoder, **options | {"long_documents": strategy})
            systems.append(EncoderSystem(f"{self.name} ({strategy})", reader, self.cache_folder))
        return systems


SYSTEMS_WITHOUT_ENCODER: Mapping[str, Callable[[str], System]] = {"tfidf": TfidfSystem}


def load_system(
    name: str,
    cache_folder: str | Path | None = None,
    max_length: int | None = None,
    bf16: bool = False,
    long_documents: str = "first",
    word_counts: Mapping[str, Callable[[str], System]] = SYSTEMS_WITHOUT_ENCODER,
) -> System:
    """Load a system by its name, as that of docsplit_hf; an encoder's embeddings are cached in a folder.

    ``word_counts``: systems without an encoder, by their names.
    """
    base, options = split_name(name)
    if base in word_counts and options.keys() <= {"name"}:
        return word_counts[base](options.get("name") or base)
    system = systems.load_system(name, max_length, bf16, long_documents)
    if not isinstance(system, systems.EncoderSystem):
        return system
    return EncoderSystem(system.name, system.encoder, cache_folder)
