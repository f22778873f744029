"""Editor: changes the examples of a served classifier, fits it, and saves it, one change at a time."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from safetensors import SafetensorError

from ...reading.text_warnings import unlogged
from ...storage.atomic_replacement import save_lock
from ...storage.forgetting import EDIT_LOG, forget_edits
from .edit_log import Edit, EditContent, EditLog, LoggedExample
from .errors import CONFLICT, UNAVAILABLE, Refused, unprocessable
from .served_folders import ServedFolder
from .states import PipelineState, State, copied, version_on_disk, weights_on_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...classifier.knn_datastore import KNNDatastore
    from ...classifier.pipeline import KNNClassifierPipeline
    from .settings import ServerLimits

logger = logging.getLogger(__name__)


class EditRequest(NamedTuple):
    """Who sends a request, its idempotency key, and its SHA-256."""

    who: str
    key: str | None
    digest: str


class Editor:
    """The one writer of a classifier's folder.

    Changes are made in a copy of the classifier, written to the edit log, saved to the folder, and only then served and
    acknowledged. So answers come from the state before a change or the state after it.
    """

    def __init__(self, classifier: ServedFolder, limits: ServerLimits) -> None:
        self.classifier = classifier
        self._limits = limits
        self._log = self._open_log()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"docsplit-edit-{classifier.name}")
        try:
            self._finish_interrupted()
        except (OSError, Refused) as error:
            message = "An edit of %s was interrupted, and is finished before the next edit, as it cannot be now: %s"
            logger.warning(message, classifier.name, error)

    def close(self) -> None:
        """Finish the changes under way, and let other servers take edits."""
        self._thread.shutdown(wait=True)
        self._log.close()

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function after the changes under way; returns a future."""
        return self._thread.submit(function, *arguments)

    def change(self, content: EditContent, class_proportions: Any, request: EditRequest) -> dict[str, Any]:
        """Change examples or fit the experts, and return the answer that acknowledges it."""
        before = self._current()
        known = self._log.finished(request.key)
        if known is not None:
            return _repeated(*known, request)
        pipe = copied(before.pipe)
        with unlogged():
            if content.kind == "fit":
                report = pipe.fit(show_progress=False, class_proportions=class_proportions)
                answer = {"report": str(report)}
            else:
                content, ids = _apply(pipe, content, self._limits)
                answer = _answer(content, ids)
        edit = self._log.begin(request.key, request.digest, request.who, content)
        try:
            state = self._save_state(before, pipe)
        except Exception as error:  # of any type, such as a full disk: what was not saved must not come back later
            if isinstance(error, Refused) or self._holds(before.version):
                self._log.withdraw(edit)
            raise
        if not self._log.is_in_place():
            raise _replaced()
        return self._acknowledge(edit, state, answer)

    def inspect(self, look: Callable[[KNNClassifierPipeline], dict[str, Any]]) -> tuple[str, dict[str, Any]]:
        """Look at a copy of the classifier; return its version, and what was found."""
        self.reload_if_replaced()
        state = self.classifier.state
        return state.version, look(copied(state.pipe))

    def reload_if_replaced(self) -> None:
        """Serve the version in the folder, if another program has replaced it."""
        if self.classifier.is_replaced():
            self.classifier.reload()

    def _open_log(self) -> EditLog:
        """Open the log in the folder, and lock it."""
        folder = self.classifier.folder
        try:
            return EditLog(folder)
        except BlockingIOError:
            raise ValueError(
                f"Another server takes edits of {folder}: stop it, or start this one without a token for edits."
            ) from None

    def _current(self) -> State:
        """The state to change: the one in the folder, after edits that were interrupted."""
        try:
            version_on_disk(self.classifier.folder)
        except (FileNotFoundError, NotADirectoryError):
            raise Refused(
                UNAVAILABLE,
                "no_folder",
                f"The folder of {self.classifier.name} is not in its place, so nothing can be changed: put it back.",
            ) from None
        if not self._log.is_in_place():  # another folder has taken its place, with edits of its own
            old = self._log
            self._log = self._open_log()
            old.close()
        self.reload_if_replaced()
        self._finish_interrupted()
        return self.classifier.state

    def _acknowledge(self, edit: Edit, state: State, answer: dict[str, Any]) -> dict[str, Any]:
        """Serve a saved edit, and return the answer with the new version."""
        answer = {"edit": edit.number, "version": state.version, **answer}
        if edit.content.removed:
            forget_edits(self.classifier.folder, set(state.pipe.datastore.ids))
        self._log.finish(edit, answer)
        self.classifier.state = state
        return answer

    def _save_state(self, before: State, pipe: KNNClassifierPipeline) -> State:
        """Save a pipeline to the folder in one moment, unless another program has replaced it."""
        folder = self.classifier.folder
        self._refuse_if_replaced(before)
        has_same_calibration = pipe.model.config.to_dict() == before.pipe.model.config.to_dict()
        try:
            with save_lock(folder):
                self._refuse_if_replaced(before)
                (pipe.datastore if has_same_calibration else pipe).save_pretrained(folder)
                return PipelineState(pipe, version_on_disk(folder), before.precision, weights_on_disk(folder))
        except SafetensorError as error:  # what safetensors raises when the disk is full
            raise OSError(f"{folder} cannot be written: {error}") from error

    def _holds(self, version: str) -> bool:
        """Whether the folder is in its place, and has a version."""
        return self._log.is_in_place() and version_on_disk(self.classifier.folder) == version

    def _refuse_if_replaced(self, before: State) -> None:
        """Refuse a change of a version that is not the one in the folder."""
        if not self._holds(before.version):
            raise _replaced()

    def _finish_interrupted(self) -> None:
        """Finish the edits that a crash or a full disk interrupted; one that no longer fits is set aside."""
        name = self.classifier.name
        for edit in self._log.unfinished:
            if edit.content.kind == "fit":  # nobody got an answer, and fitting again gives the same
                self._log.set_aside(edit, "it was interrupted")
                logger.info("A fit of %s was interrupted: send it again.", name)
                continue
            state = self.classifier.state
            pipe = copied(state.pipe)
            try:
                with unlogged():
                    _apply_again(pipe, edit.content)
            except (AttributeError, LookupError, TypeError, ValueError, Refused) as error:
                self._log.set_aside(edit, str(error))
                message = (
                    "Edit %d of %s was interrupted, and no longer fits, so it is not made: %s has it, and the reason."
                )
                logger.error(message, edit.number, name, EDIT_LOG)
                continue
            state = self._save_state(state, pipe)
            self._acknowledge(edit, state, _answer(edit.content, [example.id for example in edit.content.added]))
            logger.info("Edit %d of %s was interrupted, and is finished now.", edit.number, name)


def _replaced() -> Refused:
    """The error for an edit of a version that is no longer in the folder."""
    return Refused(CONFLICT, "replaced", "The folder was replaced by another program: try again.")


def _repeated(digest: str, answer: dict[str, Any], request: EditRequest) -> dict[str, Any]:
    """The answer to a request that was answered before; another request with its key is refused."""
    if digest != request.digest:
        raise Refused(
            CONFLICT,
            "key_reused",
            "This Idempotency-Key belongs to another request: take a new key for each request.",
        )
    return answer | {"repeated": True}


def _answer(content: EditContent, ids: list[str]) -> dict[str, Any]:
    """What a change of examples answers; ``ids`` are of the added ones, also of those that were there."""
    return {"ids": ids, "relabeled": len(content.relabeled), "removed": len(content.removed)}


def _apply(pipe: KNNClassifierPipeline, content: EditContent, limits: ServerLimits) -> tuple[EditContent, list[str]]:
    """Make changes in a pipeline; return those that it needed, with ids, and the id of each example to add."""
    _check_ids(pipe.datastore, content)
    ids: list[str] = []
    if content.removed:
        pipe.remove_examples(content.removed)
    if content.relabeled:
        pipe.relabel(content.relabeled)
    known = set(pipe.datastore.ids)
    if content.added:
        ids = _add(pipe, content.added)
        if len(pipe.datastore.label_names) > limits.labels:
            raise unprocessable(f"A classifier may have {limits.labels:,} labels here.", "add", "too_many_labels")
    _check_examples_left(pipe)
    example_of = dict(zip(ids, content.added, strict=True))
    new = tuple(replace(example, id=row_id) for row_id, example in example_of.items() if row_id not in known)
    return replace(content, added=new), ids


def _check_examples_left(pipe: KNNClassifierPipeline) -> None:
    """Refuse to remove the last example."""
    if not len(pipe.datastore):
        raise unprocessable("A classifier needs an example: the last one is not removed.", "remove", "no_examples")


def _check_ids(store: KNNDatastore, content: EditContent) -> None:
    """Refuse ids that are unknown, or that are given twice."""
    known = set(store.ids)
    for name, ids in (("relabel", list(content.relabeled)), ("remove", content.removed)):
        for row_id in ids:
            if row_id not in known:
                raise unprocessable(f"No example has the id {row_id!r}.", name, "unknown_id")
    if len(set(content.removed)) < len(content.removed):
        raise unprocessable("An id is to be removed twice.", "remove", "repeated_id")
    both = set(content.relabeled) & set(content.removed)
    if both:
        raise unprocessable(f"{min(both)!r} is to be relabeled and removed: choose one.", "relabel", "repeated_id")


def _add(pipe: KNNClassifierPipeline, examples: Sequence[LoggedExample]) -> list[str]:
    """Add examples: those with an id of their own, and the others."""
    ids: list[str] = [""] * len(examples)
    for has_id in (True, False):
        chosen = [i for i, example in enumerate(examples) if (example.id is not None) == has_id]
        if chosen:
            added = pipe.add_examples(
                [{"text": examples[i].text, "text_pair": examples[i].text_pair} for i in chosen],
                [examples[i].label for i in chosen],
                ids=[examples[i].id for i in chosen] if has_id else None,
                allow_new_labels=True,
            )
            for i, row_id in zip(chosen, added, strict=True):
                ids[i] = row_id
    return ids


def _apply_again(pipe: KNNClassifierPipeline, content: EditContent) -> None:
    """Make the changes of an edit that are not there yet."""
    present = set(pipe.datastore.ids)
    removed = [row_id for row_id in content.removed if row_id in present]
    if removed:
        pipe.remove_examples(removed)
    relabeled = {row_id: label for row_id, label in content.relabeled.items() if row_id in present}
    if relabeled:
        pipe.relabel(relabeled)
    missing = [example for example in content.added if example.id not in present]
    if missing:
        _add(pipe, missing)
    _check_examples_left(pipe)
