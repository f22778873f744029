"""Embeddings of a frozen encoder: each text is embedded once for all systems and draws."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest import mock

import numpy as np
from transformers import Pipeline, pipeline

import docsplit_hf  # noqa: F401  registers "docsplit-knn"
from benchmarks.quality.few_labels.protocol import FewLabels, Text
from docsplit_hf.arrays.passages import Predictions
from docsplit_hf.encoding.classifier_embedder import ClassifierEmbedder
from docsplit_hf.encoding.text_embedder import TextEmbedder
from docsplit_hf.reading.inputs import texts_and_pairs
from experiments.evaluation.systems import cached_embeddings

SAMPLE = 64  # texts for measuring speed
CALIBRATED = ("k", "knn_temperature", "knn_weight", "knn_calibration")  # settings that change with the examples


class Embedder:
    """Embeddings of a task's texts, made as by pipeline("docsplit-knn") and kept in memory."""

    def __init__(self, encoder: str, task: FewLabels, folder: str | Path, **options: Any) -> None:
        self.name = encoder
        self.options = options
        self._pipe = self.pipeline()
        config = self._pipe.model.config
        self._calibration = {name: getattr(config, name) for name in CALIBRATED}
        texts = task.pool + task.test
        embeddings = cached_embeddings(self, [json.dumps(text) for text in texts], folder)
        self._known = dict(zip(_keys_of(texts), embeddings, strict=True))
        start = perf_counter()
        self.embed_anew(task.pool[:SAMPLE])
        self.seconds_per_text = (perf_counter() - start) / SAMPLE

    @property
    def fingerprint(self) -> str:
        """The identity of the embeddings: how long texts are read, and the embedding of a probe."""
        reading = (self._pipe.embedder.max_length, self._pipe.model.config.long_documents)
        return f"{reading} {self._pipe.embedder.probe().tobytes().hex()}"

    def encode(self, texts: Sequence[str], show_progress: bool = False) -> np.ndarray:
        """Embed texts or pairs given as JSON, since the cache on disk has strings as keys."""
        return self.embed_anew([json.loads(text) for text in texts])

    def pipeline(self) -> Pipeline:
        """A pipeline without examples."""
        return pipeline("docsplit-knn", model=self.name, **self.options)

    def emptied_pipeline(self) -> Pipeline:
        """The pipeline that embeds, without examples: to open another one takes a second or more."""
        self._pipe.datastore = None
        for name, value in self._calibration.items():
            setattr(self._pipe.model.config, name, value)
        return self._pipe

    def embed_anew(self, texts: Sequence[Text]) -> np.ndarray:
        """Normalized embeddings, float32 (N, H), computed by the encoder."""
        single_texts, pairs = texts_and_pairs(texts)
        return self._pipe.embedder.embed(single_texts, pairs).retrieval_embeddings

    def embed(self, texts: Sequence[Text]) -> np.ndarray:
        """Embeddings from memory."""
        return np.array([self._known[key] for key in _keys_of(texts)])

    @contextmanager
    def remembered(self) -> Iterator[None]:
        """Give pipelines the embeddings of known texts from memory, which saves minutes of each draw."""
        embed = ClassifierEmbedder.embed

        def recall(embedder: TextEmbedder, texts: Any, text_pairs: Any = None) -> Predictions:
            keys = _keys(texts, text_pairs)
            if not all(key in self._known for key in keys):
                return embed(embedder, texts, text_pairs)
            return Predictions(
                logits=np.empty((len(keys), 0), np.float32),
                retrieval_embeddings=np.array([self._known[key] for key in keys]),
            )

        with mock.patch.object(ClassifierEmbedder, "embed", recall):
            yield


def _keys_of(texts: Sequence[Text]) -> list[tuple[str, str | None]]:
    single_texts, pairs = texts_and_pairs(texts)
    return _keys(single_texts, pairs)


def _keys(texts: Sequence[str], pairs: Sequence[str | None] | None) -> list[tuple[str, str | None]]:
    if pairs is None:
        pairs = [None] * len(texts)
    return list(zip(texts, pairs, strict=True))
