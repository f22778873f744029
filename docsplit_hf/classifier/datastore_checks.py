"""Checks that a datastore fits its classifier: one label or several, and the precision that it was built in."""

from __future__ import annotations

import logging

import numpy as np

from ..arrays.probe import PROBE_TEXTS, in_one_precision
from ..arrays.snapshot import Snapshot
from ..encoding.portable.configuration_knn_classifier import KNNClassifierConfig
from ..encoding.portable.modeling_knn_classifier import MULTI_LABEL
from ..encoding.text_embedder import TextEmbedder
from ..reading.text_warnings import unlogged

logger = logging.getLogger(__name__)

SAMPLED_ROWS = 256  # some may have no text
COMPARED_TEXTS = 64  # of the sampled rows
COMPARED_NEIGHBORS = 10
MIN_RECALL = 0.8


def check_problem_type(config: KNNClassifierConfig, multi_label: bool, examples: str) -> None:
    """Refuse examples whose number of labels does not fit the classifier's head; without a head, accept all."""
    if config.num_labels and multi_label != (config.problem_type == MULTI_LABEL):
        raise ValueError(
            f"{examples} have {'several labels' if multi_label else 'one label'} each, and the classifier's "
            f"problem_type is {config.problem_type!r}: several labels need {MULTI_LABEL!r}."
        )


def check_precision(embedder: TextEmbedder, probe: np.ndarray, snapshot: Snapshot) -> None:
    """Refuse a datastore of another precision if too few neighbors of its own texts stay the same."""
    if snapshot.probe is None or not len(snapshot.keys) or in_one_precision(probe, snapshot.probe):
        return
    own = _precision_name(probe)
    built = _precision_name(snapshot.probe)
    mismatch = f"The datastore was built in {built}, but the model runs in {own}"
    if own == built:
        mismatch += " of another export"
    remedy = f"Load the model as the datastore was built, in {built}, or build the datastore again."
    sample = snapshot.sample(SAMPLED_ROWS, SAMPLED_ROWS)
    known = np.flatnonzero(sample.rows["text"].is_valid())
    if not len(known):
        raise ValueError(f"{mismatch}: its neighbors cannot be compared, because it has no texts. {remedy}")
    checked = sample.take(np.random.default_rng(0).permutation(known)[:COMPARED_TEXTS])
    columns = checked.rows.to_pydict()
    with unlogged():
        embedded = embedder.embed(columns["text"], columns["text_pair"])
    before = snapshot.search(checked.keys, COMPARED_NEIGHBORS + 1, checked.passages).ids
    after = snapshot.search(embedded.retrieval_embeddings, COMPARED_NEIGHBORS + 1, embedded.passages).ids
    recall = _recall(columns["id"], before, after)
    result = (
        f"{100 * recall:.1f} % of the {COMPARED_NEIGHBORS} nearest neighbors of {len(before)} of its texts are the same"
    )
    if recall < MIN_RECALL:
        raise ValueError(f"{mismatch}: {result}, fewer than {100 * MIN_RECALL:.0f} %. {remedy}")
    logger.warning("%s: %s. The datastore is used.", mismatch, result)


def _precision_name(probe: np.ndarray) -> str:
    """The precision that a probe was made in; only int8 models have more rows than texts."""
    return "int8" if len(probe) > len(PROBE_TEXTS) else "float32 or bfloat16"


def _recall(ids: list[str], before: list[list[str]], after: list[list[str]]) -> float:
    """Mean fraction of the neighbors before, without the row itself, that are neighbors after."""
    fractions = []
    for row_id, ids_before, ids_after in zip(ids, before, after, strict=True):
        neighbors_before = {*[found for found in ids_before if found != row_id][:COMPARED_NEIGHBORS]}
        neighbors_after = {*[found for found in ids_after if found != row_id][:COMPARED_NEIGHBORS]}
        common = len(neighbors_before & neighbors_after)
        fractions.append(common / len(neighbors_before) if neighbors_before else 1.0)
    return float(np.mean(fractions))
