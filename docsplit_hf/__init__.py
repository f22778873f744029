"""Document embeddings and classification of long documents in the Hugging Face ecosystem.

Importing it makes ``KNNClassifier`` and ``pipeline("docsplit-knn")`` known to transformers. All else is imported when
it is first used.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_MODULE_OF_NAME = {
    "Audit": "fitting.audit.report",
    "AutoModelForDocSplit": "pretraining.model",
    "ContrastiveTrainer": "pretraining.contrastive_trainer",
    "ContrastiveTrainingArguments": "pretraining.arguments",
    "DataCollatorForDocSplit": "pretraining.collator",
    "DataCollatorForLabeledExamples": "finetuning.labeled_collator",
    "DocSplitClassifier": "classification.estimator",
    "DocSplitProjection": "pretraining.docsplit_projection",
    "DocumentEncoder": "encoders.document_encoder",
    "EndpointClassifier": "encoders.backends.endpoint",
    "EndpointEncoder": "encoders.backends.endpoint",
    "FailedFile": "text.files.failures",
    "FileOptions": "text.files.options",
    "FileText": "text.files.places",
    "KNNClassifier": "encoders.portable.modeling_knn_classifier",
    "KNNClassifierConfig": "encoders.portable.configuration_knn_classifier",
    "KNNClassifierPipeline": "classification.pipeline",
    "KNNClassifierTrainer": "finetuning.knn_classifier_trainer",
    "KNNClassifierTrainingArguments": "finetuning.arguments",
    "KNNDatastore": "datastore.knn_datastore",
    "MTEBEncoder": "evaluation.mteb_encoder",
    "connect_datastore": "datastore.milvus.connect",
    "default_checkpoint": "encoders.checkpoints.checkpoint",
    "evaluate_pipeline": "metrics.pipeline_evaluation",
    "finish_save": "storage.atomic_replacement",
    "group_versions": "text.versions",
    "load_documents": "text.load_documents",
    "load_example_texts": "text.example_texts",
    "load_files": "text.files.load_files",
    "load_labeled_examples": "text.labeled_examples",
    "load_package_documentation": "text.package_documentation",
    "load_system": "evaluation.systems",
    "metric_path": "metrics.registry",
    "read_file": "text.files.reader",
    "read_files": "text.files.reader",
    "segment_documents": "text.segmentation.segment_documents",
}

__all__ = [*_MODULE_OF_NAME]

if TYPE_CHECKING:  # as themselves: what type checkers take for exported
    from .classification.estimator import DocSplitClassifier as DocSplitClassifier
    from .classification.pipeline import KNNClassifierPipeline as KNNClassifierPipeline
    from .datastore.knn_datastore import KNNDatastore as KNNDatastore
    from .datastore.milvus.connect import connect_datastore as connect_datastore
    from .encoders.backends.endpoint import EndpointClassifier as EndpointClassifier
    from .encoders.backends.endpoint import EndpointEncoder as EndpointEncoder
    from .encoders.checkpoints.checkpoint import default_checkpoint as default_checkpoint
    from .encoders.document_encoder import DocumentEncoder as DocumentEncoder
    from .encoders.portable.configuration_knn_classifier import KNNClassifierConfig as KNNClassifierConfig
    from .encoders.portable.modeling_knn_classifier import KNNClassifier as KNNClassifier
    from .evaluation.mteb_encoder import MTEBEncoder as MTEBEncoder
    from .evaluation.systems import load_system as load_system
    from .finetuning.arguments import KNNClassifierTrainingArguments as KNNClassifierTrainingArguments
    from .finetuning.knn_classifier_trainer import KNNClassifierTrainer as KNNClassifierTrainer
    from .finetuning.labeled_collator import DataCollatorForLabeledExamples as DataCollatorForLabeledExamples
    from .fitting.audit.report import Audit as Audit
    from .metrics.pipeline_evaluation import evaluate_pipeline as evaluate_pipeline
    from .metrics.registry import metric_path as metric_path
    from .pretraining.arguments import ContrastiveTrainingArguments as ContrastiveTrainingArguments
    from .pretraining.collator import DataCollatorForDocSplit as DataCollatorForDocSplit
    from .pretraining.contrastive_trainer import ContrastiveTrainer as ContrastiveTrainer
    from .pretraining.docsplit_projection import DocSplitProjection as DocSplitProjection
    from .pretraining.model import AutoModelForDocSplit as AutoModelForDocSplit
    from .storage.atomic_replacement import finish_save as finish_save
    from .text.example_texts import load_example_texts as load_example_texts
    from .text.files.failures import FailedFile as FailedFile
    from .text.files.load_files import load_files as load_files
    from .text.files.options import FileOptions as FileOptions
    from .text.files.places import FileText as FileText
    from .text.files.reader import read_file as read_file
    from .text.files.reader import read_files as read_files
    from .text.labeled_examples import load_labeled_examples as load_labeled_examples
    from .text.load_documents import load_documents as load_documents
    from .text.package_documentation import load_package_documentation as load_package_documentation
    from .text.segmentation.segment_documents import segment_documents as segment_documents
    from .text.versions import group_versions as group_versions


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULE_OF_NAME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# The command ``docsplit`` registers when it runs a script: its help, and what it needs, must not wait for that. Without
# transformers the rooms arrays/, storage/ and fitting/ can be used.
_name = Path(sys.argv[0]).name if sys.argv else ""
_asks_for_help = _name == "-m" and sys.argv[-1] in ("-h", "--help")
_has_transformers = importlib.util.find_spec("transformers") is not None
if _name not in ("docsplit", "docsplit.exe") and not _asks_for_help and _has_transformers:
    importlib.import_module(".registration", __name__).register()
