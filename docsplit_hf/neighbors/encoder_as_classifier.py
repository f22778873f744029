"""An encoder without a head as a classifier by neighbors alone."""

from __future__ import annotations

import logging

from transformers import PreTrainedModel

from ..models.checkpoints.sentence_transformers_files import checkpoint_settings
from ..models.portable.configuration_knn_classifier import KNNClassifierConfig
from ..models.portable.modeling_knn_classifier import KNNClassifier

logger = logging.getLogger(__name__)


def as_our_own(model: PreTrainedModel) -> None:
    """Take a classifier that was loaded by the copy of our code in a repository as one of ours: the code is the same.

    Packing is one module's business: what asks for it and what attends must be of the same copy.
    """
    if model.config.model_type == KNNClassifierConfig.model_type and not isinstance(model, KNNClassifier):
        model.__class__, model.config.__class__ = KNNClassifier, KNNClassifierConfig


def encoder_as_classifier(model: PreTrainedModel) -> KNNClassifier:
    """Without a head, and of unit norm: embeddings that no triplet loss trained are compared by cosine."""
    if getattr(model, "peft_config", None):
        raise ValueError(
            "The pipeline got an encoder with an adapter on it: give it "
            "KNNClassifier.from_encoder(adapter, 0, decouple=False, normalize=True, knn_weight=1.0), which merges them."
        )
    if model.base_model is not model:
        logger.warning("The head of %s is not used: neighbors alone will decide.", type(model).__name__)
    encoder = model.base_model
    name = encoder.config.name_or_path
    settings = checkpoint_settings(name, encoder.config, getattr(model, "loaded_revision", None)) if name else {}
    if "pooling" not in settings:
        logger.warning("%s does not say how it pools: taking the first token ('cls').", name or type(model).__name__)
    settings = {name: value for name, value in settings.items() if value is not None}
    return KNNClassifier.around(encoder, 0, decouple=False, normalize=True, knn_weight=1.0, **settings)
