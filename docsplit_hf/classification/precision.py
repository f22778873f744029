"""Check of a datastore that was built in another precision than the model runs in."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from ..datastore.encoder_fingerprint import in_one_precision
from ..encoders.checkpoints.fingerprint import PROBE_TEXTS
from ..encoders.text_warnings import unlogged

if TYPE_CHECKING:
    from ..datastore.store import Store
    from ..encoders.text_embedder import TextEmbedder

logger = logging.getLogger(__name__)

SAMPLED_ROWS = 256  # some may have no text
CHECKED_TEXTS = 64  # of the sampled rows
NEAREST = 10  # neighbors of each that are compared
LEAST_RECALL = 0.8


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
    sample = datastore.sample(SAMPLED_ROWS, SAMPLED_ROWS)
    known = np.flatnonzero(sample.rows["text"].is_valid())
    if not len(known):
        raise ValueError(f"{what}: without texts in it, its neighbors cannot be tried. {remedy}")
    checked = sample.take(np.random.default_rng(0).permutation(known)[:CHECKED_TEXTS])
    columns = checked.rows.to_pydict()
    with unlogged():
        embedded = embedder.embed(columns["text"], columns["text_pair"])
    before = datastore.search(checked.keys, NEAREST + 1, checked.passages).ids
    after = datastore.search(embedded.retrieval_embeddings, NEAREST + 1, embedded.passages).ids
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
