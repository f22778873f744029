"""Choosing k, the temperature and the weight of the neighbors by the likelihood of held-out labels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .mixture import check_labels, effective_neighbors, interpolate, knn_probabilities, neighbor_weights

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

    Likelihood alone would lose accuracy: an overconfident classifier pays more for its errors than its probabilities
    are worth, so neighbors that are less often right but also less sure take over. So a little of the uniform
    distribution bounds the cost of one wrong answer; and each weight gets its most likely k and T, whereupon only
    weights compete whose accuracy is not below that of either end (classifier alone, neighbors alone), and within one
    standard error of the paired difference to the best (Breiman et al. 1984).

    Of equal likelihoods (up to 1e-9) the smaller k is taken, then the weight closer to the classifier, then the lower
    temperature. Weight 0 takes k and T of the smallest other weight, as they decide which neighbors are shown.
    """
    distances, neighbor_labels, labels = np.asarray(distances), np.asarray(neighbor_labels), np.asarray(labels)
    if not len(labels):
        raise ValueError("There are no held-out examples to calibrate on: hold some out, or use without_self.")
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
    best = [_most_likely(likelihoods[:, :, i]) for i in range(len(weights))]  # for each weight, its k and T
    if len(weights) > 1:
        best[0] = best[1]  # see the docstring
    knn = {
        (i, j): knn_probabilities(distances[:, : ks[i]], neighbor_labels[:, : ks[i]], num_labels, temperatures[j])
        for i, j in set(best)
    }
    mixed = [interpolate(knn[at], classifier, weight) for at, weight in zip(best, weights, strict=True)]
    allowed = _as_accurate_as_the_best(np.array([_right(probabilities, labels) for probabilities in mixed]))
    likelihood = np.array([likelihoods[i, j, n] for n, (i, j) in enumerate(best)])
    equal = np.flatnonzero(allowed & (likelihood >= likelihood[allowed].max() - TIE))
    chosen = min(equal, key=lambda n: (best[n][0], weights[n]))
    k, temperature = ks[best[chosen][0]], float(temperatures[best[chosen][1]])
    effective = float(effective_neighbors(neighbor_weights(distances[:, :k], temperature)).mean())
    return Calibration(k, temperature, float(weights[chosen]), float(likelihood[chosen]), effective, len(labels))


def temperature_grid(distances: np.ndarray) -> np.ndarray:
    """Temperatures to try, ascending: powers of two times the spread of the distances ``(M, K)``, and the paper's 10.

    The spread is the median of the farthest less the nearest. From 1/256 to 8 times that, the number of effective
    neighbors goes from about 1 to nearly K.
    """
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
    """The mean log likelihood of all candidates, ``(ks, temperatures, weights)``.

    Only the probability of the right answer is needed: the weight of the neighbors that agree. It is a sum over the
    neighbors, so each k adds to the sums of the k before.
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
    """Where ``(ks, temperatures)`` is highest; of equal ones the first, which has the smallest k."""
    first = np.flatnonzero(likelihoods >= likelihoods.max() - TIE)[0]
    return divmod(int(first), likelihoods.shape[1])


def _right(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """How many labels of each text are right, ``(M,)``; with one label per text 0 or 1."""
    if labels.ndim == 1:
        return (probabilities.argmax(1) == labels).astype(np.float64)
    return ((probabilities >= 0.5) == labels).sum(1).astype(np.float64)


def _as_accurate_as_the_best(right: np.ndarray) -> np.ndarray:
    """Which rows of ``(W, M)`` are within a standard error of the best row, and not below the first and the last."""
    accuracy = right.mean(1)
    behind = right[accuracy.argmax()] - right
    standard_error = behind.std(1) / np.sqrt(right.shape[1])
    return (behind.mean(1) <= standard_error) & (accuracy >= max(accuracy[0], accuracy[-1]))
