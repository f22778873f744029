"""What KNNClassifierTrainer leaves: checkpoints to resume from, and a whole classifier with datastore and card."""

from __future__ import annotations

import contextlib
import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import HfApi

from ..models.inference.batched_inference import input_length
from ..neighbors.card import ClassifierFacts, save_classifier_card
from ..neighbors.store.classifier_files import saved_together
from ..neighbors.store.hub_folder import FOLDER
from ..training.base_trainer import BaseTrainer
from ..training.distributed import process_count
from ..training.markdown import public_name

if TYPE_CHECKING:
    from ..models.portable.modeling_knn_classifier import KNNClassifier
    from ..neighbors.store.datastore import KNNDatastore


class ClassifierCheckpoints(BaseTrainer):
    """The saving of ``KNNClassifierTrainer``, apart from its training.

    A subclass sets ``datastore``, which is None before it is built.
    """

    datastore: KNNDatastore | None

    @property
    def classifier(self) -> KNNClassifier:
        """The classifier, without what trains it on several devices; LoRA adapters merged into a copy."""
        model = self.accelerator.unwrap_model(self.model)
        return copy.deepcopy(model).merge_and_unload() if hasattr(model, "merge_and_unload") else model

    def save_beside_weights(self, folder: Path, place: Path) -> None:
        """Write the model card and, behind all else, the datastore. A checkpoint with an adapter is for resuming only.

        Args:
            folder: The folder to write to.
            place: Where it will be found.
        """
        if not (self.is_in_train and hasattr(self.accelerator.unwrap_model(self.model), "merge_and_unload")):
            self._save_card(folder, place)
        if self.datastore is not None and not self.is_in_train:
            self.datastore.save_pretrained(folder)

    def replaced(self, place: Path) -> contextlib.AbstractContextManager[Path]:
        """Replace a classifier with its datastore all at once.

        Args:
            place: The output folder.

        Returns:
            A context in which the folder to write to is given.
        """
        return saved_together(place)

    def create_model_card(self, **kwargs: Any) -> None:
        """Write the model card of the run. Called by ``push_to_hub``.

        Args:
            **kwargs: What ``Trainer`` passes; it is part of the card already.
        """
        if self.is_world_process_zero():
            self._save_card(Path(self.args.output_dir), Path(self.args.output_dir))

    def push_to_hub(
        self,
        commit_message: str | None = "End of training",
        blocking: bool = True,
        token: str | None = None,
        revision: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Push the output folder to the Hub, then delete there what an older datastore has left, in a second commit.

        Args:
            commit_message: The message of the first commit.
            blocking: Whether to wait until all is pushed. If not, nothing is deleted.
            token: Instead of that of the arguments.
            revision: The branch to push to. None: that of the arguments.
            **kwargs: As ``Trainer.push_to_hub``.

        Returns:
            As ``Trainer.push_to_hub``.
        """
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

    def _save(self, output_dir: str | None = None, state_dict: dict | None = None) -> None:
        if self.is_in_train or not hasattr(self.accelerator.unwrap_model(self.model), "merge_and_unload"):
            super()._save(output_dir, state_dict)
            return
        adapted, self.model = self.model, self.classifier
        try:
            super()._save(output_dir)
        finally:
            self.model = adapted

    def _save_card(self, folder: Path, place: Path) -> None:
        facts = ClassifierFacts(
            location=self.hub_model_id if self.args.push_to_hub else str(place),
            config=self.accelerator.unwrap_model(self.model).config,
            datastore=self.datastore,
            training=self._describe_training(),
            log_history=self.state.log_history,
        )
        save_classifier_card(folder, facts)

    def _describe_training(self) -> dict[str, str]:
        """The run, as rows of a table."""
        model, arguments = self.accelerator.unwrap_model(self.model), self.args
        config = model.config
        encoder, accumulated = config.encoder_config, arguments.gradient_accumulation_steps
        loss = f"{1 - arguments.triplet_weight:g} x cross entropy"
        if arguments.triplet_weight:
            loss += f" + {arguments.triplet_weight:g} x triplet loss (margin {arguments.triplet_margin:g}, "
            loss += f"{arguments.triplet_choice} triplets)"
        batch = f"{arguments.per_device_train_batch_size} texts x {process_count()} processes"
        pooling = f", {config.retrieval_pooling} for retrieval" if config.retrieval_pooling else ""
        is_best = self.best_model_is_loaded
        weights = f"of step {self.state.best_global_step:,}, the best" if is_best else "of the last step"
        return {
            "Encoder": public_name(encoder.name_or_path or f"random weights ({encoder.model_type})"),
            "Data": public_name(arguments.data_description or "not described"),
            "Training examples": "unknown" if self.train_dataset is None else f"{len(self.train_dataset):,}",
            "Optimizer steps": f"{self.state.global_step:,}",
            "Weights": weights,
            "Loss": loss,
            "Batch": batch + (f" x {accumulated} accumulated" if accumulated > 1 else ""),
            "Maximum length": f"{input_length(model, self.processing_class)} tokens",
            "Pooling": config.pooling + pooling,
            "Learning rate": f"{arguments.learning_rate:g} ({arguments.lr_scheduler_type.value})",
            "Seed": f"{arguments.seed}",
        }
