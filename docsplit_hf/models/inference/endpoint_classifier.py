"""EndpointClassifier: a classifier by neighbors whose encoder is behind an OpenAI-compatible endpoint.

Without ``from __future__ import annotations``: see ``configuration_knn_classifier.py``.
"""

import logging
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from ..portable.configuration_knn_classifier import KNNClassifierConfig, strict
from .encoder_names import is_address, split_name
from .endpoint import load_endpoint

logger = logging.getLogger(__name__)


@strict
class EndpointClassifierConfig(KNNClassifierConfig):
    """As ``KNNClassifierConfig``; ``endpoint`` is ``"https://HOST/v1#MODEL"``, and never names a key."""

    model_type = "knn_endpoint_classifier"
    sub_configs_defaults = {}
    _auto_class = None  # its file does not travel

    endpoint: str | None = None

    def get_text_config(self, *args: Any, **kwargs: Any) -> PreTrainedConfig:
        return self


class EndpointClassifier(PreTrainedModel):
    """A classifier by neighbors alone, whose embeddings come from an endpoint: ``EndpointEncoder``'s, of norm 1.

    It goes where a ``KNNClassifier`` goes: into ``pipeline("docsplit-knn", model=...)``, without a tokenizer, and into
    ``KNNDatastore.build(model, None, dataset)``. What is saved has the address and the model's name, and no key nor the
    name of one: a folder may come from a stranger, who must not learn what is in your environment. The fingerprint in
    the datastore is what the endpoint makes of three fixed texts, so that another model behind the name is refused.

    The endpoint reads texts as it does: how much of a long one, nobody here knows. So it takes neither pairs, nor
    ``long_documents``, ``max_length``, ``bf16`` or ``return_read``, and it cannot be trained.

    Args:
        config: With the address.
        key_variable: As for ``EndpointEncoder``.

    Raises:
        ValueError: If the address is none, or the configuration names a variable of the environment.
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
        # PreTrainedModel asks its parameters for a device and a dtype, and wants some to save.
        self.nothing = nn.Parameter(torch.empty(0), requires_grad=False)
        self.post_init()

    @classmethod
    def from_pretrained(cls, name: str, *arguments: Any, **kwargs: Any) -> "EndpointClassifier":
        """Load by an address, or from a folder or repository that a pipeline was saved to.

        Args:
            name: ``"https://HOST/v1#MODEL"``, maybe followed by ``#max_characters=20000``, ``#requests_per_minute=60``
                and ``#key_variable=MY_API_KEY``; or a folder, or a repository on the Hub.
            *arguments, **kwargs: ``key_variable``, where it is not in the name; all else as for ``PreTrainedModel``.

        Raises:
            ValueError: As for the class.
            OSError: If there is no such folder or repository.
        """
        if not is_address(name):
            model = super().from_pretrained(name, *arguments, **kwargs)
            logger.warning("Texts are sent to %s: the configuration in %s says so.", model.config.endpoint, name)
            return model
        parts = name.split("#")
        variables = [part.partition("=")[2] for part in parts if part.startswith("key_variable=")]
        endpoint = "#".join(part for part in parts if not part.startswith("key_variable="))
        config = EndpointClassifierConfig(
            endpoint=endpoint, id2label={}, label2id={}, decouple=False, normalize=True, knn_weight=1.0
        )
        return cls(config, kwargs.get("key_variable") or next(iter(variables), None))

    def forward(self, *arguments: Any, **kwargs: Any) -> None:
        """Refused: there is nothing here to run or to train."""
        raise NotImplementedError(
            f"{self.endpoint!r} embeds elsewhere, so nothing can be trained here: "
            "KNNClassifier.from_encoder(...) takes an encoder of this machine or of the Hub."
        )
