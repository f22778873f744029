"""Checks that the keys (embeddings) of a datastore come from this encoder, in the same precision."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from ..encoders.checkpoints.fingerprint import PROBE_TEXTS
from ..encoders.text_warnings import unlogged

if TYPE_CHECKING:
    from ..encoders.text_embedder import TextEmbedder
    from .store import Store

logger = logging.getLogger(__name__)

# Relative to the norm: other weights differ by about 1, another dtype or device by less than 0.01.
PROBE_TOLERANCE = 0.1
# Relative to the norm: one int8 export differs by less between two processors, two exports by 0.05.
EXPORT_TOLERANCE = 0.01
SAMPLED_ROWS = 256  # some may have no text
COMPARED_TEXTS = 64  # of the sampled rows
COMPARED_NEIGHBORS = 10
MIN_RECALL = 0.8


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


def check_same_encoder(probe: np.ndarray | None, other: np.ndarray | None) -> None:
    """Refuse to merge datastores of two encoders, or of one encoder in two precisions."""
    if probe is None or other is None:
        logger.warning("One of the datastores has no probe, so it cannot be checked that both have the same encoder.")
        return
    check_probe(other, probe)
    if not in_one_precision(other, probe):
        raise ValueError(
            "The datastores were built in different precisions, or by two int8 exports: build both in one precision, "
            "with the same calibration_texts."
        )


def in_one_precision(probe: np.ndarray, other: np.ndarray) -> bool:
    """Whether two probes of one encoder, as ``TextEmbedder.probe`` gives them, were made in one precision."""
    own = probe[len(PROBE_TEXTS) :]  # int8 rows
    others = other[len(PROBE_TEXTS) :]
    return own.shape == others.shape and np.linalg.norm(own - others) <= EXPORT_TOLERANCE * np.linalg.norm(others)


def check_precision(embedder: TextEmbedder, probe: np.ndarray, datastore: Store) -> None:
    """Refuse a datastore of another precision if too few neighbors of its own texts stay the same."""
    if datastore.probe is None or not len(datastore) or in_one_precision(probe, datastore.probe):
        return
    own = _precision_name(probe)
    built = _precision_name(datastore.probe)
    mismatch = f"The datastore was built in {built}, but the model runs in {own}"
    if own == built:
        mismatch += " of another export"
    remedy = f"Load the model as the datastore was built, in {built}, or build the datastore again."
    sample = datastore.sample(SAMPLED_ROWS, SAMPLED_ROWS)
    with_text = np.flatnonzero(sample.rows["text"].is_valid())
    if not len(with_text):
        raise ValueError(f"{mismatch}: its neighbors cannot be compared, because it has no texts. {remedy}")
    compared = sample.take(np.random.default_rng(0).permutation(with_text)[:COMPARED_TEXTS])
    columns = compared.rows.to_pydict()
    with unlogged():
        predicted = embedder.embed(columns["text"], columns["text_pair"])
    before = datastore.search(compared.keys, COMPARED_NEIGHBORS + 1, compared.passages).ids
    after = datastore.search(predicted.retrieval_embeddings, COMPARED_NEIGHBORS + 1, predicted.passages).ids
    recall = _recall(columns["id"], before, after)
    result = (
        f"{100 * recall:.1f} % of the {COMPARED_NEIGHBORS} nearest neighbors of {len(before)} of its texts are the same"
    )
    if recall < MIN_RECALL:
        raise ValueError(f"{mismatch}: {result}, fewer than {100 * MIN_RECALL:.0f} %. {remedy}")
    logger.warning("%s: %s. The datastore is used.", mismatch, result)


def _precision_name(probe: np.ndarray) -> str:
    """Return the precision of a probe; only int8 models have more rows than texts."""
    return "int8" if len(probe) > len(PROBE_TEXTS) else "float32 or bfloat16"


def _recall(ids: list[str], before: list[list[str]], after: list[list[str]]) -> float:
    """Mean fraction of the former neighbors, without the row itself, that are still neighbors."""
    fractions = []
    for row_id, ids_before, ids_after in zip(ids, before, after, strict=True):
        neighbors_before = set(_without(ids_before, row_id)[:COMPARED_NEIGHBORS])
        neighbors_after = set(_without(ids_after, row_id)[:COMPARED_NEIGHBORS])
        common = len(neighbors_before & neighbors_after)
        fractions.append(common / len(neighbors_before) if neighbors_before else 1.0)
    return float(np.mean(fractions))


def _without(ids: list[str], own_id: str) -> list[str]:
    return [neighbor_id for neighbor_id in ids if neighbor_id != own_id]
