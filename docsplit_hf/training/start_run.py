"""What a training script does first, so that nothing is loaded for a run that cannot be."""

from __future__ import annotations

import logging

from transformers import set_seed

from .arguments import ShareableTrainingArguments
from .checkpoints import check_output_dir, checkpoint_to_resume


def start_run(
    args: ShareableTrainingArguments, overwrite_output_dir: bool = False, model: str | None = None
) -> str | None:
    """Show the log of the first process, find the checkpoint to resume, guard the output folder, set the seed.

    Args:
        args: The arguments of the run.
        overwrite_output_dir: Whether it may write to a folder that is in use.
        model: What it starts from, a folder or a name on the Hub.

    Returns:
        The folder of the checkpoint to go on from, or None to start anew.

    Raises:
        ValueError: If there is no complete checkpoint to resume from, or the output folder is in use.

    Example:

        >>> import logging
        >>> from unittest import mock
        >>> logger = logging.getLogger("docsplit_hf")
        >>> with mock.patch.multiple(logger, addHandler=mock.DEFAULT, setLevel=mock.DEFAULT):  # in earnest: without it
        ...     start_run(ShareableTrainingArguments("no such folder", use_cpu=True)) is None
        True
    """
    show_log(args.process_index)
    resume = checkpoint_to_resume(args.resume_from_checkpoint, args.output_dir)
    check_output_dir(args.output_dir, resume, overwrite_output_dir, model)
    set_seed(args.seed)
    return resume


def show_log(process_index: int = 0) -> None:
    """Show what docsplit_hf logs: of the first process also what is no warning.

    Args:
        process_index: The number of the process.

    Example:

        >>> import logging
        >>> from unittest import mock
        >>> logger = logging.getLogger("docsplit_hf")
        >>> with mock.patch.multiple(logger, addHandler=mock.DEFAULT, setLevel=mock.DEFAULT):  # in earnest: without it
        ...     show_log()
    """
    logger = logging.getLogger("docsplit_hf")
    logger.addHandler(logging.StreamHandler())
    logger.setLevel(logging.INFO if process_index == 0 else logging.WARNING)
