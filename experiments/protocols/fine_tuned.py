"""An encoder fine-tuned with its neighbors: class probabilities and neighbors of the test texts."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from datasets import ClassLabel, Dataset, Features, Value
from sklearn.metrics import silhouette_score
from transformers import AutoTokenizer, PrinterCallback, set_seed

from docsplit_hf.classifier.calibration import Calibration
from docsplit_hf.classifier.pipeline import KNNClassifierPipeline
from docsplit_hf.encoding.checkpoints.checkpoint import open_checkpoint
from docsplit_hf.encoding.classifier_embedder import make_embedder
from docsplit_hf.encoding.portable.modeling_knn_classifier import KNNClassifier
from docsplit_hf.finetuning.arguments import KNNClassifierTrainingArguments
from docsplit_hf.finetuning.knn_classifier_trainer import KNNClassifierTrainer
from docsplit_hf.fitting.interpolation import classifier_probabilities
from docsplit_hf.reading.holding_out import hold_out_of_each_class
from docsplit_hf.reading.labels import labels_by_name, texts_of

from ..evaluation.experiment import Evaluation
from ..evaluation.tasks import ClassificationTask
from ..systems import document_encoder, encoding_options

VALIDATION_SHARE = 0.1
MOST_NEIGHBORS = 128
OWN_POOLING = "own"  # retrieval uses the classifier's pooling
# Table 1 of Liang et al. 2023: the training of its three systems.
VARIANTS = {
    "base": {"decouple": False, "triplet_weight": 0.0},
    "triplet_loss": {"decouple": False, "triplet_weight": 0.5},
    "decoupled": {"decouple": True, "triplet_weight": 0.5},
}


@dataclass(frozen=True)
class FineTuning:
    """Options of fine-tuning, beside the encoder, the task and the seed."""

    variant: str
    retrieval_pooling: str
    max_length: int
    arguments: tuple[tuple[str, Any], ...]  # names and values for KNNClassifierTrainingArguments

    def settings(self) -> dict[str, Any]:
        """The settings of a record."""
        return asdict(self) | {"arguments": dict(self.arguments)}


class FineTuned(NamedTuple):
    """The inputs of the mixture for N test texts and C classes."""

    classifier: np.ndarray  # probabilities (N, C), equation 1
    distances: np.ndarray  # squared L2 (N, 128), ascending; fewer columns if there are fewer examples
    neighbor_labels: np.ndarray  # int64, of the same shape
    labels: np.ndarray  # true labels, int64 (N,)
    calibration: Calibration
    examples: int  # in the datastore
    silhouette: float  # of the test texts' retrieval embeddings by their true labels


def fine_tune(evaluation: Evaluation, how: FineTuning, seed: int) -> FineTuned:
    """Fine-tune the encoder of a system, make a datastore of its training set, and apply both to the test texts.

    A tenth of each class of the training set is held out for choosing the best epoch and for calibration.
    """
    task = evaluation.task
    encoder = document_encoder(evaluation.system)
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
    defaults = {
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "save_total_limit": 1,
        "load_best_model_at_end": True,
        "bf16": encoding_options(evaluation.system).get("bf16", False),
        "use_cpu": encoder.model.device.type == "cpu",
        "report_to": "none",
        "logging_strategy": "no",
        "disable_tqdm": True,
    }
    tokenizer = AutoTokenizer.from_pretrained(open_checkpoint(evaluation.checkpoint).path)
    with tempfile.TemporaryDirectory() as folder:  # deletes the checkpoints, each as large as the encoder
        training = KNNClassifierTrainingArguments(
            folder, seed=seed, triplet_weight=variant["triplet_weight"], **(defaults | dict(how.arguments))
        )
        trainer = KNNClassifierTrainer(model, training, train.select(kept), train.select(held_out), tokenizer)
        trainer.remove_callback(PrinterCallback)  # the runner shows a progress bar
        trainer.train()
    datastore = trainer.build_datastore(store_texts=False, show_progress=False)
    pipe = KNNClassifierPipeline(trainer.classifier, tokenizer, datastore, device=trainer.args.device)
    held_out_examples = train.select(held_out)
    labels_of_held_out = labels_by_name(held_out_examples)
    calibration = pipe.calibrate(held_out_texts=held_out_examples, held_out_labels=labels_of_held_out)
    texts, text_pairs = texts_of(test)
    predictions = make_embedder(trainer.classifier, tokenizer).embed(texts, text_pairs)
    neighbors = datastore.search(predictions.retrieval_embeddings, MOST_NEIGHBORS)
    return FineTuned(
        classifier=classifier_probabilities(predictions.logits, multi_label=False),
        distances=neighbors.distances,
        neighbor_labels=neighbors.labels,
        labels=task.test_labels,
        calibration=calibration,
        examples=len(datastore),
        silhouette=float(silhouette_score(predictions.retrieval_embeddings, task.test_labels)),
    )


def _examples(task: ClassificationTask, texts: list[str], labels: np.ndarray, pairs: list[str] | None) -> Dataset:
    columns = {"text": texts, "label": labels.tolist()}
    features = Features({"text": Value("string"), "label": ClassLabel(names=task.label_names)})
    if pairs is not None:
        columns["text_pair"] = pairs
        features["text_pair"] = Value("string")
    return Dataset.from_dict(columns, features)
