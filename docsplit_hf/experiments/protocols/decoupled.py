"""decoupled: an encoder fine-tuned with a decoupled retrieval representation, mixed with its neighbors."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from datasets import ClassLabel, Dataset
from transformers import AutoTokenizer, set_seed

from ...classification.arguments import KNNClassifierTrainingArguments
from ...classification.knn_classifier_trainer import KNNClassifierTrainer
from ...models.checkpoints.checkpoint import open_checkpoint
from ...models.portable.modeling_knn_classifier import KNNClassifier
from ..systems.load_system import System
from ..tasks.held_out import hold_out_of_each_class
from ..tasks.task import ClassificationTask
from .experiment import Evaluation, Experiment, Plan, document_encoder, encoding_options, once_per_seed
from .labeled_features import held_out_settings
from .settings import EvaluationSettings

VALIDATION_SHARE = 0.1


def decoupled_metrics(
    checkpoint: str, task: ClassificationTask, output_dir: str, seed: int, *, max_length: int, pooling: str, **arguments
) -> dict[str, float]:
    """Fine-tune an encoder, build its datastore and classify with both (Liang et al. 2023).

    A tenth of each class of the training set is held out: it chooses the best epoch, and k, temperature and weight of
    the neighbors; the paper chose them on the set that it reports. ``arguments`` are those of the trainer.
    """

    def examples(texts: list[str], labels: np.ndarray, pairs: list[str] | None) -> Dataset:
        columns = {"text": texts, "label": labels.tolist()} | ({} if pairs is None else {"text_pair": pairs})
        return Dataset.from_dict(columns).cast_column("label", ClassLabel(names=task.label_names))

    kept, held_out = hold_out_of_each_class(task.train_inputs, task.train_labels, VALIDATION_SHARE, seed)
    if len(held_out) == 0:
        raise ValueError(f"{task.name}: each class has one text, so none can be held out: give more.")
    train = examples(task.train_texts, task.train_labels, task.train_pairs)
    test = examples(task.test_texts, task.test_labels, task.test_pairs)
    set_seed(seed)
    id2label = dict(enumerate(task.label_names))
    model = KNNClassifier.from_encoder(checkpoint, id2label=id2label, max_length=max_length, pooling=pooling)
    defaults = {"eval_strategy": "epoch", "save_strategy": "epoch", "save_total_limit": 1, "report_to": "none"}
    training_arguments = KNNClassifierTrainingArguments(
        output_dir, seed=seed, load_best_model_at_end=True, **(defaults | arguments)
    )
    tokenizer = AutoTokenizer.from_pretrained(open_checkpoint(checkpoint).path)
    trainer = KNNClassifierTrainer(model, training_arguments, train.select(kept), train.select(held_out), tokenizer)
    trainer.train()
    trainer.build_datastore(store_texts=False, show_progress=False)
    trainer.calibrate()
    metrics = trainer.evaluate_with_neighbors(test, "test")
    parts = {"mixture": "", "classifier": "classifier_", "knn": "knn_"}
    return {
        f"{prefix}{name}": metrics[f"test_{part}_{name}"]
        for part, prefix in parts.items()
        for name in ("accuracy", "macro_f1")
    }


def _refuses(system: System) -> str | None:
    encoder = document_encoder(system)
    if encoder is None:
        return "whose weights are here"
    if encoder.instruction or encoder.projection is not None:
        return "without an instruction and without dense layers behind it"
    if encoding_options(system).get("long_documents") == "average":
        return "that cuts long documents (--long_documents truncate)"
    return None


def _plan(task: ClassificationTask, settings: EvaluationSettings) -> Plan:
    return once_per_seed("decoupled", {"max_length": settings.max_length} | held_out_settings(task), settings)


def _measure(evaluation: Evaluation, settings: Mapping[str, Any], seed: int) -> dict[str, float]:
    encoder = document_encoder(evaluation.system)
    options = {"max_length": encoder.max_length, "pooling": encoder.pooling}
    options["bf16"] = encoding_options(evaluation.system).get("bf16", False)
    with tempfile.TemporaryDirectory() as folder:  # its checkpoints are as large as the encoder, and no result
        return decoupled_metrics(evaluation.checkpoint, evaluation.task, folder, seed, **options)


DECOUPLED = Experiment(
    "the encoder fine-tuned, mixed with its neighbors", (ClassificationTask,), _plan, _measure, _refuses
)
