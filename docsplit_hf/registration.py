"""Making KNNClassifier and its pipeline known to transformers."""

from __future__ import annotations

from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification
from transformers.pipelines import PIPELINE_REGISTRY

from . import __version__
from .checkpoints.default import DEFAULT_FOLDER
from .knn.pipeline import KNNClassifierPipeline
from .models.checkpoint_loading import AutoModelWithoutHead
from .models.configuration_knn_classifier import KNNClassifierConfig
from .models.modeling_knn_classifier import KNNClassifier

TASK = "docsplit-knn"


def register() -> None:
    """Register the model with the Auto classes, and ``pipeline("docsplit-knn")``.

    The pipeline loads a ``KNNClassifier`` as it is, and of any other checkpoint the encoder. Without a model it loads
    the checkpoint that ships; transformers logs its folder then, and the version of this package as its revision.

    Example:

        >>> register()
        >>> TASK in PIPELINE_REGISTRY.get_supported_tasks()
        True
    """
    AutoConfig.register(KNNClassifierConfig.model_type, KNNClassifierConfig, exist_ok=True)
    for auto_class in (AutoModel, AutoModelForSequenceClassification):
        auto_class.register(KNNClassifierConfig, KNNClassifier, exist_ok=True)
    if TASK not in PIPELINE_REGISTRY.supported_tasks:
        PIPELINE_REGISTRY.register_pipeline(
            TASK,
            KNNClassifierPipeline,
            pt_model=AutoModelWithoutHead,
            default={"model": (str(DEFAULT_FOLDER), __version__)},
            type="text",
        )
