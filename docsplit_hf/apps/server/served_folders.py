"""ServedFolder: a folder that is served, with one consistent state at a time."""

from __future__ import annotations

import copy
import hashlib
import logging
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ...classifier.pipeline import KNNClassifierPipeline
from ...encoding.portable.modeling_knn_classifier import KNNClassifier
from ...storage.atomic_replacement import read_one_save
from ...storage.classifier_folder import FOLDER
from ...storage.manifest import MANIFEST, read_manifest

if TYPE_CHECKING:
    from torch import nn

    from ...arrays.store import Store

logger = logging.getLogger(__name__)

VERSION_DIGITS = 12
NAMED_FOLDER = re.compile(r"(?P<name>[\w.-]{1,100})=(?P<folder>.+)")
NAME = re.compile(r"[\w.-]{1,100}")
# Settings of a classifier that decide how it reads a text; with the same encoder, texts may be read together.
READING_SETTINGS = (
    "pooling",
    "retrieval_pooling",
    "max_length",
    "long_documents",
    "passage_length",
    "truncate_dim",
    "prompt",
    "include_prompt",
    "normalize",
)


def named_folder(text: str) -> tuple[str, Path]:
    """Parse ``FOLDER`` or ``NAME=FOLDER`` into the name of a classifier in requests, by default its folder's, and this.

    Raises:
        ValueError: If the folder does not exist or holds no classifier, or its name has other characters than letters,
            digits, ``-``, ``_`` and ``.``.
    """
    match = NAMED_FOLDER.fullmatch(text)
    folder = Path(text)
    name = folder.resolve().name
    if match is not None and not folder.is_dir():
        folder = Path(match["folder"])
        name = match["name"]
    if not folder.is_dir():
        raise ValueError(f"There is no folder {folder}: give a folder that pipe.save_pretrained wrote.")
    if not (folder / FOLDER / MANIFEST).is_file():
        raise ValueError(f"{folder} holds no classifier with examples: give one that pipe.save_pretrained wrote.")
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be a name in requests: choose one, as in kinds={folder}.")
    return name, folder


def version_on_disk(folder: Path) -> str:
    """The version of the classifier in a folder: the first 12 digits of the SHA-256 of its datastore's manifest.

    The manifest has the checksums of all files that answers depend on, so it changes with every save.
    """
    manifest, _ = read_one_save(folder, lambda place: Path(place, FOLDER, MANIFEST).read_bytes())
    return hashlib.sha256(manifest).hexdigest()[:VERSION_DIGITS]


def weights_on_disk(folder: Path) -> tuple[str, ...]:
    """The SHA-256 of each file of weights that the datastore in a folder names."""
    checksums = read_manifest(folder / FOLDER)["classifier"]
    return tuple(checksums[name] for name in sorted(checksums) if name.endswith(".safetensors"))


@dataclass(frozen=True)
class State:
    """A classifier at one moment: a pipeline that nobody changes, its version, and the SHA-256 of its weights."""

    pipe: KNNClassifierPipeline
    version: str
    weights: tuple[str, ...]  # of each file; empty if the datastore names none

    @property
    def datastore(self) -> Store:
        """The examples."""
        return self.pipe.datastore

    def reading_key(self) -> tuple[object, ...]:
        """What texts must have in common to be read together: the encoder and how it is used."""
        model = self.pipe.model
        if not isinstance(model, KNNClassifier):  # an endpoint
            return (id(model),)
        if model.config.num_labels or model.retrieval_head is not None:
            return (id(model.encoder), id(model.retrieval_head))
        return (id(model.encoder), *(getattr(model.config, name) for name in READING_SETTINGS))


def copied(pipe: KNNClassifierPipeline) -> KNNClassifierPipeline:
    """Copy a pipeline so that a change of the copy changes nothing else; weights and rows are shared."""
    other = copy.copy(pipe)
    other.model = copy.copy(pipe.model)
    other.model.config = copy.deepcopy(pipe.model.config)
    other.datastore = copy.copy(pipe.datastore)
    return other


class Encoders:
    """The encoders in memory: classifiers with equal weights share one."""

    def __init__(self, precision: str | None = None) -> None:
        self.precision = precision
        # An encoder is forgotten with the last classifier that has it, or each replaced folder would leave one.
        self._encoders: WeakValueDictionary[tuple[str, ...], nn.Module] = WeakValueDictionary()

    def open(self, folder: Path) -> State:
        """Load the classifier in a folder, with the encoder of an earlier one if its weights are equal."""
        state, _ = read_one_save(folder, lambda place: self._read(Path(place)))
        model = state.pipe.model
        model.eval()
        if isinstance(model, KNNClassifier) and not model.config.num_labels and model.retrieval_head is None:
            encoder = self._encoders.setdefault(state.weights, model.encoder) if state.weights else model.encoder
            if encoder is not model.encoder:
                logger.info("Classifiers with the same encoder share it: %s.", folder.name)
                model.encoder = encoder
        return state

    def _read(self, folder: Path) -> State:
        """Read the parts of a state; the pipeline has compared its weights with the checksums in the manifest."""
        from transformers import pipeline

        pipe = pipeline("docsplit-knn", model=str(folder), precision=self.precision)
        return State(pipe, version_on_disk(folder), weights_on_disk(folder))


class ServedFolder:
    """A served classifier: its name and folder, and the state that answers come from."""

    def __init__(self, name: str, folder: Path, encoders: Encoders) -> None:
        self.name = name
        self.folder = folder
        self._encoders = encoders
        self.precision = encoders.precision or "float32"
        self.opened_at = time.time()  # seconds since 1970
        self.state = encoders.open(folder)

    def __repr__(self) -> str:
        return f"ServedFolder({self.name!r})"

    def is_replaced(self) -> bool:
        """Whether the folder holds another version than the one that is served."""
        try:
            return version_on_disk(self.folder) != self.state.version
        except FileNotFoundError:  # it is being replaced
            return False

    def reload(self) -> None:
        """Serve the version in the folder from now on."""
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
