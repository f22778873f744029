"""What ContrastiveTrainer leaves: stock checkpoints, sentence-transformers' files, and a model card of the run."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import nn
from transformers.trainer_utils import has_length

from ..models.checkpoints.default import name_in_adapter
from ..models.checkpoints.replacement import model_files, replaced_at_once
from ..models.checkpoints.sentence_transformers_files import save_sentence_transformers_files
from ..training.base_trainer import BaseTrainer
from ..training.distributed import process_count
from .card import PretrainingFacts, save_card
from .model import DocSplitForward

HEAD_FILE = "projection_head.safetensors"  # in each checkpoint of a run with one: for resuming only


class StockCheckpoints(BaseTrainer):
    """The saving of ``ContrastiveTrainer``, apart from its training.

    A subclass sets ``_docsplit_config`` (the model's configuration, with ``config.docsplit``), ``_training_collator``,
    ``_projection_head`` (or None) and ``_cut_fraction`` (the fraction of tokens cut off so far, or None), and describes
    its objective: ``method``, ``describe_loss`` and ``count_negatives``.
    """

    def create_model_card(self, **kwargs: Any) -> None:
        """Write the model card of the run. Called by ``push_to_hub``.

        Args:
            **kwargs: What ``Trainer`` passes; it is part of the card already.
        """
        if self.is_world_process_zero():
            save_card(self.args.output_dir, self._facts(self.args.output_dir))

    def save_merged(self, output_dir: str) -> None:
        """Save a stock checkpoint with a PEFT adapter merged into the weights.

        Args:
            output_dir: The folder to write to. The adapter in the trainer's own output folder stays as it is.

        Raises:
            ValueError: Under FSDP.
        """
        if self.is_fsdp_enabled:
            raise ValueError("A model that FSDP has sharded cannot be merged here: merge the saved adapter with peft.")
        if not self.is_world_process_zero():
            return
        merged = copy.deepcopy(self.accelerator.unwrap_model(self.model)).merge_and_unload()
        with replaced_at_once(output_dir, "config.json", model_files) as folder:
            merged.save_pretrained(folder)
            self.processing_class.save_pretrained(folder)
            save_sentence_transformers_files(folder, merged.config)
            save_card(folder, dataclasses.replace(self._facts(output_dir), is_adapter=False))

    def saved_arguments(self) -> dict[str, Any]:
        """The arguments, and the collator's settings, which they do not hold.

        Returns:
            What ``training_args.json`` holds.
        """
        collator = self._training_collator
        return super().saved_arguments() | {
            "views": collator.views_name,
            "views_kwargs": collator.views_kwargs,
            "max_length": collator.max_length,
            "mlm_probability": collator.mlm_probability,
            "collator_seed": collator.seed,
        }

    def save_beside_weights(self, folder: Path, place: Path) -> None:
        """Write sentence-transformers' files and the model card.

        Args:
            folder: The folder to write to.
            place: Where it will be found.
        """
        save_sentence_transformers_files(folder, self._docsplit_config)
        name_in_adapter(folder)
        save_card(folder, self._facts(place))

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self._projection_head is not None and self.args.should_save:
            safetensors.torch.save_model(self._projection_head, str(Path(output_dir, HEAD_FILE)))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        file = Path(resume_from_checkpoint, HEAD_FILE)
        if file.is_file() != (self._projection_head is not None):
            raise ValueError(
                f"{resume_from_checkpoint} has {'a' if file.is_file() else 'no'} {HEAD_FILE}, and the arguments say "
                f"projection_head={self.args.projection_head}: go on as the run was begun."
            )
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        if self._projection_head is not None:
            safetensors.torch.load_model(self._projection_head, str(file), device=str(self.args.device))

    def _facts(self, folder: str | Path) -> PretrainingFacts:
        documents = self.train_dataset
        is_adapter = hasattr(self.model, "peft_config")
        return PretrainingFacts(
            location=self.args.hub_model_id or str(folder),
            arguments=self.args,
            collator=self._training_collator,
            method=self.method,
            loss=self.describe_loss(),
            negatives=self.count_negatives(),
            config=self._docsplit_config,
            processes=process_count(),
            documents=len(documents) if documents is not None and has_length(documents) else None,
            steps=self.state.global_step,
            best_step=self.state.best_global_step if self.best_model_is_loaded else None,
            log_history=self.state.log_history,
            cut_fraction=self._cut_fraction,
            is_adapter=is_adapter,
            has_head=isinstance(self.model.get_base_model() if is_adapter else self.model, DocSplitForward),
        )
