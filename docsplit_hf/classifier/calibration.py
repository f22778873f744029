"""Calibration of k, temperature and weight, by the likelihood of labels of held-out or left-out examples."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..arrays.passages import Predictions
from ..arrays.row_table import encode_known_labels, rows_at
from ..arrays.snapshot import SearchResult, Snapshot, equal_neighbors
from ..encoding.portable.configuration_knn_classifier import KNNClassifierConfig
from ..encoding.text_embedder import TextEmbedder
from ..fitting.interpolation import (
    HELD_OUT_SOURCE,
    check_labels,
    classifier_probabilities,
    effective_neighbors,
    interpolate,
    knn_probabilities,
    neighbor_weights,
)
from ..reading.inputs import check_lengths, joined_texts, texts_and_pairs
from ..reading.labels import names_of_labels
from ..reading.versions import group_versions
from .knn_datastore import KNNDatastore

logger = logging.getLogger(__name__)

UNIFORM_FRACTION = 0.05  # with 0.01, few errors of an overconfident classifier outweigh its higher accuracy
PAPER_TEMPERATURE = 10.0
LIKELIHOOD_TIE = 1e-9  # difference of mean log likelihoods that counts as a tie
ROWS_PER_BLOCK = 64  # a block fits into the cache of the processor
MAX_NEIGHBORS = 128  # largest candidate for k; the paper reports no gain beyond 64
COMPARED_NEIGHBORS = 8  # nearest neighbors of an example among which its versions are searched
MAX_COPIES = 4096  # neighbors that are searched to find other texts than copies
LEAVE_ONE_OUT_SAMPLE = 2000  # passages
MIN_LEFT_OUT = 200  # examples, regardless of their passages


class Calibration(NamedTuple):
    """Calibrated settings as Python numbers: ``_asdict()`` can be saved as JSON."""

    k: int  # number of neighbors
    temperature: float  # T of equation 2
    weight: float  # lambda of equation 3, the weight of the neighbors
    log_likelihood: float  # mean log likelihood of the held-out labels, as calibrate defines it
    effective_neighbors: float  # mean effective number of neighbors, from 1 to k
    examples: int  # number of held-out examples


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

    The mean is over M texts with their right labels y. With several labels per text it is over texts and labels, y is
    whether the text has the label, and 1 / C becomes 1 / 2.

    By likelihood alone, an overconfident classifier would lose to less accurate, but less confident neighbors. So a
    fraction of the uniform distribution bounds the cost of one wrong answer. Weights are candidates only if they are as
    accurate as weights 0 and 1, and within one standard error of the most accurate one, by paired differences (Breiman
    et al. 1984).

    Ties of the likelihood (up to 1e-9) go to the smaller k, then to the smaller weight, then to the lower temperature.
    Weight 0 takes k and T of the smallest other weight, as they determine which neighbors are shown.

    Args:
        distances: Squared L2 distances to the K nearest neighbors, ``(M, K)``, ascending.
        neighbor_labels: Labels of the neighbors, int ``(M, K)``, or bool ``(M, K, C)``.
        labels: Right labels, int ``(M,)``, or bool ``(M, C)``.
        classifier: Probabilities ``(M, C)``; fewer columns if labels were added after training. None: the weight is 1.
        num_labels: The number of labels C. None: one more than the largest label number.

    Returns:
        The calibration.

    Raises:
        ValueError: If there are no examples, or a label number is out of range.
    """
    distances = np.asarray(distances)
    neighbor_labels = np.asarray(neighbor_labels)
    labels = np.asarray(labels)
    if not len(labels):
        raise ValueError(
            "There are no held-out examples to calibrate on: hold some out, or call calibrate() without any."
        )
    if labels.ndim == 2:
        num_labels = labels.shape[1]
        neighbor_labels = neighbor_labels.astype(bool)
        labels = labels.astype(bool)
    else:
        known_to_classifier = 0 if classifier is None else np.shape(classifier)[-1]
        if num_labels is None:
            num_labels = int(max(neighbor_labels.max() + 1, labels.max() + 1, known_to_classifier))
        check_labels(neighbor_labels, num_labels)
        check_labels(labels, num_labels)
    if classifier is None:
        classifier = np.zeros((len(labels), num_labels))
        weights = np.ones(1)
    else:
        new_labels = num_labels - np.shape(classifier)[1]  # since the classifier was trained
        classifier = np.pad(np.asarray(classifier, np.float64), ((0, 0), (0, new_labels)))
        weights = np.arange(21) / 20
    most = distances.shape[1]
    ks = [*(2**exponent for exponent in range(most.bit_length()) if 2**exponent < most), most]
    temperatures = temperature_grid(distances)

    likelihoods = _log_likelihoods(distances, neighbor_labels, labels, classifier, ks, temperatures, weights)
    best = _best_of_each_weight(likelihoods)
    knn = {
        (place, number): knn_probabilities(
            distances[:, : ks[place]], neighbor_labels[:, : ks[place]], num_labels, temperatures[number]
        )
        for place, number in set(best)
    }
    mixed = [interpolate(knn[choice], classifier, weight) for choice, weight in zip(best, weights, strict=True)]
    likelihood = np.array([likelihoods[*choice, number] for number, choice in enumerate(best)])
    allowed = _accurate_enough(mixed, labels)
    tied = np.flatnonzero(allowed & (likelihood >= likelihood[allowed].max() - LIKELIHOOD_TIE))
    chosen = min(tied, key=lambda number: (best[number][0], weights[number]))
    k = ks[best[chosen][0]]
    temperature = float(temperatures[best[chosen][1]])
    return Calibration(
        k=k,
        temperature=temperature,
        weight=float(weights[chosen]),
        log_likelihood=float(likelihood[chosen]),
        effective_neighbors=float(effective_neighbors(neighbor_weights(distances[:, :k], temperature)).mean()),
        examples=len(labels),
    )


def _best_of_each_weight(likelihoods: np.ndarray) -> list[tuple[int, int]]:
    """Places of the likeliest k and T of each weight, by likelihoods ``(ks, temperatures, weights)``; ties: small k."""
    is_best = likelihoods >= likelihoods.max((0, 1)) - LIKELIHOOD_TIE
    firsts = is_best.reshape(-1, likelihoods.shape[2]).argmax(0)
    best = [divmod(int(first), likelihoods.shape[1]) for first in firsts]
    if len(best) > 1:
        best[0] = best[1]  # the likelihood of weight 0 depends on neither k nor T
    return best


def _accurate_enough(mixed: list[np.ndarray], labels: np.ndarray) -> np.ndarray:
    """Whether each weight is a candidate by the accuracy of its mixed probabilities, as ``calibrate`` defines it."""
    is_single = labels.ndim == 1
    right = np.array([p.argmax(1) == labels if is_single else ((p >= 0.5) == labels).sum(1) for p in mixed], float)
    accuracy = right.mean(1)
    shortfall = right[accuracy.argmax()] - right
    is_near_best = shortfall.mean(1) <= shortfall.std(1) / np.sqrt(len(labels))  # within a standard error
    return is_near_best & (accuracy >= max(accuracy[0], accuracy[-1]))


def temperature_grid(distances: np.ndarray) -> np.ndarray:
    """Candidates for T: 1/256 to 8 times the median range of distances ``(M, K)``, and 10 as in the paper."""
    spread = np.asarray(distances[:, -1] - distances[:, 0], dtype=np.float64)
    scale = np.median(spread) or spread.mean()  # the median is 0 if most texts have many copies
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
    """Mean log likelihood of all candidates, ``(ks, temperatures, weights)``.

    The sums over k neighbors extend those over the next smaller k.
    """
    if labels.ndim == 1:
        chance = 1 / classifier.shape[1]
        classifier = np.take_along_axis(classifier, labels[:, None], axis=1)
        neighbor_labels = neighbor_labels[:, :, None]
        labels = labels[:, None]
    else:
        chance = 1 / 2
        classifier = np.where(labels, classifier, 1 - classifier)
    total = np.zeros((len(ks), len(temperatures), len(weights)))
    for start in range(0, len(labels), ROWS_PER_BLOCK):
        rows = slice(start, start + ROWS_PER_BLOCK)
        agree = (neighbor_labels[rows] == labels[rows][:, None]).astype(np.float64)  # (R, K, L)
        nearness = np.stack([neighbor_weights(distances[rows], one) for one in temperatures], axis=1)  # (R, T, K)
        agreeing = 0.0  # sum of the weights of neighbors with the right label, (R, T, L)
        mass = 0.0  # sum of all weights, (R, T, 1)
        before = 0
        for k_index, k in enumerate(ks):
            agreeing = agreeing + nearness[:, :, before:k] @ agree[:, before:k]
            mass = mass + nearness[:, :, before:k].sum(2, keepdims=True)
            for weight_index, weight in enumerate(weights):
                rest = (1 - UNIFORM_FRACTION) * (1 - weight) * classifier[rows][:, None] + UNIFORM_FRACTION * chance
                mixed = (1 - UNIFORM_FRACTION) * weight * (agreeing / mass) + rest
                total[k_index, :, weight_index] += np.log(mixed).sum((0, 2))
            before = k
    return total / labels.size


class TooFewExamplesError(ValueError):
    """Fewer than two different examples to calibrate on."""


class KnownExamplesError(ValueError):
    """All held-out examples are in the datastore."""


def recalibrate(
    embedder: TextEmbedder, datastore: KNNDatastore, texts: Any, labels: Sequence[Any] | None
) -> Calibration:
    """Calibrate as ``KNNClassifierPipeline.calibrate`` describes, and write the result into the configuration."""
    config = embedder.model.config
    if (texts is None) != (labels is None):
        raise ValueError("Give held-out texts and their labels, or neither.")
    if texts is None:
        return recalibrate_on_examples(config, datastore)
    texts, pairs = texts_and_pairs(texts)
    numbers = encode_known_labels(names_of_labels(labels), datastore.label_names, datastore.multi_label)
    check_lengths(texts, numbers)
    predictions = embedder.embed(texts, pairs)
    calibration = calibrate_on_held_out(predictions, numbers, datastore, texts, pairs)
    store_calibration(config, calibration, HELD_OUT_SOURCE, len(datastore))
    return calibration


def recalibrate_on_examples(config: KNNClassifierConfig, datastore: KNNDatastore) -> Calibration:
    """Calibrate by leaving out each example in turn, and write the result into the configuration."""
    calibration = calibrate_leaving_one_out(datastore)
    if config.num_labels:  # the weight of a trained head cannot be chosen on its training examples
        calibration = calibration._replace(weight=config.knn_weight)
    store_calibration(config, calibration, "the examples, each left out in turn", len(datastore))
    return calibration


def calibrate_on_held_out(
    predictions: Predictions,
    labels: np.ndarray,
    datastore: KNNDatastore,
    texts: Sequence[str],
    text_pairs: Sequence[str | None] | None = None,
) -> Calibration:
    """Choose k, T and lambda on held-out examples, except those that are in the datastore.

    Raises:
        KnownExamplesError: If all are in the datastore.
    """
    # In the datastore's precision, so that copies of an example have a distance of 0.
    embeddings = predictions.retrieval_embeddings.astype(datastore.snapshot.keys.dtype).astype(np.float32)
    neighbors = datastore.search(embeddings, MAX_NEIGHBORS, predictions.passages)
    known = equal_neighbors(neighbors, embeddings, texts, text_pairs).any(1)
    if known.any():
        if known.all():
            raise KnownExamplesError(f"All {len(known)} held-out texts are examples: calibrate on others, or on none.")
        logger.warning("%d of %d held-out texts are examples, and left out.", known.sum(), len(known))
    classifier = classifier_probabilities(predictions.logits, datastore.multi_label)
    if classifier is not None:
        classifier = classifier[~known]
    return calibrate(neighbors.distances[~known], neighbors.labels[~known], labels[~known], classifier)


def calibrate_leaving_one_out(datastore: KNNDatastore) -> Calibration:
    """Choose k and T on a sample of the examples: each is classified by all other examples.

    Examples with equal texts or equal embeddings are left out together, and so are versions of one text
    (``group_versions``) among the 8 nearest examples.

    Raises:
        TooFewExamplesError: If there are fewer than two different examples.
    """
    count = len(datastore)
    if count < 2:
        raise TooFewExamplesError(f"{count} examples are too few to leave one out: add more.")
    left_out = datastore.snapshot.sample(LEAVE_ONE_OUT_SAMPLE, MIN_LEFT_OUT)
    queries = left_out.keys.astype(np.float32)
    wanted = MAX_NEIGHBORS + 1
    while True:
        neighbors = datastore.search(queries, wanted, left_out.passages)
        is_self = _is_self(left_out, queries, neighbors) | _is_version(left_out, neighbors)
        if (~is_self).sum(1).min() >= MAX_NEIGHBORS or wanted >= min(count, MAX_COPIES):
            break
        wanted *= 2
    usable = ~is_self.all(1)
    if not usable.any():
        raise TooFewExamplesError(f"The {len(queries)} examples are all the same text: add others.")
    if not usable.all():
        logger.warning("%d examples have over %d copies, and are left out.", (~usable).sum(), is_self.shape[1])
    used = np.flatnonzero(usable)
    other_columns = without_self(is_self[used])[:, :MAX_NEIGHBORS]
    distances = np.take_along_axis(neighbors.distances[used], other_columns, axis=1)
    return calibrate(distances, neighbors.labels[used[:, None], other_columns], left_out.labels[used])


def _is_self(left_out: Snapshot, queries: np.ndarray, neighbors: SearchResult) -> np.ndarray:
    """Whether each neighbor is the example itself or its copy, bool ``(M, K)``; queries are keys as float32."""
    own = left_out.rows.to_pydict()
    places = pc.index_in(pa.array(own["id"], pa.string()), value_set=neighbors.table["id"].combine_chunks())
    is_same_row = neighbors.rows == places.to_numpy(zero_copy_only=False)[:, None]
    return is_same_row | equal_neighbors(neighbors, queries, own["text"], own["text_pair"])


def _is_version(left_out: Snapshot, neighbors: SearchResult) -> np.ndarray:
    """Whether each neighbor, if it is among the nearest, is a version of the example, bool ``(M, K)``."""
    nearest = neighbors.rows[:, :COMPARED_NEIGHBORS]
    rows, places = np.unique(nearest, return_inverse=True)
    found = rows_at(neighbors.table, rows).to_pydict()
    own = left_out.rows.to_pydict()
    own_texts = joined_texts(own["text"], own["text_pair"])
    found_texts = joined_texts(found["text"], found["text_pair"])
    different_texts = list(dict.fromkeys([*own_texts, *found_texts]))
    group_of_text = dict(zip(different_texts, group_versions(different_texts).tolist(), strict=True))
    own_groups = np.array([group_of_text[text] if text else -1 for text in own_texts])
    found_groups = np.array([group_of_text[text] if text else -2 for text in found_texts])
    is_version = np.zeros(neighbors.rows.shape, bool)
    is_version[:, : nearest.shape[1]] = found_groups[places.reshape(nearest.shape)] == own_groups[:, None]
    return is_version


def without_self(is_self: np.ndarray) -> np.ndarray:
    """Columns of neighbors other than the text itself, ``(M, k)``, by bool ``(M, K)``; k is equal for all texts."""
    kept = is_self.shape[1] - is_self.sum(1).max(initial=0)
    return np.argsort(is_self, axis=1, kind="stable")[:, :kept]


def store_calibration(config: KNNClassifierConfig, calibration: Calibration, source: str, rows: int) -> None:
    """Write a calibration into the configuration of a model, and log it.

    ``source`` describes the examples of the calibration, ``rows`` is the number of examples in the datastore.
    """
    config.k = calibration.k
    config.knn_temperature = calibration.temperature
    config.knn_weight = calibration.weight
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
        source,
        calibration.k,
        calibration.temperature,
        calibration.weight,
        calibration.effective_neighbors,
        calibration.k,
        calibration.log_likelihood,
        calibration.examples,
    )
