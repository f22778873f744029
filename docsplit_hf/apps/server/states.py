"""States of a served classifier: one moment of it, as a pipeline or as an exported model, and its version."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ...classifier.exported_classifier import ExportedClassifier, open_exported
from ...storage.atomic_replacement import read_one_save
from ...storage.classifier_folder import FOLDER
from ...storage.manifest import MANIFEST, read_manifest
from ..pipelines import open_pipeline

if TYPE_CHECKING:
    from torch import nn

    from ...classifier.pipeline import KNNClassifierPipeline

logger = logging.getLogger(__name__)

VERSION_DIGITS = 12


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
    """A classifier at one moment, which nobody changes.

    Args:
        pipe: What answers: a pipeline, or a classifier whose encoder was exported.
        version: Its version.
        weights: The SHA-256 of each file of its weights; none if the datastore names none, or the encoder was exported.
    """

    pipe: KNNClassifierPipeline | ExportedClassifier
    version: str
    weights: tuple[str, ...] = ()


class Encoders:
    """The encoders in memory: classifiers with equal weights share one.

    Args:
        precision: Of the pipelines.
        exported: Whether exported models answer, where there are any: they cannot be edited.
        trust: Whether to open models that somebody else exported.
        threads: The threads that run an exported model. None: one for each core.
    """

    def __init__(
        self,
        precision: str | None = None,
        exported: bool = False,
        trust: bool = False,
        threads: int | None = None,
    ) -> None:
        self._precision = precision
        self._exported = exported
        self._trust = trust
        self._threads = threads
        # An encoder is forgotten with the last classifier that has it, or each replaced folder would leave one.
        self._encoders: WeakValueDictionary[tuple[str, ...], nn.Module] = WeakValueDictionary()

    def open(self, folder: Path) -> State:
        """Load the classifier in a folder, with the encoder of an earlier one if its weights are equal."""
        if self._exported:
            state, _ = read_one_save(folder, lambda place: self._read_exported(Path(place)))
            if state is not None:
                return state
        state, _ = read_one_save(folder, lambda place: self._read(Path(place)))
        model = state.pipe.model
        model.eval()
        is_bare = state.pipe.embedder.is_local and not model.config.num_labels and model.retrieval_head is None
        if is_bare and state.weights:
            encoder = self._encoders.setdefault(state.weights, model.encoder)
            if encoder is not model.encoder:
                logger.info("Classifiers with the same encoder share it: %s.", folder.name)
                model.encoder = encoder
        return state

    def _read_exported(self, folder: Path) -> State | None:
        """Read an exported classifier; None without one."""
        classifier = open_exported(folder, self._trust, self._threads)
        if classifier is None:
            return None
        return State(classifier, version_on_disk(folder))

    def _read(self, folder: Path) -> State:
        """Read the parts of a state; the pipeline has compared its weights with the checksums in the manifest."""
        pipe = open_pipeline(str(folder), precision=self._precision)
        return State(pipe, version_on_disk(folder), weights_on_disk(folder))
