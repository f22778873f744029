"""Arguments of fine-tuning, and checks that model and examples fit them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from transformers.hf_argparser import HfArg

from ..classifier.datastore_checks import check_problem_type
from ..encoding.classifier_embedder import make_embedder
from ..encoding.portable.modeling_knn_classifier import MULTI_LABEL, KNNClassifier
from ..encoding.portable.run_encoder import check_max_length
from ..reading.labels import has_several_labels, label_array, label_names_of, texts_of
from ..training.arguments import ShareableTrainingArguments, check_processes, check_vocabulary, check_weights

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


@dataclass
class KNNClassifierTrainingArguments(ShareableTrainingArguments):
    """Arguments of ``KNNClassifierTrainer``: those of ``TrainingArguments`` and the following.

    Args:
        triplet_weight: Beta of equation 4, from 0 to below 1: the loss is (1 - beta) x cross entropy + beta x triplet
            loss. The default is that of the paper, 0.5. 0 trains only the classifier.
        triplet_margin: Mu of equation 4, a squared L2 distance. The paper does not give its value.

    > Defaults that differ from ``TrainingArguments``

    - ``num_train_epochs=3``, ``learning_rate=2e-5`` and ``per_device_train_batch_size=32``, as in the paper (appendix
      A: 2e-5 with 64 for MacBERT, 1e-5 with 32 for RoBERTa).
    - ``warmup_steps=0.1``, a tenth of all steps. A small data set has fewer steps than the 100 to 300 of the paper.
    - ``metric_for_best_model="macro_f1"``, ``greater_is_better=True``: macro F1 of the classifier on held-out examples.
    - On CUDA, ``dataloader_num_workers`` is half of the cores, up to 8.
    - ``hub_strategy="end"``, ``ddp_find_unused_parameters=False``, and no re-entrant activation checkpointing.

    Raises:
        ValueError: If a value is out of its range.
    """

    triplet_weight: float = HfArg(
        default=0.5, help="Weight of the triplet loss against cross entropy; 0 is without. Paper: 0.5."
    )
    triplet_margin: float = HfArg(
        default=0.1, help="Margin of the triplet loss, in squared L2 distance. Not stated in the paper."
    )
    learning_rate: float = HfArg(default=2e-5, help="The peak learning rate. Paper: 2e-5 or 1e-5.")
    num_train_epochs: float = HfArg(default=3.0, help="Passes over the training set. Paper: 3.")
    per_device_train_batch_size: int = HfArg(default=32, help="Texts per process and step. Paper: 64 or 32.")
    warmup_steps: float = HfArg(default=0.1, help="Warm-up steps, or below 1 the fraction of all steps.")
    metric_for_best_model: str | None = HfArg(default="macro_f1", help="The metric that decides the best checkpoint.")
    greater_is_better: bool | None = HfArg(default=True, help="Whether a higher value of that metric is better.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.triplet_weight < 1:
            raise ValueError(
                f"triplet_weight must be from 0 to below 1, got {self.triplet_weight}: at 1 the classifier would not "
                "be trained. The paper uses 0.5."
            )
        if not self.triplet_margin >= 0:
            raise ValueError(f"triplet_margin must be 0 or above, got {self.triplet_margin}.")


def check_classifier_fit(
    model: KNNClassifier,
    args: KNNClassifierTrainingArguments,
    train_dataset: Dataset | None,
    eval_dataset: Dataset | None,
    tokenizer: PreTrainedTokenizerBase | None,
) -> None:
    """Raise ValueError if model (without PEFT's wrapper), arguments and examples do not fit together."""
    if not isinstance(model, KNNClassifier):
        raise ValueError(f"{type(model).__name__} is not a KNNClassifier: load it with KNNClassifier.from_encoder.")
    if tokenizer is None:
        raise ValueError("Give the tokenizer as processing_class: the texts are tokenized batch by batch.")
    if tokenizer.pad_token is None:
        raise ValueError("The tokenizer has no padding token: set one, as tokenizer.pad_token = tokenizer.eos_token.")
    check_vocabulary(model, tokenizer)
    if train_dataset is not None:
        check_weights(model)
    if model.config.max_length:
        check_max_length(model.config.max_length, model.encoder)
    make_embedder(model, tokenizer).check()
    if model.config.num_labels == 0:
        raise ValueError("The model has no classification head to train: give id2label to KNNClassifier.from_encoder.")
    if model.config.prompt and not model.config.include_prompt:
        raise ValueError(
            "The encoder's pooling leaves out its prompt (include_prompt=False), and training does not: pass prompt='' "
            "to KNNClassifier.from_encoder."
        )
    if args.triplet_weight == 0 and model.config.decouple:
        raise ValueError(
            "triplet_weight=0 would leave the decoupled retrieval head untrained: raise it, or set decouple=False to "
            "search neighbors with the representation of the classifier."
        )
    if args.label_smoothing_factor and model.config.problem_type == MULTI_LABEL:
        raise ValueError(
            "label_smoothing_factor is for one label per text, and these texts may have several: set it to 0."
        )
    check_processes(args)
    for name, dataset in (("training", train_dataset), ("held-out", eval_dataset)):
        if dataset is not None:
            _check_examples(name, dataset, model)


def _check_examples(name: str, dataset: Dataset, model: KNNClassifier) -> None:
    """Raise ValueError if examples are unusable, or their labels are not those of the model."""
    if not hasattr(dataset, "select"):
        raise ValueError(f"The {name} examples are a {type(dataset).__name__}: give one datasets.Dataset.")
    texts_of(dataset.select([0]) if len(dataset) else dataset)
    if len(dataset) == 0:
        raise ValueError(f"There are no {name} examples.")
    own = label_names_of(dataset)
    trained = model.config.label_names
    if own != trained:
        raise ValueError(
            f"The {name} examples have the labels {own}, and the model {trained}: build the model with "
            "id2label=dict(enumerate(dataset.features['label'].names)), so that the numbers agree."
        )
    check_problem_type(model.config, has_several_labels(dataset), f"The {name} examples")
    label_array(dataset, own, has_several_labels(dataset))
