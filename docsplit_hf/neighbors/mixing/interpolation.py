"""What the nearest neighbors say, and its mixture with a classifier, as pure functions of arrays.

Equations 2 and 3 of "Retrieval-Augmented Classification with Decoupled Representation" (Liang et al. 2023).
"""

from __future__ import annotations

import numpy as np


def neighbor_weights(distances: np.ndarray, temperature: float) -> np.ndarray:
    """The weight of each neighbor, from its distance (Liang et al. 2023, equation 2)::

        w_j = exp(-d_j / T) / sum_i exp(-d_i / T)

    A small T leaves the nearest neighbor alone (those that are exactly as near share its weight); ``math.inf`` gives
    all the same weight. The paper sets T to 10, which suits no other scale of embeddings than its own: see
    ``calibrate``.

    Args:
        distances: Squared L2 distances, ``(N, k)``.
        temperature: T, above 0.

    Returns:
        ``(N, k)``, float64; each row sums to 1.

    Raises:
        ValueError: If the temperature is not above 0, there are no neighbors, or a distance is not finite.

    Example:

        >>> neighbor_weights(np.array([[0.0, 1.0]]), temperature=1.0).round(4)
        array([[0.7311, 0.2689]])
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature}. The paper uses 10; calibrate() chooses one.")
    distances = np.asarray(distances, dtype=np.float64)
    if distances.ndim != 2 or distances.shape[1] == 0:
        raise ValueError(f"distances must be of shape (N, k) with k from 1, got {distances.shape}.")
    if not np.isfinite(distances).all():
        wrong = distances[~np.isfinite(distances)][0]
        raise ValueError(f"distances must be finite, got {wrong}: check the embeddings.")
    with np.errstate(over="ignore"):  # a tiny T takes the exponent to minus infinity: the weight 0 is right
        weights = np.exp(-(distances - distances.min(1, keepdims=True)) / temperature)
    return weights / weights.sum(1, keepdims=True)


def knn_probabilities(distances: np.ndarray, labels: np.ndarray, num_labels: int, temperature: float) -> np.ndarray:
    """The probabilities of the labels by the nearest neighbors (Liang et al. 2023, equation 2)::

        P_KNN(y) = sum_j w_j [l_j = y]

    with the weights w of ``neighbor_weights``. The paper has one label a text. With several, the probability of a label
    is the share of the weight that lies on neighbors with that label.

    Args:
        distances: Squared L2 distances, ``(N, k)``.
        labels: The neighbors' labels: integers from 0, ``(N, k)``; or, with several labels a text, bool ``(N, k, C)``.
        num_labels: C.
        temperature: T, above 0.

    Returns:
        ``(N, C)``, float64. With one label a text each row sums to 1; with several each entry is from 0 to 1.

    Raises:
        ValueError: If the shapes do not fit, a label is outside, or for what ``neighbor_weights`` raises it.

    Example:

        >>> distances = np.array([[1.0, 1.0, 1.0, 1.0]])
        >>> knn_probabilities(distances, np.array([[2, 0, 2, 2]]), num_labels=3, temperature=10)
        array([[0.25, 0.  , 0.75]])
    """
    weights, labels = neighbor_weights(distances, temperature), np.asarray(labels)
    if labels.ndim == 3:
        if labels.shape != (*weights.shape, num_labels):
            raise ValueError(f"labels must be of shape {(*weights.shape, num_labels)}, (N, k, C), got {labels.shape}.")
        shares = np.einsum("nk,nkc->nc", weights, labels.astype(bool, copy=False))
        return np.minimum(shares, 1.0)  # rounding takes the sum of all weights to a little above 1
    if labels.shape != weights.shape:
        raise ValueError(f"labels must be of shape {weights.shape} as the distances, or (N, k, C), got {labels.shape}.")
    check_labels(labels, num_labels)
    rows = np.arange(len(labels))[:, None] * num_labels
    return np.bincount((rows + labels).ravel(), weights.ravel(), len(labels) * num_labels).reshape(-1, num_labels)


def add_one_smoothing(knn: np.ndarray, examples: int, several: bool = False) -> np.ndarray:
    """What the neighbors say, no surer than so many examples allow: one more example of each label (Laplace)::

        P(y) = (N P_KNN(y) + 1) / (N + C)

    Not in the paper: equation 2 gives certainty wherever all neighbors agree, be they three. No label becomes surer
    than (N + 1) / (N + C), and none less likely than 1 / (N + C). Which of two labels is more likely does not change.
    The difference to equation 2 is at most C / (N + C): with 10,000 examples of 10 labels 0.001.

    Args:
        knn: ``(Q, C)``, probabilities of Q texts by equation 2.
        examples: N, the number of examples in the datastore.
        several: Whether a text may have several labels. Then each label is a question of its own with two answers, and
            2 stands for C.

    Returns:
        ``(Q, C)``, float64.

    Example:

        >>> add_one_smoothing(np.array([[1.0, 0.0]]), examples=3)
        array([[0.8, 0.2]])
    """
    return (examples * np.asarray(knn, dtype=np.float64) + 1) / (examples + (2 if several else knn.shape[1]))


def interpolate(knn: np.ndarray, classifier: np.ndarray, weight: float) -> np.ndarray:
    """The mixture of what the neighbors and the classifier say (Liang et al. 2023, equation 3)::

        P(y) = weight P_KNN(y) + (1 - weight) P_CLS(y)

    The weight is the paper's lambda. The paper knows no labels that came into the datastore after training: here
    the classifier gives them the probability 0.

    Args:
        knn: ``(N, C)``, probabilities.
        classifier: ``(N, C)`` or, without the labels that came later, fewer columns; the missing ones are the last.
        weight: From 0, exactly the classifier, to 1, exactly the neighbors.

    Returns:
        ``(N, C)``, float64.

    Raises:
        ValueError: If the weight is outside, the shapes do not fit, or there is no classifier that the weight needs.

    Example:

        >>> interpolate(np.array([[0.0, 0.5, 0.5]]), np.array([[1.0, 0.0]]), weight=0.25)
        array([[0.75 , 0.125, 0.125]])
    """
    if not 0 <= weight <= 1:
        raise ValueError(f"weight must be from 0 (the classifier) to 1 (the neighbors), got {weight}.")
    knn, classifier = np.asarray(knn, dtype=np.float64), np.asarray(classifier, dtype=np.float64)
    if knn.ndim != 2 or classifier.ndim != 2 or len(knn) != len(classifier) or knn.shape[1] < classifier.shape[1]:
        raise ValueError(
            f"The neighbors' probabilities are of shape {knn.shape} and the classifier's {classifier.shape}: give as "
            "many rows to both, and to the neighbors at least as many labels."
        )
    if classifier.shape[1] == 0 and weight < 1:
        raise ValueError(f"There is no classifier (it has no labels), and weight is {weight}: set it to 1.")
    mixture = weight * knn
    mixture[:, : classifier.shape[1]] += (1 - weight) * classifier
    return mixture


def effective_neighbors(weights: np.ndarray) -> np.ndarray:
    """How many neighbors decide: the effective sample size of weights (Kish 1965)::

        1 / sum_j w_j^2

    Not in the paper. It tells at once what a temperature does: k when all neighbors have the same weight, 1 when the
    nearest decides alone.

    Args:
        weights: ``(N, k)``; each row sums to 1.

    Returns:
        ``(N,)``, float64, from 1 to k.

    Example:

        >>> effective_neighbors(np.array([[0.25, 0.25, 0.25, 0.25], [1, 0, 0, 0]]))
        array([4., 1.])
    """
    return 1 / np.square(np.asarray(weights, dtype=np.float64)).sum(1)


def check_labels(labels: np.ndarray, num_labels: int) -> None:
    """Refuse numbers of labels that there are not; -1 would silently be counted as another label.

    Args:
        labels: Integers, of any shape.
        num_labels: How many labels there are.

    Raises:
        ValueError: If a label is no integer, or not from 0 to ``num_labels`` - 1.

    Example:

        >>> check_labels(np.array([0, 1]), num_labels=2)
    """
    if not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"labels must be integers, or bool of shape (..., C) for several a text, got {labels.dtype}.")
    outside = labels[(labels < 0) | (labels >= num_labels)]
    if outside.size:
        raise ValueError(
            f"Label {outside[0]} is not one of the {num_labels} labels from 0 to {num_labels - 1}: correct num_labels. "
            "A negative label comes from a search for more neighbors than there are."
        )
