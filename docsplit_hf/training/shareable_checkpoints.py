"""ShareableCheckpoints: a Trainer whose checkpoints hold nothing that executes, and are resumed from only if whole."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from transformers import Trainer
from transformers.trainer_utils import TrainOutput

from .checkpoints import checkpoint_to_resume


class ShareableCheckpoints(Trainer):
    """The stock Trainer, with its arguments saved as JSON instead of as a pickle.

    A subclass overrides ``save_beside_weights`` to add its own files to each checkpoint, and ``_around_training`` for
    what it does before and after a run.
    """

    _best_model_is_loaded = False  # a run that was interrupted never comes to it

    def train(self, resume_from_checkpoint: str | bool | None = None, **kwargs: Any) -> TrainOutput:
        """Train, or go on with a run.

        Args:
            resume_from_checkpoint: The folder of a checkpoint; True or ``"last"`` for the last complete checkpoint in
                the output folder; None to start anew.
            **kwargs: Passed to ``Trainer.train``.

        Returns:
            As ``Trainer.train``.

        Raises:
            ValueError: If there is no complete checkpoint to resume from.
        """
        checkpoint = checkpoint_to_resume(resume_from_checkpoint, self.args.output_dir)
        self._best_model_is_loaded = False
        with self._around_training(checkpoint):
            return super().train(resume_from_checkpoint=checkpoint, **kwargs)

    def saved_arguments(self) -> dict[str, Any]:
        """The arguments of the run, as they are saved.

        Returns:
            What ``training_args.json`` holds.
        """
        return self.args.to_dict()

    def save_beside_weights(self, folder: Path) -> None:
        """Write further files into a folder that has just got weights, tokenizer and arguments.

        Args:
            folder: The folder of a checkpoint, or the output folder.
        """

    def _around_training(self, checkpoint: str | None) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        # Tied weights are saved once, and some not at all; the Trainer would call their names missing.
        expected = {*self.model.all_tied_weights_keys, *(self.model._keys_to_ignore_on_save or ())}
        missing = [name for name in load_result.missing_keys if name not in expected]
        super()._issue_warnings_after_load(type(load_result)(missing, load_result.unexpected_keys))

    def _save(self, output_dir: str | None = None, state_dict: dict | None = None) -> None:
        super()._save(output_dir, state_dict=state_dict)
        if not self.args.should_save:
            return
        folder = Path(output_dir or self.args.output_dir)
        # Trainer pickles its arguments here. A checkpoint is made to be shared, and holds nothing that executes.
        (folder / "training_args.bin").unlink(missing_ok=True)
        (folder / "training_args.json").write_text(json.dumps(self.saved_arguments(), indent=2) + "\n")
        self.save_beside_weights(folder)

    def _load_best_model(self) -> None:
        super()._load_best_model()
        self._best_model_is_loaded = True
