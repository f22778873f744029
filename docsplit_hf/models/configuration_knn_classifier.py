"""KNNClassifierConfig: an encoder's configuration, what stands on it, and how neighbors are mixed in.

Pushed beside the weights, so that the model also loads where docsplit_hf is not installed: it imports nothing of ours.
"""

from __future__ import annotations

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig, PreTrainedConfig
from transformers.configuration_utils import SubConfigSpec


@strict
class KNNClassifierConfig(PreTrainedConfig):
    """The configuration of a ``KNNClassifier``; it holds the encoder's own.

    Args:
        encoder_config: The encoder's configuration.
        pooling: From the tokens' states to the representation h that is classified: ``"cls"`` (the paper's choice),
            ``"mean"``, ``"max"`` or ``"last"``.
        retrieval_pooling: The same for the representation that neighbors are looked for with. None: as ``pooling``.
        max_length: The longest input in tokens, special tokens included. None: as many as the encoder has positions.
        decouple: Whether neighbors are looked for with a representation of their own, ``r = MLP(h)``. False: with h.
        retrieval_dimension: The number of dimensions of r. None: the encoder's.
        normalize: Whether retrieval embeddings are scaled to norm 1. False is the paper's choice.
        classifier_dropout: Dropout before the classification head in training. None: as the encoder's own classes have
            it.
        k: The number of neighbors to look for. 64 is the paper's choice.
        knn_temperature: T of equation 2. The paper's 10 suits no other scale of embeddings than its own: calibrate.
        knn_weight: Lambda of equation 3, the share of the neighbors in the mixture.
        knn_calibration: How ``k``, ``knn_temperature`` and ``knn_weight`` were chosen, or None if they were not.

    Example:

        >>> from transformers import BertConfig
        >>> config = KNNClassifierConfig(encoder_config=BertConfig(hidden_size=48), num_labels=3)
        >>> config.k, config.hidden_size, config.encoder_config.model_type
        (64, 48, 'bert')
    """

    model_type = "knn_classifier"
    keys_to_ignore_at_inference = ["retrieval_embeddings"]  # the Trainer would gather them in each evaluation
    sub_configs_defaults = {"encoder_config": SubConfigSpec(config_class=AutoConfig, model_type="bert")}

    encoder_config: dict | PreTrainedConfig | None = None
    pooling: str = "cls"
    retrieval_pooling: str | None = None
    max_length: int | None = None
    decouple: bool = True
    retrieval_dimension: int | None = None
    normalize: bool = False
    classifier_dropout: float | None = None
    initializer_range: float = 0.02
    k: int = 64
    knn_temperature: float = 10.0
    knn_weight: float = 0.5
    knn_calibration: dict | None = None

    def get_text_config(self, *args, **kwargs) -> PreTrainedConfig:
        """The encoder's configuration, of which libraries ask for the size and the vocabulary.

        Args:
            *args: As ``PreTrainedConfig.get_text_config``.
            **kwargs: As ``PreTrainedConfig.get_text_config``.

        Returns:
            The configuration.
        """
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
        return (self.retrieval_dimension or self.hidden_size) if self.decouple else self.hidden_size


KNNClassifierConfig.register_for_auto_class()
