"""Open pipelines where transformers is not imported before: it takes seconds, and a small installation lacks it."""

from __future__ import annotations

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
