"""A classifier as a zip: saved whole, and opened again without trusting what is in it."""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from .limits import Limits
from .session import Session
from .shared_model import SharedModel

if TYPE_CHECKING:
    from ..neighbors.pipeline import KNNClassifierPipeline


def save_classifier(session: Session) -> Path:
    """The zip of what ``save_pretrained`` writes: weights as safetensors, tables, JSON; no pickle."""
    _ = session.store
    made = session.folder / "classifier.zip"
    # Not compressed: that would take most of the time, and weights hardly shrink.
    with tempfile.TemporaryDirectory(dir=session.folder) as folder, zipfile.ZipFile(made, "w") as archive:
        session.pipe.save_pretrained(Path(folder, "classifier"))
        for path in Path(folder).rglob("*"):
            archive.write(path, path.relative_to(folder))
    return made


def open_classifier(path: Path, shared: SharedModel, limits: Limits) -> KNNClassifierPipeline:
    """A pipeline with the texts of a saved classifier.

    Its weights are not read: the texts were embedded by the encoder of this page, or are refused.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            reading = _unpack(path, Path(folder), limits)
        except zipfile.BadZipFile as error:
            raise ValueError(f"{path.name} is not a zip file: choose one that was saved here.") from error
        try:
            pipe = shared.new_pipeline(folder, **reading)
        except (ValueError, OSError) as error:
            raise ValueError(f"{path.name} cannot be used: {str(error).replace(folder, path.name)}") from error
    have, labels, without = Session(pipe, limits).counts()
    limits.check_rows(have + without)
    limits.check_labels(map(str, range(labels)))
    return pipe


def _unpack(path: Path, folder: Path, limits: Limits) -> dict[str, str | int | None]:
    """Unpack the datastore alone, to names that are made here; gives what the configuration says of long texts."""
    from ..models.portable.configuration_knn_classifier import LONG_DOCUMENTS

    with zipfile.ZipFile(path) as archive:
        of_store = [entry for entry in archive.infolist() if Path(entry.filename).parent.name == "datastore"]
        files = [entry for entry in of_store if not entry.is_dir()]
        configs = [entry for entry in archive.infolist() if entry.filename in ("classifier/config.json", "config.json")]
        if not files or len(configs) != 1:
            raise ValueError(f"{path.name} holds no classifier: choose a zip that was saved here.")
        if sum(entry.file_size for entry in [*files, *configs]) > 4 * limits.megabytes * 10**6:
            raise ValueError(f"{path.name} unpacks to more than this page takes.")
        Path(folder, "datastore").mkdir()
        for entry in files:
            with archive.open(entry) as source, open(Path(folder, "datastore", Path(entry.filename).name), "wb") as to:
                shutil.copyfileobj(source, to)
        try:
            config = json.loads(archive.read(configs[0]))
            strategy, length = config["long_documents"], config["passage_length"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path.name} does not say how its texts were read: choose a zip that was saved here."
            ) from error
    if strategy not in LONG_DOCUMENTS or not isinstance(length, int | None):
        raise ValueError(f"{path.name} reads long texts by {str(strategy)[:40]!r}, which is not known here.")
    return {"long_documents": strategy, "passage_length": length}
