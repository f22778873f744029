"""Document embeddings and classification of long documents in the Hugging Face ecosystem.

Importing it makes ``KNNClassifier`` and ``pipeline("docsplit-knn")`` known to transformers. All else is imported when
it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_MODULE_OF_NAME = {
    "AutoModelForDocSplit": "models.pretraining",
    "ContrastiveTrainer": "training.contrastive_trainer",
    "ContrastiveTrainingArguments": "training.contrastive_arguments",
    "DataCollatorForDocSplit": "data.collator",
    "DataCollatorForLabelledExamples": "data.labelled_collator",
    "DocumentEncoder": "models.encoder",
    "EndpointEncoder": "experiments.endpoint",
    "KNNClassifier": "models.modeling_knn_classifier",
    "KNNClassifierConfig": "models.configuration_knn_classifier",
    "KNNClassifierPipeline": "knn.pipeline",
    "KNNClassifierTrainer": "training.knn_classifier_trainer",
    "KNNClassifierTrainingArguments": "training.knn_classifier_arguments",
    "KNNDatastore": "knn.datastore",
    "MTEBEncoder": "experiments.mteb_encoder",
    "default_checkpoint": "checkpoints.default",
    "load_documents": "data.loading",
    "load_labelled_examples": "data.labelled_examples",
    "load_package_documentation": "data.package_documentation",
    "load_system": "experiments.systems",
    "segment_documents": "data.documents",
}

__all__ = [
    "AutoModelForDocSplit",
    "ContrastiveTrainer",
    "ContrastiveTrainingArguments",
    "DataCollatorForDocSplit",
    "DataCollatorForLabelledExamples",
    "DocumentEncoder",
    "EndpointEncoder",
    "KNNClassifier",
    "KNNClassifierConfig",
    "KNNClassifierPipeline",
    "KNNClassifierTrainer",
    "KNNClassifierTrainingArguments",
    "KNNDatastore",
    "MTEBEncoder",
    "default_checkpoint",
    "load_documents",
    "load_labelled_examples",
    "load_package_documentation",
    "load_system",
    "segment_documents",
]

if TYPE_CHECKING:
    from .checkpoints.default import default_checkpoint
    from .data.collator import DataCollatorForDocSplit
    from .data.documents import segment_documents
    from .data.labelled_collator import DataCollatorForLabelledExamples
    from .data.labelled_examples import load_labelled_examples
    from .data.loading import load_documents
    from .data.package_documentation import load_package_documentation
    from .experiments.endpoint import EndpointEncoder
    from .experiments.mteb_encoder import MTEBEncoder
    from .experiments.systems import load_system
    from .knn.datastore import KNNDatastore
    from .knn.pipeline import KNNClassifierPipeline
    from .models.configuration_knn_classifier import KNNClassifierConfig
    from .models.encoder import DocumentEncoder
    from .models.modeling_knn_classifier import KNNClassifier
    from .models.pretraining import AutoModelForDocSplit
    from .training.contrastive_arguments import ContrastiveTrainingArguments
    from .training.contrastive_trainer import ContrastiveTrainer
    from .training.knn_classifier_arguments import KNNClassifierTrainingArguments
    from .training.knn_classifier_trainer import KNNClassifierTrainer


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULE_OF_NAME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


importlib.import_module(".registration", __name__).register()
