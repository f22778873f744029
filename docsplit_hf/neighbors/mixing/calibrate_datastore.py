"""Calibrating a classifier with its datastore: on held-out examples, or on its own, each left out in turn."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from ..store.duplicates import equal_neighbors
from ..store.row_table import encode_known_labels, take_passages
from ..texts_and_labels import names_of_labels, texts_and_pairs
from .calibration import Calibration, calibrate
from .mixture import classifier_probabilities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...models.inference.reader import Predictions, Reader
    from ...models.portable.configuration_knn_classifier import KNNClassifierConfig
    from ..store.store import Store

logger = logging.getLogger(__name__)

MOST_NEIGHBORS = 128  # looked at in calibration; the paper sees no gain beyond 64
MOST_COPIES = 4096  # of one text, looked through for neighbors that are others
HELD_OUT = "held-out examples"  # as the source of a calibration, which is then kept when examples are added
LEAVE_ONE_OUT_SAMPLE = 2000  # passages; enough to tell three numbers by
LEAST_LEFT_OUT = 200  # rows, however many passages they have
GROWTH_TO_RECALIBRATE = 1.1


class TooFewExamplesError(ValueError):
    """There are no two different examples to calibrate on."""


class KnownExamplesError(ValueError):
    """All held-out examples are in the datastore."""


def recalibrate(reader: Reader, datastore: Store, texts: Any, labels: Sequence[Any] | None) -> Calibration:
    """Calibrate as ``KNNClassifierPipeline.calibrate`` says, and write it into the model's configuration."""
    config = reader.model.config
    if texts is None:
        return _recalibrate_on_examples(config, datastore)
    texts, pairs = texts_and_pairs(texts)
    predictions = reader.read(texts, pairs)
    numbers = encode_known_labels(names_of_labels(labels), datastore.label_names, datastore.multi_label)
    calibration = calibrate_on_held_out(predictions, numbers, datastore, texts, pairs)
    store_calibration(config, calibration, HELD_OUT, len(datastore))
    return calibration


def recalibrate_if_grown(config: KNNClassifierConfig, datastore: Store) -> None:
    """Calibrate neighbors alone when they have grown by a tenth, unless they were calibrated on held-out texts."""
    last = config.knn_calibration or {}
    if config.num_labels or last.get("source") == HELD_OUT:
        return
    if len(datastore) >= GROWTH_TO_RECALIBRATE * last.get("datastore_rows", 0):
        with contextlib.suppress(TooFewExamplesError):
            _recalibrate_on_examples(config, datastore)


def _recalibrate_on_examples(config: KNNClassifierConfig, datastore: Store) -> Calibration:
    calibration = calibrate_leaving_one_out(datastore)
    if config.num_labels:  # its own examples say nothing of the weight of a trained classifier
        calibration = calibration._replace(weight=config.knn_weight)
    store_calibration(config, calibration, "the examples, each left out in turn", len(datastore))
    return calibration


def calibrate_on_held_out(
    predictions: Predictions,
    labels: np.ndarray,
    datastore: Store,
    texts: Sequence[str],
    text_pairs: Sequence[str | None] | None = None,
) -> Calibration:
    """Choose k, T and lambda on M held-out examples; those in the datastore are left out, as it knows their labels.

    ``labels`` are numbers of the datastore's labels.
    """
    # As they would be kept, so that an example is as near to itself as can be.
    embeddings = predictions.retrieval_embeddings.astype(datastore.dtype).astype(np.float32)
    neighbors = datastore.search(embeddings, MOST_NEIGHBORS, predictions.passages)
    known = equal_neighbors(neighbors, embeddings, texts, text_pairs).any(1)
    if known.any():
        if known.all():
            raise KnownExamplesError(f"All {len(known)} held-out texts are examples: calibrate on others, or on none.")
        logger.warning("%d of %d held-out texts are examples, and left out.", known.sum(), len(known))
    classifier = classifier_probabilities(predictions.logits, datastore.multi_label)
    classifier = None if classifier is None else classifier[~known]
    return calibrate(neighbors.distances[~known], neighbors.labels[~known], labels[~known], classifier)


def calibrate_leaving_one_out(
    datastore: Store, rows: np.ndarray | None = None, predictions: Predictions | None = None
) -> Calibration:
    """Choose k, T and lambda on the datastore itself: each of ``rows`` is classified by all other examples.

    Examples of equal texts or equal embeddings are left out together. ``predictions`` are those of the rows; None for
    neighbors alone. A classifier that was trained on these examples gets nearly all of them right, so its neighbors get
    too little weight.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if (count := len(datastore)) < 2:
        raise TooFewExamplesError(f"{count} examples are too few to leave one out: add more.")
    if rows is None:
        left_out = datastore.sample(LEAVE_ONE_OUT_SAMPLE, LEAST_LEFT_OUT)
    else:
        left_out = datastore.snapshot.take(rows)
    queries, own, wanted = left_out.keys.astype(np.float32), left_out.rows.to_pydict(), MOST_NEIGHBORS + 1
    passages = take_passages(left_out.passages, np.arange(len(queries)))
    while True:
        neighbors = datastore.search(queries, wanted, passages)
        places = pc.index_in(pa.array(own["id"], pa.string()), value_set=neighbors.table["id"].combine_chunks())
        is_self = neighbors.rows == places.to_numpy(zero_copy_only=False)[:, None]
        is_self |= equal_neighbors(neighbors, queries, own["text"], own["text_pair"])
        if (~is_self).sum(1).min() >= MOST_NEIGHBORS or wanted >= min(count, MOST_COPIES):
            break
        wanted *= 2
    usable = ~is_self.all(1)
    if not usable.any():
        raise TooFewExamplesError(f"The {len(queries)} examples are all the same text: add others.")
    if not usable.all():
        logger.warning("%d examples have over %d copies, and are left out.", (~usable).sum(), is_self.shape[1])
    used = np.flatnonzero(usable)
    others = without_self(is_self[used])[:, :MOST_NEIGHBORS]
    classifier = None if predictions is None else classifier_probabilities(predictions.logits, datastore.multi_label)
    classifier = None if classifier is None else classifier[used]
    distances = np.take_along_axis(neighbors.distances[used], others, axis=1)
    return calibrate(distances, neighbors.labels[used[:, None], others], left_out.labels[used], classifier)


def without_self(is_self: np.ndarray) -> np.ndarray:
    """The columns to keep, for ``np.take_along_axis``, where bool ``(M, K)`` says which neighbors are the text itself.

    Each text keeps as many columns as the text with the fewest others has.
    """
    kept = is_self.shape[1] - is_self.sum(1).max(initial=0)
    return np.argsort(is_self, axis=1, kind="stable")[:, :kept]


def leave_one_out_rows(datastore: Store) -> np.ndarray:
    """The rows that are left out in turn, ascending: all, or a random sample with 2,000 passages, always the same."""
    return datastore.snapshot.sampled_rows(LEAVE_ONE_OUT_SAMPLE, LEAST_LEFT_OUT)


def store_calibration(config: KNNClassifierConfig, calibration: Calibration, source: str, rows: int) -> None:
    """Write a calibration into a model's configuration, and log it. ``source`` says what it was made on."""
    config.k, config.knn_temperature, config.knn_weight = calibration.k, calibration.temperature, calibration.weight
    k, temperature, weight, likelihood, effective, examples = calibration
    found = {"log_likelihood": likelihood, "effective_neighbors": effective}
    config.knn_calibration = {"source": source, "examples": examples, "datastore_rows": rows, **found}
    logger.info(
        "Calibrated on %s: k %d, temperature %.4g, weight of the neighbors %.2f; %.1f of the %d neighbors count "
        "(effective number), mean log likelihood %.4f on %d examples.",
        *(source, k, temperature, weight, effective, k, likelihood, examples),
    )
