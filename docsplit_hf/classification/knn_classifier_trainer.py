"""KNNClassifierTrainer: the stock Trainer with cross entropy and a triplet loss, and the datastore after it."""

from __future__ import annotations

import contextlib
import copy
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from huggingface_hub import HfApi
from torch import nn
from transformers import EvalPrediction

from ..extras import check_extra
from ..models.inference.reader import Reader
from ..models.portable.modeling_knn_classifier import MULTI_LABEL, KNNClassifier, classification_loss
from ..models.portable.run_encoder import use_packing
from ..neighbors.card import save_classifier_card
from ..neighbors.editing import add_documents
from ..neighbors.fit import fit
from ..neighbors.mixing.calibration import (
    HELD_OUT,
    Calibration,
    KnownExamplesError,
    calibrate_leaving_one_out,
    calibrate_on_held_out,
    leave_one_out_rows,
    store_calibration,
)
from ..neighbors.mixing.mixture import classifier_probabilities
from ..neighbors.store.datastore import KNNDatastore
from ..neighbors.store.files.classifier_folder import FOLDER, saved_together
from ..text.labels import label_array, labels_by_name, texts_of
from ..training.arguments import freeze_unused
from ..training.base_trainer import BaseTrainer
from ..training.markdown import describe_training, public_name
from .arguments import KNNClassifierTrainingArguments, check_classifier_fit
from .evaluation import classification_metrics, evaluate_parts
from .labeled_collator import DataCollatorForLabeledExamples
from .triplets import triplet_losses_of_batch

if TYPE_CHECKING:
    from datasets import Dataset
    from peft import PeftModel
    from transformers import PreTrainedTokenizerBase

    from ..neighbors.experts.fit_report import FitReport

logger = logging.getLogger(__name__)


class KNNClassifierTrainer(BaseTrainer):
    """Fine-tunes a ``KNNClassifier``, then keeps its training set as a datastore and calibrates the two together.

    The stock Trainer does the work, and everything that ``TrainingArguments`` offers holds. The loss is equation 4 of
    Liang et al. 2023, with squared L2 distance d and triplets from the batch (appendix B)::

        loss = (1 - beta) cross_entropy + beta mean_i max(d(r_i, r_i+) - d(r_i, r_i-) + mu, 0)

    After ``train``: ``build_datastore``, ``calibrate``, maybe ``fit_experts``, ``evaluate_with_neighbors``,
    ``save_model``. What is saved last is a whole model, LoRA adapters merged, with its tokenizer, datastore,
    calibration and card, for ``pipeline("docsplit-knn")``.

    Args:
        model: The classifier, or one with ``lora_around`` it.
        args: The arguments.
        train_dataset: Examples as ``load_labeled_examples`` gives them: ``text``, ``label`` and maybe ``text_pair``.
        eval_dataset: Held-out examples: they choose the best checkpoint and the calibration.
        processing_class: The tokenizer; it is saved with the model.
        data_collator: Makes batches. None: ``DataCollatorForLabeledExamples`` with the model's maximum length.
        **kwargs: Passed to ``Trainer``.

    Raises:
        ValueError: If the arguments, the model and the data do not fit together; the message says how.
    """

    # The loss is a mean over the texts of a batch, and the Trainer divides it by the number of accumulated batches.
    loss_is_scaled_for_ga = False

    def __init__(
        self,
        model: KNNClassifier | PeftModel,
        args: KNNClassifierTrainingArguments,
        train_dataset: Dataset | None = None,
        eval_dataset: Dataset | None = None,
        processing_class: PreTrainedTokenizerBase | None = None,
        data_collator: DataCollatorForLabeledExamples | None = None,
        **kwargs: Any,
    ) -> None:
        classifier = model.get_base_model() if hasattr(model, "get_base_model") else model
        check_classifier_fit(classifier, args, train_dataset, eval_dataset, processing_class)
        freeze_unused(classifier)
        self._multi_label = classifier.config.problem_type == MULTI_LABEL
        if data_collator is None:
            data_collator = DataCollatorForLabeledExamples(
                processing_class,
                Reader(classifier, processing_class).length,
                classifier.config.num_labels if self._multi_label else None,
            )
        super().__init__(
            model=model,
            args=args,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            data_collator=data_collator,
            processing_class=processing_class,
            compute_metrics=kwargs.pop("compute_metrics", self._classifier_metrics),
            **kwargs,
        )
        use_packing(classifier, args.packing)
        self.label_names = ["labels"]
        self.model_accepts_loss_kwargs = False
        if self.is_fsdp_enabled or self.is_deepspeed_enabled:
            raise ValueError(
                "A classifier that is sharded over processes (FSDP, DeepSpeed) cannot embed its datastore: train with "
                "DDP (examples/accelerate_configs/ddp.yaml), and large encoders with LoRA."
            )
        self.datastore: KNNDatastore | None = None
        self._datastore_examples: Dataset | None = None
        self._draws = (None, 0)

    @property
    def classifier(self) -> KNNClassifier:
        """The classifier, without what trains it on several devices; LoRA adapters are merged into a copy."""
        return copy.deepcopy(self._unwrapped).merge_and_unload() if self._has_adapter else self._unwrapped

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate the classifier alone: ``eval_`` and each of ``classification_metrics``, and the losses."""
        with self.measuring_apart():
            return super().evaluate(*args, **kwargs)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):  # as annotated by Trainer
        """Equation 4 on one batch of the collator."""
        args, labels = self.args, inputs["labels"]
        model_inputs = {name: value for name, value in inputs.items() if name not in ("labels", "token_counts")}
        output = model(**model_inputs)
        if "token_counts" in inputs:  # a collator of one's own may give none
            self.means.add("fraction_tokens_cut", *inputs["token_counts"].sum(0))
        problem_type = MULTI_LABEL if self._multi_label else None
        loss = classification_loss(output.logits, labels, problem_type, args.label_smoothing_factor)
        self.means.add("classification_loss", loss * len(labels), len(labels))
        if args.triplet_weight > 0:
            options = args.triplet_choice, args.triplet_margin, self._generator()
            triplets = triplet_losses_of_batch(output.retrieval_embeddings, labels, *options)
            loss = (1 - args.triplet_weight) * loss + args.triplet_weight * triplets.mean()
            self.means.add("triplet_loss", triplets.sum(), len(labels))
            self.means.add("active_triplets", (triplets > 0).sum(), len(labels))
        return (loss, output) if return_outputs else loss

    def build_datastore(self, dataset: Dataset | None = None, **options: Any) -> KNNDatastore:
        """Embed examples and keep them with their labels as the classifier's datastore. Every process must call it.

        Args:
            dataset: The examples. None: the training set.
            **options: Passed to ``KNNDatastore.build``.

        Returns:
            The datastore, also kept as ``trainer.datastore``.
        """
        self._datastore_examples = self.train_dataset if dataset is None else dataset
        options = {"packing": self.args.packing} | options
        self.datastore = KNNDatastore.build(self.classifier, self.processing_class, self._datastore_examples, **options)
        return self.datastore

    def calibrate(self, dataset: Dataset | None = None) -> Calibration:
        """Choose k, temperature and weight by log likelihood, and write them into the model's configuration.

        Args:
            dataset: Held-out examples, never the test set. None: ``eval_dataset``; where there is none either, or all
                are trained on, the examples of the datastore, each left out in turn.

        Returns:
            The calibration.

        Raises:
            ValueError: If there is no datastore.
        """
        datastore, reader = self._datastore(), self._reader()
        dataset = self.eval_dataset if dataset is None else dataset
        calibration = None
        if dataset is not None:
            texts, pairs = texts_of(dataset)
            predictions = reader.read(texts, pairs)
            labels = label_array(dataset, datastore.label_names, datastore.multi_label)
            try:
                calibration, source = calibrate_on_held_out(predictions, labels, datastore, texts, pairs), HELD_OUT
            except KnownExamplesError as error:  # after hours of training, a weaker calibration is better than none
                logger.warning("%s Taking none.", error)
        if calibration is None:
            rows = leave_one_out_rows(datastore)
            predictions = reader.read(*texts_of(self._datastore_examples.select(rows)))
            calibration = calibrate_leaving_one_out(datastore, rows, predictions)
            source = "the examples of the datastore, each left out in turn"
            logger.warning(
                "Calibrated on the training set, of which the classifier knows the labels: the neighbors' weight of "
                "%.2f is likely too small. Give held-out examples as eval_dataset.",
                calibration.weight,
            )
        store_calibration(self._unwrapped.config, calibration, source, len(datastore))
        return calibration

    def fit_experts(self, documents: Dataset | None = None) -> FitReport:
        """Add documents without labels to the datastore, and fit the experts, as ``KNNClassifierPipeline.fit`` does.

        What the experts count is chosen on ``eval_dataset``. Every process must call it.

        Args:
            documents: ``text``, maybe ``text_pair``. None: the experts learn from the examples alone.

        Returns:
            What was chosen, and how good each expert is.

        Raises:
            ValueError: If there is no datastore, or no held-out example that is not in it.
        """
        datastore, is_main = self._datastore(), self.is_world_process_zero()
        reader = self._reader(show_progress=is_main)
        if documents is not None:
            add_documents(reader, datastore, documents)
        held_out = self.eval_dataset
        labels = None if held_out is None else labels_by_name(held_out)
        return fit(reader.with_options(show_progress=False), datastore, held_out, labels, None, is_main)

    def evaluate_with_neighbors(self, dataset: Dataset, metric_key_prefix: str = "test") -> dict[str, float]:
        """Evaluate the classifier, its neighbors, the two mixed, and the experts, if they are fitted.

        Args:
            dataset: Labeled examples.
            metric_key_prefix: What the names of the metrics begin with.

        Returns:
            ``<prefix>_classifier_accuracy``, ``<prefix>_knn_accuracy``, ``<prefix>_mixture_accuracy``, the same of
            ``experts``, ``word_counts`` and ``largest_class``, and of ``macro_f1``, ``matthews_correlation`` and
            ``log_loss``. They are logged too.

        Raises:
            ValueError: If there is no datastore.
        """
        metrics = evaluate_parts(self._reader(), self._datastore(), dataset, metric_key_prefix)
        self.log(dict(metrics))
        return metrics

    def begin_training(self) -> None:
        """Forget datastore and calibration, which were made of other weights."""
        self.datastore, self._unwrapped.config.knn_calibration = None, None

    def collator_columns(self) -> list[str]:
        """The columns that ``DataCollatorForLabeledExamples`` reads."""
        return ["text", "text_pair", "label"]

    def model_to_save(self) -> torch.nn.Module:
        """LoRA adapters are merged at the end of a run."""
        return self.classifier if self._has_adapter and not self.is_in_train else self.model

    def save_beside_weights(self, folder: Path, place: Path) -> None:
        """Write the model card and, last, the datastore. A checkpoint with an adapter is for resuming only."""
        if not (self.is_in_train and self._has_adapter):
            self.save_card(folder, place)
        if self.datastore is not None and not self.is_in_train:
            self.datastore.save_pretrained(folder)

    def replaced(self, place: Path) -> contextlib.AbstractContextManager[Path]:
        """Replace a classifier with its datastore all at once."""
        return saved_together(place)

    def push_to_hub(self, commit_message="End of training", blocking=True, token=None, revision=None, **kwargs):
        """As ``Trainer.push_to_hub``; if ``blocking``, a second commit deletes the files of an older datastore."""
        pushed = super().push_to_hub(commit_message, blocking, token, revision, **kwargs)
        if blocking and self.datastore is not None and self.is_world_process_zero():
            # Trainer deletes nothing there, and the files of a datastore are named after what they hold.
            HfApi(token=token or self.args.hub_token).upload_folder(
                repo_id=self.hub_model_id,
                folder_path=Path(self.args.output_dir, FOLDER),
                path_in_repo=FOLDER,
                commit_message="Delete what an older datastore has left",
                delete_patterns="*",
                revision=revision or self.args.hub_revision,
            )
        return pushed

    @property
    def _unwrapped(self) -> KNNClassifier | PeftModel:
        return self.accelerator.unwrap_model(self.model)

    @property
    def _has_adapter(self) -> bool:
        return hasattr(self._unwrapped, "merge_and_unload")

    def save_card(self, folder: Path, place: Path) -> None:
        """Write the model card."""
        args, config, dataset = self.args, self._unwrapped.config, self.train_dataset
        loss = f"{1 - args.triplet_weight:g} x cross entropy"
        if args.triplet_weight:
            loss += f" + {args.triplet_weight:g} x triplet loss (margin {args.triplet_margin:g}, "
            loss += f"{args.triplet_choice} triplets)"
        encoder, of_retrieval = config.encoder_config, config.retrieval_pooling
        training = {
            "Encoder": public_name(encoder.name_or_path or f"random weights ({encoder.model_type})"),
            "Training examples": "unknown" if dataset is None else f"{len(dataset):,}",
            "Loss": loss,
            "Maximum length": f"{Reader(self._unwrapped, self.processing_class).length} tokens",
            "Pooling": config.pooling + (f", {of_retrieval} for retrieval" if of_retrieval else ""),
            **describe_training(args, self.state, self.best_model_is_loaded, "texts"),
        }
        location = self.hub_model_id if args.push_to_hub else str(place)
        save_classifier_card(folder, location, config, self.datastore, training, self.state.log_history)

    def _generator(self) -> torch.Generator:
        """Random numbers as a function of seed, step and batch, so that a resumed run draws the same."""
        step = (self.args.seed, self.state.global_step, int(self.model.training))
        last, draws = self._draws
        self._draws = (step, draws + 1 if step == last else 0)
        seed = np.random.SeedSequence([*step, self._draws[1]]).generate_state(1, np.uint32)[0]
        return torch.Generator().manual_seed(int(seed))  # on the CPU: the same on every device

    def _classifier_metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        probabilities = classifier_probabilities(prediction.predictions, self._multi_label)
        return classification_metrics(probabilities, prediction.label_ids)

    def _reader(self, **options: Any) -> Reader:
        return Reader(self.classifier, self.processing_class, **options)

    def _datastore(self) -> KNNDatastore:
        if self.datastore is None:
            raise ValueError("There is no datastore yet: call trainer.build_datastore() after training.")
        return self.datastore


def lora_around(model: KNNClassifier, rank: int = 16, **lora_arguments) -> PeftModel:
    """Freeze the encoder and put LoRA adapters into all its linear layers; the heads are new and trained whole."""
    check_extra("peft", "LoRA")
    from peft import LoraConfig, get_peft_model

    layers = [name for name, module in model.encoder.named_modules() if isinstance(module, nn.Linear)]
    heads = [name for name in ("classifier", "retrieval_head") if getattr(model, name) is not None]
    config = LoraConfig(
        r=rank, target_modules=[f"encoder.{name}" for name in layers], modules_to_save=heads, **lora_arguments
    )
    return get_peft_model(model, config)
