"""KNNClassifierTrainer: fine-tune a classifier with cross entropy and a triplet loss, and build its datastore."""

from __future__ import annotations

import contextlib
import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from huggingface_hub import HfApi
from torch import nn
from transformers import EvalPrediction

from ..classifier.knn_datastore import KNNDatastore
from ..classifier.model_card import save_classifier_card
from ..encoding.classifier_embedder import make_embedder
from ..encoding.portable.modeling_knn_classifier import MULTI_LABEL, KNNClassifier, classification_loss
from ..encoding.portable.run_encoder import use_packing
from ..fitting.interpolation import classifier_probabilities
from ..storage.classifier_folder import FOLDER, saved_together
from ..storage.manifest import MANIFEST, data_files
from ..training.arguments import freeze_unused
from ..training.base_trainer import BaseTrainer, temporarily
from ..training.distributed import RunningMeans
from ..training.markdown import describe_training, public_name
from .arguments import KNNClassifierTrainingArguments, check_classifier_fit
from .labeled_collator import DataCollatorForLabeledExamples
from .metrics_of_parts import classification_metrics
from .triplets import triplet_losses_of_batch

if TYPE_CHECKING:
    from datasets import Dataset
    from peft import PeftModel
    from transformers import PreTrainedTokenizerBase


class KNNClassifierTrainer(BaseTrainer):
    """Fine-tune a ``KNNClassifier``, build its datastore of the training set, and calibrate the two together.

    It extends the stock Trainer, and supports all ``TrainingArguments``. The loss is equation 4 of Liang et al. 2023,
    with squared L2 distance d and triplets from the batch (appendix B)::

        loss = (1 - beta) cross_entropy + beta mean_i max(d(r_i, r_i+) - d(r_i, r_i-) + mu, 0)

    After ``train``, call ``build_datastore``. Calibrate, fit experts and measure with the pipeline of both, which
    changes the trainer's model and datastore: ``KNNClassifierPipeline(trainer.classifier, tokenizer,
    trainer.datastore)``. Then ``save_model`` saves a whole model, LoRA adapters merged, with tokenizer, datastore,
    calibration and card, for ``pipeline("docsplit-knn")``.

    Args:
        model: The classifier, or the result of ``lora_around``.
        args: The arguments.
        train_dataset: Examples from ``load_labeled_examples``: ``text``, ``label`` and optionally ``text_pair``.
        eval_dataset: Held-out examples, for the choice of the best checkpoint and the calibration.
        processing_class: The tokenizer; it is saved with the model.
        data_collator: The collator. None: ``DataCollatorForLabeledExamples`` with the maximum length of the model.
        **kwargs: Passed to ``Trainer``.

    Raises:
        ValueError: If the arguments, the model and the data do not fit together.
    """

    # The loss is a mean over the texts of a batch; the Trainer divides it by the number of accumulated batches.
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
                make_embedder(classifier, processing_class).max_length,
                classifier.config.num_labels if self._multi_label else None,
                classifier.config.prompt,
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
        self._draw_step: tuple[int, int, int] | None = None  # step of the last generator
        self._draw = 0  # number of the last generator within its step

    @property
    def classifier(self) -> KNNClassifier:
        """Classifier without wrappers for several devices; with LoRA adapters, a copy that has them merged."""
        if not self._has_adapter:
            return self._unwrapped
        merged = copy.deepcopy(self._unwrapped).merge_and_unload()
        merged.config = self._unwrapped.config  # which keeps what a pipeline calibrates
        return merged

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate the classifier without neighbors.

        Args:
            *args: Passed to ``Trainer.evaluate``.
            **kwargs: Passed to ``Trainer.evaluate``.

        Returns:
            ``eval_<metric>`` for the metrics of ``classification_metrics``, and the losses.
        """
        with temporarily(self, "means", RunningMeans()):
            return super().evaluate(*args, **kwargs)

    def compute_loss(
        self, model, inputs, return_outputs=False, num_items_in_batch=None
    ):  # without annotations, like Trainer
        """Compute the loss of equation 4 for one batch of the collator."""
        args = self.args
        labels = inputs["labels"]
        model_inputs = {name: value for name, value in inputs.items() if name not in ("labels", "token_counts")}
        output = model(**model_inputs)
        if "token_counts" in inputs:  # absent with another collator
            cut, total = inputs["token_counts"].sum(0)
            self.means.add("fraction_tokens_cut", cut, total)
        problem_type = MULTI_LABEL if self._multi_label else None
        loss = classification_loss(output.logits, labels, problem_type, args.label_smoothing_factor)
        self.means.add("classification_loss", loss * len(labels), len(labels))
        if args.triplet_weight > 0:
            triplet_losses = triplet_losses_of_batch(
                output.retrieval_embeddings,
                labels,
                margin=args.triplet_margin,
                generator=self._generator(),
            )
            loss = (1 - args.triplet_weight) * loss + args.triplet_weight * triplet_losses.mean()
            self.means.add("triplet_loss", triplet_losses.sum(), len(labels))
            self.means.add("active_triplets", (triplet_losses > 0).sum(), len(labels))
        return (loss, output) if return_outputs else loss

    def build_datastore(self, **options: Any) -> KNNDatastore:
        """Embed the training set, and store it with its labels as the datastore.

        Args:
            **options: Passed to ``KNNDatastore.build``.

        Returns:
            The datastore, which is also ``trainer.datastore``.

        Raises:
            ValueError: If the examples do not fit the classifier.
        """
        options = {"packing": self.args.packing} | options
        self.datastore = KNNDatastore.build(self.classifier, self.processing_class, self.train_dataset, **options)
        return self.datastore

    def begin_training(self) -> None:
        """Remove datastore and calibration, which are of other weights."""
        self.datastore = None
        self._unwrapped.config.knn_calibration = None

    def collator_columns(self) -> list[str]:
        """Columns that ``DataCollatorForLabeledExamples`` reads."""
        return ["text", "text_pair", "label"]

    def model_to_save(self) -> torch.nn.Module:
        """Model to save; at the end of a run, LoRA adapters are merged."""
        return self.classifier if self._has_adapter and not self.is_in_train else self.model

    def save_beside_weights(self, staging_folder: Path, final_path: Path) -> None:
        """Write the model card and, last, the datastore. A checkpoint with an adapter is for resuming only."""
        if not (self.is_in_train and self._has_adapter):
            self.save_card(staging_folder, final_path)
        if self.datastore is not None and not self.is_in_train:
            self.datastore.save_pretrained(staging_folder)

    def replaced(self, place: Path) -> contextlib.AbstractContextManager[Path]:
        """Replace a classifier and its datastore atomically."""
        return saved_together(place)

    def push_to_hub(self, commit_message="End of training", blocking=True, token=None, revision=None, **kwargs):
        """Push as ``Trainer.push_to_hub``; if ``blocking``, a second commit deletes files of an older datastore."""
        pushed = super().push_to_hub(commit_message, blocking, token, revision, **kwargs)
        if blocking and self.datastore is not None and self.is_world_process_zero():
            # Trainer deletes no files, and the files of a datastore are named after their content.
            folder = Path(self.args.output_dir, FOLDER)
            HfApi(token=token or self.args.hub_token).upload_folder(
                repo_id=self.hub_model_id,
                folder_path=folder,
                allow_patterns=[MANIFEST, *data_files(folder)],
                path_in_repo=FOLDER,
                commit_message="Delete the files of an older datastore",
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

    def save_card(self, staging_folder: Path, final_path: Path) -> None:
        """Write the model card."""
        args = self.args
        config = self._unwrapped.config
        encoder = config.encoder_config
        loss = f"{1 - args.triplet_weight:g} x cross entropy"
        if args.triplet_weight:
            loss += f" + {args.triplet_weight:g} x triplet loss (margin {args.triplet_margin:g})"
        pooling = config.pooling
        if config.retrieval_pooling:
            pooling += f", {config.retrieval_pooling} for retrieval"
        training = {
            "Encoder": public_name(encoder.name_or_path or f"random weights ({encoder.model_type})"),
            "Training examples": "unknown" if self.train_dataset is None else f"{len(self.train_dataset):,}",
            "Loss": loss,
            "Maximum length": f"{make_embedder(self._unwrapped, self.processing_class).max_length} tokens",
            "Pooling": pooling,
            **describe_training(args, self.state, self.best_model_is_loaded, "texts"),
        }
        location = self.hub_model_id if args.push_to_hub else str(final_path)
        save_classifier_card(staging_folder, location, config, self.datastore, training, self.state.log_history)

    def _generator(self) -> torch.Generator:
        """Make a random generator determined by seed, step and batch, so that a resumed run draws the same numbers."""
        step = (self.args.seed, self.state.global_step, int(self.model.training))
        self._draw = self._draw + 1 if step == self._draw_step else 0
        self._draw_step = step
        seed = np.random.SeedSequence([*step, self._draw]).generate_state(1, np.uint32)[0]
        return torch.Generator().manual_seed(int(seed))  # on the CPU: the same on every device

    def _classifier_metrics(self, prediction: EvalPrediction) -> dict[str, float]:
        probabilities = classifier_probabilities(prediction.predictions, self._multi_label)
        return classification_metrics(probabilities, prediction.label_ids)


def lora_around(model: KNNClassifier, rank: int = 16, **lora_arguments) -> PeftModel:
    """Freeze the encoder, and add LoRA adapters to all its linear layers; the heads are fully trained.

    Args:
        model: The classifier.
        rank: The rank of the adapters.
        **lora_arguments: Passed to ``peft.LoraConfig``.

    Returns:
        The model with adapters, for ``KNNClassifierTrainer``.
    """
    from peft import LoraConfig, get_peft_model

    layers = [name for name, module in model.encoder.named_modules() if isinstance(module, nn.Linear)]
    heads = [name for name in ("classifier", "retrieval_head") if getattr(model, name) is not None]
    config = LoraConfig(
        r=rank, target_modules=[f"encoder.{name}" for name in layers], modules_to_save=heads, **lora_arguments
    )
    return get_peft_model(model, config)
