"""What a classifier and its neighbors say together: probabilities for embedded texts, and how they are calibrated."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..store.duplicates import equal_neighbors
from .calibration import Calibration, calibrate, without_self
from .interpolation import add_one_smoothing, interpolate, knn_probabilities, neighbor_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...models.inference.batched_inference import Predictions
    from ...models.portable.configuration_knn_classifier import KNNClassifierConfig
    from ..store.datastore import KNNDatastore, Neighbors

logger = logging.getLogger(__name__)

MOST_NEIGHBORS = 128  # looked at in calibration; the paper sees no gain beyond 64
MOST_COPIES = 4096  # of one text, looked through for neighbors that are others
HELD_OUT = "held-out examples"  # as the source of a calibration: neighbors alone are not calibrated anew after it
LEAVE_ONE_OUT_SAMPLE = 2000  # rows; enough to tell three numbers by


class Mixture(NamedTuple):
    """The distributions of equations 1 to 3 for N texts over L labels, and the neighbors they were made from.

    Args:
        mixture: ``(N, L)``, equation 3.
        knn: ``(N, L)``, equation 2 after ``add_one_smoothing``.
        classifier: ``(N, L)``, equation 1, with zeros for labels that only the datastore has; None without a head.
        weights: ``(N, k)`` or wider, what each neighbor counts in ``knn``.
        neighbors: The neighbors.
        label_names: The names of the L labels.
    """

    mixture: np.ndarray
    knn: np.ndarray
    classifier: np.ndarray | None
    weights: np.ndarray
    neighbors: Neighbors
    label_names: tuple[str, ...]


def classifier_probabilities(logits: np.ndarray, multi_label: bool) -> np.ndarray | None:
    """Equation 1: softmax of the logits, or a sigmoid of each for several labels a text.

    Args:
        logits: ``(N, C)``.
        multi_label: Whether a text may have several labels.

    Returns:
        float64 ``(N, C)``; None if C is 0: there is no classification head.

    Example:

        >>> classifier_probabilities(np.zeros((1, 4)), multi_label=False)
        array([[0.25, 0.25, 0.25, 0.25]])
    """
    from scipy.special import expit, softmax

    if logits.shape[1] == 0:
        return None
    return expit(logits.astype(np.float64)) if multi_label else softmax(logits.astype(np.float64), axis=1)


def mix_with_neighbors(
    predictions: Predictions, datastore: KNNDatastore, k: int, temperature: float, weight: float, shown: int = 0
) -> Mixture:
    """Look up the neighbors of embedded texts and mix what their labels say with what the classifier says.

    What the neighbors say is equation 2 with one more example of each label (``add_one_smoothing``). ``calibrate`` goes
    by equation 2 itself: that it should know of the smoothing made no difference that could be measured.

    Args:
        predictions: Logits and retrieval embeddings of N texts. Without a classification head the neighbors alone
            decide, whatever the weight.
        datastore: Where the neighbors are.
        k: How many to look up.
        temperature: T of equation 2.
        weight: Lambda of equation 3.
        shown: How many to look up at least, to show them. Those beyond k have no weight.

    Returns:
        The mixture.
    """
    neighbors = datastore.search(predictions.retrieval_embeddings, max(k, shown))
    names = neighbors.label_names
    voting, labels = neighbors.distances[:, :k], neighbors.labels[:, :k]
    knn = knn_probabilities(voting, labels, len(names), temperature)
    knn = add_one_smoothing(knn, len(neighbors.table), datastore.multi_label)
    weights = np.zeros(neighbors.distances.shape)
    weights[:, :k] = neighbor_weights(voting, temperature)
    classifier = classifier_probabilities(predictions.logits, datastore.multi_label)
    if classifier is None:
        return Mixture(knn, knn, None, weights, neighbors, names)
    padded = np.pad(classifier, ((0, 0), (0, len(names) - classifier.shape[1])))
    return Mixture(interpolate(knn, padded, weight), knn, padded, weights, neighbors, names)


class TooFewExamplesError(ValueError):
    """There are no two different examples to calibrate on."""


class KnownExamplesError(ValueError):
    """All held-out examples are in the datastore."""


def calibrate_on_held_out(
    predictions: Predictions,
    labels: np.ndarray,
    datastore: KNNDatastore,
    texts: Sequence[str],
    text_pairs: Sequence[str | None] | None = None,
) -> Calibration:
    """Choose k, T and lambda on held-out examples, which must not be in the test set.

    Those that are in the datastore as well are left out, which is logged: their neighbors know their labels.

    Args:
        predictions: Logits and retrieval embeddings of M held-out texts.
        labels: Their labels, ``(M,)`` numbers or ``(M, L)`` of 0 and 1, by the datastore's label names.
        datastore: Where the neighbors are.
        texts: The texts themselves.
        text_pairs: The second texts of pairs.

    Returns:
        The calibration.

    Raises:
        KnownExamplesError: If all held-out texts are in the datastore; it is a ``ValueError``.
    """
    # As they would be kept, so that an example is as near to itself as can be.
    embeddings = predictions.retrieval_embeddings.astype(datastore.dtype).astype(np.float32)
    neighbors = datastore.search(embeddings, MOST_NEIGHBORS)
    known = equal_neighbors(neighbors, embeddings, texts, text_pairs).any(1)
    if known.any():
        found = f"{known.sum()} of {len(known)} held-out texts are among the examples"
        if known.all():
            raise KnownExamplesError(
                f"All {found.split(' of ')[1]}: calibrate on others, or on none (each is left out then)."
            )
        logger.warning("%s of the datastore: they are left out of the calibration.", found)
    classifier = classifier_probabilities(predictions.logits, datastore.multi_label)
    return calibrate(
        neighbors.distances[~known],
        neighbors.labels[~known],
        labels[~known],
        None if classifier is None else classifier[~known],
    )


def calibrate_leaving_one_out(
    datastore: KNNDatastore, rows: np.ndarray | None = None, predictions: Predictions | None = None
) -> Calibration:
    """Choose k, T and lambda on the datastore itself: each example is classified by all others.

    Examples of equal texts or equal embeddings are one: all of them are left out together.

    A classifier that was trained on these examples is right about nearly all of them, so the weight of the neighbors
    comes out too small. Use held-out examples where there are any.

    Args:
        datastore: The examples, at least 2 that differ.
        rows: Which of its rows to classify. None: a random sample of at most 2,000.
        predictions: Logits and retrieval embeddings of these rows. None: neighbors alone.

    Returns:
        The calibration.

    Raises:
        TooFewExamplesError: If no two examples differ; it is a ``ValueError``.
    """
    keys, labels = datastore.keys, datastore.labels
    if len(keys) < 2:
        raise TooFewExamplesError(f"{len(keys)} examples are too few to leave one out: add more.")
    if rows is None:
        rows = leave_one_out_rows(len(keys))
    queries, wanted = keys[rows].astype(np.float32), MOST_NEIGHBORS + 1
    while True:
        neighbors = datastore.search(queries, wanted)
        own = neighbors.table.select(["text", "text_pair"]).take(rows).to_pydict()
        is_self = (neighbors.rows == rows[:, None]) | equal_neighbors(neighbors, queries, *own.values())
        if (~is_self).sum(1).min() >= MOST_NEIGHBORS or wanted >= min(len(keys), MOST_COPIES):
            break
        wanted *= 2
    usable = ~is_self.all(1)
    if not usable.any():
        raise TooFewExamplesError(f"The {len(rows)} examples are all the same text: add others.")
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
        labels[rows[used]],
        None if classifier is None else classifier[used],
    )


def leave_one_out_rows(count: int) -> np.ndarray:
    """The rows that are classified by all others: all, or a random sample of 2,000, always the same.

    Args:
        count: The number of rows.

    Returns:
        int64, ascending.

    Example:

        >>> leave_one_out_rows(3)
        array([0, 1, 2])
    """
    size = min(count, LEAVE_ONE_OUT_SAMPLE)
    return np.sort(np.random.default_rng(0).choice(count, size, replace=False))


def store_calibration(config: KNNClassifierConfig, calibration: Calibration, source: str, rows: int) -> None:
    """Write a calibration into a model's configuration, and log it.

    Args:
        config: The configuration.
        calibration: The calibration.
        source: What it was made on, in a few words, or ``HELD_OUT``.
        rows: The number of rows of the datastore.
    """
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
