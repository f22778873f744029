"""Fit of the experts of a datastore, with weights chosen by folds of the examples or on held-out texts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..datastore.duplicates import rows_of_texts
from ..datastore.row_table import encode_known_labels
from ..encoders.checkpoints.checkpoint import DEFAULT_CHECKPOINT
from .active_learning import FITTED_STATE_LOCK, suggested_before
from .ensemble.corpus import KeptCorpus, unit
from .ensemble.fit_settings import SUGGESTED_SETTING
from .ensemble.fitting import fit_experts
from .ensemble.held_out_scores import HeldOut
from .ensemble.log_linear_pool import ClassProportions
from .ensemble.report import FitReport
from .ensemble.vector_experts import MIN_LOG_LIKELIHOOD_GAIN, readable_names
from .label_tree import Hierarchy
from .texts_and_labels import check_lengths, joined_texts, names_of_labels, texts_and_pairs

if TYPE_CHECKING:
    from ..datastore.snapshot import Snapshot
    from ..datastore.store import Store
    from ..encoders.text_embedder import TextEmbedder

logger = logging.getLogger(__name__)

COLLAPSED_COSINE = 0.9999  # of any two texts; raw BERT has 0.9, and its embeddings are still useful
MAX_COMPARED_TEXTS = 200  # examples, and documents
BETTER_ENCODER = "BAAI/bge-small-en-v1.5"  # by published results with few labels: docs/encoders.md


def fit(
    embedder: TextEmbedder,
    datastore: Store,
    texts: Any = None,
    labels: Sequence[Any] | None = None,
    experts: Sequence[str] | None = None,
    show_progress: bool = False,
    corpus: KeptCorpus | None = None,
    class_proportions: ClassProportions = "estimated",
    hierarchy: Hierarchy | None = None,
) -> FitReport:
    """Fit the experts of a datastore, as ``KNNClassifierPipeline.fit`` describes, and keep them in the datastore."""
    has_head = embedder.model.config.num_labels > 0
    if (texts is None) != (labels is None):
        raise ValueError("Give held-out texts and their labels, or neither.")
    if texts is None and has_head:
        raise ValueError("A trained classifier has seen its examples: pass held-out texts and their labels.")
    snapshot = datastore.view().all()
    held_out = None if texts is None else _held_out(embedder, snapshot, texts, labels)
    _warn_of_one_vector(embedder, snapshot)

    @cache  # the second fit needs the same embeddings
    def embed_names(names: tuple[str, ...]) -> np.ndarray:
        return embedder.embed(readable_names(names)).retrieval_embeddings

    fitted = fit_experts(
        snapshot,
        experts,
        held_out,
        has_head,
        show_progress,
        make=(corpus or KeptCorpus()).make,
        embed_names=embed_names,
        class_proportions=class_proportions,
        hierarchy=hierarchy,
    )
    documents = fitted.settings.report.documents
    # Documents of other distributions may mislead the experts; fewer documents than examples hardly do.
    if held_out is None and documents > fitted.settings.report.examples:
        without_documents = fit_experts(
            replace(snapshot, documents=None),
            experts,
            show_progress=False,
            embed_names=embed_names,
            class_proportions=class_proportions,
            left_out=documents,
            hierarchy=hierarchy,
        )
        if without_documents.settings.log_likelihood > fitted.settings.log_likelihood + MIN_LOG_LIKELIHOOD_GAIN:
            fitted = without_documents
    state = fitted.to_state()
    with FITTED_STATE_LOCK:
        datastore.fitted = replace(
            state, settings=state.settings | {SUGGESTED_SETTING: suggested_before(datastore.fitted)}
        )
    report = fitted.settings.report
    if report.foreign:
        logger.info(report.describe_out_of_scope())
    if not has_head and _encoder_name(embedder) == DEFAULT_CHECKPOINT:
        _name_better_encoder()
    return report


def _encoder_name(embedder: TextEmbedder) -> str:
    """Name of the encoder; empty if it has none, or is behind an endpoint."""
    encoder_config = getattr(embedder.model.config, "encoder_config", None)
    return getattr(encoder_config, "name_or_path", "")


@cache  # once per process, not in each fit
def _name_better_encoder() -> None:
    logger.info(
        "%s comes with docsplit_hf and needs no download. By published results with few labels, %s is better: "
        "pipeline('docsplit-knn', model=%r) downloads it. docs/encoders.md compares encoders.",
        DEFAULT_CHECKPOINT,
        BETTER_ENCODER,
        BETTER_ENCODER,
    )


def _warn_of_one_vector(embedder: TextEmbedder, snapshot: Snapshot) -> None:
    """Warn if different texts have nearly equal embeddings."""
    cosine = least_cosine(snapshot)
    if cosine is not None and cosine > COLLAPSED_COSINE:
        logger.warning(
            "The encoder %s gives nearly one vector for all texts: the least cosine of a sample is %.6f. Answers "
            "depend on words alone. The encoder may be untrained or damaged, or made for another pooling. Try the one "
            "that ships: pipeline('docsplit-knn').",
            embedder.model.config.name_or_path or type(embedder.model).__name__,
            cosine,
        )


def least_cosine(snapshot: Snapshot) -> float | None:
    """Least cosine of two of at most 200 examples and 200 documents with different texts; None if there are no two."""
    vectors = []
    for rows in (snapshot, snapshot.documents):
        if rows is None:
            continue
        texts = rows.rows["text"].slice(0, MAX_COMPARED_TEXTS).to_pylist()
        places = [row for row, text in enumerate(texts) if text is None or texts.index(text) == row]
        vectors.append(np.asarray(rows.keys[np.array(places, np.int64)], np.float64))
    joined = unit(np.concatenate(vectors))
    return float((joined @ joined.T).min()) if len(joined) > 1 else None


def _held_out(embedder: TextEmbedder, snapshot: Snapshot, texts: Any, labels: Sequence[Any]) -> HeldOut:
    """Embed held-out texts, except those that are among the examples."""
    texts, pairs = texts_and_pairs(texts)
    numbers = encode_known_labels(names_of_labels(labels), snapshot.label_names, snapshot.multi_label)
    check_lengths(texts, numbers)
    kept = np.flatnonzero(rows_of_texts(snapshot.rows, texts, pairs) < 0)
    if not len(kept):
        raise ValueError(f"All {len(texts)} held-out texts are among the examples: fit on others, or on none (folds).")
    if known := len(texts) - len(kept):
        logger.warning("%d of %d held-out texts are among the examples, and left out.", known, len(texts))
    texts = [texts[i] for i in kept]
    pairs = [pairs[i] for i in kept]
    predictions = embedder.embed(texts, pairs)
    return HeldOut(
        embeddings=predictions.retrieval_embeddings,
        texts=joined_texts(texts, pairs),
        labels=numbers[kept],
        logits=predictions.logits,
    )
