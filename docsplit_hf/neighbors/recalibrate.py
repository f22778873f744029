"""Calibrating the classifier of a pipeline anew: when it is asked for, and when its examples have grown."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .mixing.datastore_calibration import (
    HELD_OUT,
    TooFewExamplesError,
    calibrate_leaving_one_out,
    calibrate_on_held_out,
    store_calibration,
)
from .store.row_table import encode_known_labels
from .texts_and_labels import names_of_labels, texts_and_pairs

if TYPE_CHECKING:
    from ..models.inference.reader import Reader
    from ..models.portable.configuration_knn_classifier import KNNClassifierConfig
    from .mixing.calibration import Calibration
    from .store.store import Store

GROWTH_TO_RECALIBRATE = 1.1


def recalibrate_on_held_out(reader: Reader, datastore: Store, texts: Any, labels: Sequence[Any]) -> Calibration:
    """Calibrate on held-out texts and the names of their labels, and write it into the model's configuration."""
    texts, pairs = texts_and_pairs(texts)
    predictions = reader.read(texts, pairs)
    numbers = encode_known_labels(names_of_labels(labels), datastore.label_names, datastore.multi_label)
    calibration = calibrate_on_held_out(predictions, numbers, datastore, texts, pairs)
    store_calibration(reader.model.config, calibration, HELD_OUT, len(datastore))
    return calibration


def recalibrate_on_examples(config: KNNClassifierConfig, datastore: Store) -> Calibration:
    """Calibrate by leaving each example out in turn; the weight of a trained classifier is left as it is."""
    calibration = calibrate_leaving_one_out(datastore)
    if config.num_labels:
        calibration = calibration._replace(weight=config.knn_weight)
    store_calibration(config, calibration, "the examples, each left out in turn", len(datastore))
    return calibration


def recalibrate_if_grown(config: KNNClassifierConfig, datastore: Store) -> None:
    """Calibrate neighbors alone when they have grown by a tenth, unless they were calibrated on held-out texts."""
    last = config.knn_calibration or {}
    if config.num_labels or last.get("source") == HELD_OUT:
        return
    if len(datastore) >= GROWTH_TO_RECALIBRATE * last.get("datastore_rows", 0):
        with contextlib.suppress(TooFewExamplesError):
            recalibrate_on_examples(config, datastore)
