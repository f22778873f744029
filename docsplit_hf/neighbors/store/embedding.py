"""Embed labeled examples for a datastore, by all processes, with a fingerprint of the encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...models.inference.batched_inference import predict
from ...models.portable.modeling_knn_classifier import MULTI_LABEL
from ...models.portable.packing import use_packing
from ...text.labels import is_multi_label, label_array, label_names_of, texts_of
from .snapshot import Buffers, Snapshot, add_rows, empty_snapshot, update_index

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

    from ...models.portable.configuration_knn_classifier import KNNClassifierConfig
    from ...models.portable.modeling_knn_classifier import KNNClassifier

# The fingerprint of an encoder is its embeddings of these texts: changing one would refuse every saved datastore.
PROBE_TEXTS = (
    "The contract ends on 31 December, unless both parties renew it in writing.",
    "Glaciers store about two thirds of the fresh water on Earth!",
    "这家公司今天宣布了新的计划。 Où est la bibliothèque ? 0123456789",
)


def embed_examples(
    model: KNNClassifier,
    tokenizer: PreTrainedTokenizerBase,
    dataset: Dataset,
    store_texts: bool,
    packing: str,
    limits: dict[str, Any],
    **options: Any,
) -> Snapshot:
    """The state that ``KNNDatastore.build`` begins with; ``limits`` go to ``predict``, ``options`` to the snapshot."""
    texts, pairs = texts_of(dataset)
    for i, text in enumerate(texts):
        if isinstance(text, str) and not text.strip():
            raise ValueError(f"Text {i} is empty: nothing can be near it. load_labeled_examples drops such examples.")
    use_packing(model, packing)
    trained, multi_label = model.config.label_names, is_multi_label(dataset)
    check_problem_type(model.config, multi_label, "The examples")
    names = (*trained, *(name for name in label_names_of(dataset) if name not in trained))
    labels = label_array(dataset, names, multi_label)
    keys = _embed_by_all_processes(model, tokenizer, texts, pairs, limits)
    probe = encoder_probe(model, tokenizer)
    empty = empty_snapshot(keys.shape[1], names, multi_label, probe=probe, **options)
    ids = list(dataset["id"]) if "id" in dataset.column_names else None
    stored = (texts, pairs) if store_texts else (None, None)
    return update_index(add_rows(empty, Buffers(empty), keys, labels, names, *stored, ids), rebuild=True)


def encoder_probe(model: KNNClassifier, tokenizer: PreTrainedTokenizerBase) -> np.ndarray:
    """The fingerprint of an encoder: its retrieval embeddings of a few fixed texts, float32 ``(3, R)``.

    Unlike a checksum of the weights it does not depend on their dtype, nor on the device; and it also changes with the
    tokenizer, the pooling and the retrieval head.
    """
    # Cut short on purpose: the fingerprint of an encoder does not depend on its maximum length.
    return predict(model, tokenizer, PROBE_TEXTS, max_length=16, log_cut=False).retrieval_embeddings


def check_problem_type(config: KNNClassifierConfig, multi_label: bool, examples: str) -> None:
    """Refuse examples with several labels each for a classifier of one, and the reverse; without a head either fits."""
    if config.num_labels and multi_label != (config.problem_type == MULTI_LABEL):
        raise ValueError(
            f"{examples} have {'several labels' if multi_label else 'one label'} each, and the classifier's "
            f"problem_type is {config.problem_type!r}: several labels need {MULTI_LABEL!r}."
        )


def _embed_by_all_processes(
    model: KNNClassifier,
    tokenizer: PreTrainedTokenizerBase,
    texts: list[str],
    pairs: list[str] | None,
    limits: dict[str, Any],
) -> np.ndarray:
    """Float32 ``(N, R)``. Under accelerate each process embeds its share, and all get the whole."""
    import torch
    from accelerate import PartialState
    from accelerate.utils import gather, pad_across_processes

    state = PartialState()
    shares = np.array_split(np.arange(len(texts)), state.num_processes)
    own = shares[state.process_index]
    limits = limits | {"show_progress": limits["show_progress"] and state.is_main_process}
    own_pairs = None if pairs is None else [pairs[i] for i in own]
    embeddings = predict(model, tokenizer, [texts[i] for i in own], own_pairs, **limits).retrieval_embeddings
    if state.num_processes == 1:
        return embeddings
    padded = gather(pad_across_processes(torch.from_numpy(embeddings).to(state.device)))
    parts = padded.cpu().numpy().reshape(state.num_processes, -1, embeddings.shape[1])
    return np.concatenate([part[: len(share)] for part, share in zip(parts, shares, strict=True)])
