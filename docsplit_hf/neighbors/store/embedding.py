"""Labeled examples into keys, by all processes, and the fingerprint of the encoder that made them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...models.inference.batched_inference import predict
from ...models.portable.modeling_knn_classifier import MULTI_LABEL

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from ...models.portable.configuration_knn_classifier import KNNClassifierConfig
    from ...models.portable.modeling_knn_classifier import KNNClassifier

# What an encoder makes of these tells it from others: its fingerprint. They are never to be changed.
PROBE_TEXTS = (
    "The contract ends on 31 December, unless both parties renew it in writing.",
    "Glaciers store about two thirds of the fresh water on Earth!",
    "这家公司今天宣布了新的计划。 Où est la bibliothèque ? 0123456789",
)


def encoder_probe(model: KNNClassifier, tokenizer: PreTrainedTokenizerBase) -> np.ndarray:
    """The fingerprint of an encoder: its retrieval embeddings of a few fixed texts.

    Unlike a checksum of the weights it does not depend on their dtype, nor on the device; and it also changes with the
    tokenizer, the pooling and the retrieval head.

    Args:
        model: The classifier.
        tokenizer: Its tokenizer.

    Returns:
        float32 ``(3, R)``.
    """
    # Cut short on purpose: the fingerprint of an encoder does not depend on its maximum length.
    return predict(model, tokenizer, PROBE_TEXTS, max_length=16, log_cut=False).retrieval_embeddings


def check_problem_type(config: KNNClassifierConfig, multi_label: bool, examples: str) -> None:
    """Refuse examples with several labels each for a classifier of one, and the other way round.

    Args:
        config: The classifier's configuration. Without a classification head, examples of either kind will do.
        multi_label: Whether the examples may have several labels each.
        examples: What the error calls them.

    Raises:
        ValueError: If they do not fit.

    Example:

        >>> from docsplit_hf import KNNClassifierConfig
        >>> check_problem_type(KNNClassifierConfig(num_labels=2), multi_label=False, examples="The examples")
    """
    if config.num_labels and multi_label != (config.problem_type == MULTI_LABEL):
        raise ValueError(
            f"{examples} have {'several labels' if multi_label else 'one label'} each, and the classifier's "
            f"problem_type is {config.problem_type!r}: several labels need {MULTI_LABEL!r}."
        )


def embed_by_all_processes(
    model: KNNClassifier,
    tokenizer: PreTrainedTokenizerBase,
    texts: list[str],
    pairs: list[str] | None,
    max_tokens_per_batch: int | None,
    bf16: bool,
    show_progress: bool,
) -> np.ndarray:
    """The retrieval embeddings of texts; under accelerate each process embeds its share, and all get the whole.

    Args:
        model: The classifier.
        tokenizer: Its tokenizer.
        texts: N texts.
        pairs: The second texts of pairs, or None.
        max_tokens_per_batch: As for ``predict``.
        bf16: As for ``predict``.
        show_progress: Whether the first process shows a progress bar.

    Returns:
        float32 ``(N, R)``.
    """
    import torch
    from accelerate import PartialState
    from accelerate.utils import gather, pad_across_processes

    state = PartialState()
    shares = np.array_split(np.arange(len(texts)), state.num_processes)
    own = shares[state.process_index]
    embeddings = predict(
        model,
        tokenizer,
        [texts[i] for i in own],
        None if pairs is None else [pairs[i] for i in own],
        max_tokens_per_batch=max_tokens_per_batch,
        bf16=bf16,
        show_progress=show_progress and state.is_main_process,
    ).retrieval_embeddings
    if state.num_processes == 1:
        return embeddings
    padded = gather(pad_across_processes(torch.from_numpy(embeddings).to(state.device)))
    parts = padded.cpu().numpy().reshape(state.num_processes, -1, embeddings.shape[1])
    return np.concatenate([part[: len(share)] for part, share in zip(parts, shares, strict=True)])
