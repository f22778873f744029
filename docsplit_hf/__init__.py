"""Document embeddings and classification of long documents in the Hugging Face ecosystem.

The public names are imported when they are first used: importing docsplit_hf itself costs nothing.
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
    "DocumentEncoder": "models.encoder",
    "load_documents": "data.loading",
    "load_package_documentation": "data.package_documentation",
    "segment_documents": "data.documents",
}

__all__ = [
    "AutoModelForDocSplit",
    "ContrastiveTrainer",
    "ContrastiveTrainingArguments",
    "DataCollatorForDocSplit",
    "DocumentEncoder",
    "load_documents",
    "load_package_documentation",
    "segment_documents",
]

if TYPE_CHECKING:
    from .data.collator import DataCollatorForDocSplit
    from .data.documents import segment_documents
    from .data.loading import load_documents
    from .data.package_documentation import load_package_documentation
    from .models.encoder import DocumentEncoder
    from .models.pretraining import AutoModelForDocSplit
    from .training.contrastive_arguments import ContrastiveTrainingArguments
    from .training.contrastive_trainer import ContrastiveTrainer


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULE_OF_NAME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
