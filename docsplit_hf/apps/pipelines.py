"""Open pipelines where transformers is not imported before, as a small installation lacks it; and copy them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from ..extras import check_full_installation

if TYPE_CHECKING:
    from ..classifier.pipeline import KNNClassifierPipeline


def open_pipeline(folder: str | None, **options: Any) -> KNNClassifierPipeline:
    """Open a classifier, or an encoder, by ``pipeline("docsplit-knn")``; None: the checkpoint that ships."""
    check_full_installation(f"Opening {folder} without an exported model (docsplit export)")
    from transformers import pipeline

    from ..registration import TASK, register

    register()
    return pipeline(TASK, model=folder, **options)


def copied(pipe: KNNClassifierPipeline) -> KNNClassifierPipeline:
    """Copy a pipeline so that a change of the copy changes nothing else; weights and rows are shared."""
    other = copy.copy(pipe)
    other.model = copy.copy(pipe.model)
    other.model.config = copy.deepcopy(pipe.model.config)
    other.datastore = copy.copy(pipe.datastore)
    return other
