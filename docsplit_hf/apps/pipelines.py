"""Open pipelines where transformers is not imported before, as a small installation lacks it; and copy them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from ..extras import is_full_installation

if TYPE_CHECKING:
    from ..classifier.pipeline import KNNClassifierPipeline


def check_installation(what: str) -> None:
    """Register with transformers, or raise ``ModuleNotFoundError`` if it or torch is missing; ``what`` needs them."""
    if not is_full_installation():
        raise ModuleNotFoundError(f"{what} needs torch and transformers: pip install -e . in the clone of docsplit_hf.")
    from ..registration import register

    register()


def open_pipeline(folder: str, **options: Any) -> KNNClassifierPipeline:
    """Open a classifier by ``pipeline("docsplit-knn")``."""
    check_installation(f"Opening {folder} without an exported model (docsplit export)")
    from transformers import pipeline

    from ..registration import TASK

    return pipeline(TASK, model=folder, **options)


def copied(pipe: KNNClassifierPipeline) -> KNNClassifierPipeline:
    """Copy a pipeline so that a change of the copy changes nothing else; weights and rows are shared."""
    other = copy.copy(pipe)
    other.model = copy.copy(pipe.model)
    other.model.config = copy.deepcopy(pipe.model.config)
    other.datastore = copy.copy(pipe.datastore)
    return other
