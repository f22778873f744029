"""Embeddings of an encoder that nothing trains: each text is embedded once for all systems and draws."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest import mock

import numpy as np
from few_labels.protocol import FewLabels, Text
from transformers import Pipeline, pipeline

import docsplit_hf  # noqa: F401  makes "docsplit-knn" known
from docsplit_hf.evaluation.systems import cached_embeddings
from docsplit_hf.models.inference.reader import Predictions, Reader
from docsplit_hf.neighbors.texts_and_labels import texts_and_pairs

SAMPLE = 64  # texts on which speed is measured


class Embedder:
    """Embeds the texts of a task as pipeline("docsplit-knn") does, and remembers them."""

    def __init__(self, encoder: str, task: FewLabels, folder: str | Path, **options: Any) -> None:
        self.name, self.options = encoder, options
        self._pipe = self.pipeline()
        texts = task.pool + task.test
        embeddings = cached_embeddings(self, [json.dumps(text) for text in texts], folder)
        self._known = dict(zip(_keys(*texts_and_pairs(texts)), embeddings, strict=True))
        start = perf_counter()
        self.embed_anew(task.pool[:SAMPLE])
        self.seconds_per_text = (perf_counter() - start) / SAMPLE

    @property
    def fingerprint(self) -> str:
        """What changes whenever the embeddings would."""
        read = self._pipe.reader.length, self._pipe.model.config.long_documents
        return f"{read} {self._pipe.reader.probe().tobytes().hex()}"

    def encode(self, texts: Sequence[str], show_progress: bool = False) -> np.ndarray:
        """Of texts, or pairs, that are written as JSON, since what is kept on disk is known by a text."""
        return self.embed_anew([json.loads(text) for text in texts])

    def pipeline(self) -> Pipeline:
        """One without examples."""
        return pipeline("docsplit-knn", model=self.name, **self.options)

    def embed_anew(self, texts: Sequence[Text]) -> np.ndarray:
        """Normalized, float32 (N, H), by the encoder."""
        return self._pipe.reader.read(*texts_and_pairs(texts)).retrieval_embeddings

    def embed(self, texts: Sequence[Text]) -> np.ndarray:
        """From memory."""
        return np.array([self._known[key] for key in _keys(*texts_and_pairs(texts))])

    @contextmanager
    def remembered(self) -> Iterator[None]:
        """Pipelines get known texts from memory: else a draw takes minutes, nearly all of them for the same texts."""
        read = Reader.read

        def recall(reader: Reader, texts: Any, text_pairs: Any = None) -> Predictions:
            keys = _keys(texts, text_pairs)
            if not all(key in self._known for key in keys):
                return read(reader, texts, text_pairs)
            return Predictions(np.empty((len(keys), 0), np.float32), np.array([self._known[key] for key in keys]))

        with mock.patch.object(Reader, "read", recall):
            yield


def _keys(texts: Sequence[str], pairs: Sequence[str | None] | None) -> list[tuple[str, str | None]]:
    return list(zip(texts, [None] * len(texts) if pairs is None else pairs, strict=True))
