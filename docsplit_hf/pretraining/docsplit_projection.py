"""DocSplitProjection: DocSplit in closed form, for the embeddings of any encoder, which stays frozen."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..models.checkpoints.atomic_replacement import model_files, replaced_at_once
from ..models.checkpoints.sentence_transformers_files import save_dense_module, save_sentence_transformers_files
from ..models.inference.encoder import DocumentEncoder
from .half_retrieval import half_texts

logger = logging.getLogger(__name__)

SHRINKAGES = 10.0 ** np.arange(-2, 2.1, 0.5)
FOLDS = 5


class DocSplitProjection:
    r"""A linear map of embeddings, by which one half of a document tells as much as it can of the other.

    With m the mean and S the covariance of the halves' embeddings (each of norm 1), C the covariance of the two halves
    of a document, made symmetric, s = tr S / D and r = tr C / tr S, an embedding x of norm 1 becomes

    .. math:: \frac{(x - m) B}{\lVert (x - m) B \rVert}, \quad B = (S + \lambda s I)^{-1} (C + \lambda s r I)

    B is the ridge regression of one half on the other, shrunk to a multiple of the identity: directions in which the
    halves of a document agree are kept, the others shrink. With a large shrinkage the embeddings are only centered.

    Args:
        mean: m, ``(D,)``.
        matrix: B, ``(D, D)``.

    Raises:
        ValueError: If the shapes do not fit, or a number is not finite.

    Example:

        >>> encoder = DocumentEncoder.from_pretrained()
        >>> texts = [f"Report {i}. It is about the river. The {word} is old." for i, word in enumerate("abcdefgh")]
        >>> projection = DocSplitProjection.fit(encoder, texts, show_progress=False)
        >>> projection(encoder.encode(texts, show_progress=False)).shape
        (8, 384)
    """

    def __init__(self, mean: np.ndarray, matrix: np.ndarray) -> None:
        self.mean, self.matrix = np.asarray(mean, np.float64), np.asarray(matrix, np.float64)
        if self.mean.ndim != 1 or self.matrix.shape != 2 * self.mean.shape:
            raise ValueError(f"Expected (D,) and (D, D), got a mean {self.mean.shape} and a map {self.matrix.shape}.")
        if not (np.isfinite(self.mean).all() and np.isfinite(self.matrix).all()):
            raise ValueError("The mean or the map holds NaN or infinity: check the embeddings that they come from.")

    @classmethod
    def fit(
        cls,
        encoder: Any,
        texts: Sequence[str],
        shrinkage: float | None = None,
        seed: int = 0,
        language: str = "en",
        show_progress: bool = True,
    ) -> DocSplitProjection:
        """Split documents into halves, embed these, and fit the map; no labels are needed.

        Args:
            encoder: Anything with ``encode(texts, show_progress=...)``, such as a ``DocumentEncoder``.
            texts: Documents. Those of one sentence and repeated ones are left out, which is logged.
            shrinkage: As for ``from_halves``.
            seed: Of the halves and the folds.
            language: For pysbd, which finds the sentences.
            show_progress: Whether to show progress bars.

        Returns:
            The projection for this encoder.

        Raises:
            ValueError: As ``from_halves``, or if fewer than two documents have two sentences.
        """
        first, second = half_texts(texts, seed, language, show_progress)
        both = encoder.encode([*first, *second], show_progress=show_progress)
        return cls.from_halves(both[: len(first)], both[len(first) :], shrinkage, seed)

    @classmethod
    def from_halves(
        cls, first: np.ndarray, second: np.ndarray, shrinkage: float | None = None, seed: int = 0
    ) -> DocSplitProjection:
        """Fit the map to embeddings of halves: seconds for 10,000 documents.

        Args:
            first: Embeddings of one half of each document, ``(N, D)``; they are brought to norm 1.
            second: Embeddings of the other half, row by row of the same document.
            shrinkage: Lambda, above 0. None: of 0.01 to 100 the one by which the map is best at telling the other
                half of held-out documents, over five folds.
            seed: Of the folds.

        Returns:
            The projection.

        Raises:
            ValueError: If the shapes differ, a number is not finite, the shrinkage is not above 0, or there are fewer
                than five documents to choose it on.
        """
        first, second = _of_norm_1(first), _of_norm_1(second)
        if first.shape != second.shape:
            raise ValueError(f"The halves are {first.shape} and {second.shape}: give two rows for each document.")
        if shrinkage is not None and not shrinkage > 0:
            raise ValueError(f"shrinkage must be above 0, got {shrinkage}. None: it is chosen on the halves.")
        if shrinkage is None:
            shrinkage, error = choose_shrinkage(first, second, seed)
            logger.info(
                f"Shrinkage {shrinkage:g}, by halves of held-out documents: from one half, the map tells "
                f"{1 - error:.0%} of the variance of the other. {len(first)} documents."
            )
        return cls(*half_document_projection(first, second, shrinkage))

    def __call__(self, embeddings: np.ndarray) -> np.ndarray:
        """Apply the map.

        Args:
            embeddings: ``(N, D)``, of the encoder that it was fitted for; of any norm.

        Returns:
            float32 of shape ``(N, D)``, of norm 1.

        Raises:
            ValueError: If the embeddings have another number of dimensions, or hold NaN or infinity.
        """
        embeddings = _of_norm_1(embeddings)
        if embeddings.shape[1] != len(self.mean):
            raise ValueError(
                f"The projection is of {len(self.mean)} dimensions, the embeddings are {embeddings.shape}."
            )
        return _of_norm_1((embeddings - self.mean) @ self.matrix).astype(np.float32)

    def save_pretrained(self, folder: str | Path, encoder: DocumentEncoder) -> None:
        """Save an encoder with the map behind it, as a checkpoint of sentence-transformers.

        ``SentenceTransformer(folder)`` and ``DocumentEncoder.from_pretrained(folder)`` give projected embeddings. The
        map is a dense layer, which what trains or classifies a checkpoint here refuses.

        Args:
            folder: Where to save; a model that is there is replaced.
            encoder: The encoder that the map was fitted for. An instruction is not saved: give it again.

        Raises:
            ValueError: If the encoder has another number of dimensions, or dense layers of its own.
        """
        if encoder.projection is not None:
            raise ValueError(
                f"{encoder!r} has dense layers of its own: apply the projection to its embeddings instead."
            )
        if encoder.dimension != len(self.mean):
            raise ValueError(f"{encoder!r} has {encoder.dimension} dimensions, the projection has {len(self.mean)}.")
        layer = nn.Linear(*self.matrix.shape)
        layer.load_state_dict(
            {
                "weight": torch.from_numpy(self.matrix.T.copy()).float(),
                "bias": torch.from_numpy(-self.mean @ self.matrix).float(),
            }
        )
        described = copy.deepcopy(encoder.model.config)
        described.docsplit = {"pooling": encoder.pooling, "max_length": encoder.max_length}
        with replaced_at_once(folder, "config.json", model_files) as staging:
            encoder.model.save_pretrained(staging)
            encoder.tokenizer.save_pretrained(staging)
            save_sentence_transformers_files(staging, described)
            save_dense_module(staging, layer)
            # What finds its pooling there reads no modules, and would leave the dense layer out.
            config = json.loads((staging / "config.json").read_text(encoding="utf-8"))
            config.pop("docsplit", None)
            (staging / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _of_norm_1(embeddings: np.ndarray) -> np.ndarray:
    embeddings = np.asarray(embeddings, np.float64)
    if embeddings.ndim != 2 or not np.isfinite(embeddings).all():
        raise ValueError(f"Expected finite embeddings (N, D), got {embeddings.shape}, or NaN or infinity among them.")
    return embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True).clip(1e-12)


def half_document_projection(first: np.ndarray, second: np.ndarray, shrinkage: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean ``(D,)`` and map ``(D, D)`` of the embeddings of two halves per document, ``(N, D)`` each, row by row."""
    mean = (first.mean(0) + second.mean(0)).astype(np.float64) / 2
    total, cross = _moments(first - mean, second - mean)
    return mean, _map(total / len(first), cross / len(first), shrinkage)


def choose_shrinkage(first: np.ndarray, second: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """The shrinkage with the smallest squared error on halves of held-out documents, and this error; needs no labels.

    The error is a share of the halves' variance, over five folds. That of a map B is
    ``tr S' - 2 tr B^T C' + tr B^T S' B`` with the held-out covariances S' and C'.
    """
    if len(first) < FOLDS:
        raise ValueError(
            f"{len(first)} documents are too few to choose a shrinkage on: give {FOLDS} or more, or set it."
        )
    mean = (first.mean(0) + second.mean(0)).astype(np.float64) / 2
    fold = np.random.default_rng(seed).permutation(len(first)) % FOLDS
    held_out = [_moments(first[fold == number] - mean, second[fold == number] - mean) for number in range(FOLDS)]
    whole = [np.sum(parts, axis=0) for parts in zip(*held_out, strict=True)]
    errors = np.zeros(len(SHRINKAGES))
    for number, (total, cross) in enumerate(held_out):
        count = np.count_nonzero(fold != number)
        kept = (whole[0] - total) / count, (whole[1] - cross) / count
        for i, shrinkage in enumerate(SHRINKAGES):
            matrix = _map(*kept, shrinkage)
            errors[i] += np.trace(total) - 2 * (matrix * cross).sum() + (matrix * (total @ matrix)).sum()
    errors /= np.trace(whole[0])
    best = int(errors.argmin())
    return float(SHRINKAGES[best]), float(errors[best])


def _moments(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Half the sums of x^T x and of the symmetric x^T y over centered halves, ``(D, D)`` each."""
    product = first.T @ second
    return (first.T @ first + second.T @ second) / 2, (product + product.T) / 2


def _map(total: np.ndarray, cross: np.ndarray, shrinkage: float) -> np.ndarray:
    """B of ``DocSplitProjection``: it minimizes ``mean ||y - x B||^2 + l s ||B - r I||^2`` over halves x, y."""
    ridge, ratio = shrinkage * np.trace(total) / len(total), np.trace(cross) / np.trace(total)
    identity = np.eye(len(total))
    return np.linalg.solve(total + ridge * identity, cross + ridge * ratio * identity)
