"""Checks that the keys (embeddings) of a datastore come from this encoder, in the same precision."""

from __future__ import annotations

import logging

import numpy as np

logger = logging.getLogger(__name__)

# Datastores recognize an encoder by its embeddings of these texts: changing one invalidates every saved datastore.
PROBE_TEXTS = (
    "The contract ends on 31 December, unless both parties renew it in writing.",
    "Glaciers store about two thirds of the fresh water on Earth!",
    "这家公司今天宣布了新的计划。 Où est la bibliothèque ? 0123456789",
)
# Relative to the norm: other weights differ by about 1, another dtype or device by less than 0.01.
PROBE_TOLERANCE = 0.1
# Relative to the norm: one int8 export differs by less between two processors, two exports by 0.05.
EXPORT_TOLERANCE = 0.01


def check_probe(probe: np.ndarray, stored: np.ndarray | None) -> None:
    """Refuse an encoder if its embeddings of the probe texts, ``(P, D)``, differ from the stored ones.

    The probe of an int8 model has float32 rows, then int8 rows; only rows that both probes have are compared.
    """
    if stored is None:
        logger.warning("The datastore has no probe, so it cannot be checked that this encoder made its embeddings.")
        return
    common = min(len(probe), len(stored))
    probe = probe[:common]
    stored = stored[:common]
    remedy = "The datastore was built by another encoder: load that encoder, or rebuild the datastore with this one."
    if probe.shape != stored.shape:
        raise ValueError(f"The encoder's embeddings have shape {probe.shape}, the datastore's {stored.shape}. {remedy}")
    difference = np.linalg.norm(probe - stored)
    norm = np.linalg.norm(stored)
    if not difference <= PROBE_TOLERANCE * norm:  # NaN is refused too
        raise ValueError(
            f"The encoder's embeddings of the probe texts differ from the datastore's by {difference:.3g}, with a norm "
            f"of {norm:.3g}. {remedy}"
        )


def in_one_precision(probe: np.ndarray, other: np.ndarray) -> bool:
    """Whether two probes of one encoder, as ``TextEmbedder.probe`` gives them, were made in one precision."""
    own = probe[len(PROBE_TEXTS) :]  # int8 rows
    others = other[len(PROBE_TEXTS) :]
    return own.shape == others.shape and np.linalg.norm(own - others) <= EXPORT_TOLERANCE * np.linalg.norm(others)
