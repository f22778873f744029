"""How good predicted probabilities are: accuracy, macro F1 and log loss."""

from __future__ import annotations

import numpy as np

SMALLEST_PROBABILITY = 1e-12


def classification_metrics(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Accuracy, macro F1 and log loss, by scikit-learn.

    Args:
        probabilities: ``(N, C)``. With one label a text the largest is the prediction; with several, those from 0.5.
        labels: ``(N,)`` numbers, or ``(N, C)`` of 0 and 1 for several labels a text.

    Returns:
        ``accuracy`` (with several labels a text: all of them right), ``macro_f1`` (the mean over the labels that occur
        or are predicted), and ``log_loss`` (mean negative log probability; of the label, or per text and label).

    Raises:
        ValueError: If there is nothing to evaluate.

    Example:

        >>> metrics = classification_metrics(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0]))
        >>> metrics["accuracy"], round(metrics["macro_f1"], 4)
        (0.5, 0.3333)
    """
    labels = np.asarray(labels)
    clipped = np.clip(probabilities.astype(np.float64), SMALLEST_PROBABILITY, 1 - SMALLEST_PROBABILITY)
    if labels.ndim == 1:
        predictions = probabilities.argmax(1)
        likelihood = np.take_along_axis(clipped, labels.astype(np.int64)[:, None], axis=1)
    else:
        labels = labels.astype(bool)
        predictions = probabilities >= 0.5
        likelihood = np.where(labels, clipped, 1 - clipped)
    return prediction_metrics(predictions, labels) | {"log_loss": float(-np.log(likelihood).mean())}


def prediction_metrics(predictions: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Accuracy and macro F1 of predicted labels, by scikit-learn.

    Args:
        predictions: ``(N,)`` numbers, or ``(N, C)`` of booleans for several labels a text.
        labels: Of the same shape.

    Returns:
        ``accuracy`` and ``macro_f1`` as ``classification_metrics`` gives them.

    Raises:
        ValueError: If there is nothing to evaluate.

    Example:

        >>> prediction_metrics(np.array([0, 1]), np.array([0, 1]))
        {'accuracy': 1.0, 'macro_f1': 1.0}
    """
    from sklearn.metrics import accuracy_score, f1_score

    if len(labels) == 0:
        raise ValueError("There are no examples to evaluate.")
    return {
        "accuracy": float(accuracy_score(labels, predictions)),
        "macro_f1": float(f1_score(labels, predictions, average="macro", zero_division=0)),
    }


def describe_parts(metrics: dict[str, float], prefix: str, examples: int) -> str:
    """The last screen of a run: how good classifier, neighbors and mixture are.

    Args:
        metrics: As ``KNNClassifierTrainer.evaluate_with_neighbors`` gives them.
        prefix: The prefix of their names.
        examples: The number of examples.

    Returns:
        Four lines.

    Example:

        >>> parts = ("classifier", "knn", "mixture")
        >>> metrics = {f"test_{part}_{name}": 0.5 for part in parts for name in ("accuracy", "macro_f1", "log_loss")}
        >>> print(describe_parts(metrics, "test", 9).splitlines()[1])
          classifier   accuracy  50.0 %   macro F1  50.0 %   log loss 0.500
    """
    titles = {"classifier": "classifier", "knn": "neighbors", "mixture": "mixture"}
    template = "  {:<12} accuracy {:5.1f} %   macro F1 {:5.1f} %   log loss {:.3f}"
    lines = [f"On {examples:,} {prefix} examples:"]
    for part, title in titles.items():
        accuracy, macro_f1, log_loss = (
            metrics[f"{prefix}_{part}_{name}"] for name in ("accuracy", "macro_f1", "log_loss")
        )
        lines.append(template.format(title, 100 * accuracy, 100 * macro_f1, log_loss))
    return "\n".join(lines)
