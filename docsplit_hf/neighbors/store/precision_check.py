"""Whether texts find the same neighbors where they are embedded in another precision than those of a datastore."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from ...models.checkpoints.fingerprint import PROBE_TEXTS
from ...models.inference.text_warnings import unlogged
from .keys.passage_table import take_passages
from .sampling import take_rows

if TYPE_CHECKING:
    from ...models.inference.reader import Reader
    from .store import Store

logger = logging.getLogger(__name__)

DRAWN, TRIED, NEAREST, LEAST_RECALL = 256, 64, 10, 0.8  # more are drawn, as some may have no text
SAME = 0.01  # of the norm: what one export of int8 differs by on two processors; two exports differ by 0.05 and more


def in_one_precision(probe: np.ndarray, other: np.ndarray) -> bool:
    """Whether two probes of one encoder, as ``Reader.probe`` gives them, were made in one precision."""
    own, others = (made[len(PROBE_TEXTS) :] for made in (probe, other))
    return own.shape == others.shape and np.linalg.norm(own - others) <= SAME * np.linalg.norm(others)


def check_precision(reader: Reader, probe: np.ndarray, datastore: Store) -> None:
    """Try a datastore of another precision with some of its own texts: refuse it where they find others than before."""
    if datastore.probe is None or not len(datastore) or in_one_precision(probe, datastore.probe):
        return
    own, built = (_precision(made) for made in (probe, datastore.probe))
    what = f"The datastore was built in {built}, and the model runs in {own}"
    if own == built:
        what += " of another export"
    remedy = f"Load the model as the datastore was built, in {built}, or build the datastore again."
    sample = datastore.sample(DRAWN, DRAWN)
    known = np.flatnonzero(sample.rows["text"].is_valid())
    if not len(known):
        raise ValueError(f"{what}: without texts in it, its neighbors cannot be tried. {remedy}")
    tried = take_rows(sample, np.random.default_rng(0).permutation(known)[:TRIED])
    columns = tried.rows.to_pydict()
    with unlogged():
        predicted = reader.read(columns["text"], columns["text_pair"])
    passages = take_passages(tried.passages, np.arange(len(tried.keys)))
    before = datastore.search(tried.keys, NEAREST + 1, passages).ids
    after = datastore.search(predicted.retrieval_embeddings, NEAREST + 1, predicted.passages).ids
    recall = _recall(columns["id"], before, after)
    found = f"of the {NEAREST} nearest neighbors of {len(before)} of its texts, {100 * recall:.1f} % are the same"
    if recall < LEAST_RECALL:
        raise ValueError(f"{what}: {found}, and {100 * LEAST_RECALL:.0f} % are asked for. {remedy}")
    logger.warning("%s: %s. It is used as it is.", what, found)


def _precision(probe: np.ndarray) -> str:
    return "int8" if len(probe) > len(PROBE_TEXTS) else "float32 or bfloat16"


def _recall(ids: list[str], before: list[list[str]], after: list[list[str]]) -> float:
    shares = []
    for row_id, one, other in zip(ids, before, after, strict=True):
        one, other = ({*[found for found in near if found != row_id][:NEAREST]} for near in (one, other))
        shares.append(len(one & other) / len(one) if one else 1.0)
    return float(np.mean(shares))
