"""Decoupled fine-tuning as a row of the tables: a classifier with its datastore, trained on a task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..tasks.held_out import hold_out_of_each_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from datasets import Dataset

    from ..tasks.loading import ClassificationTask

VALIDATION_SHARE = 0.1
PARTS = ("classifier", "knn", "mixture")


def decoupled_score(
    checkpoint: str | Path, task: ClassificationTask, output_dir: str | Path, seed: int = 0, **arguments: Any
) -> dict[str, float]:
    """Fine-tune an encoder with a decoupled retrieval representation, and classify with it (Liang et al. 2023).

    Unlike the other experiments it trains the encoder. A tenth of each class of the training set is held out: it
    chooses the best epoch, and k, temperature and weight of the neighbors; the paper chose them on the set that it
    reports.

    Args:
        checkpoint: The encoder: a folder, or a name on the Hub.
        task: The task.
        output_dir: Where the trainer keeps its checkpoints.
        seed: Decides what is held out, the new weights, and the order of the examples.
        **arguments: Passed to ``KNNClassifierTrainingArguments``: ``num_train_epochs``, ``learning_rate``,
            ``per_device_train_batch_size``, ...; and ``max_length`` and ``pooling`` to ``KNNClassifier.from_encoder``.

    Returns:
        ``classifier_accuracy``, ``knn_accuracy``, ``mixture_accuracy``, and the same of ``macro_f1``.

    Raises:
        ValueError: If the classes are too small to hold any example out.

    Example:

        >>> decoupled_score("output/pretrain", task, "output/decoupled")["mixture_accuracy"]  # doctest: +SKIP
        0.91
    """
    from transformers import AutoTokenizer, set_seed

    from ...classification.arguments import KNNClassifierTrainingArguments
    from ...classification.knn_classifier_trainer import KNNClassifierTrainer
    from ...models.checkpoints.checkpoint import open_checkpoint
    from ...models.portable.modeling_knn_classifier import KNNClassifier

    kept, held_out = hold_out_of_each_class(task.train_inputs, task.train_labels, VALIDATION_SHARE, seed)
    if len(held_out) == 0:
        raise ValueError(f"{task.name}: each class has one text, so none can be held out: give more.")
    train = _examples(task, task.train_texts, task.train_labels, task.train_pairs)
    test = _examples(task, task.test_texts, task.test_labels, task.test_pairs)
    set_seed(seed)
    model = KNNClassifier.from_encoder(
        str(checkpoint),
        id2label=dict(enumerate(task.label_names)),
        **{name: arguments.pop(name) for name in ("max_length", "pooling") if name in arguments},
    )
    defaults = {"eval_strategy": "epoch", "save_strategy": "epoch", "save_total_limit": 1, "report_to": "none"}
    training_arguments = KNNClassifierTrainingArguments(
        str(output_dir), seed=seed, load_best_model_at_end=True, **(defaults | arguments)
    )
    tokenizer = AutoTokenizer.from_pretrained(open_checkpoint(checkpoint).path)
    trainer = KNNClassifierTrainer(model, training_arguments, train.select(kept), train.select(held_out), tokenizer)
    trainer.train()
    trainer.build_datastore(store_texts=False, show_progress=False)
    trainer.calibrate()
    metrics = trainer.evaluate_with_neighbors(test, "test")
    return {f"{part}_{name}": metrics[f"test_{part}_{name}"] for part in PARTS for name in ("accuracy", "macro_f1")}


def _examples(
    task: ClassificationTask, texts: Sequence[str], labels: np.ndarray, pairs: Sequence[str] | None
) -> Dataset:
    from datasets import ClassLabel, Dataset

    columns = {"text": texts, "label": labels.tolist()} | ({} if pairs is None else {"text_pair": pairs})
    return Dataset.from_dict(columns).cast_column("label", ClassLabel(names=task.label_names))
