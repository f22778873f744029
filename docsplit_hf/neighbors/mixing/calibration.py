"""Choosing k, the temperature and the weight of the neighbors on held-out data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .interpolation import check_labels, effective_neighbors, interpolate, knn_probabilities, neighbor_weights

UNIFORM_SHARE = 0.05  # at 0.01 an overconfident classifier's errors still outweigh that it is more often right
PAPER_TEMPERATURE = 10.0
TIE = 1e-9
ROWS_AT_ONCE = 64  # so that what is computed at once stays in the processor's cache


class Calibration(NamedTuple):
    """What was chosen, and on what grounds. Plain numbers, so ``_asdict()`` can be saved as JSON.

    Args:
        k: The number of neighbors.
        temperature: T of equation 2.
        weight: Lambda of equation 3, the share of the neighbors.
        log_likelihood: The mean log likelihood of the held-out labels, as ``calibrate`` defines it.
        effective_neighbors: How many neighbors decide on average.
        examples: The number of held-out examples.
    """

    k: int
    temperature: float
    weight: float
    log_likelihood: float
    effective_neighbors: float
    examples: int


def calibrate(
    distances: np.ndarray,
    neighbor_labels: np.ndarray,
    labels: np.ndarray,
    classifier: np.ndarray | None = None,
    *,
    num_labels: int | None = None,
    ks: Sequence[int] | None = None,
    temperatures: Sequence[float] | None = None,
    weights: Sequence[float] | None = None,
) -> Calibration:
    """Choose k, T and the weight lambda by the log likelihood of held-out labels (equations 2 and 3)::

        L(k, T, lambda) = mean log( 0.95 (lambda P_KNN(y; k, T) + (1 - lambda) P_CLS(y)) + 0.05 / C )

    over the texts, y being the right label. With several labels a text it is the mean over texts and labels, y being
    whether the text has the label, and 1 / 2 stands for 1 / C.

    The paper (Liang et al. 2023, sections 3.1 and 3.3) fixes k = 64 and T = 10, and takes for each data set the lambda
    that is best where it reports. Here all three are chosen on data that nothing is reported on. By itself, the
    likelihood takes accuracy away: an overconfident classifier pays more for being wrong than its probabilities are
    worth, and neighbors that are less often right but also less sure take over. Two things keep it from that:

    - A little of the uniform distribution is mixed in (``UNIFORM_SHARE``), in all candidates alike. It bounds what one
      wrong answer costs, and keeps the logarithm finite where no neighbor has the label.
    - Each weight gets the k and T that are most likely with it. Then only those weights compete whose accuracy, on the
      same data, is not below that of either end (the classifier alone, the neighbors alone), and within one standard
      error of the best weight's. The standard error is that of the paired difference (the one-standard-error rule of
      Breiman et al. 1984). With several labels a text, accuracy is the share of labels that are right at 0.5.

    Of equal likelihoods (up to 1e-9) the smaller k is taken, then the weight closer to the classifier, then the lower
    temperature. What weight 0 says depends on neither k nor T, so any would do: it takes those of the smallest other
    weight, because the neighbors that are shown still depend on them.

    Args:
        distances: Squared L2 distances of the held-out texts to their nearest neighbors, ``(M, K)``, ascending.
        neighbor_labels: The neighbors' labels: integers ``(M, K)``; or bool ``(M, K, C)`` for several a text.
        labels: The right labels: integers ``(M,)``, or bool ``(M, C)``.
        classifier: Its probabilities, ``(M, C)`` or fewer columns as in ``interpolate``. None: there is no classifier,
            the weight is 1.
        num_labels: C, with one label a text. None: as many as the classifier has, or more if more occur.
        ks: The k to try. None: the powers of two up to K, and K.
        temperatures: The T to try. None: a grid in relation to the distances, from about 1 effective neighbor to K,
            and the paper's 10.
        weights: The lambda to try. None: 0, 0.05, ..., 1.

    Returns:
        The choice.

    Raises:
        ValueError: If there is no example, shapes do not fit, a label is outside, distances are not ascending, the
            classifier's are no probabilities, or there is nothing to try.

    Example:

        >>> distances, neighbors = np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([[0, 1], [1, 1]])
        >>> choice = calibrate(distances, neighbors, labels=np.array([0, 1]))
        >>> choice.k, choice.weight, choice.examples
        (1, 1.0, 2)
    """
    distances, neighbor_labels, labels = np.asarray(distances), np.asarray(neighbor_labels), np.asarray(labels)
    several = labels.ndim == 2
    _check_shapes(distances, neighbor_labels, labels)
    if several:
        num_labels, neighbor_labels, labels = labels.shape[1], neighbor_labels.astype(bool), labels.astype(bool)
    else:
        known = 0 if classifier is None else np.shape(classifier)[-1]
        if num_labels is None:
            num_labels = int(max(neighbor_labels.max() + 1, labels.max() + 1, known))
        check_labels(neighbor_labels, num_labels)
        check_labels(labels, num_labels)
    if classifier is None:
        if weights is not None:
            raise ValueError(f"Without a classifier the weight is 1, got weights={weights}: leave them out.")
        classifier, weights = np.zeros((len(labels), num_labels)), [1.0]
    else:
        classifier = _checked_classifier(classifier, len(labels), num_labels)
        weights = np.arange(21) / 20 if weights is None else weights
    farthest = distances.shape[1]
    ks = _powers_of_two(farthest) if ks is None else ks
    ks = _checked("ks", ks, lambda k: (k >= 1) & (k <= farthest), f"from 1 to {farthest}, the neighbors given")
    temperatures = temperature_grid(distances) if temperatures is None else temperatures
    temperatures = _checked("temperatures", temperatures, lambda t: t > 0, "above 0")
    weights = _checked("weights", weights, lambda w: (w >= 0) & (w <= 1), "from 0 to 1")

    likelihoods = _log_likelihoods(distances, neighbor_labels, labels, classifier, ks, temperatures, weights)
    best = [_most_likely(likelihoods[:, :, i]) for i in range(len(weights))]  # for each weight, its k and T
    if weights[0] == 0 and len(weights) > 1:
        best[0] = best[1]  # k and T change nothing in what weight 0 says, but much in the neighbors that are shown
    knn = {
        (i, j): knn_probabilities(distances[:, : ks[i]], neighbor_labels[:, : ks[i]], num_labels, temperatures[j])
        for i, j in set(best)
    }
    right = np.array(
        [_right(interpolate(knn[at], classifier, weight), labels) for at, weight in zip(best, weights, strict=True)]
    )
    likelihood = np.array([likelihoods[i, j, n] for n, (i, j) in enumerate(best)])
    allowed = _as_accurate_as_the_best(right)
    equal = np.flatnonzero(allowed & (likelihood >= likelihood[allowed].max() - TIE))
    chosen = min(equal, key=lambda n: (best[n][0], weights[n]))
    k, temperature = int(ks[best[chosen][0]]), float(temperatures[best[chosen][1]])
    return Calibration(
        k=k,
        temperature=temperature,
        weight=float(weights[chosen]),
        log_likelihood=float(likelihood[chosen]),
        effective_neighbors=float(effective_neighbors(neighbor_weights(distances[:, :k], temperature)).mean()),
        examples=len(labels),
    )


def temperature_grid(distances: np.ndarray) -> np.ndarray:
    """Temperatures to try, in relation to the distances, because the paper's 10 depends on the embeddings' norm.

    What the weights depend on is by how much farther than the nearest a neighbor is, divided by T. So the grid is a
    power of two from 1/256 to 8 times the median of what the farthest neighbor is farther than the nearest: from about
    1 effective neighbor to nearly all of them. The paper's 10 is added.

    Args:
        distances: Squared L2 distances, ``(M, K)``, ascending.

    Returns:
        ``(13,)``, float64, ascending; the paper's 10 alone if all neighbors are equally far, when T changes nothing.

    Example:

        >>> temperature_grid(np.array([[0.0, 1.0, 256.0]]))[[0, 1, -1]]
        array([1.000e+00, 2.000e+00, 2.048e+03])
    """
    spread = np.asarray(distances[:, -1] - distances[:, 0], dtype=np.float64)
    scale = np.median(spread) or spread.mean()  # the median is 0 if most texts have many copies of one another
    grid = scale * 2.0 ** np.arange(-8, 4) if scale > 0 else []
    return np.unique([*grid, PAPER_TEMPERATURE])


def without_self(is_self: np.ndarray) -> np.ndarray:
    """Leave each text out of its own neighbors, for calibrating on the texts of the datastore itself.

    All that is the text itself is left out: a copy that was added a second time knows the label as well. What remains
    is cut to as many neighbors for each text as the text with the fewest has.

    This makes held-out data of the neighbors, not of a classifier that was trained on the same texts: what it says of
    them is better than what it says of others. Calibrate without the classifier then.

    Args:
        is_self: Which of the neighbors, nearest first, are the text itself, bool ``(M, K)``.

    Returns:
        The columns to keep, int64, ascending, ``(M, K - the most that a text leaves out)``; for
        ``np.take_along_axis(distances, columns, axis=1)``.

    Example:

        >>> rows = np.array([[4, 7, 9], [5, 4, 9]])
        >>> np.take_along_axis(rows, without_self(rows == 4), axis=1)
        array([[7, 9],
               [5, 9]])
    """
    kept = is_self.shape[1] - is_self.sum(1).max(initial=0)
    return np.argsort(is_self, axis=1, kind="stable")[:, :kept]


def _log_likelihoods(
    distances: np.ndarray,
    neighbor_labels: np.ndarray,
    labels: np.ndarray,
    classifier: np.ndarray,
    ks: np.ndarray,
    temperatures: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """The mean log likelihood of all candidates, ``(ks, temperatures, weights)``.

    Only the probability of what is right is needed: of the right label, or of having or not having each label. It is
    the weight on the neighbors that agree, and grows with k, so each k adds to the sums of the k before.
    """
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


def _most_likely(likelihoods: np.ndarray) -> tuple[int, int]:
    """The place of the highest of ``(ks, temperatures)``; of equal ones the first, which is the smallest k."""
    first = np.flatnonzero(likelihoods >= likelihoods.max() - TIE)[0]
    return divmod(int(first), likelihoods.shape[1])


def _right(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """How much of each text is right, ``(M,)``: the label, or the number of labels."""
    if labels.ndim == 1:
        return (probabilities.argmax(1) == labels).astype(np.float64)
    return ((probabilities >= 0.5) == labels).sum(1).astype(np.float64)


def _as_accurate_as_the_best(right: np.ndarray) -> np.ndarray:
    """Which weights, ``(W, M)``, are within a standard error of the most accurate and not below the first and last."""
    accuracy = right.mean(1)
    behind = right[accuracy.argmax()] - right
    standard_error = behind.std(1) / np.sqrt(right.shape[1])
    return (behind.mean(1) <= standard_error) & (accuracy >= max(accuracy[0], accuracy[-1]))


def _powers_of_two(largest: int) -> list[int]:
    return [*(2**n for n in range(largest.bit_length()) if 2**n < largest), largest]


def _checked(name: str, values: Sequence[float], is_right: Callable[[np.ndarray], np.ndarray], what: str) -> np.ndarray:
    values = np.unique(values)
    wrong = values[~is_right(values)]
    if values.size == 0 or wrong.size:
        raise ValueError(f"{name} must be {what}, got {wrong[0] if wrong.size else 'none'}.")
    return values


def _check_shapes(distances: np.ndarray, neighbor_labels: np.ndarray, labels: np.ndarray) -> None:
    if len(labels) == 0:
        raise ValueError("There are no held-out examples to calibrate on: hold some out, or use without_self.")
    expected = (*distances.shape, *labels.shape[1:])
    if distances.ndim != 2 or not distances.size or len(distances) != len(labels) or neighbor_labels.shape != expected:
        raise ValueError(
            "distances must be of shape (M, K) with K from 1, neighbor_labels (M, K) and labels (M,), or (M, K, C) and "
            f"(M, C) for several labels a text, got {distances.shape}, {neighbor_labels.shape} and {labels.shape}."
        )
    if (distances[:, 1:] < distances[:, :-1]).any():
        raise ValueError("distances must be ascending in each row: sort them, and the neighbors' labels with them.")


def _checked_classifier(classifier: np.ndarray, examples: int, num_labels: int) -> np.ndarray:
    classifier = np.asarray(classifier, dtype=np.float64)
    if classifier.ndim != 2 or len(classifier) != examples or not 0 < classifier.shape[1] <= num_labels:
        raise ValueError(
            f"classifier must be of shape ({examples}, {num_labels}) or have fewer columns, got {classifier.shape}."
        )
    if not ((classifier >= 0) & (classifier <= 1 + 1e-6)).all():
        wrong = classifier[~((classifier >= 0) & (classifier <= 1 + 1e-6))][0]
        raise ValueError(f"classifier must hold probabilities, got {wrong}: apply softmax, or sigmoid, to logits.")
    return np.pad(classifier, ((0, 0), (0, num_labels - classifier.shape[1])))
