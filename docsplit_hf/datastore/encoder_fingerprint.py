"""Checks that an encoder made the keys of a datastore, in the same precision."""

from __future__ import annotations

import logging

import numpy as np

from ..encoders.checkpoints.fingerprint import PROBE_TEXTS

logger = logging.getLogger(__name__)

PROBE_TOLERANCE = 0.1  # of the norm: other weights differ by about 1, another dtype or device by less than 0.01
SAME_EXPORT = 0.01  # of the norm: one int8 export on two processors differs by less, two exports by 0.05


def check_probe(probe: np.ndarray, stored: np.ndarray | None) -> None:
    """Refuse an encoder with other embeddings of the probe texts, ``(P, D)``, than the stored ones.

    A probe of an int8 model has int8 rows behind those of float32; only rows that both have are compared.
    """
    if stored is None:
        logger.warning("The datastore has no probe, so whether this encoder made its keys cannot be checked.")
        return
    common = min(len(probe), len(stored))
    probe = probe[:common]
    stored = stored[:common]
    remedy = "The datastore was built by another encoder: load that one, or build the datastore again with this one."
    if probe.shape != stored.shape:
        raise ValueError(f"The encoder gives embeddings {probe.shape}, the datastore has {stored.shape}. {remedy}")
    difference = np.linalg.norm(probe - stored)
    norm = np.linalg.norm(stored)
    if not difference <= PROBE_TOLERANCE * norm:  # NaN is refused too
        raise ValueError(
            f"The encoder's embeddings of the probe texts differ from the datastore's by {difference:.3g}, and the "
            f"norm of these is {norm:.3g}. {remedy}"
        )


def check_same_encoder(probe: np.ndarray | None, other: np.ndarray | None) -> None:
    """Refuse to merge datastores of two encoders, or of one encoder in two precisions."""
    if probe is None or other is None:
        logger.warning("One of the datastores has no probe, so whether the encoders are the same cannot be checked.")
        return
    check_probe(other, probe)
    if not in_one_precision(other, probe):
        raise ValueError(
            "One of the datastores was built in int8, and the other was not, or by another export: build both in one "
            "precision, with the same calibration_texts."
        )


def in_one_precision(probe: np.ndarray, other: np.ndarray) -> bool:
    """Whether two probes of one encoder, as ``TextEmbedder.probe`` gives them, were made in one precision."""
    own = probe[len(PROBE_TEXTS) :]  # int8 rows
    others = other[len(PROBE_TEXTS) :]
    return own.shape == others.shape and np.linalg.norm(own - others) <= SAME_EXPORT * np.linalg.norm(others)
