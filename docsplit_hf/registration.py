"""register: KNNClassifier and its pipeline become known to transformers."""

from __future__ import annotations

import logging

from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification
from transformers.pipelines import PIPELINE_REGISTRY

from . import __version__
from .classification.pipeline import KNNClassifierPipeline
from .encoders.backends.endpoint import EndpointClassifier, EndpointClassifierConfig
from .encoders.checkpoints.checkpoint import DEFAULT_CHECKPOINT, DEFAULT_FOLDER, AutoModelWithoutHead
from .encoders.portable.configuration_knn_classifier import KNNClassifierConfig
from .encoders.portable.modeling_knn_classifier import KNNClassifier

TASK = "docsplit-knn"


def register() -> None:
    """Register the model with the Auto classes, and ``pipeline("docsplit-knn")``.

    The pipeline loads a ``KNNClassifier`` as it is, and of any other checkpoint the encoder. Without a model it loads
    the checkpoint that ships, which one line says, in place of transformers' warning of defaults.
    """
    AutoConfig.register(KNNClassifierConfig.model_type, KNNClassifierConfig, exist_ok=True)
    for auto_class in (AutoModel, AutoModelForSequenceClassification):
        auto_class.register(KNNClassifierConfig, KNNClassifier, exist_ok=True)
    AutoConfig.register(EndpointClassifierConfig.model_type, EndpointClassifierConfig, exist_ok=True)
    AutoModel.register(EndpointClassifierConfig, EndpointClassifier, exist_ok=True)
    if TASK not in PIPELINE_REGISTRY.supported_tasks:
        PIPELINE_REGISTRY.register_pipeline(
            TASK,
            KNNClassifierPipeline,
            pt_model=AutoModelWithoutHead,
            default={"model": (str(DEFAULT_FOLDER), __version__)},
            type="text",
        )
    logging.getLogger("transformers.pipelines").addFilter(_say_what_is_used)


def _say_what_is_used(record: logging.LogRecord) -> bool:
    # A default of transformers may be another model tomorrow; this one is a part of the version that is installed.
    if str(record.msg).startswith(f"No model was supplied, defaulted to {DEFAULT_FOLDER} "):
        record.msg = (
            f"No model was given: {TASK} uses {DEFAULT_CHECKPOINT}, which ships with docsplit_hf {__version__}."
        )
        record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
    return True
