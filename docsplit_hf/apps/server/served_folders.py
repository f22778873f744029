"""ServedFolder: a folder that is served, with one consistent state at a time."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from ...storage.classifier_folder import FOLDER
from ...storage.manifest import MANIFEST
from .states import Encoders, version_on_disk

logger = logging.getLogger(__name__)

NAME = re.compile(r"[\w.-]{1,100}")


def named_folder(text: str) -> tuple[str, Path]:
    """Parse ``FOLDER`` or ``NAME=FOLDER`` into the name of a classifier in requests, by default its folder's, and this.

    Raises:
        ValueError: If the folder does not exist or holds no classifier, or its name has other characters than letters,
            digits, ``-``, ``_`` and ``.``.
    """
    folder = Path(text)
    name = folder.resolve().name
    if "=" in text and not folder.is_dir():
        name, _, named = text.partition("=")
        folder = Path(named)
    if not folder.is_dir():
        raise ValueError(f"There is no folder {folder}: give a folder that pipe.save_pretrained wrote.")
    if not (folder / FOLDER / MANIFEST).is_file():
        raise ValueError(f"{folder} holds no classifier with examples: give one that pipe.save_pretrained wrote.")
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be a name in requests: choose one, as in kinds={folder}.")
    return name, folder


class ServedFolder:
    """A served classifier: its name and folder, and the state that answers come from."""

    def __init__(self, name: str, folder: Path, encoders: Encoders) -> None:
        self.name = name
        self.folder = folder
        self._encoders = encoders
        self.lock = threading.RLock()  # held while the classifier is changed or loaded
        self.opened_at = time.time()  # seconds since 1970
        self.state = encoders.open(folder)

    def reload_if_replaced(self) -> None:
        """Serve the version in the folder from now on, if another program has replaced it."""
        with self.lock:
            try:
                if version_on_disk(self.folder) == self.state.version:
                    return
            except FileNotFoundError:  # it is being replaced
                return
            self.state = self._encoders.open(self.folder)
            self.opened_at = time.time()
            logger.info("%s was replaced in its folder: version %s answers now.", self.name, self.state.version)

    def without_paths(self, message: str) -> str:
        """A message without the path of the folder, for a client."""
        for path in (str(self.folder.resolve()), str(self.folder)):
            if len(path) > 1:
                message = message.replace(path, self.name)
        return message


def open_classifiers(texts: Sequence[str], encoders: Encoders) -> dict[str, ServedFolder]:
    """Open the classifiers of a command line, by name.

    Raises:
        ValueError: If two have the same name, or one cannot be served.
    """
    classifiers: dict[str, ServedFolder] = {}
    for text in texts:
        name, folder = named_folder(text)
        if name in classifiers:
            raise ValueError(f"Two classifiers are named {name!r}: name one of them, as in other={folder}.")
        classifiers[name] = ServedFolder(name, folder, encoders)
    return classifiers
