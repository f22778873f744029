"""Register KNNClassifier and ``pipeline("docsplit-knn")`` with transformers."""

from __future__ import annotations

import logging

from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification
from transformers.pipelines import PIPELINE_REGISTRY

from . import __version__
from .classifier.pipeline import KNNClassifierPipeline
from .encoding.backends.endpoint_classifier import EndpointClassifier, EndpointClassifierConfig
from .encoding.checkpoints.checkpoint import DEFAULT_CHECKPOINT, DEFAULT_FOLDER, AutoModelWithoutHead
from .encoding.portable.configuration_knn_classifier import KNNClassifierConfig
from .encoding.portable.modeling_knn_classifier import KNNClassifier

TASK = "docsplit-knn"


def register() -> None:
    """Register the model with the Auto classes, and the pipeline under the name ``TASK``.

    The pipeline loads a ``KNNClassifier`` as it is, and the encoder of any other checkpoint. Without a model it loads
    the checkpoint that ships, which is logged in place of transformers' warning about defaults.
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
    logging.getLogger("transformers.pipelines").addFilter(_replace_default_warning)


def _replace_default_warning(record: logging.LogRecord) -> bool:
    """Replace transformers' warning about a default model, if it is the one that ships, by an information."""
    # The warning is about defaults that may change on the Hub; this one is a part of the installed version.
    if str(record.msg).startswith(f"No model was supplied, defaulted to {DEFAULT_FOLDER} "):
        record.msg = (
            f"No model was given: {TASK} uses {DEFAULT_CHECKPOINT}, which ships with docsplit_hf {__version__}."
        )
        record.levelno = logging.INFO
        record.levelname = logging.getLevelName(logging.INFO)
    return True
