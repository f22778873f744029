"""What a training script does first, so that nothing is loaded for a run that is refused."""

from __future__ import annotations

import logging

from transformers import set_seed

from .arguments import ShareableTrainingArguments
from .resumable_checkpoints import check_output_dir, checkpoint_to_resume


def start_run(
    args: ShareableTrainingArguments, overwrite_output_dir: bool = False, model: str | None = None
) -> str | None:
    """Show the log of the first process, find the checkpoint to resume, guard the output folder, set the seed.

    Gives the folder of the checkpoint to go on from, or None. ``model``: what the run starts from, a folder or a name.
    """
    show_log(args.process_index)
    resume = checkpoint_to_resume(args.resume_from_checkpoint, args.output_dir)
    check_output_dir(args.output_dir, resume, overwrite_output_dir, model)
    set_seed(args.seed)
    return resume


def show_log(process_index: int = 0) -> None:
    """Show what docsplit_hf logs: of the first process its information, of the others their warnings only."""
    logger = logging.getLogger("docsplit_hf")
    logger.addHandler(logging.StreamHandler())
    logger.setLevel(logging.INFO if process_index == 0 else logging.WARNING)
