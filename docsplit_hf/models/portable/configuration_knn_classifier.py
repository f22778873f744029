"""KNNClassifierConfig: an encoder's configuration, what stands on it, and how neighbors are mixed in.

Pushed beside the weights, so that the model also loads where docsplit_hf is not installed: it imports nothing of ours.
Without ``from __future__ import annotations``, which makes strings of the types: ``strict`` would then check none.
"""

import difflib
import math
from collections.abc import Callable
from typing import Any

from huggingface_hub.dataclasses import strict, validated_field
from transformers import AutoConfig, PreTrainedConfig
from transformers.configuration_utils import SubConfigSpec

LONG_DOCUMENTS = ("first", "head_tail", "whole", "average", "passages", "late")


def _field(default: Any, wanted: str, is_right: Callable[[Any], bool], advice: str = "") -> Any:
    def check(value: Any) -> None:
        if value is not None and not is_right(value):
            raise ValueError(f"must be {wanted}, got {value!r}{advice}.")

    return validated_field(check, default=default)


def _count(default: int | None = None) -> Any:
    return _field(default, "1 or above", lambda value: value >= 1)


def _share(default: float | None = None) -> Any:
    return _field(default, "from 0 to 1", lambda value: 0 <= value <= 1)


@strict
class KNNClassifierConfig(PreTrainedConfig):
    """The configuration of a ``KNNClassifier``; it holds the encoder's own.

    Args:
        encoder_config: The encoder's configuration.
        pooling: From the tokens' states to the representation h that is classified: ``"cls"`` (the paper's choice),
            ``"mean"``, ``"max"`` or ``"last"``.
        retrieval_pooling: The same for the representation that neighbors are looked for with. None: as ``pooling``.
        max_length: The longest input in tokens, special tokens included. None: as many as the encoder has positions.
        long_documents: What is read of texts longer than that: ``"first"``, ``"head_tail"``, ``"average"``,
            ``"whole"``, ``"passages"`` or ``"late"``, as ``DocumentEncoder`` has them.
        passage_length: The longest passage in tokens, special tokens included. None: ``max_length``,
            and 256 with ``"late"``.
        decouple: Whether neighbors are looked for with a representation of their own, ``r = MLP(h)``. False: with h.
        retrieval_dimension: The number of dimensions of r. None: the encoder's.
        truncate_dim: How many leading dimensions of h neighbors are looked for with, where the encoder was trained for
            it (Matryoshka); not with ``decouple``. None: all.
        normalize: Whether retrieval embeddings are scaled to norm 1. False is the paper's choice.
        classifier_dropout: Dropout before the classification head. None: as the encoder's own classes have it.
        classifier_activation: None: the classification head is one linear layer. A name that transformers has for an
            activation: a dense layer and this activation come before it. ``"tanh"`` is the stock head of RoBERTa.
        k: The number of neighbors to look for. 64 is the paper's choice.
        knn_temperature: T of equation 2. The paper's 10 suits no other scale of embeddings than its own: calibrate.
        knn_weight: Lambda of equation 3, the share of the neighbors in the mixture.
        knn_calibration: How ``k``, ``knn_temperature`` and ``knn_weight`` were chosen, or None if they were not.

    Raises:
        StrictDataclassError: When it is made, loaded or changed, if a value is of the wrong type or out of its range, a
            name is misspelled, or the labels are not numbered from 0.
    """

    model_type = "knn_classifier"
    keys_to_ignore_at_inference = ["retrieval_embeddings"]  # the Trainer would gather them in each evaluation
    sub_configs_defaults = {"encoder_config": SubConfigSpec(config_class=AutoConfig, model_type="bert")}

    encoder_config: dict | PreTrainedConfig | None = None
    pooling: str = "cls"
    retrieval_pooling: str | None = None
    max_length: int | None = _count()
    long_documents: str = _field("first", f"one of {LONG_DOCUMENTS}", LONG_DOCUMENTS.__contains__)
    passage_length: int | None = _count()
    decouple: bool = True
    retrieval_dimension: int | None = _count()
    truncate_dim: int | None = _count()
    normalize: bool = False
    classifier_dropout: int | float | None = _share()
    classifier_activation: str | None = None
    initializer_range: float = 0.02
    k: int = _count(64)
    knn_temperature: int | float = _field(
        10.0, "a number above 0", lambda value: 0 < value < math.inf, ": calibrate() chooses one"
    )
    knn_weight: int | float = _share(0.5)
    knn_calibration: dict | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        """Refuse a name that is nearly one of those above: its value would be ignored, and a default taken."""
        for name in kwargs:
            near = difflib.get_close_matches(name, KNNClassifierConfig.__annotations__, n=1, cutoff=0.85)
            if near:
                raise ValueError(f"KNNClassifierConfig has no {name!r}. Did you mean {near[0]!r}?")
        super().__post_init__(**kwargs)

    def to_dict(self) -> dict[str, Any]:
        """What is saved: not the pipeline of the repository that it came from, whose code is not saved with it."""
        return {name: value for name, value in super().to_dict().items() if name != "custom_pipelines"}

    def validate_labels(self) -> None:
        """Refuse labels that are not numbered from 0. Called by ``strict``."""
        if sorted(self.id2label) != list(range(len(self.id2label))):
            raise ValueError(f"id2label must have the numbers from 0 to {len(self.id2label) - 1}, got {self.id2label}.")

    def validate_truncate_dim(self) -> None:
        """Refuse to cut r, which is as long as ``retrieval_dimension`` says, or more than there is. As above."""
        if self.truncate_dim is not None and self.decouple:
            raise ValueError(f"truncate_dim={self.truncate_dim} does not go with decouple=True, of its own size.")
        if self.truncate_dim is not None and self.truncate_dim > self.hidden_size:
            raise ValueError(f"truncate_dim={self.truncate_dim} is more than the {self.hidden_size} dimensions of h.")

    def get_text_config(self, *args, **kwargs) -> PreTrainedConfig:
        """The encoder's configuration, of which libraries ask for the size and the vocabulary."""
        return self.encoder_config.get_text_config(*args, **kwargs)

    @property
    def hidden_size(self) -> int:
        """The number of dimensions of h."""
        return self.get_text_config().hidden_size

    @property
    def label_names(self) -> list[str]:
        """The names of the labels in the order of their numbers; none without a classification head."""
        return [self.id2label[i] for i in range(self.num_labels)]

    @property
    def retrieval_size(self) -> int:
        """The number of dimensions of a retrieval embedding."""
        size = (self.retrieval_dimension or self.hidden_size) if self.decouple else self.hidden_size
        return min(size, self.truncate_dim or size)


KNNClassifierConfig.register_for_auto_class()
