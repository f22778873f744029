"""The probe of a datastore: whether an encoder is the one that made its keys, in the precision that it had then."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from ...models.checkpoints.fingerprint import PROBE_TEXTS
from ...models.inference.text_warnings import unlogged

if TYPE_CHECKING:
    from ...models.inference.text_embedder import TextEmbedder
    from .store import Store

logger = logging.getLogger(__name__)

PROBE_TOLERANCE = 0.1  # of the norm: other weights differ by about 1, another dtype or device by less than 0.01
SAME_EXPORT = 0.01  # of the norm: what one export of int8 differs by on two processors; two exports differ by 0.05
DRAWN, TRIED, NEAREST, LEAST_RECALL = 256, 64, 10, 0.8  # more are drawn, as some may have no text


def check_probe(probe: np.ndarray, stored: np.ndarray | None) -> None:
    """Refuse an encoder whose embeddings of the probe texts, ``(P, D)``, are not nearly those that are stored.

    Rows that only one of the two has are those of int8 behind those of float32: they do not tell encoders apart.
    """
    if stored is None:
        logger.warning("The datastore has no probe, so whether this encoder made its keys cannot be checked.")
        return
    probe, stored = probe[: len(stored)], stored[: len(probe)]
    remedy = "The datastore was built by another encoder: load that one, or build the datastore again with this one."
    if probe.shape != stored.shape:
        raise ValueError(f"The encoder gives embeddings {probe.shape}, the datastore has {stored.shape}. {remedy}")
    difference, norm = np.linalg.norm(probe - stored), np.linalg.norm(stored)
    if not difference <= PROBE_TOLERANCE * norm:  # NaN is refused too
        raise ValueError(
            f"The encoder's embeddings of the probe texts differ from the datastore's by {difference:.3g}, whose norm "
            f"is {norm:.3g}. {remedy}"
        )


def check_same_encoder(probe: np.ndarray | None, other: np.ndarray | None) -> None:
    """Refuse to merge datastores of two encoders, or of two precisions of one."""
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
    own, others = (made[len(PROBE_TEXTS) :] for made in (probe, other))
    return own.shape == others.shape and np.linalg.norm(own - others) <= SAME_EXPORT * np.linalg.norm(others)


def check_precision(embedder: TextEmbedder, probe: np.ndarray, datastore: Store) -> None:
    """Try a datastore of another precision with some of its own texts: refuse it where they find others than before."""
    if datastore.probe is None or not len(datastore) or in_one_precision(probe, datastore.probe):
        return
    names = "float32 or bfloat16", "int8"
    own, built = (names[len(made) > len(PROBE_TEXTS)] for made in (probe, datastore.probe))
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
        raise ValueError(f"{what}: {found}, and {100 * LEAST_RECALL:.0f} % are asked for. {remedy}")
    logger.warning("%s: %s. It is used as it is.", what, found)


def _recall(ids: list[str], before: list[list[str]], after: list[list[str]]) -> float:
    shares = []
    for row_id, one, other in zip(ids, before, after, strict=True):
        one, other = ({*[found for found in near if found != row_id][:NEAREST]} for near in (one, other))
        shares.append(len(one & other) / len(one) if one else 1.0)
    return float(np.mean(shares))
