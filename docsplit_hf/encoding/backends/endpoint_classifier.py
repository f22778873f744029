"""Classifiers with embeddings from an endpoint, and the names of endpoints.

It has no ``from __future__ import annotations``, for the reason in ``configuration_knn_classifier.py``.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from ...arrays.passages import Predictions
from ...arrays.probe import PROBE_TEXTS
from ..portable.configuration_knn_classifier import KNNClassifierConfig, strict
from ..text_embedder import EmbeddingOptions, TextEmbedder
from .endpoint_encoder import EndpointEncoder

logger = logging.getLogger(__name__)

# Options after the address of an endpoint, and their types.
OPTIONS = {"model": str, "key_variable": str, "max_characters": int}


def is_endpoint(name: Any) -> bool:
    """Whether the name of an encoder is the address of an endpoint."""
    return isinstance(name, str) and name.startswith(("http://", "https://"))


def split_name(name: str) -> tuple[str, dict[str, str]]:
    """Split ``"name#option=value#option=value"``; after the address of an endpoint, the model's name comes first.

    >>> split_name("https://api.openai.com/v1#text-embedding-3-small#max_characters=60")
    ('https://api.openai.com/v1', {'model': 'text-embedding-3-small', 'max_characters': '60'})
    """
    base, *parts = name.split("#")
    options: dict[str, str] = {}
    if is_endpoint(base):
        if not parts or not parts[0]:
            raise ValueError(f"{name!r} has no model: write it after a #, as in 'https://api.openai.com/v1#MODEL'.")
        options["model"] = parts.pop(0)
    for part in parts:
        option, equals, value = part.partition("=")
        if not equals or not value.strip():
            raise ValueError(f"In {name!r}, {part!r} is not an option: write 'NAME#OPTION=VALUE'; # separates options.")
        options[option.strip()] = value.strip()
    return base, options


def convert_options(name: str, options: dict[str, str], kinds: dict[str, type]) -> dict[str, str | int | float]:
    """Convert the values of a name's options, each to the type of its option in ``kinds``."""
    converted = {}
    for option, value in options.items():
        if option not in kinds:
            raise ValueError(f"{name!r} has the option {option!r}; allowed are: {', '.join(kinds)}.")
        try:
            converted[option] = kinds[option](value)
        except ValueError:
            raise ValueError(f"In {name!r}, {option} must be a number, got {value!r}.") from None
    return converted


def load_endpoint(name: str, key_variable: str | None = None) -> EndpointEncoder:
    """Make the encoder for ``"https://HOST/v1#MODEL#option=value"``; ``OPTIONS`` has all options."""
    base_url, options = split_name(name)
    encoder_options = {"key_variable": key_variable} | convert_options(name, options, OPTIONS)
    return EndpointEncoder(base_url=base_url, **encoder_options)


@strict
class EndpointClassifierConfig(KNNClassifierConfig):
    """Configuration of an ``EndpointClassifier``.

    Args:
        endpoint: ``"https://HOST/v1#MODEL"``, without a key and without the name of one.

    Others are those of ``KNNClassifierConfig``.
    """

    model_type = "knn_endpoint_classifier"
    sub_configs_defaults = {}
    _auto_class = None  # this file is not copied into saved classifiers

    endpoint: str | None = None

    def get_text_config(self, *args: Any, **kwargs: Any) -> PreTrainedConfig:
        """Return this configuration: there is no encoder's."""
        return self

    def validate_truncate_dim(self) -> None:
        """Refuse to truncate an endpoint's embeddings. Called by ``strict``."""
        if self.truncate_dim is not None:
            raise ValueError(f"truncate_dim={self.truncate_dim} has no effect on {self.endpoint!r}: leave it out.")


class EndpointClassifier(PreTrainedModel):
    """A classifier by neighbors alone, with embeddings from an endpoint, of norm 1 (see ``EndpointEncoder``).

    Use it like a ``KNNClassifier``: in ``pipeline("docsplit-knn", model=...)``, without a tokenizer, and in
    ``KNNDatastore.build(model, None, dataset)``. Saved files have the address and the model's name, but neither a key
    nor the name of its environment variable: otherwise a stranger's folder could make you send any secret of your
    environment. The datastore recognizes the endpoint by its embeddings of three fixed texts, and refuses another model
    under the same name.

    How much of a long text an endpoint reads is unknown. Therefore pairs, ``long_documents``, ``max_length``, ``bf16``
    and ``return_read`` are not supported. The classifier cannot be trained.

    Args:
        config: The configuration, with the address.
        key_variable: As for ``EndpointEncoder``.

    Raises:
        ValueError: If the address is not valid, or the configuration names an environment variable.
    """

    config_class = EndpointClassifierConfig

    def __init__(self, config: EndpointClassifierConfig, key_variable: str | None = None) -> None:
        super().__init__(config)
        if "key_variable" in split_name(config.endpoint or "")[1]:
            raise ValueError(
                f"The configuration names an environment variable to send to {config.endpoint!r}. Delete that from "
                "config.json, and give its name with key_variable if the address is to have it."
            )
        self.endpoint = load_endpoint(config.endpoint, key_variable)
        # PreTrainedModel takes its device and dtype from its parameters, and saves at least one. Saved files have it.
        self.nothing = nn.Parameter(torch.empty(0), requires_grad=False)
        self.post_init()

    @classmethod
    def from_pretrained(cls, name: str, *arguments: Any, **kwargs: Any) -> "EndpointClassifier":
        """Load by an address, or from a folder or repository that a pipeline was saved to.

        Args:
            name: ``"https://HOST/v1#MODEL"``, optionally followed by ``#max_characters=20000``
                and ``#key_variable=MY_API_KEY``; or a folder, or a repository on the Hub.
            *arguments, **kwargs: ``key_variable``, if it is not in the name; others as for ``PreTrainedModel``.

        Returns:
            The classifier, without labels if it is loaded by an address.

        Raises:
            ValueError: As for the class.
            OSError: If there is no such folder or repository.
        """
        if not is_endpoint(name):
            model = super().from_pretrained(name, *arguments, **kwargs)
            logger.warning(
                "Texts are sent to %s, the endpoint in the configuration of %s.", model.config.endpoint, name
            )
            return model
        parts = name.split("#")
        variables = [part.partition("=")[2] for part in parts if part.startswith("key_variable=")]
        endpoint = "#".join(part for part in parts if not part.startswith("key_variable="))
        config = EndpointClassifierConfig(
            endpoint=endpoint, id2label={}, label2id={}, decouple=False, normalize=True, knn_weight=1.0
        )
        return cls(config, kwargs.get("key_variable") or next(iter(variables), None))

    def forward(self, *arguments: Any, **kwargs: Any) -> None:
        """Raise an error: an endpoint has no weights to run or to train."""
        raise NotImplementedError(
            f"{self.endpoint!r} cannot be trained: use KNNClassifier.from_encoder(...) for a model that can."
        )


# Options and settings that have no effect on an endpoint.
UNSUPPORTED = (
    "max_length",
    "max_tokens_per_batch",
    "bf16",
    "long_documents",
    "passage_length",
    "max_passages",
    "prompt",
)


@dataclass(frozen=True)
class EndpointEmbedder(TextEmbedder):
    """Embeds texts with an ``EndpointClassifier``. How much of a long text the endpoint reads is unknown."""

    model: EndpointClassifier

    is_local = False

    @property
    def max_length(self) -> None:
        """None: it is unknown."""
        return None

    def use_precision(
        self, precision: str | None, calibration_texts: Sequence[str] | None = None, packing: str | None = None
    ) -> None:
        """Refuse a precision; packing has no effect."""
        if precision is not None or calibration_texts is not None:
            raise ValueError("precision and calibration_texts have no effect on an endpoint: leave them out.")

    def check(self) -> None:
        """Refuse options and settings that have no effect on the endpoint."""
        for name in UNSUPPORTED:
            value = getattr(self.options, name, None) or getattr(self.model.config, name, None)
            if value not in (None, False, "", "first"):
                raise ValueError(
                    f"{name}={value!r} has no effect on {self.model.endpoint!r}: leave it out. "
                    "'https://HOST/v1#MODEL#max_characters=N' sends at most N characters of a text."
                )

    def probe(self) -> np.ndarray:
        """Embed three fixed texts: float32 ``(3, R)``."""
        return replace(self, options=EmbeddingOptions()).embed(PROBE_TEXTS).retrieval_embeddings

    def embed(self, texts: Sequence[str], text_pairs: Sequence[str | None] | None = None) -> Predictions:
        """Embed N texts: embeddings of norm 1, and no logits."""
        if any(pair is not None for pair in text_pairs or ()):
            raise ValueError(f"{self.model.endpoint!r} embeds no pairs: join the two texts of a pair into one.")
        self.check()
        embeddings = self.model.endpoint.encode(
            texts, show_progress=self.options.show_progress, batch_size=self.options.batch_size
        )
        return Predictions(np.empty((len(embeddings), 0), dtype=np.float32), embeddings)
