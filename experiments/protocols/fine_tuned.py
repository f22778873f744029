"""An encoder fine-tuned with its neighbors: what its classifier says of the test texts, and their neighbors."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from datasets import ClassLabel, Dataset, Features, Value
from sklearn.metrics import silhouette_score
from transformers import AutoTokenizer, PrinterCallback, set_seed

from docsplit_hf.classification.arguments import KNNClassifierTrainingArguments
from docsplit_hf.classification.knn_classifier_trainer import KNNClassifierTrainer
from docsplit_hf.evaluation.experiment import Evaluation
from docsplit_hf.evaluation.tasks import ClassificationTask
from docsplit_hf.models.checkpoints.checkpoint import open_checkpoint
from docsplit_hf.models.inference.reader import Reader
from docsplit_hf.models.portable.modeling_knn_classifier import KNNClassifier
from docsplit_hf.neighbors.mixing.calibration import Calibration
from docsplit_hf.neighbors.mixing.mixture import classifier_probabilities
from docsplit_hf.text.holding_out import hold_out_of_each_class
from docsplit_hf.text.labels import texts_of

from ..systems import document_encoder, encoding_options

VALIDATION_SHARE = 0.1
MOST_NEIGHBORS = 128
OWN_POOLING = "own"  # neighbors are looked for with the pooling that is classified
# Table 1 of Liang et al. 2023: how each of its three systems is trained.
VARIANTS = {
    "base": {"decouple": False, "triplet_weight": 0.0},
    "triplet_loss": {"decouple": False, "triplet_weight": 0.5},
    "decoupled": {"decouple": True, "triplet_weight": 0.5},
}


@dataclass(frozen=True)
class FineTuning:
    """What makes a fine-tuned classifier, beside the encoder, the task and the seed."""

    variant: str
    retrieval_pooling: str
    max_length: int
    arguments: tuple[tuple[str, Any], ...]  # of KNNClassifierTrainingArguments

    def settings(self) -> dict[str, Any]:
        """As a record has them."""
        return asdict(self) | {"arguments": dict(self.arguments)}


class FineTuned(NamedTuple):
    """What is said of N test texts of C classes: all that a mixture is made of."""

    classifier: np.ndarray  # probabilities (N, C), equation 1
    distances: np.ndarray  # squared L2 (N, 128), or as many as there are examples, ascending
    neighbor_labels: np.ndarray  # int64, of the same shape
    labels: np.ndarray  # int64 (N,), the right ones
    calibration: Calibration
    examples: int  # in the datastore
    silhouette: float  # of the test texts by their right labels, where neighbors are looked for


def fine_tune(evaluation: Evaluation, how: FineTuning, seed: int) -> FineTuned:
    """Fine-tune the encoder of a system, keep its training set as a datastore, and ask both of the test texts.

    A tenth of each class of the training set is held out: it chooses the best epoch and the calibration.
    """
    task, encoder = evaluation.task, document_encoder(evaluation.system)
    kept, held_out = hold_out_of_each_class(task.train_inputs, task.train_labels, VALIDATION_SHARE, seed)
    if len(np.unique(task.test_labels)) < 2:
        raise ValueError(f"{task.name}: all test texts have one label, so there are no clusters: give others too.")
    if len(held_out) == 0:
        raise ValueError(f"{task.name}: each class has one text, so none can be held out: give more.")
    train = _examples(task, task.train_texts, task.train_labels, task.train_pairs)
    test = _examples(task, task.test_texts, task.test_labels, task.test_pairs)
    set_seed(seed)
    variant = VARIANTS[how.variant]
    model = KNNClassifier.from_encoder(
        evaluation.checkpoint,
        id2label=dict(enumerate(task.label_names)),
        max_length=min(how.max_length, encoder.max_length),
        pooling=encoder.pooling,
        retrieval_pooling=None if how.retrieval_pooling == OWN_POOLING else how.retrieval_pooling,
        decouple=variant["decouple"],
    )
    arguments = {"eval_strategy": "epoch", "save_strategy": "epoch", "save_total_limit": 1, "report_to": "none"}
    arguments |= {"load_best_model_at_end": True, "bf16": encoding_options(evaluation.system).get("bf16", False)}
    arguments |= {"use_cpu": encoder.model.device.type == "cpu", "disable_tqdm": True, "logging_strategy": "no"}
    arguments |= dict(how.arguments)
    tokenizer = AutoTokenizer.from_pretrained(open_checkpoint(evaluation.checkpoint).path)
    with tempfile.TemporaryDirectory() as folder:  # its checkpoints are as large as the encoder, and no result
        training = KNNClassifierTrainingArguments(
            folder, seed=seed, triplet_weight=variant["triplet_weight"], **arguments
        )
        trainer = KNNClassifierTrainer(model, training, train.select(kept), train.select(held_out), tokenizer)
        trainer.remove_callback(PrinterCallback)  # the runner has a bar of its own
        trainer.train()
    datastore = trainer.build_datastore(store_texts=False, show_progress=False)
    calibration = trainer.calibrate()
    predictions = Reader(trainer.classifier, tokenizer).read(*texts_of(test))
    neighbors = datastore.search(predictions.retrieval_embeddings, MOST_NEIGHBORS)
    classifier = classifier_probabilities(predictions.logits, multi_label=False)
    silhouette = float(silhouette_score(predictions.retrieval_embeddings, task.test_labels))
    by_neighbors = (neighbors.distances, neighbors.labels)
    return FineTuned(classifier, *by_neighbors, task.test_labels, calibration, len(datastore), silhouette)


def _examples(task: ClassificationTask, texts: list[str], labels: np.ndarray, pairs: list[str] | None) -> Dataset:
    columns = {"text": texts, "label": labels.tolist()} | ({} if pairs is None else {"text_pair": pairs})
    kinds = dict.fromkeys(columns, Value("string")) | {"label": ClassLabel(names=task.label_names)}
    return Dataset.from_dict(columns, Features(kinds))
