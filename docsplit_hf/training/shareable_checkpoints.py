"""ShareableCheckpoints: a Trainer whose checkpoints hold nothing that executes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import Trainer


class ShareableCheckpoints(Trainer):
    """The stock Trainer, with its arguments saved as JSON instead of as a pickle.

    A subclass overrides ``save_beside_weights`` to add its own files to each checkpoint.
    """

    def save_beside_weights(self, folder: Path) -> None:
        """Write further files into a folder that has just got weights, tokenizer and arguments.

        Args:
            folder: The folder of a checkpoint, or the output folder.
        """

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        # Tied weights are saved once; the Trainer would call the other name missing.
        missing = [name for name in load_result.missing_keys if name not in self.model.all_tied_weights_keys]
        super()._issue_warnings_after_load(type(load_result)(missing, load_result.unexpected_keys))

    def _save(self, output_dir: str | None = None, state_dict: dict | None = None) -> None:
        super()._save(output_dir, state_dict=state_dict)
        if not self.args.should_save:
            return
        folder = Path(output_dir or self.args.output_dir)
        # Trainer pickles its arguments here. A checkpoint is made to be shared, and holds nothing that executes.
        (folder / "training_args.bin").unlink(missing_ok=True)
        (folder / "training_args.json").write_text(self.args.to_json_string() + "\n")
        self.save_beside_weights(folder)

    def _holds_best_model(self) -> bool:
        return (
            self.args.load_best_model_at_end and not self.is_in_train and self.state.best_model_checkpoint is not None
        )
