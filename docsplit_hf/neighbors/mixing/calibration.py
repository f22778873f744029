"""Choosing k, temperature and weight by the likelihood of labels: held-out ones, or each example left out in turn."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..store.duplicates import equal_neighbors
from ..store.row_table import encode_known_labels
from ..texts_and_labels import check_lengths, names_of_labels, texts_and_pairs
from .mixture import (
    check_labels,
    classifier_probabilities,
    effective_neighbors,
    interpolate,
    knn_probabilities,
    neighbor_weights,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...models.inference.reader import Predictions, Reader
    from ...models.portable.configuration_knn_classifier import KNNClassifierConfig
    from ..store.store import Store

UNIFORM_SHARE = 0.05  # at 0.01 an overconfident classifier's errors still outweigh that it is more often right
PAPER_TEMPERATURE = 10.0
TIE = 1e-9
ROWS_AT_ONCE = 64  # so that what is computed at once stays in the processor's cache


class Calibration(NamedTuple):
    """What was chosen, in plain numbers: ``_asdict()`` can be saved as JSON."""

    k: int  # the number of neighbors
    temperature: float  # T of equation 2
    weight: float  # lambda of equation 3, the share of the neighbors
    log_likelihood: float  # the mean log likelihood of the held-out labels, as calibrate defines it
    effective_neighbors: float  # how many neighbors decide on average
    examples: int  # the number of held-out examples


def calibrate(
    distances: np.ndarray,
    neighbor_labels: np.ndarray,
    labels: np.ndarray,
    classifier: np.ndarray | None = None,
    *,
    num_labels: int | None = None,
) -> Calibration:
    """Choose k, T and the weight lambda by the log likelihood of held-out labels (equations 2 and 3)::

        L(k, T, lambda) = mean log( 0.95 (lambda P_KNN(y; k, T) + (1 - lambda) P_CLS(y)) + 0.05 / C )

    The mean is over M texts, y being the right label. With several labels per text it is over texts and labels, y being
    whether the text has the label, and 1 / 2 stands for 1 / C. ``distances`` are ``(M, K)``, ascending;
    ``neighbor_labels`` integers ``(M, K)`` or bool ``(M, K, C)``; ``labels`` ``(M,)`` or ``(M, C)``; ``classifier``
    probabilities ``(M, C)``, or fewer columns where labels came after training. Without it the weight is 1.

    An overconfident classifier would lose to neighbors that are less often right, but less sure. So a little of the
    uniform distribution bounds the cost of one wrong answer, and only weights compete whose accuracy is not below that
    of either end, and within one standard error of the paired difference to the best (Breiman et al. 1984).

    Of equal likelihoods (up to 1e-9) the smaller k is taken, then the weight closer to the classifier, then the lower
    temperature. Weight 0 takes k and T of the smallest other weight, as they decide which neighbors are shown.
    """
    distances, neighbor_labels, labels = np.asarray(distances), np.asarray(neighbor_labels), np.asarray(labels)
    if not len(labels):
        raise ValueError(
            "There are no held-out examples to calibrate on: hold some out, or call calibrate() without any."
        )
    if labels.ndim == 2:
        num_labels, neighbor_labels, labels = labels.shape[1], neighbor_labels.astype(bool), labels.astype(bool)
    else:
        known = 0 if classifier is None else np.shape(classifier)[-1]
        if num_labels is None:
            num_labels = int(max(neighbor_labels.max() + 1, labels.max() + 1, known))
        check_labels(neighbor_labels, num_labels)
        check_labels(labels, num_labels)
    if classifier is None:
        classifier, weights = np.zeros((len(labels), num_labels)), np.ones(1)
    else:
        new_labels = num_labels - np.shape(classifier)[1]  # since the classifier was trained
        classifier, weights = np.pad(np.asarray(classifier, np.float64), ((0, 0), (0, new_labels))), np.arange(21) / 20
    farthest = distances.shape[1]
    ks = [*(2**n for n in range(farthest.bit_length()) if 2**n < farthest), farthest]
    temperatures = temperature_grid(distances)

    likelihoods = _log_likelihoods(distances, neighbor_labels, labels, classifier, ks, temperatures, weights)
    best = []  # for each weight, its k and T: of equal ones the first, which has the smallest k
    for of_weight in likelihoods.transpose(2, 0, 1):
        first = np.flatnonzero(of_weight >= of_weight.max() - TIE)[0]
        best.append(divmod(int(first), len(temperatures)))
    if len(weights) > 1:
        best[0] = best[1]  # see the docstring
    knn = {
        (i, j): knn_probabilities(distances[:, : ks[i]], neighbor_labels[:, : ks[i]], num_labels, temperatures[j])
        for i, j in set(best)
    }
    mixed = [interpolate(knn[at], classifier, weight) for at, weight in zip(best, weights, strict=True)]
    right = np.array(
        [p.argmax(1) == labels if labels.ndim == 1 else ((p >= 0.5) == labels).sum(1) for p in mixed], float
    )
    accuracy = right.mean(1)
    behind = right[accuracy.argmax()] - right
    allowed = behind.mean(1) <= behind.std(1) / np.sqrt(len(labels))  # within a standard error of the best
    allowed &= accuracy >= max(accuracy[0], accuracy[-1])
    likelihood = np.array([likelihoods[i, j, n] for n, (i, j) in enumerate(best)])
    equal = np.flatnonzero(allowed & (likelihood >= likelihood[allowed].max() - TIE))
    chosen = min(equal, key=lambda n: (best[n][0], weights[n]))
    k, temperature = ks[best[chosen][0]], float(temperatures[best[chosen][1]])
    effective = float(effective_neighbors(neighbor_weights(distances[:, :k], temperature)).mean())
    return Calibration(k, temperature, float(weights[chosen]), float(likelihood[chosen]), effective, len(labels))


def temperature_grid(distances: np.ndarray) -> np.ndarray:
    """Temperatures to try: 1/256 to 8 times the median spread of the distances ``(M, K)``, and the paper's 10."""
    spread = np.asarray(distances[:, -1] - distances[:, 0], dtype=np.float64)
    scale = np.median(spread) or spread.mean()  # the median is 0 if most texts have many copies of one another
    grid = scale * 2.0 ** np.arange(-8, 4) if scale > 0 else []
    return np.unique([*grid, PAPER_TEMPERATURE])


def _log_likelihoods(
    distances: np.ndarray,
    neighbor_labels: np.ndarray,
    labels: np.ndarray,
    classifier: np.ndarray,
    ks: list[int],
    temperatures: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """The mean log likelihood of all candidates, ``(ks, temperatures, weights)``: each k adds to the sums before it."""
    if labels.ndim == 1:
        chance = 1 / classifier.shape[1]
        classifier = np.take_along_axis(classifier, labels[:, None], axis=1)
        neighbor_labels, labels = neighbor_labels[:, :, None], labels[:, None]
    else:
        chance = 1 / 2
        classifier = np.where(labels, classifier, 1 - classifier)
    total = np.zeros((len(ks), len(temperatures), len(weights)))
    for start in range(0, len(labels), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        agree = (neighbor_labels[rows] == labels[rows][:, None]).astype(np.float64)  # (R, K, L)
        nearness = np.stack([neighbor_weights(distances[rows], t) for t in temperatures], axis=1)  # (R, T, K)
        knn, mass, before = 0.0, 0.0, 0
        for i, k in enumerate(ks):
            knn = knn + nearness[:, :, before:k] @ agree[:, before:k]
            mass = mass + nearness[:, :, before:k].sum(2, keepdims=True)
            for j, weight in enumerate(weights):
                rest = (1 - UNIFORM_SHARE) * (1 - weight) * classifier[rows][:, None] + UNIFORM_SHARE * chance
                total[i, :, j] += np.log((1 - UNIFORM_SHARE) * weight * (knn / mass) + rest).sum((0, 2))
            before = k
    return total / labels.size


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
    if (texts is None) != (labels is None):
        raise ValueError("Give held-out texts and their labels, or neither.")
    if texts is None:
        return _recalibrate_on_examples(config, datastore)
    texts, pairs = texts_and_pairs(texts)
    numbers = encode_known_labels(names_of_labels(labels), datastore.label_names, datastore.multi_label)
    check_lengths(texts, numbers)
    predictions = reader.read(texts, pairs)
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
    """Choose k, T and lambda on held-out examples of the datastore's labels; those that it has are left out."""
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
    sampled = LEAVE_ONE_OUT_SAMPLE, LEAST_LEFT_OUT
    left_out = datastore.sample(*sampled) if rows is None else datastore.snapshot.take(rows)
    queries, own, wanted = left_out.keys.astype(np.float32), left_out.rows.to_pydict(), MOST_NEIGHBORS + 1
    while True:
        neighbors = datastore.search(queries, wanted, left_out.passages)
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
    """The columns ``(M, k)`` of neighbors that are not the text itself, by bool ``(M, K)``; as many for each text."""
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
