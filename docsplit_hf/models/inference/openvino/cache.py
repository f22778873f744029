"""Models of OpenVINO that were exported on this machine, kept so that they need not be exported again.

None is ever read from a checkpoint's folder or repository: it would be a stranger's graph in a native parser, and its
embeddings need not be those of the weights beside it. The cache may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...checkpoints.checksum import sha256_of
from ...checkpoints.lock import locked
from .core import openvino_core

if TYPE_CHECKING:
    import openvino

logger = logging.getLogger(__name__)

FILES = ("model.xml", "model.bin")


def export_folder() -> Path:
    """``docsplit_hf/openvino`` below ``HF_HOME``."""
    from huggingface_hub import constants

    return Path(constants.HF_HOME) / "docsplit_hf" / "openvino"


@contextlib.contextmanager
def one_at_a_time(key: str) -> Iterator[None]:
    """Other processes that want the same export wait, and find it."""
    with contextlib.ExitStack() as stack:
        try:
            export_folder().mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(export_folder() / f"{key}.lock"))
        except OSError as error:
            logger.warning("%s cannot be written to: what is exported is not kept. %s", export_folder(), error)
        yield


def store_exported(model: openvino.Model, key: str) -> None:
    """Keep a model. If that fails, as in a read-only home, a warning is logged."""
    import openvino

    temporary = export_folder() / f"{uuid.uuid4().hex}.tmp"
    try:
        temporary.mkdir(parents=True)
        openvino.save_model(model, temporary / FILES[0], compress_to_fp16=False)
        # The name carries the checksum of the content, so that the two are never apart.
        os.replace(temporary, export_folder() / f"{key}-{_sha256_of(temporary)}")
    except (OSError, RuntimeError) as error:  # OpenVINO raises the latter
        logger.warning("The model could not be kept in %s, and will be exported again: %s", export_folder(), error)
        shutil.rmtree(temporary, ignore_errors=True)


def load_exported(key: str) -> openvino.Model | None:
    """A model that was kept. What does not match its checksum is deleted with a warning."""
    for path in sorted(export_folder().glob(f"{key}-*")):
        with contextlib.suppress(FileNotFoundError):
            if path.name == f"{key}-{_sha256_of(path)}":
                return openvino_core().read_model(path / FILES[0])
        logger.warning("The exported model %s is damaged: it is deleted and exported again.", path)
        shutil.rmtree(path)
    return None


def _sha256_of(folder: Path) -> str:
    return hashlib.sha256("".join(sha256_of(folder / name) for name in FILES).encode()).hexdigest()
