"""Calibrating a classifier and its datastore on held-out examples, or on its own, each left out in turn."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from ..store.duplicates import equal_neighbors
from ..store.passage_table import take_passages
from .calibration import Calibration, calibrate
from .classifier_distribution import classifier_probabilities

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...models.inference.reader import Predictions
    from ...models.portable.configuration_knn_classifier import KNNClassifierConfig
    from ..store.store import Store

logger = logging.getLogger(__name__)

MOST_NEIGHBORS = 128  # looked at in calibration; the paper sees no gain beyond 64
MOST_COPIES = 4096  # of one text, looked through for neighbors that are others
HELD_OUT = "held-out examples"  # as the source of a calibration: neighbors alone are not calibrated anew after it
LEAVE_ONE_OUT_SAMPLE = 2000  # passages; enough to tell three numbers by
LEAST_LEFT_OUT = 200  # rows, however many passages they have


class TooFewExamplesError(ValueError):
    """There are no two different examples to calibrate on."""


class KnownExamplesError(ValueError):
    """All held-out examples are in the datastore."""


def calibrate_on_held_out(
    predictions: Predictions,
    labels: np.ndarray,
    datastore: Store,
    texts: Sequence[str],
    text_pairs: Sequence[str | None] | None = None,
) -> Calibration:
    """Choose k, T and lambda on M held-out examples, which must not be in the test set.

    ``labels`` are numbers of the datastore's labels. Texts that are in the datastore as well are left out, which
    is logged: their neighbors know their labels.
    """
    # As they would be kept, so that an example is as near to itself as can be.
    embeddings = predictions.retrieval_embeddings.astype(datastore.dtype).astype(np.float32)
    neighbors = datastore.search(embeddings, MOST_NEIGHBORS, predictions.passages)
    known = equal_neighbors(neighbors, embeddings, texts, text_pairs).any(1)
    if known.any():
        if known.all():
            raise KnownExamplesError(
                f"All {len(known)} held-out texts are among the examples: calibrate on others, or on none (each is "
                "left out then)."
            )
        logger.warning(
            "%d of %d held-out texts are among the examples of the datastore: they are left out of the calibration.",
            *(known.sum(), len(known)),
        )
    classifier = classifier_probabilities(predictions.logits, datastore.multi_label)
    return calibrate(
        neighbors.distances[~known],
        neighbors.labels[~known],
        labels[~known],
        None if classifier is None else classifier[~known],
    )


def calibrate_leaving_one_out(
    datastore: Store, rows: np.ndarray | None = None, predictions: Predictions | None = None
) -> Calibration:
    """Choose k, T and lambda on the datastore itself: each of ``rows`` is classified by all other examples.

    Examples of equal texts or equal embeddings are one: all of them are left out together. ``predictions`` are those of
    the rows; None for neighbors alone. A classifier that was trained on these examples is right about nearly all of
    them, so the weight of the neighbors comes out too small: use held-out examples where there are any.
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
        logger.warning(
            "%d examples are there more than %d times: they are left out of the calibration.",
            *((~usable).sum(), is_self.shape[1]),
        )
    used = np.flatnonzero(usable)
    others = without_self(is_self[used])[:, :MOST_NEIGHBORS]
    classifier = None if predictions is None else classifier_probabilities(predictions.logits, datastore.multi_label)
    return calibrate(
        np.take_along_axis(neighbors.distances[used], others, axis=1),
        neighbors.labels[used[:, None], others],
        left_out.labels[used],
        None if classifier is None else classifier[used],
    )


def without_self(is_self: np.ndarray) -> np.ndarray:
    """Leave each text and all its copies out of its neighbors: the columns to keep, from ``is_self``, bool ``(M, K)``.

    For ``np.take_along_axis(distances, columns, axis=1)``; as many columns as the text with the fewest others has.
    """
    kept = is_self.shape[1] - is_self.sum(1).max(initial=0)
    return np.argsort(is_self, axis=1, kind="stable")[:, :kept]


def leave_one_out_rows(datastore: Store) -> np.ndarray:
    """The rows that are classified by all others, ascending: all, or a random sample, always the same.

    2,000 rows, or as many as have 2,000 passages: looking up a row takes as long as it has passages.
    """
    return datastore.snapshot.sampled_rows(LEAVE_ONE_OUT_SAMPLE, LEAST_LEFT_OUT)


def store_calibration(config: KNNClassifierConfig, calibration: Calibration, source: str, rows: int) -> None:
    """Write a calibration into a model's configuration, and log it. ``source`` says what it was made on."""
    config.k, config.knn_temperature, config.knn_weight = calibration.k, calibration.temperature, calibration.weight
    config.knn_calibration = {
        "source": source,
        "examples": calibration.examples,
        "datastore_rows": rows,
        "log_likelihood": calibration.log_likelihood,
        "effective_neighbors": calibration.effective_neighbors,
    }
    logger.info(
        "Calibrated on %s: k %d, temperature %.4g, weight of the neighbors %.2f; %.1f of the %d neighbors count "
        "(effective number), mean log likelihood %.4f on %d examples.",
        *(source, calibration.k, calibration.temperature, calibration.weight, calibration.effective_neighbors),
        *(calibration.k, calibration.log_likelihood, calibration.examples),
    )
