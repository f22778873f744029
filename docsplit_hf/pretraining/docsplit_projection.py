"""DocSplitProjection: DocSplit in closed form, on the embeddings of any frozen encoder."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from ..encoding.checkpoints.sentence_transformers_files import save_dense_module, save_sentence_transformers_files
from ..encoding.document_encoder import DocumentEncoder
from ..storage.atomic_replacement import replaced_at_once
from .half_retrieval import half_texts

logger = logging.getLogger(__name__)

SHRINKAGES = 10.0 ** np.arange(-2, 2.1, 0.5)  # candidates for lambda
FOLDS = 5


class DocSplitProjection:
    r"""Linear map of embeddings with which one half of a document predicts the other half best.

    Let m be the mean and S the covariance of the halves' embeddings (each of norm 1), C the symmetrized covariance
    between the two halves of a document, s = tr S / D and r = tr C / tr S. An embedding x of norm 1 becomes

    .. math:: \frac{(x - m) B}{\lVert (x - m) B \rVert}, \quad B = (S + \lambda s I)^{-1} (C + \lambda s r I)

    B is the ridge regression of one half on the other, shrunk to a multiple of the identity: it keeps directions in
    which the halves of a document agree, and shrinks the others. A large shrinkage only centers the embeddings.

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
        self.mean = np.asarray(mean, np.float64)
        self.matrix = np.asarray(matrix, np.float64)
        if self.mean.ndim != 1 or self.matrix.shape != (len(self.mean), len(self.mean)):
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
        """Split documents into halves, embed the halves, and fit the map, without labels.

        Args:
            encoder: Any object with ``encode(texts, show_progress=...)``, such as a ``DocumentEncoder``.
            texts: Documents. Those of one sentence and repeated ones are left out, and counted in the log.
            shrinkage: As for ``from_halves``.
            seed: Seed of the halves and the folds.
            language: Language for the sentence splitter pysbd.
            show_progress: Whether to show progress bars.

        Returns:
            The projection for this encoder.

        Raises:
            ValueError: As for ``from_halves``, or if fewer than two documents have two sentences.
        """
        first, second = half_texts(texts, seed, language, show_progress)
        embeddings = encoder.encode([*first, *second], show_progress=show_progress)
        return cls.from_halves(embeddings[: len(first)], embeddings[len(first) :], shrinkage, seed)

    @classmethod
    def from_halves(
        cls, first: np.ndarray, second: np.ndarray, shrinkage: float | None = None, seed: int = 0
    ) -> DocSplitProjection:
        """Fit the map to embeddings of halves, in seconds for 10,000 documents.

        Args:
            first: Embeddings of one half of each document, ``(N, D)``, of any norm; they are normalized.
            second: Embeddings of the other half of the same documents, in the same order, ``(N, D)``.
            shrinkage: Lambda, above 0. None: the value from 0.01 to 100 with which the map predicts the other half of
                held-out documents best, over five folds.
            seed: Seed of the folds.

        Returns:
            The projection.

        Raises:
            ValueError: If the shapes differ, a number is not finite, the shrinkage is not above 0, or there are fewer
                than five documents to choose it on.
        """
        first = _normalized(first)
        second = _normalized(second)
        if first.shape != second.shape:
            raise ValueError(f"The halves are {first.shape} and {second.shape}: give two rows for each document.")
        if shrinkage is not None and not shrinkage > 0:
            raise ValueError(f"shrinkage must be above 0, got {shrinkage}. None: it is chosen on the halves.")
        if shrinkage is None:
            shrinkage, error = choose_shrinkage(first, second, seed)
            logger.info(
                f"Shrinkage {shrinkage:g}, chosen on held-out documents: from one half, the map predicts "
                f"{1 - error:.0%} of the variance of the other. {len(first)} documents."
            )
        mean, matrix = half_document_projection(first, second, shrinkage)
        return cls(mean, matrix)

    def __call__(self, embeddings: np.ndarray) -> np.ndarray:
        """Apply the map.

        Args:
            embeddings: Embeddings ``(N, D)`` by the encoder that the map was fitted for, of any norm.

        Returns:
            Projected embeddings ``(N, D)``, float32, of norm 1.

        Raises:
            ValueError: If the embeddings have another number of dimensions, or hold NaN or infinity.
        """
        embeddings = _normalized(embeddings)
        if embeddings.shape[1] != len(self.mean):
            raise ValueError(f"The projection has {len(self.mean)} dimensions, the embeddings are {embeddings.shape}.")
        return _normalized((embeddings - self.mean) @ self.matrix).astype(np.float32)

    def save_pretrained(self, folder: str | Path, encoder: DocumentEncoder) -> None:
        """Save an encoder followed by the map, as a checkpoint of sentence-transformers.

        ``SentenceTransformer(folder)`` and ``DocumentEncoder.from_pretrained(folder)`` give projected embeddings. The
        map is saved as a dense layer; trainers and classifiers of docsplit_hf refuse checkpoints with dense layers.

        Args:
            folder: Folder to save to. A model already in it is replaced.
            encoder: The encoder that the map was fitted for. Its prompt is not saved; give it when you load.

        Raises:
            ValueError: If the encoder has another number of dimensions, or dense layers of its own.
        """
        if encoder.projection is not None:
            raise ValueError(f"{encoder!r} has dense layers already: apply the projection to its embeddings instead.")
        if encoder.dimension != len(self.mean):
            raise ValueError(f"{encoder!r} has {encoder.dimension} dimensions, the projection has {len(self.mean)}.")
        layer = nn.Linear(in_features=len(self.mean), out_features=len(self.mean))
        layer.load_state_dict(
            {
                "weight": torch.from_numpy(self.matrix.T.copy()).float(),
                "bias": torch.from_numpy(-self.mean @ self.matrix).float(),
            }
        )
        described_config = copy.deepcopy(encoder.model.config)
        described_config.docsplit = {"pooling": encoder.pooling, "max_length": encoder.max_length}
        with replaced_at_once(folder) as staging:
            encoder.model.save_pretrained(staging)
            encoder.tokenizer.save_pretrained(staging)
            save_sentence_transformers_files(staging, described_config)
            save_dense_module(staging, layer)
            # With the pooling in config.json, DocumentEncoder would not read modules.json, and miss the dense layer.
            config = json.loads((staging / "config.json").read_text(encoding="utf-8"))
            config.pop("docsplit", None)
            (staging / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


class _Moments(NamedTuple):
    """Second moments of centered halves x and y, ``(D, D)`` each."""

    total: np.ndarray  # half of x^T x + y^T y
    cross: np.ndarray  # x^T y, made symmetric


def _normalized(embeddings: np.ndarray) -> np.ndarray:
    """Check embeddings, ``(N, D)``, and scale them to norm 1: float64."""
    embeddings = np.asarray(embeddings, np.float64)
    if embeddings.ndim != 2 or not np.isfinite(embeddings).all():
        raise ValueError(f"Expected finite embeddings (N, D), got {embeddings.shape}, or NaN or infinity among them.")
    return embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True).clip(1e-12)


def half_document_projection(first: np.ndarray, second: np.ndarray, shrinkage: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean ``(D,)`` and map ``(D, D)`` for the embeddings of two halves of each document, ``(N, D)`` each."""
    mean = (first.mean(0) + second.mean(0)).astype(np.float64) / 2
    sums = _moments(first - mean, second - mean)
    return mean, _map(sums.total / len(first), sums.cross / len(first), shrinkage)


def choose_shrinkage(first: np.ndarray, second: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """Choose the shrinkage with the smallest squared error on held-out documents; also returns this error.

    The error is relative to the variance of the halves, over five folds. The squared error of a map B is
    ``tr S' - 2 tr B^T C' + tr B^T S' B`` with the held-out covariances S' and C'.
    """
    if len(first) < FOLDS:
        raise ValueError(
            f"{len(first)} documents are too few to choose a shrinkage on: give {FOLDS} or more, or set it."
        )
    mean = (first.mean(0) + second.mean(0)).astype(np.float64) / 2
    fold = np.random.default_rng(seed).permutation(len(first)) % FOLDS
    by_fold = [_moments(first[fold == number] - mean, second[fold == number] - mean) for number in range(FOLDS)]
    total = np.sum([sums.total for sums in by_fold], axis=0)
    cross = np.sum([sums.cross for sums in by_fold], axis=0)
    errors = np.zeros(len(SHRINKAGES))
    for number, held_out in enumerate(by_fold):
        count = np.count_nonzero(fold != number)
        kept_total = (total - held_out.total) / count
        kept_cross = (cross - held_out.cross) / count
        for i, shrinkage in enumerate(SHRINKAGES):
            matrix = _map(kept_total, kept_cross, shrinkage)
            linear = 2 * (matrix * held_out.cross).sum()
            quadratic = (matrix * (held_out.total @ matrix)).sum()
            errors[i] += np.trace(held_out.total) - linear + quadratic
    errors /= np.trace(total)
    best = int(errors.argmin())
    return float(SHRINKAGES[best]), float(errors[best])


def _moments(first: np.ndarray, second: np.ndarray) -> _Moments:
    """The second moments of centered halves, ``(N, D)`` each."""
    product = first.T @ second
    return _Moments(total=(first.T @ first + second.T @ second) / 2, cross=(product + product.T) / 2)


def _map(total: np.ndarray, cross: np.ndarray, shrinkage: float) -> np.ndarray:
    """B of ``DocSplitProjection``: it minimizes ``mean ||y - x B||^2 + l s ||B - r I||^2`` over halves x, y."""
    ridge = shrinkage * np.trace(total) / len(total)
    ratio = np.trace(cross) / np.trace(total)
    identity = np.eye(len(total))
    return np.linalg.solve(total + ridge * identity, cross + ridge * ratio * identity)
