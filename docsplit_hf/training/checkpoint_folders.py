"""The folder of a run and its checkpoints: found, set aside, and protected. Imports neither torch nor transformers."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from ..reading.files.failure_lists import FAILED_LIST
from ..storage.inside_folder import refuse_links

OVERWRITTEN_FOLDER = "_overwritten"  # the Trainer pushes no names with a leading underscore to the Hub
STATE_FILE = "trainer_state.json"  # written last, so a checkpoint without it is incomplete


def complete_checkpoints(output_dir: str | Path) -> list[Path]:
    """The complete folders ``checkpoint-<step>`` of a run, oldest first."""
    return [folder for _, folder in _by_step(output_dir) if (folder / STATE_FILE).is_file()]


def set_checkpoints_aside(output_dir: str | Path, after: int = -1) -> Path | None:
    """Move checkpoints of steps above ``after`` to another folder, so that none is resumed by mistake.

    Returns that folder; None if there are no such checkpoints.
    """
    folders = [folder for step, folder in _by_step(output_dir) if step > after]
    if not folders:
        return None
    aside = Path(output_dir, OVERWRITTEN_FOLDER)
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    for folder in folders:
        folder.rename(aside / folder.name)
    return aside


def check_output_dir(
    output_dir: str | Path, resume: str | bool | None, overwrite: bool, model: str | None = None
) -> None:
    """Refuse an output folder that is not empty, or that contains ``model``, the checkpoint to start a new run from."""
    folder = Path(output_dir)
    is_used = folder.is_dir() and any(path.name != FAILED_LIST for path in folder.iterdir())
    if is_used and not resume and not overwrite:
        go_on = "go on with that run (--resume_from_checkpoint last), " if complete_checkpoints(folder) else ""
        raise ValueError(
            f"The output folder {output_dir} is not empty. Choose another, {go_on}or write over it "
            "(--overwrite_output_dir)."
        )
    if folder.is_dir():
        refuse_links(folder, may_be_link=True, below=False)  # the run writes files with the same names
    if overwrite and not resume and model and folder.resolve() in Path(model).resolve().parents:
        raise ValueError(f"The run would start from {model} and write over {output_dir}: choose another output folder.")


def _by_step(output_dir: str | Path) -> list[tuple[int, Path]]:
    """Steps and folders of all checkpoints, complete or not, sorted by step."""
    step = re.compile(r"checkpoint-([0-9]+)")
    folders = [path for path in Path(output_dir).glob("*") if step.fullmatch(path.name) and path.is_dir()]
    return sorted((int(step.fullmatch(path.name)[1]), path) for path in folders)
