"""Model card of a ``KNNClassifier`` with its datastore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from ..encoding.checkpoints.checkpoint import DEFAULT_CHECKPOINT
from ..encoding.portable.configuration_knn_classifier import KNNClassifierConfig
from ..fitting.ensemble.report import LARGEST_CLASS, LATER_FIELDS, WORD_COUNTS, FitReport
from ..training.markdown import code_block, save_model_card, table
from .knn_datastore import KNNDatastore

# Titles of the evaluated parts and of two baselines, on the card and on the screen. The mixture is equation 3; the
# experts are the fitted ensemble.
TITLES = {
    "classifier": "classifier",
    "knn": "neighbors only",
    "mixture": "mixture",
    "experts": "ensemble",
    "word_counts": WORD_COUNTS,
    "largest_class": LARGEST_CLASS,
}
METRIC_TITLES = {"accuracy": "accuracy", "macro_f1": "macro F1", "log_loss": "log loss"}
MAX_LABELS_SHOWN = 20
NOT_TRAINED = "None in this run: a pretrained encoder, with labeled examples."


def save_classifier_card(
    folder: str | Path,
    location: str,
    config: KNNClassifierConfig,
    datastore: KNNDatastore | None,
    training: dict[str, str] | None = None,
    log_history: Sequence[Mapping[str, float]] = (),
) -> None:
    """Write the model card, ``README.md``.

    Args:
        folder: The folder to write to.
        location: The name on the Hub, or the folder, for the usage examples.
        config: The configuration of the classifier.
        datastore: The datastore, if any.
        training: Rows of the table on training: names and values. None: the classifier was not trained.
        log_history: The logs of a ``Trainer``, with the last evaluation.
    """
    fitted = _fitted(datastore)
    base = getattr(config.encoder_config, "name_or_path", "")
    metadata = {
        "library_name": "transformers",
        "pipeline_tag": "text-classification",
        "base_model": base if base.count("/") == 1 or base == DEFAULT_CHECKPOINT else None,
        "tags": ["docsplit-knn", "retrieval-augmented-classification", "nearest-neighbors", "text-classification"],
    }
    labels = _labels(config, datastore)
    if fitted is not None:
        report = replace(fitted, surest_error=None)  # an id may tell more than a card should
        labels += f"\n\nThe report of the fit:\n\n```text\n{report}\n```"
    save_model_card(
        folder,
        __package__,
        location,
        metadata,
        "faiss-cpu",
        heads=_heads(config),
        mixing=_mixing(config, fitted),
        usage=_usage(location, config, fitted is not None),
        labels=labels,
        evaluation=_evaluation(log_history),
        training=table(("", "this run"), training.items()) if training else NOT_TRAINED,
    )


def _heads(config: KNNClassifierConfig) -> str:
    """Phrase on the heads of the encoder, and on its endpoint, if any."""
    heads = "no classification head"
    if config.num_labels:
        heads = "a classification head" + (" and, decoupled from it, a retrieval head" if config.decouple else "")
    endpoint = getattr(config, "endpoint", None)
    return f"{heads}, behind {endpoint}: texts are sent there" if endpoint else heads


def _mixing(config: KNNClassifierConfig, fitted: FitReport | None) -> str:
    """Phrase on the way in which probabilities are computed."""
    if fitted is not None:
        documents = f" and on {fitted.documents:,} documents without labels" if fitted.documents else ""
        return f"{len(fitted.shares)} experts, fitted on them{documents}, are mixed"
    return "the head and of the nearest examples are mixed" if config.num_labels else "the nearest examples decide"


def _fitted(datastore: KNNDatastore | None) -> FitReport | None:
    """Report of the fitted experts, if any."""
    fitted = None if datastore is None else datastore.fitted
    if fitted is None:
        return None
    # A datastore keeps any fitted state, also of other code.
    required = {field.name for field in fields(FitReport)} - LATER_FIELDS
    return FitReport.of(fitted.settings) if required <= fitted.settings.keys() else None


def _usage(location: str, config: KNNClassifierConfig, is_fitted: bool) -> str:
    """Usage examples."""
    usage = f"""import docsplit_hf
from transformers import pipeline

pipe = pipeline("docsplit-knn", model="{location}")
print(pipe("A text to classify.", return_neighbors=3))"""
    if is_fitted:
        usage += """
print(pipe("A text to classify.", explain=True))  # contributions of experts and words"""
    if not config.num_labels:
        return code_block(usage)
    alone = f"""from transformers import AutoModelForSequenceClassification

model = AutoModelForSequenceClassification.from_pretrained("{location}", trust_remote_code=True)"""
    without_package = f"The classifier alone, where docsplit_hf is not installed:\n\n{code_block(alone)}"
    return f"{code_block(usage)}\n\n{without_package}"


def _labels(config: KNNClassifierConfig, datastore: KNNDatastore | None) -> str:
    """Paragraphs on the labels, the examples and the calibration."""
    names = config.label_names if datastore is None else datastore.label_names
    if datastore is None:
        return f"{len(names)} labels: {', '.join(names)}. No datastore was built yet."
    snapshot = datastore.snapshot
    has_texts = snapshot.rows["text"].null_count < len(snapshot.rows)
    counts = snapshot.labels.sum(0) if datastore.multi_label else np.bincount(snapshot.labels, minlength=len(names))
    rows = [(name, f"{count:,}") for name, count in zip(names, counts, strict=True)][:MAX_LABELS_SHOWN]
    more = f"\n\nand {len(names) - len(rows)} more labels." if len(names) > len(rows) else ""
    calibration = config.knn_calibration
    how = "not calibrated" if calibration is None else f"chosen by log likelihood on {calibration['source']}"
    alone = "" if _fitted(datastore) is None else "Without the experts: "
    return (
        f"{len(datastore):,} examples of {snapshot.keys.shape[1]} dimensions, "
        f"{'with' if has_texts else 'without'} their texts. "
        f"{alone}{config.k} neighbors, temperature {config.knn_temperature:.4g}, weight of the neighbors "
        f"{config.knn_weight:.2f}: {how}.\n\n{table(('label', 'examples'), rows)}{more}"
    )


def _evaluation(log_history: Sequence[Mapping[str, float]]) -> str:
    """Table of the last evaluation."""
    evaluations = [logs for logs in log_history if any(name.endswith("_knn_accuracy") for name in logs)]
    if not evaluations:
        return "Not evaluated in this run."
    metrics = evaluations[-1]
    prefix = next(name for name in metrics if name.endswith("_knn_accuracy")).removesuffix("_knn_accuracy")
    rows = [
        (title, *(f"{metrics[f'{prefix}_{part}_{name}']:.4f}" for name in METRIC_TITLES))
        for part, title in TITLES.items()
        if f"{prefix}_{part}_accuracy" in metrics
    ]
    return f"On the {prefix} examples:\n\n" + table(("", *METRIC_TITLES.values()), rows)
