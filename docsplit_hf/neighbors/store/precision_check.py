"""Whether texts find the same neighbors where they are embedded in another precision than those of a datastore."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from ...models.inference.batched_inference import predict
from .embedding import PROBE_TEXTS
from .passage_table import take_passages
from .row_table import values_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from ...models.portable.modeling_knn_classifier import KNNClassifier
    from .snapshot import Snapshot

logger = logging.getLogger(__name__)

TRIED, NEAREST, LEAST_RECALL = 64, 10, 0.8
SAME = 0.01  # of the norm: what one export of int8 differs by on two processors; two exports differ by 0.05 and more


def in_one_precision(probe: np.ndarray, other: np.ndarray) -> bool:
    """Whether two probes of one encoder, as ``encoder_probe`` gives them, were made in one precision."""
    own, others = (made[len(PROBE_TEXTS) :] for made in (probe, other))
    return own.shape == others.shape and np.linalg.norm(own - others) <= SAME * np.linalg.norm(others)


def check_precision(
    model: KNNClassifier, tokenizer: PreTrainedTokenizerBase, probe: np.ndarray, snapshot: Snapshot
) -> None:
    """Try a datastore of another precision with some of its own texts: refuse it where they find others than before."""
    if snapshot.probe is None or not len(snapshot.keys) or in_one_precision(probe, snapshot.probe):
        return
    own, built = (_precision(made) for made in (probe, snapshot.probe))
    what = f"The datastore was built in {built}, and the model runs in {own}"
    if own == built:
        what += " of another export"
    remedy = f"Load the model as the datastore was built, in {built}, or build the datastore again."
    known = np.flatnonzero(snapshot.rows["text"].is_valid())
    if not len(known):
        raise ValueError(f"{what}: without texts in it, its neighbors cannot be tried. {remedy}")
    rows = np.sort(np.random.default_rng(0).permutation(known)[:TRIED])
    texts, pairs = (values_of(snapshot.rows[name], rows) for name in ("text", "text_pair"))
    predicted = predict(model, tokenizer, texts, pairs, log_cut=False)
    recall = _recall(snapshot, rows, predicted.retrieval_embeddings, predicted.passages)
    found = f"of the {NEAREST} nearest neighbors of {len(rows)} of its texts, {100 * recall:.1f} % are the same"
    if recall < LEAST_RECALL:
        raise ValueError(f"{what}: {found}, and {100 * LEAST_RECALL:.0f} % are asked for. {remedy}")
    logger.warning("%s: %s. It is used as it is.", what, found)


def _precision(probe: np.ndarray) -> str:
    return "int8" if len(probe) > len(PROBE_TEXTS) else "float32 or bfloat16"


def _recall(snapshot: Snapshot, rows: np.ndarray, keys: np.ndarray, passages: object) -> float:
    before = snapshot.search(snapshot.keys[rows], NEAREST + 1, take_passages(snapshot.passages, rows)).rows
    after = snapshot.search(keys, NEAREST + 1, passages).rows
    shares = []
    for row, one, other in zip(rows, before, after, strict=True):
        one, other = (set(found[found != row][:NEAREST]) for found in (one, other))
        shares.append(len(one & other) / len(one) if one else 1.0)
    return float(np.mean(shares))
