"""Checks that an encoder made the keys of a datastore, in the same precision."""

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

PROBE_TOLERANCE = 0.1  # of the norm: other weights differ by about 1, another dtype or device by less than 0.01
SAME_EXPORT = 0.01  # of the norm: one int8 export on two processors differs by less, two exports by 0.05
DRAWN = 256  # rows drawn for a trial; some may have no text
TRIED = 64  # of them, with texts
NEAREST = 10  # neighbors compared
LEAST_RECALL = 0.8


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


def check_precision(embedder: TextEmbedder, probe: np.ndarray, datastore: Store) -> None:
    """Refuse a datastore of another precision if too few neighbors of its own texts stay the same."""
    if datastore.probe is None or not len(datastore) or in_one_precision(probe, datastore.probe):
        return
    own = _precision_name(probe)
    built = _precision_name(datastore.probe)
    what = f"The datastore was built in {built}, and the model runs in {own}"
    if own == built:
        what += " of another export"
    remedy = f"Load the model as the datastore was built, in {built}, or build the datastore again."
    sample = datastore.sample(DRAWN, DRAWN)
    known = np.flatnonzero(sample.rows["text"].is_valid())
    if not len(known):
        raise ValueError(f"{what}: without texts in it, its neighbors cannot be tried. {remedy}")
    tried = sample.take(np.random.default_rng(0).permutation(known)[:TRIED])
    columns = tried.rows.to_pydict()
    with unlogged():
        predicted = embedder.embed(columns["text"], columns["text_pair"])
    before = datastore.search(tried.keys, NEAREST + 1, tried.passages).ids
    after = datastore.search(predicted.retrieval_embeddings, NEAREST + 1, predicted.passages).ids
    recall = _recall(columns["id"], before, after)
    found = f"of the {NEAREST} nearest neighbors of {len(before)} of its texts, {100 * recall:.1f} % are the same"
    if recall < LEAST_RECALL:
        raise ValueError(f"{what}: {found}, fewer than {100 * LEAST_RECALL:.0f} %. {remedy}")
    logger.warning("%s: %s. The datastore is used.", what, found)


def _precision_name(probe: np.ndarray) -> str:
    """The precision that a probe was made in; only int8 models have more rows than texts."""
    return "int8" if len(probe) > len(PROBE_TEXTS) else "float32 or bfloat16"


def _recall(ids: list[str], before: list[list[str]], after: list[list[str]]) -> float:
    """Mean fraction of the neighbors before, without the row itself, that are neighbors after."""
    fractions = []
    for row_id, ids_before, ids_after in zip(ids, before, after, strict=True):
        neighbors_before = {*[found for found in ids_before if found != row_id][:NEAREST]}
        neighbors_after = {*[found for found in ids_after if found != row_id][:NEAREST]}
        common = len(neighbors_before & neighbors_after)
        fractions.append(common / len(neighbors_before) if neighbors_before else 1.0)
    return float(np.mean(fractions))
