"""From labelled examples to a datastore: embedded by all processes, in batches by tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..models.batched_inference import predict
from ..models.modeling_knn_classifier import MULTI_LABEL
from ..models.packing import use_packing
from .datastore import KNNDatastore

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

    from ..models.configuration_knn_classifier import KNNClassifierConfig
    from ..models.modeling_knn_classifier import KNNClassifier

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


def texts_of(dataset: Dataset) -> tuple[list[str], list[str] | None]:
    """The texts of labelled examples, and the texts paired with them.

    Args:
        dataset: With the column ``text``, and maybe ``text_pair``.

    Returns:
        The texts, and the pairs or None.

    Raises:
        ValueError: If there is no column ``text``.

    Example:

        >>> from datasets import Dataset
        >>> texts_of(Dataset.from_dict({"text": ["a text"], "label": [0]}))
        (['a text'], None)
    """
    if "text" not in dataset.column_names:
        raise ValueError(f"There is no column 'text' among {dataset.column_names}: load with load_labelled_examples.")
    return list(dataset["text"]), list(dataset["text_pair"]) if "text_pair" in dataset.column_names else None


def label_names_of(dataset: Dataset) -> list[str]:
    """The names of the labels of labelled examples, in the order of their numbers.

    Args:
        dataset: With the column ``label`` of ``ClassLabel``, or of lists of it.

    Returns:
        The names.

    Raises:
        ValueError: If there is no such column.

    Example:

        >>> from datasets import ClassLabel, Dataset
        >>> data = Dataset.from_dict({"text": ["a text"], "label": [0]})
        >>> label_names_of(data.cast_column("label", ClassLabel(names=["fruit", "mineral"])))
        ['fruit', 'mineral']
    """
    feature = dataset.features.get("label")
    names = getattr(getattr(feature, "feature", feature), "names", None)
    if names is None:
        raise ValueError(
            f"The column 'label' must hold ClassLabel or lists of it, got {feature}: load with load_labelled_examples, "
            "or cast it with dataset.cast_column('label', ClassLabel(names=[...]))."
        )
    return list(names)


def has_several_labels(dataset: Dataset) -> bool:
    """Whether the examples may have several labels each.

    Args:
        dataset: With the column ``label``.

    Returns:
        True if the column holds lists.
    """
    return hasattr(dataset.features["label"], "feature")


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


def label_array(dataset: Dataset, label_names: tuple[str, ...] | list[str], multi_label: bool) -> np.ndarray:
    """The labels of examples, numbered as in a datastore (or a classifier) instead of as in the data set.

    Args:
        dataset: With the column ``label`` of ``ClassLabel``, or of lists of it.
        label_names: The names in the order that is wanted.
        multi_label: Whether the result has several labels a row.

    Returns:
        int64 ``(N,)``, or bool ``(N, C)``.

    Raises:
        ValueError: If a label has no number there.
    """
    number = {name: i for i, name in enumerate(label_names)}
    names, labels = label_names_of(dataset), dataset.with_format(None)["label"][:]
    order = np.array([number.get(name, -1) for name in names])
    for row, given in enumerate(labels):
        for label in given if multi_label else [given]:
            if label is None or not 0 <= label < len(names):
                raise ValueError(
                    f"The label of row {row} is {label}, which is none of 0 to {len(names) - 1} (-1 stands for a "
                    "label that is kept secret): load_labelled_examples drops such rows."
                )
            if names[label] not in number:
                raise ValueError(f"The label {names[label]!r} is none of those known here: {', '.join(label_names)}.")
    if not multi_label:
        return order[np.array(labels, dtype=np.int64)]
    result = np.zeros((len(labels), len(label_names)), dtype=bool)
    for row, numbers in zip(result, labels, strict=True):
        row[order[np.array(numbers, dtype=np.int64)]] = True
    return result


def build_datastore(
    model: KNNClassifier,
    tokenizer: PreTrainedTokenizerBase,
    dataset: Dataset,
    store_texts: bool = True,
    max_tokens_per_batch: int | None = None,
    bf16: bool = False,
    packing: str = "auto",
    show_progress: bool = True,
    **options: Any,
) -> KNNDatastore:
    """Embed labelled examples and keep them with their labels. See ``KNNDatastore.build``.

    Args:
        model: The classifier whose retrieval embeddings become the keys.
        tokenizer: Its tokenizer.
        dataset: Labelled examples: ``text``, ``label``, maybe ``text_pair`` and ``id``.
        store_texts: Whether to keep the texts, to show them as neighbors.
        max_tokens_per_batch: The most tokens in one forward, padding included where there is any. None: 2,048 on a
            CPU, 32,768 elsewhere.
        bf16: Whether to compute in bfloat16 (autocast): faster where the hardware has it, and not quite the same.
        packing: Whether the model runs without padding: ``"auto"``, where it gives the same; ``"on"``; ``"off"``.
        show_progress: Whether to show a progress bar.
        **options: Passed to ``KNNDatastore``: ``dtype``, ``index``, ``nprobe``, ``rerank``.

    Returns:
        The datastore. Under accelerate each process embeds its share, and all get the whole.

    Raises:
        ValueError: If a text is empty, or the labels do not fit the classifier's.
    """
    texts, pairs = texts_of(dataset)
    for i, text in enumerate(texts):
        if isinstance(text, str) and not text.strip():
            raise ValueError(f"Text {i} is empty: nothing can be near it. load_labelled_examples drops such examples.")
    use_packing(model, packing)
    names, multi_label = label_names_of(dataset), has_several_labels(dataset)
    check_problem_type(model.config, multi_label, "The examples")
    trained = model.config.label_names
    names = trained + [name for name in names if name not in trained]
    labels = label_array(dataset, names, multi_label)
    return KNNDatastore(
        _embed_by_all_processes(model, tokenizer, texts, pairs, max_tokens_per_batch, bf16, show_progress),
        [np.flatnonzero(row).tolist() for row in labels] if multi_label else labels,
        names,
        texts=texts if store_texts else None,
        text_pairs=pairs if store_texts else None,
        ids=list(dataset["id"]) if "id" in dataset.column_names else None,
        multi_label=multi_label,
        probe=encoder_probe(model, tokenizer),
        **options,
    )


def _embed_by_all_processes(
    model: KNNClassifier,
    tokenizer: PreTrainedTokenizerBase,
    texts: list[str],
    pairs: list[str] | None,
    max_tokens_per_batch: int | None,
    bf16: bool,
    show_progress: bool,
) -> np.ndarray:
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
