"""Document embeddings and classification of long documents in the Hugging Face ecosystem.

Importing it makes ``KNNClassifier`` and ``pipeline("docsplit-knn")`` known to transformers. All else is imported when
it is first used.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
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
    "DocSplitClassifier": "classifier.estimator",
    "DocumentEncoder": "encoding.document_encoder",
    "EndpointClassifier": "encoding.backends.endpoint_classifier",
    "EndpointEncoder": "encoding.backends.endpoint_encoder",
    "ExportedClassifier": "classifier.exported_classifier",
    "FailedFile": "reading.files.failures",
    "FileOptions": "reading.files.options",
    "FileText": "reading.files.places",
    "KNNClassifier": "encoding.portable.modeling_knn_classifier",
    "KNNClassifierConfig": "encoding.portable.configuration_knn_classifier",
    "KNNClassifierPipeline": "classifier.pipeline",
    "KNNClassifierTrainer": "finetuning.knn_classifier_trainer",
    "KNNClassifierTrainingArguments": "finetuning.arguments",
    "KNNDatastore": "classifier.knn_datastore",
    "RejectionLimits": "fitting.rejection",
    "UnreadableFile": "reading.files.failures",
    "default_checkpoint": "encoding.checkpoints.checkpoint",
    "evaluate_pipeline": "metrics.pipeline_evaluation",
    "finish_save": "storage.atomic_replacement",
    "group_versions": "reading.versions",
    "load_documents": "reading.load_documents",
    "load_example_texts": "reading.example_texts",
    "load_files": "reading.files.load_files",
    "load_labeled_examples": "reading.labeled_examples",
    "load_package_documentation": "reading.package_documentation",
    "load_system": "evaluation.systems",
    "metric_path": "metrics.registry",
    "read_file": "reading.files.reader",
    "read_files": "reading.files.reader",
    "segment_documents": "reading.segmentation.segment_documents",
}

# To import finish_save works, as in earlier versions.
__all__ = [name for name in _MODULE_OF_NAME if name != "finish_save"]

_RENAMED = {"Classifier": "ExportedClassifier"}
_REMOVED = {"connect_datastore": "write KNNDatastore.from_pretrained(folder, memory_map=True)"}

if TYPE_CHECKING:  # as themselves: what type checkers take for exported
    from .classifier.estimator import DocSplitClassifier as DocSplitClassifier
    from .classifier.exported_classifier import ExportedClassifier as ExportedClassifier
    from .classifier.knn_datastore import KNNDatastore as KNNDatastore
    from .classifier.pipeline import KNNClassifierPipeline as KNNClassifierPipeline
    from .encoding.backends.endpoint_classifier import EndpointClassifier as EndpointClassifier
    from .encoding.backends.endpoint_encoder import EndpointEncoder as EndpointEncoder
    from .encoding.checkpoints.checkpoint import default_checkpoint as default_checkpoint
    from .encoding.document_encoder import DocumentEncoder as DocumentEncoder
    from .encoding.portable.configuration_knn_classifier import KNNClassifierConfig as KNNClassifierConfig
    from .encoding.portable.modeling_knn_classifier import KNNClassifier as KNNClassifier
    from .evaluation.systems import load_system as load_system
    from .finetuning.arguments import KNNClassifierTrainingArguments as KNNClassifierTrainingArguments
    from .finetuning.knn_classifier_trainer import KNNClassifierTrainer as KNNClassifierTrainer
    from .finetuning.labeled_collator import DataCollatorForLabeledExamples as DataCollatorForLabeledExamples
    from .fitting.audit.report import Audit as Audit
    from .fitting.rejection import RejectionLimits as RejectionLimits
    from .metrics.pipeline_evaluation import evaluate_pipeline as evaluate_pipeline
    from .metrics.registry import metric_path as metric_path
    from .pretraining.arguments import ContrastiveTrainingArguments as ContrastiveTrainingArguments
    from .pretraining.collator import DataCollatorForDocSplit as DataCollatorForDocSplit
    from .pretraining.contrastive_trainer import ContrastiveTrainer as ContrastiveTrainer
    from .pretraining.model import AutoModelForDocSplit as AutoModelForDocSplit
    from .reading.example_texts import load_example_texts as load_example_texts
    from .reading.files.failures import FailedFile as FailedFile
    from .reading.files.failures import UnreadableFile as UnreadableFile
    from .reading.files.load_files import load_files as load_files
    from .reading.files.options import FileOptions as FileOptions
    from .reading.files.places import FileText as FileText
    from .reading.files.reader import read_file as read_file
    from .reading.files.reader import read_files as read_files
    from .reading.labeled_examples import load_labeled_examples as load_labeled_examples
    from .reading.load_documents import load_documents as load_documents
    from .reading.package_documentation import load_package_documentation as load_package_documentation
    from .reading.segmentation.segment_documents import segment_documents as segment_documents
    from .reading.versions import group_versions as group_versions
    from .storage.atomic_replacement import finish_save as finish_save


def __getattr__(name: str) -> Any:
    if name in _REMOVED:
        raise ImportError(f"docsplit_hf has no {name} any more: {_REMOVED[name]}.")
    if name in _RENAMED:
        warnings.warn(f"docsplit_hf.{name} is now named {_RENAMED[name]}.", FutureWarning, stacklevel=2)
        return getattr(sys.modules[__name__], _RENAMED[name])
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULE_OF_NAME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# The command ``docsplit`` registers before what needs it: its help, and an exported classifier, must not wait for that.
# ``python -m`` runs the command, or a process that reads files.
# Without transformers, exported classifiers and the rooms reading/, arrays/, storage/ and fitting/ can be used.
_name = Path(sys.argv[0]).name if sys.argv else ""
_runs_module = _name == "-m" and any(word.startswith(__name__) for word in sys.orig_argv)
_is_command = _runs_module or _name in ("docsplit", "docsplit.exe")
if not _is_command and importlib.util.find_spec("transformers") is not None:
    importlib.import_module(".registration", __name__).register()
