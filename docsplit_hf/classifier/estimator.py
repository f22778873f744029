"""DocSplitClassifier: the fitted ``pipeline("docsplit-knn")`` as a scikit-learn estimator."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d
from transformers import pipeline

from ..content_hash import short_digest
from ..encoding.checkpoints.checkpoint import find_checkpoint
from ..encoding.checkpoints.fingerprint import encoder_fingerprint
from ..encoding.chunking import SINGLE_VECTOR, check_strategy
from ..fitting.ensemble.scoring import prepare_experts, score_texts
from ..fitting.experts.registry import EXPERTS
from ..reading.inputs import joined_texts, texts_and_pairs
from ..reading.labels import label_name
from .editing import new_datastore
from .fit_datastore import fit_datastore

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from ..encoding.text_embedder import TextEmbedder
    from .pipeline import KNNClassifierPipeline

# All but "label_names": labels may be numbers, which have no meaning as words.
DEFAULT_EXPERTS = tuple(
    name for name, expert in EXPERTS.items() if not (expert.needs_label_names or expert.needs_teacher)
)
MAX_CACHED_TEXTS = 100_000  # in the cache of embeddings: 150 MB with 384 dimensions

_cached_embeddings: dict[bytes, np.ndarray] = {}  # by a hash of encoder, settings and text; oldest first


class DocSplitClassifier(ClassifierMixin, BaseEstimator):
    """Classify texts from a few labeled texts and many unlabeled ones, as a scikit-learn estimator.

    It uses ``pipeline("docsplit-knn")`` with ``add_documents``, ``add_examples`` and ``fit``. The encoder is not
    trained. A process loads it once, and embeds each text once for all folds and candidates of a cross-validation.

    Args:
        encoder: The name or folder of an encoder. None: the one that ships with docsplit_hf.
        unlabeled: Texts without labels, in any form that ``fit`` takes, for the experts to learn from.
        experts: The names of the experts to use, as for ``KNNClassifierPipeline.fit``. None: all but ``label_names``,
            as labels may be numbers, whose names carry no meaning.
        max_length: The longest input in tokens. None: as many as the encoder reads.
        long_documents: The strategy for longer texts, one with a single vector per text, as for
            ``DocumentEncoder.encode``.

    Attributes:
        classes_: The labels, sorted, ``(C,)``; with several labels per text the numbers of the columns of ``y``.
        pipeline_: The fitted ``KNNClassifierPipeline``, for explanations, neighbors and saving
            (``pipeline_.save_pretrained``). The names of its labels are the classes as text: 1, 1.0 and True become
            ``"1"``, ``"1"`` and ``"true"``.
        report_: The ``FitReport``, with the weights of the experts and their metrics on folds of the examples.

    To keep versions of one text in one fold of a cross-validation, pass their groups to scikit-learn:
    ``cross_val_score(model, texts, labels, groups=group_versions(texts), cv=GroupKFold(5))``.

    Example:

        >>> texts = ["apples and pears", "ripe apples", "iron and stone", "red iron"]
        >>> model = DocSplitClassifier().fit(texts, ["fruit", "fruit", "mineral", "mineral"])
        >>> model.predict(["pears and apples"]).tolist()
        ['fruit']
    """

    def __init__(
        self,
        encoder: str | Path | None = None,
        unlabeled: Any = None,
        experts: Sequence[str] | None = None,
        max_length: int | None = None,
        long_documents: str = "whole",
    ) -> None:
        self.encoder = encoder
        self.unlabeled = unlabeled
        self.experts = experts
        self.max_length = max_length
        self.long_documents = long_documents

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Fit the classifier.

        Args:
            X: Texts, or pairs of texts: a list, an array (also of shape ``(n, 1)``, or ``(n, 2)`` for pairs), a Series,
                or a DataFrame with the column ``text`` and optionally ``text_pair``.
            y: The labels, ``(n,)``, of any type that scikit-learn takes; or, if a text may have several, a matrix of 0
                and 1, ``(n, C)``, dense or sparse.

        Returns:
            The estimator.

        Raises:
            TypeError: If a text is not a string.
            ValueError: If a text is empty, a label is missing, there is only one class, the numbers of texts and labels
                differ, or a parameter is out of its range.
        """
        texts, pairs = _texts_of(X)
        targets = _targets_of(y)
        check_consistent_length(texts, targets.labels)
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(f"max_length must be at least 1, got {self.max_length}.")
        check_strategy(self.long_documents, SINGLE_VECTOR)
        pipe, fingerprint = encoder_pipeline(self.encoder)
        pipe.model.config.long_documents = self.long_documents
        pipe.model.config.max_length = self.max_length or pipe.model.config.max_length
        pipe.datastore = new_datastore(pipe.embedder, targets.names, targets.multi_label)
        has_unlabeled = self.unlabeled is not None and len(self.unlabeled)
        unlabeled, unlabeled_pairs = _texts_of(self.unlabeled) if has_unlabeled else ([], [])
        # All texts are documents first, embedded together; add_examples turns the labeled ones into examples.
        given = zip([*unlabeled, *texts], [*unlabeled_pairs, *pairs], strict=True)
        documents = list(dict.fromkeys((text, pair) for text, pair in given if text.strip()))
        if documents:
            all_texts, all_pairs = map(list, zip(*documents, strict=True))
            embeddings = embed_once(pipe.embedder, fingerprint, all_texts, all_pairs)
            pipe.datastore.add_documents(embeddings, all_texts, all_pairs)
        examples = [{"text": text, "text_pair": pair} for text, pair in zip(texts, pairs, strict=True)]
        pipe.add_examples(examples, targets.labels)
        experts = DEFAULT_EXPERTS if self.experts is None else self.experts
        self.report_ = fit_datastore(pipe.embedder, pipe.datastore, experts=experts)
        self.classes_ = targets.classes
        self.pipeline_ = pipe
        self._fingerprint = fingerprint
        return self

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Predict the probability of each class, or of each label.

        Args:
            X: Texts, as for ``fit``.

        Returns:
            Probabilities, float64 ``(n, C)``, in the order of ``classes_``. Rows sum to 1, unless a text may have
            several labels.

        Raises:
            NotFittedError: If ``fit`` was not called.
            TypeError: If a text is not a string.
        """
        check_is_fitted(self)
        texts, pairs = _texts_of(X)
        pipe = self.pipeline_
        embeddings = embed_once(pipe.embedder, self._fingerprint, texts, pairs)
        experts = prepare_experts(pipe.datastore.snapshot)
        return score_texts(experts, embeddings, joined_texts(texts, pairs), None).probabilities

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Predict the most probable class; or, with several labels per text, those above their thresholds.

        Args:
            X: Texts, as for ``fit``.

        Returns:
            Classes, ``(n,)``; or int ``(n, C)`` of 0 and 1.

        Raises:
            NotFittedError: If ``fit`` was not called.
            TypeError: If a text is not a string.
        """
        probabilities = self.predict_proba(X)
        datastore = self.pipeline_.datastore
        thresholds = prepare_experts(datastore.snapshot).fitted.label_thresholds(datastore.label_names)
        return (
            self.classes_[probabilities.argmax(1)] if thresholds is None else (probabilities >= thresholds).astype(int)
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        tags.classifier_tags.multi_label = True
        return tags


class _Targets(NamedTuple):
    """Classes, and the labels of texts."""

    classes: np.ndarray  # (C,)
    names: list[str]  # names of the classes in the pipeline
    labels: list[str] | list[list[str]]  # names for each text
    multi_label: bool


def _targets_of(y: Any) -> _Targets:
    """Check labels, and convert them to names."""
    if y is None:
        raise ValueError("DocSplitClassifier requires y to be passed, but the target y is None.")
    y = y.toarray() if issparse(y) else y
    missing = np.argwhere(pd.isna(y))
    if len(missing):
        raise ValueError(f"Input y contains NaN: text {missing[0][0]} has no label: move it to unlabeled.")
    check_classification_targets(y)
    kind = type_of_target(y)
    if kind == "multilabel-indicator":
        classes = np.arange(np.shape(y)[1])
        labels = [[str(column) for column in np.flatnonzero(row)] for row in np.asarray(y) > 0]
        return _Targets(classes=classes, names=list(map(str, classes)), labels=labels, multi_label=True)
    if kind == "multiclass-multioutput":
        raise ValueError("y has several columns of classes: fit one classifier for each, or pass a matrix of 0 and 1.")
    classes, numbers = np.unique(column_or_1d(y, warn=True), return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y has only one class, {classes.tolist()}: there is nothing to tell apart. Add others.")
    names = [label_name(label) for label in classes]
    if None in names:
        blank = classes[names.index(None)]
        raise ValueError(f"y has the label {blank!r}, which is not a name: leave out its texts, or name it.")
    return _Targets(classes=classes, names=names, labels=[names[number] for number in numbers], multi_label=False)


def _texts_of(X: Any) -> tuple[list[str], list[str | None]]:  # noqa: N803
    """Convert to lists of texts and of second texts, or None."""
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] in (1, 2):
        X = pd.DataFrame(X, columns=["text", "text_pair"][: X.shape[1]])  # noqa: N806
    texts, pairs = texts_and_pairs(X)
    if not texts:
        raise ValueError("X has no texts: give one at least.")
    return texts, pairs


def encoder_pipeline(name: str | Path | None) -> tuple[KNNClassifierPipeline, str]:
    """Make a pipeline of an encoder, and its fingerprint; the last encoder is cached until its files change."""
    path = find_checkpoint(name)
    path = str(Path(path).resolve()) if Path(path).exists() else path
    states = ((str(file), file.stat()) for file in sorted(Path(path).rglob("*")))
    return copy.deepcopy(_load(path, tuple((file, state.st_size, state.st_mtime_ns) for file, state in states)))


@lru_cache(maxsize=1)
def _load(path: str, files: tuple[tuple[str, int, int], ...]) -> tuple[KNNClassifierPipeline, str]:
    """Load a pipeline and the fingerprint of its encoder; ``files`` is part of the cache key only."""
    pipe = pipeline("docsplit-knn", model=path)
    if pipe.model.config.num_labels or pipe.datastore is not None:
        raise ValueError(f"{path} is a classifier with its own labels: pass the encoder that it was made from.")
    return pipe, encoder_fingerprint(pipe.model.encoder, pipe.tokenizer, pooling=pipe.model.config.pooling)


def embed_once(
    embedder: TextEmbedder, fingerprint: str, texts: Sequence[str], pairs: Sequence[str | None]
) -> np.ndarray:
    """Embed N texts, float32 ``(N, R)``; embeddings are cached in memory, so an encoder reads each text once."""
    config = embedder.model.config
    setting = f"{fingerprint} {embedder.max_length} {(config.long_documents, config.passage_length)}"
    given = list(zip(texts, pairs, strict=True))
    cache_keys = [short_digest(json.dumps([setting, *pair]).encode(), size=16) for pair in given]
    found = {key: _cached_embeddings.get(key) for key in cache_keys}
    new = {key: pair for key, pair in zip(cache_keys, given, strict=True) if found[key] is None}
    if new:
        # Sorted, so that batches and rounding do not depend on the order of the texts.
        new = dict(sorted(new.items(), key=lambda item: (item[1][0], item[1][1] or "")))
        embeddings = embedder.embed(*map(list, zip(*new.values(), strict=True))).retrieval_embeddings
        # Copied: a view would keep the whole batch in memory.
        computed = {key: row.copy() for key, row in zip(new, embeddings, strict=True)}
        found |= computed
        _cached_embeddings.update(computed)
        for key in list(_cached_embeddings)[: max(len(_cached_embeddings) - MAX_CACHED_TEXTS, 0)]:
            _cached_embeddings.pop(key, None)  # another thread may be faster
    return np.array([found[key] for key in cache_keys], np.float32).reshape(len(texts), config.retrieval_size)
