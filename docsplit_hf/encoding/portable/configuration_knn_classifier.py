"""KNNClassifierConfig: configuration of an encoder, of the heads on it, and of the interpolation with neighbors.

This file is saved with the weights, so that the model also loads without docsplit_hf: it imports nothing from it. It
has no ``from __future__ import annotations``, which would turn types into strings that ``strict`` does not check.
"""

import difflib
import math
from collections.abc import Callable
from typing import Any

from huggingface_hub.dataclasses import strict, validated_field
from transformers import AutoConfig, PreTrainedConfig
from transformers.configuration_utils import SubConfigSpec

LARGEST_LAYER = 65_536  # dimensions of a dense layer's output
ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU")  # of dense layers, classes of torch.nn
LONG_DOCUMENTS = ("first", "head_tail", "whole", "average", "passages")


def _checked(default: Any, allowed: str, is_allowed: Callable[[Any], bool], advice: str = "") -> Any:
    """A field whose values must be None or pass ``is_allowed``; ``allowed`` describes them in the error."""

    def check(value: Any) -> None:
        if value is not None and not is_allowed(value):
            raise ValueError(f"must be {allowed}, got {value!r}{advice}.")

    return validated_field(check, default=default)


def _count(default: int | None = None) -> Any:
    """A field for a whole number from 1."""
    return _checked(default, "1 or above", lambda value: value >= 1)


def _fraction(default: float | None = None) -> Any:
    """A field for a number from 0 to 1."""
    return _checked(default, "from 0 to 1", lambda value: 0 <= value <= 1)


def _is_dense_layer(size: Any = None, bias: Any = None, activation: Any = None, **others: Any) -> bool:
    """Whether the settings are those of a dense layer."""
    is_size = isinstance(size, int) and not isinstance(size, bool) and 1 <= size <= LARGEST_LAYER
    return is_size and isinstance(bias, bool) and activation in ACTIVATIONS and not others


@strict
class KNNClassifierConfig(PreTrainedConfig):
    """Configuration of a ``KNNClassifier``; it contains the encoder's configuration.

    Args:
        encoder_config: The encoder's configuration.
        pooling: Pooling of the tokens' states to the representation h that is classified: ``"cls"`` (the paper's
            choice), ``"mean"``, ``"max"`` or ``"last"``.
        retrieval_pooling: Pooling for the neighbor search. None: as ``pooling``.
        max_length: Longest input in tokens, including special tokens. None: the number of positions of the encoder.
        long_documents: Strategy for longer texts: ``"first"``, ``"head_tail"``, ``"average"``, ``"whole"`` or
            ``"passages"``, as in ``DocumentEncoder``.
        passage_length: Longest passage in tokens, including special tokens. None: ``max_length``.
        prompt: The text that is put before each text, ``""`` for none.
        include_prompt: Whether the tokens of the prompt are pooled.
        decouple: Whether the neighbor search has a representation of its own, ``r = MLP(h)``. False: it uses h.
        retrieval_dimension: Number of dimensions of r. None: the encoder's.
        truncate_dim: Number of leading dimensions of h for the neighbor search, if the encoder was trained for it
            (Matryoshka); not with ``decouple``. None: all.
        projection: Dense layers after the pooling that the encoder comes with, for the neighbor search: whether their
            input is scaled to norm 1, ``normalize_first``, and for each of ``layers`` its ``size``, ``bias`` and
            ``activation``. Not with ``decouple``. None: there are none.
        normalize: Whether retrieval embeddings are scaled to norm 1. False is the paper's choice.
        classifier_dropout: Dropout before the classification head. None: as in the encoder's own classifiers.
        classifier_activation: None: the classification head is one linear layer. A name of an activation in
            transformers: a dense layer and this activation come before it. ``"tanh"`` is the stock head of RoBERTa.
        k: Number of neighbors. 64 is the paper's choice.
        knn_temperature: T of equation 2. The paper's 10 only fits the scale of its embeddings: calibrate.
        knn_weight: Lambda of equation 3, the weight of the neighbors in the interpolation, from 0 to 1.
        knn_calibration: Record of the calibration of ``k``, ``knn_temperature`` and ``knn_weight``; None without one.

    Raises:
        StrictDataclassError: When it is created, loaded or changed, if a value has the wrong type or is out of range, a
            name is misspelled, or the labels are not numbered from 0.
    """

    model_type = "knn_classifier"
    keys_to_ignore_at_inference = ["retrieval_embeddings"]  # otherwise the Trainer gathers them in each evaluation
    sub_configs_defaults = {"encoder_config": SubConfigSpec(config_class=AutoConfig, model_type="bert")}

    encoder_config: dict | PreTrainedConfig | None = None
    pooling: str = "cls"
    retrieval_pooling: str | None = None
    max_length: int | None = _count()
    long_documents: str = _checked("first", f"one of {LONG_DOCUMENTS}", LONG_DOCUMENTS.__contains__)
    passage_length: int | None = _count()
    prompt: str = ""
    include_prompt: bool = True
    decouple: bool = True
    retrieval_dimension: int | None = _count()
    truncate_dim: int | None = _count()
    projection: dict | None = None
    normalize: bool = False
    classifier_dropout: int | float | None = _fraction()
    classifier_activation: str | None = None
    initializer_range: float = 0.02
    k: int = _count(64)
    knn_temperature: int | float = _checked(
        10.0, "a number above 0", lambda value: 0 < value < math.inf, ": calibrate() chooses one"
    )
    knn_weight: int | float = _fraction(0.5)
    knn_calibration: dict | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        """Refuse a misspelled name; otherwise its value would be ignored and the default used."""
        for name in kwargs:
            near = difflib.get_close_matches(name, KNNClassifierConfig.__annotations__, n=1, cutoff=0.85)
            if near:
                raise ValueError(f"KNNClassifierConfig has no {name!r}. Did you mean {near[0]!r}?")
        super().__post_init__(**kwargs)

    def to_dict(self) -> dict[str, Any]:
        """The settings to save, without custom pipelines: their code is saved separately."""
        return {name: value for name, value in super().to_dict().items() if name != "custom_pipelines"}

    def validate_labels(self) -> None:
        """Refuse labels that are not numbered from 0. Called by ``strict``."""
        if sorted(self.id2label) != list(range(len(self.id2label))):
            raise ValueError(f"id2label must have the numbers from 0 to {len(self.id2label) - 1}, got {self.id2label}.")

    def validate_projection(self) -> None:
        """Refuse dense layers that cannot be built. Called by ``strict``."""
        if self.projection is None:
            return
        if self.decouple:
            raise ValueError("projection does not go with decouple=True, which learns layers of its own.")
        layers = self.projection.get("layers")
        is_known = isinstance(layers, list) and layers and isinstance(self.projection.get("normalize_first"), bool)
        if not is_known or not all(isinstance(layer, dict) and _is_dense_layer(**layer) for layer in layers):
            raise ValueError(
                "projection must have normalize_first, and layers, each with its size, bias and activation (one of "
                f"{', '.join(ACTIVATIONS)}), got {self.projection!r}."
            )

    def validate_truncate_dim(self) -> None:
        """Refuse to truncate r, or h to more dimensions than it has. Called by ``strict``."""
        if self.truncate_dim is not None and self.decouple:
            raise ValueError(
                f"truncate_dim={self.truncate_dim} does not go with decouple=True: set retrieval_dimension instead."
            )
        most = self.hidden_size if self.projection is None else self.projection["layers"][-1]["size"]
        if self.truncate_dim is not None and self.truncate_dim > most:
            of = "h" if self.projection is None else "an embedding"
            raise ValueError(f"truncate_dim={self.truncate_dim} is more than the {most} dimensions of {of}.")

    def get_text_config(self, *args, **kwargs) -> PreTrainedConfig:
        """The encoder's configuration, from which libraries read the hidden size and the vocabulary."""
        return self.encoder_config.get_text_config(*args, **kwargs)

    @property
    def hidden_size(self) -> int:
        """The number of dimensions of h."""
        return self.encoder_config.get_text_config().hidden_size

    @property
    def label_names(self) -> list[str]:
        """The names of the labels in the order of their numbers; empty without a classification head."""
        return [self.id2label[number] for number in range(self.num_labels)]

    @property
    def retrieval_size(self) -> int:
        """The number of dimensions of a retrieval embedding."""
        size = self.hidden_size if self.projection is None else self.projection["layers"][-1]["size"]
        if self.decouple and self.retrieval_dimension:
            size = self.retrieval_dimension
        return min(size, self.truncate_dim or size)


KNNClassifierConfig.register_for_auto_class()
