"""Which folders a run may be resumed from, and which it may write to."""

from __future__ import annotations

from pathlib import Path

from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

STATE_FILE = "trainer_state.json"  # written last: a checkpoint without it was cut off


def complete_checkpoints(output_dir: str | Path) -> list[Path]:
    """The checkpoints of a run that were written to the end, oldest first.

    Args:
        output_dir: The output folder of a run.

    Returns:
        Folders ``checkpoint-<step>``. One that a killed process left half-written is not among them.

    Example:

        >>> complete_checkpoints("no such folder")
        []
    """
    folders = [state.parent for state in Path(output_dir).glob(f"{PREFIX_CHECKPOINT_DIR}-*/{STATE_FILE}")]
    return sorted(folders, key=lambda folder: int(folder.name.rpartition("-")[2]))


def checkpoint_to_resume(resume_from_checkpoint: str | bool | None, output_dir: str | Path) -> str | None:
    """Find the checkpoint to go on from.

    Args:
        resume_from_checkpoint: The folder of a checkpoint; True or ``"last"`` for the last complete one of
            ``output_dir``; None or False to start anew.
        output_dir: The output folder of the run.

    Returns:
        The checkpoint's folder, or None to start anew.

    Raises:
        ValueError: If the folder is not a complete checkpoint, or there is none in ``output_dir``.

    Example:

        >>> checkpoint_to_resume(None, "output") is None
        True
    """
    if not resume_from_checkpoint:
        return None
    if resume_from_checkpoint is True or resume_from_checkpoint == "last":
        found = complete_checkpoints(output_dir)
        if not found:
            raise ValueError(
                f"There is no complete checkpoint to resume from in {output_dir}: start without "
                "resuming (with --overwrite_output_dir, if the folder is in use)."
            )
        return str(found[-1])
    folder = Path(resume_from_checkpoint)
    if not (folder / STATE_FILE).is_file():
        inside = [str(path) for path in complete_checkpoints(folder)]
        advice = f"it holds {', '.join(inside)}: name one of them" if inside else "name a folder checkpoint-<step>"
        raise ValueError(f"{folder} is not a complete checkpoint (it has no {STATE_FILE}); {advice}.")
    return str(folder)


def check_output_dir(output_dir: str | Path, resume: str | bool | None, overwrite: bool) -> None:
    """Keep a run from mixing its files with those of another.

    Args:
        output_dir: The folder that the run is going to write to.
        resume: What it goes on from, None or False if it starts anew.
        overwrite: Whether the user said that it may write to a folder that is in use.

    Raises:
        ValueError: If the folder is not empty and neither of the two holds.

    Example:

        >>> check_output_dir("no such folder", resume=False, overwrite=False)
    """
    folder = Path(output_dir)
    if folder.is_dir() and any(folder.iterdir()) and not resume and not overwrite:
        go_on = "go on with that run (--resume_from_checkpoint last), " if complete_checkpoints(folder) else ""
        raise ValueError(
            f"The output folder {output_dir} is not empty. Choose another, {go_on}or write over it "
            "(--overwrite_output_dir)."
        )
