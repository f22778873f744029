"""edit: change a served classifier, and save it, one change at a time."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from ...reading.text_warnings import unlogged
from ...storage.atomic_replacement import save_lock
from ..pipelines import copied
from .errors import Refused, unprocessable
from .served_folders import ServedFolder
from .states import State, version_on_disk, weights_on_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ...classifier.knn_datastore import KNNDatastore
    from ...classifier.pipeline import KNNClassifierPipeline
    from .schemas import ExamplesRequest, ExampleToAdd

logger = logging.getLogger(__name__)


def edit(classifier: ServedFolder, make: Callable[[KNNClassifierPipeline], dict[str, Any]], who: str) -> dict[str, Any]:
    """Make a change for an editor, and return the answer that acknowledges it.

    It is made in a copy of the classifier, saved to the folder in one moment, and only then served and acknowledged. So
    answers come from the state before a change or the state after it.
    """
    with classifier.lock:
        before = _state_in_folder(classifier)
        pipe = copied(before.pipe)
        with unlogged():
            answer = make(pipe)
        state = _save_state(classifier.folder, before, pipe)
        classifier.state = state
    logger.info("%s was edited by %s: %s became %s.", classifier.name, who, before.version, state.version)
    return {"version": state.version, **answer}


def _state_in_folder(classifier: ServedFolder) -> State:
    """The state to change: the one in the folder."""
    try:
        version_on_disk(classifier.folder)
    except (FileNotFoundError, NotADirectoryError):
        raise Refused(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "no_folder",
            f"The folder of {classifier.name} is not in its place, so nothing can be changed: put it back.",
        ) from None
    classifier.reload_if_replaced()
    return classifier.state


def _save_state(folder: Path, before: State, pipe: KNNClassifierPipeline) -> State:
    """Save a pipeline to the folder in one moment, unless another program has replaced it."""
    has_same_calibration = pipe.model.config.to_dict() == before.pipe.model.config.to_dict()
    try:
        with save_lock(folder):
            if version_on_disk(folder) != before.version:
                raise Refused(HTTPStatus.CONFLICT, "replaced", "The folder was replaced by another program: try again.")
            (pipe.datastore if has_same_calibration else pipe).save_pretrained(folder)
            return State(pipe, version_on_disk(folder), weights_on_disk(folder))
    except SafetensorError as error:  # what safetensors raises when the disk is full
        raise OSError(f"{folder} cannot be written: {error}") from error


def change_examples(pipe: KNNClassifierPipeline, body: ExamplesRequest, most_labels: int) -> dict[str, Any]:
    """Add, relabel and remove examples in a pipeline; return what was done.

    Made once more, the same changes change nothing: what is there is not added again, with or without an id.
    """
    _check_ids(pipe.datastore, body)
    removed = [row_id for row_id in pipe.datastore.ids if row_id in set(body.remove)]
    if removed:
        pipe.remove_examples(removed)
    if body.relabel:
        pipe.relabel(body.relabel)
    ids = _add(pipe, body.add)
    if len(pipe.datastore.label_names) > most_labels:
        raise unprocessable(f"A classifier may have {most_labels:,} labels here.", "add", "too_many_labels")
    if not len(pipe.datastore):
        raise unprocessable("A classifier needs an example: the last one is not removed.", "remove", "no_examples")
    return {"ids": ids, "relabeled": len(body.relabel), "removed": len(removed)}


def _check_ids(store: KNNDatastore, body: ExamplesRequest) -> None:
    """Refuse new labels of ids that are unknown or to be removed."""
    known = set(store.ids)
    for row_id in body.relabel:
        if row_id not in known:
            raise unprocessable(f"No example has the id {row_id!r}.", "relabel", "unknown_id")
        if row_id in body.remove:
            raise unprocessable(f"{row_id!r} is to be relabeled and removed: choose one.", "relabel", "repeated_id")


def _add(pipe: KNNClassifierPipeline, examples: Sequence[ExampleToAdd]) -> list[str]:
    """Add examples, all of them with ids of their own, or none."""
    if not examples:
        return []
    ids = [example.id for example in examples if example.id is not None]
    if 0 < len(ids) < len(examples):
        raise unprocessable("Some examples have an id: give one to each, or to none.", "add", "missing_id")
    return pipe.add_examples(
        [{"text": example.text, "text_pair": example.text_pair} for example in examples],
        [example.label for example in examples],
        ids=ids or None,
        allow_new_labels=True,
    )
