"""An adapter for mteb 2.x, which can then run all its tasks on a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from ..extras import check_extra
from ..models.inference.endpoint import split_name
from ..models.inference.long_documents import SingleVector
from .systems import TextEncoder, load_encoder

if TYPE_CHECKING:
    import torch
    from mteb.models import ModelMeta


class MTEBEncoder:
    """An encoder that fulfills mteb's ``EncoderProtocol``: hand it to ``mteb.evaluate``, with the tasks.

    mteb keeps results by name and revision, which is the encoder's fingerprint. Its prompts are not used: the
    instruction is the encoder's own.

    Args:
        encoder: An encoder, or a name as ``load_encoder`` knows it: a folder, a model on the Hub, an endpoint.
        name: The name in mteb's results, as ``"organization/model"``. None: the name on the Hub, or
            ``"local/<folder>"``; of an encoder that is loaded already, its class.
        long_documents: How an encoder that is given by its name reads long texts, as in ``DocumentEncoder.encode``.

    Example:

        >>> model = MTEBEncoder("out/docsplit")  # doctest: +SKIP
        >>> mteb.evaluate(model, mteb.get_tasks(["ArXivHierarchicalClusteringP2P"]))  # doctest: +SKIP
    """

    def __init__(
        self, encoder: TextEncoder | str, name: str | None = None, long_documents: SingleVector = "first"
    ) -> None:
        self.encoder = load_encoder(encoder, long_documents=long_documents) if isinstance(encoder, str) else encoder
        self.name = name or _public_name(encoder if isinstance(encoder, str) else type(encoder).__name__)

    def encode(self, inputs: Iterable[dict[str, Any]], **kwargs: Any) -> np.ndarray:
        """Embed mteb's batches, which have a key ``text``: float32 of shape ``(N, D)``, of norm 1.

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
        """Cosine similarity of each with each: ``(N, M)``."""
        from mteb.similarity_functions import cos_sim

        return cos_sim(embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: np.ndarray, embeddings2: np.ndarray) -> torch.Tensor:
        """Cosine similarity of each with its counterpart: ``(N,)``."""
        from mteb.similarity_functions import pairwise_cos_sim

        return pairwise_cos_sim(embeddings1, embeddings2)

    @cached_property
    def mteb_model_meta(self) -> ModelMeta:
        """The description of the model in mteb's results."""
        check_extra("mteb", "MTEBEncoder")
        from mteb.models import ModelMeta
        from mteb.models.model_meta import ScoringFunction

        encoder = getattr(self.encoder, "encoder", self.encoder)  # one with options has it inside
        known = {
            "name": self.name,
            "revision": self.encoder.fingerprint[:16],
            "similarity_fn_name": ScoringFunction.COSINE,
            "embed_dim": getattr(encoder, "dimension", None),
            "max_tokens": getattr(encoder, "max_length", None),
            "use_instructions": getattr(encoder, "instruction", None) is not None,
            "framework": ["PyTorch"],
        }
        return ModelMeta.create_empty(known)


def _public_name(name: str) -> str:
    base, options = split_name(name)
    if "model" in options:
        return f"{urlsplit(base).hostname}/{options['model']}"
    is_on_hub = base.count("/") == 1 and not Path(base).exists()
    return base if is_on_hub else f"local/{Path(base).name}"
