"""Adding labeled examples to a classifier's datastore, which may not be there yet."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from ..models.inference.batched_inference import predict
from ..models.portable.modeling_knn_classifier import MULTI_LABEL
from .store.datastore import KNNDatastore
from .store.duplicates import first_of_equals, ids_of_examples
from .store.embedding import encoder_probe
from .store.labels import is_multi_label
from .texts_and_labels import names_of_labels, texts_and_pairs

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from ..models.portable.modeling_knn_classifier import KNNClassifier

logger = logging.getLogger(__name__)


def add_examples(
    model: KNNClassifier,
    tokenizer: PreTrainedTokenizerBase,
    datastore: KNNDatastore | None,
    texts: Any,
    labels: Sequence[Any],
    ids: Sequence[str] | None,
    allow_new_labels: bool,
    allow_duplicates: bool,
) -> tuple[list[str], KNNDatastore | None]:
    """Add examples as ``KNNClassifierPipeline.add_examples`` says; gives the ids, and the datastore if it has grown."""
    config, ids = model.config, None if ids is None else list(ids)
    texts, pairs = texts_and_pairs(texts)
    labels = names_of_labels(labels)
    for i, text in enumerate(texts):
        if not text.strip():
            raise ValueError(f"Text {i} is empty: nothing can be near it. Leave it out.")
    if len(labels) != len(texts):
        raise ValueError(f"{len(texts)} texts and {len(labels)} labels: give one label for each text.")
    if datastore is None:
        several = config.problem_type == MULTI_LABEL if config.num_labels else is_multi_label(labels)
        probe = encoder_probe(model, tokenizer)
        datastore = KNNDatastore.empty(config.retrieval_size, config.label_names, multi_label=several, probe=probe)
    if not allow_new_labels and (len(datastore) > 0 or config.num_labels):
        _refuse_new_labels(labels, datastore.label_names)
    if ids is not None and len(ids) != len(texts):
        raise ValueError(f"{len(texts)} texts and {len(ids)} ids: give one id for each text.")
    known: list[Any] = [None] * len(texts)
    first: Sequence[int] = range(len(texts))
    if not allow_duplicates:
        known = ids_of_examples(datastore._state, texts, pairs, labels)
        first = first_of_equals(texts, pairs, labels)
    rows = [i for i in range(len(texts)) if first[i] == i and known[i] is None]
    if len(rows) < len(texts):
        logger.warning(
            "%d of %d examples are there already with the same label, and are not added again%s: "
            "allow_duplicates=True adds them.",
            *(len(texts) - len(rows), len(texts), "" if ids is None else ", nor are their ids"),
        )
    if not rows:
        return [known[i] for i in first], None
    new, new_pairs, new_labels = ([given[i] for i in rows] for given in (texts, pairs, labels))
    keys = predict(model, tokenizer, new, new_pairs).retrieval_embeddings
    new_ids = None if ids is None else [ids[i] for i in rows]
    added = datastore.add(keys, new_labels, texts=new, text_pairs=new_pairs, ids=new_ids)
    for i, added_id in zip(rows, added, strict=True):
        known[i] = added_id
    return [known[i] for i in first], datastore


def _refuse_new_labels(labels: list[Any], known: Sequence[str]) -> None:
    for given in labels:
        for label in [given] if isinstance(given, str) else given:
            if label not in known:
                near = get_close_matches(label, known, n=1)
                raise ValueError(
                    f"The label {label!r} is none of {', '.join(known)}."
                    f"{f' Did you mean {near[0]!r}?' if near else ''} If it is to be a new one, pass "
                    "allow_new_labels=True."
                )
