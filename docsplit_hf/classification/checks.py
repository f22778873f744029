"""Whether model, arguments and examples of a classification run fit together."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..models.inference.reader import Reader
from ..models.portable.modeling_knn_classifier import MULTI_LABEL, KNNClassifier
from ..models.portable.positions import check_max_length
from ..neighbors.store.embedding import check_problem_type
from ..text.labels import is_multi_label, label_array, label_names_of, texts_of
from ..training.common_checks import check_processes, check_vocabulary, check_weights
from .arguments import KNNClassifierTrainingArguments

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)


def freeze_what_no_loss_reads(model: KNNClassifier) -> None:
    """Freeze the encoder's pooler where it cannot be left out: DDP waits for the gradient of what is not frozen."""
    unused = [parameter for name, parameter in model.encoder.named_parameters() if name.startswith("pooler.")]
    for parameter in unused:
        parameter.requires_grad_(False)
    if unused:
        logger.info("Froze %d parameters of the encoder's pooler.", sum(p.numel() for p in unused))


def check_classifier_fit(
    model: KNNClassifier,
    args: KNNClassifierTrainingArguments,
    train_dataset: Dataset | None,
    eval_dataset: Dataset | None,
    tokenizer: PreTrainedTokenizerBase | None,
) -> None:
    """Refuse what would fail in the first step, and say what to do; the model is without PEFT's wrapper."""
    if not isinstance(model, KNNClassifier):
        raise ValueError(f"{type(model).__name__} is no KNNClassifier: load it with KNNClassifier.from_encoder.")
    if tokenizer is None:
        raise ValueError("Give the tokenizer as processing_class: the texts are tokenized batch by batch.")
    if tokenizer.pad_token is None:
        raise ValueError("The tokenizer has no padding token: set one, as tokenizer.pad_token = tokenizer.eos_token.")
    check_vocabulary(model, tokenizer)
    if train_dataset is not None:
        check_weights(model)
    if model.config.max_length:
        check_max_length(model.config.max_length, model.encoder)
    Reader(model, tokenizer).check()
    if model.config.num_labels == 0:
        raise ValueError("The model has no classification head to train: give id2label to KNNClassifier.from_encoder.")
    if args.triplet_weight == 0 and model.config.decouple:
        raise ValueError(
            "triplet_weight=0 would leave the decoupled retrieval head untrained: raise it, or set decouple=False to "
            "look for neighbors with the representation that is classified."
        )
    if args.label_smoothing_factor and model.config.problem_type == MULTI_LABEL:
        raise ValueError("label_smoothing_factor is for one label per text, and these have several: set it to 0.")
    check_processes(args)
    if args.gather_candidates and args.world_size > 1 and not args.accelerator_config.even_batches:
        raise ValueError("Gathered candidates need as many texts on each process: do without even_batches=False.")
    for name, dataset in (("training", train_dataset), ("held-out", eval_dataset)):
        if dataset is not None:
            _check_examples(name, dataset, model)


def _check_examples(name: str, dataset: Dataset, model: KNNClassifier) -> None:
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
    check_problem_type(model.config, is_multi_label(dataset), f"The {name} examples")
    label_array(dataset, own, is_multi_label(dataset))
