"""The encoder, which is loaded once and shared, and a pipeline of its own for each visitor."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..neighbors.pipeline import KNNClassifierPipeline
    from ..neighbors.store.datastore import KNNDatastore

PASSAGE_LENGTH = 128  # tokens: short enough that a passage says where to look


class SharedModel:
    """An encoder, or a saved classifier, by its name; None is the encoder that ships."""

    def __init__(self, name: str | None = None) -> None:
        from transformers import pipeline

        import docsplit_hf  # noqa: F401  which registers the pipeline

        self.name = name
        self._first: KNNClassifierPipeline = pipeline("docsplit-knn", **({} if name is None else {"model": name}))

    def new_pipeline(
        self,
        datastore: KNNDatastore | str | None = None,
        long_documents: str | None = None,
        passage_length: int | None = None,
    ) -> KNNClassifierPipeline:
        """A pipeline with the shared weights, and a configuration, a tokenizer and a datastore of its own."""
        from ..neighbors.pipeline import KNNClassifierPipeline

        first = self._first
        model = copy.copy(first.model)  # the weights are the same tensors
        model.config = copy.deepcopy(first.model.config)
        if datastore is None and first.datastore is not None:
            datastore = copy.deepcopy(first.datastore)
        if datastore is None:
            reading = {"long_documents": "passages", "passage_length": _passage_length(first)}
        else:
            reading = {}
            if long_documents is not None:
                model.config.long_documents, model.config.passage_length = long_documents, passage_length
        pipe = KNNClassifierPipeline(
            model=model, tokenizer=copy.deepcopy(first.tokenizer), datastore=datastore, device=first.device, **reading
        )
        if pipe.datastore is not None and pipe.datastore.multi_label:
            raise ValueError("Its texts may have several labels each, and this page gives one: use docsplit_hf itself.")
        return pipe


def _passage_length(pipe: KNNClassifierPipeline) -> int:
    from ..models.inference.batched_inference import input_length

    return min(PASSAGE_LENGTH, input_length(pipe.model, pipe.tokenizer))
