"""Which folders a run may be resumed from, and which it may write to."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path

from safetensors import SafetensorError, safe_open
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

ASIDE = "_overwritten"  # the Trainer pushes nothing to the Hub that begins with an underscore
STATE_FILE = "trainer_state.json"  # written last: a checkpoint without it was cut off


def complete_checkpoints(output_dir: str | Path) -> list[Path]:
    """The folders ``checkpoint-<step>`` of a run that were written to the end, oldest first."""
    return [folder for _, folder in _by_step(output_dir) if (folder / STATE_FILE).is_file()]


def checkpoint_to_resume(resume_from_checkpoint: str | bool | None, output_dir: str | Path) -> str | None:
    """The folder of the checkpoint to go on from: the one given, or with True or ``"last"`` the last complete one.

    None to start a new run. A checkpoint that is not complete, or of which a file is not whole, is a ValueError.
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
        _check_whole(found[-1])
        return str(found[-1])
    folder = Path(resume_from_checkpoint)
    if not (folder / STATE_FILE).is_file():
        inside = [str(path) for path in complete_checkpoints(folder)]
        advice = f"it holds {', '.join(inside)}: name one of them" if inside else "name a folder checkpoint-<step>"
        raise ValueError(f"{folder} is not a complete checkpoint (it has no {STATE_FILE}); {advice}.")
    _check_whole(folder)
    return str(folder)


def set_checkpoints_aside(output_dir: str | Path, after: int = -1) -> Path | None:
    """Move the checkpoints of other runs, of steps after ``after``, so that they are never resumed; where they are now.

    Those that were set aside before are deleted: a run that was begun by mistake can be taken back, and no more.
    """
    folders = [folder for step, folder in _by_step(output_dir) if step > after]
    if not folders:
        return None
    aside = Path(output_dir, ASIDE)
    if aside.exists():
        shutil.rmtree(aside)
    aside.mkdir()
    for folder in folders:
        folder.rename(aside / folder.name)
    return aside


def check_output_dir(
    output_dir: str | Path, resume: str | bool | None, overwrite: bool, model: str | None = None
) -> None:
    """Keep a run from mixing its files with those of another.

    Refused are a folder that is not empty, unless the run resumes or may overwrite, and a run that would set aside the
    checkpoint of ``model`` that it starts from.
    """
    folder = Path(output_dir)
    if folder.is_dir() and any(folder.iterdir()) and not resume and not overwrite:
        go_on = "go on with that run (--resume_from_checkpoint last), " if complete_checkpoints(folder) else ""
        raise ValueError(
            f"The output folder {output_dir} is not empty. Choose another, {go_on}or write over it "
            "(--overwrite_output_dir)."
        )
    if overwrite and not resume and model and folder.resolve() in Path(model).resolve().parents:
        raise ValueError(
            f"The run would start from {model} and write over {output_dir}, where that checkpoint lies: choose another "
            "output folder."
        )


def _by_step(output_dir: str | Path) -> list[tuple[int, Path]]:
    """Every folder checkpoint-<step>, complete or not, by step."""
    names = (
        (re.fullmatch(rf"{PREFIX_CHECKPOINT_DIR}-([0-9]+)", path.name), path) for path in Path(output_dir).glob("*")
    )
    return sorted((int(match[1]), path) for match, path in names if match and path.is_dir())


def _check_whole(checkpoint: Path) -> None:
    broken = _broken_file(checkpoint)
    if broken is None:
        return
    complete = complete_checkpoints(checkpoint.parent)
    before = complete[: complete.index(checkpoint)] if checkpoint in complete else []
    whole = next((folder for folder in reversed(before) if _broken_file(folder) is None), None)
    advice = "There is no whole checkpoint before it: start a new run."
    if whole is not None:
        advice = f"{whole} is whole: go on from it (--resume_from_checkpoint {whole})."
    raise ValueError(f"{broken}: {checkpoint} cannot be resumed, as after a full disk or a crash. {advice}")


def _broken_file(checkpoint: Path) -> str | None:
    """The first file that is not whole, and why; only headers and ends of large files are read."""
    for file in sorted(checkpoint.rglob("*.*")):
        try:
            if file.suffix == ".json":
                json.loads(file.read_text(encoding="utf-8"))
            elif file.suffix == ".safetensors":
                with safe_open(file, "pt"):
                    pass
            elif file.suffix in (".pt", ".pth") and not zipfile.is_zipfile(file):  # its directory stands at the end
                raise ValueError("it ends too early")
        except (ValueError, SafetensorError) as error:
            return f"{file} is not whole ({file.stat().st_size:,} bytes: {error})"
    return None
