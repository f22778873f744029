"""MTEBEncoder: an adapter for mteb 2.x, to run its tasks on an encoder."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from ..encoding.backends.endpoint import split_name
from ..encoding.chunking import SingleVector
from ..extras import check_extra
from .systems import TextEncoder, load_encoder

if TYPE_CHECKING:
    import torch
    from mteb.models import ModelMeta


class MTEBEncoder:
    """An encoder with mteb's ``EncoderProtocol``, for ``mteb.evaluate``.

    mteb stores results by name and revision; the revision is the encoder's fingerprint. mteb's prompts are ignored: the
    encoder uses its own prompt.

    Args:
        encoder: An encoder, or a name for ``load_encoder``: a folder, a model on the Hub, an endpoint.
        name: The name in mteb's results, as ``"organization/model"``. None: the name on the Hub, or
            ``"local/<folder>"``; for a loaded encoder, its class.
        long_documents: Strategy for long texts of an encoder given by name, as in ``DocumentEncoder.encode``.

    Example:

        >>> model = MTEBEncoder("out/docsplit")  # doctest: +SKIP
        >>> mteb.evaluate(model, mteb.get_tasks(["ArXivHierarchicalClusteringP2P"]))  # doctest: +SKIP
    """

    def __init__(
        self, encoder: TextEncoder | str, name: str | None = None, long_documents: SingleVector = "first"
    ) -> None:
        self.encoder = load_encoder(encoder, long_documents=long_documents) if isinstance(encoder, str) else encoder
        self.name = name or _public_name(encoder if isinstance(encoder, str) else type(encoder).__name__)

    def encode(self, inputs: Iterable[dict[str, list[str]]], **kwargs: Any) -> np.ndarray:
        """Embed the texts of a task.

        Args:
            inputs: mteb's batches, dictionaries with a key ``text``.
            **kwargs: ``show_progress_bar``; mteb's other options are ignored.

        Returns:
            Embeddings, float32 ``(N, D)``, of norm 1.

        Raises:
            ValueError: If a batch holds no texts.
        """
        texts: list[str] = []
        for batch in inputs:
            if "text" not in batch:
                raise ValueError(f"mteb gives {', '.join(batch)}, and this model reads text: choose tasks on text.")
            texts += batch["text"]
        return self.encoder.encode(texts, show_progress=bool(kwargs.get("show_progress_bar", True)))

    def similarity(self, embeddings1: np.ndarray, embeddings2: np.ndarray) -> torch.Tensor:
        """Compute cosine similarities.

        Args:
            embeddings1: ``(N, D)``.
            embeddings2: ``(M, D)``.

        Returns:
            The similarities of all pairs, ``(N, M)``.
        """
        from mteb.similarity_functions import cos_sim

        return cos_sim(embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: np.ndarray, embeddings2: np.ndarray) -> torch.Tensor:
        """Compute cosine similarities row by row.

        Args:
            embeddings1: ``(N, D)``.
            embeddings2: ``(N, D)``.

        Returns:
            The similarity of each row of the two, ``(N,)``.
        """
        from mteb.similarity_functions import pairwise_cos_sim

        return pairwise_cos_sim(embeddings1, embeddings2)

    @cached_property
    def mteb_model_meta(self) -> ModelMeta:
        """The description of the model in mteb's results."""
        check_extra("mteb", "MTEBEncoder")
        from mteb.models import ModelMeta
        from mteb.models.model_meta import ScoringFunction

        encoder = getattr(self.encoder, "encoder", self.encoder)  # the one inside an EncoderWithOptions
        known = {
            "name": self.name,
            "revision": self.encoder.fingerprint[:16],
            "similarity_fn_name": ScoringFunction.COSINE,
            "embed_dim": getattr(encoder, "dimension", None),
            "max_tokens": getattr(encoder, "max_length", None),
            "use_instructions": bool(getattr(encoder, "prompt", "")),
            "framework": ["PyTorch"],
        }
        return ModelMeta.create_empty(known)


def _public_name(name: str) -> str:
    """The name of an encoder in mteb's results, ``"organization/model"``."""
    base, options = split_name(name)
    if "model" in options:
        return f"{urlsplit(base).hostname}/{options['model']}"
    is_on_hub = base.count("/") == 1 and not Path(base).exists()
    return base if is_on_hub else f"local/{Path(base).name}"
