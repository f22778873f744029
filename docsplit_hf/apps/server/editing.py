"""Editor: changes the examples of a served classifier, fits it, and saves it, one change at a time."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from ...reading.text_warnings import unlogged
from ...storage.atomic_replacement import save_lock
from ...storage.forgetting import forget_edits
from ..pipelines import copied
from .edit_log import EditContent, EditLog, EditRequest, LoggedExample
from .errors import CONFLICT, UNAVAILABLE, Refused, unprocessable
from .served_folders import ServedFolder
from .states import State, version_on_disk, weights_on_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...classifier.knn_datastore import KNNDatastore
    from ...classifier.pipeline import KNNClassifierPipeline
    from .settings import ServerLimits

logger = logging.getLogger(__name__)


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
        self._forget_removed()  # if a crash came between

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
        known = self._log.answer_to(request.key)
        if known is not None:
            return {"version": before.version, **_repeated(*known, request)}
        pipe = copied(before.pipe)
        with unlogged():
            if content.kind == "fit":
                report = pipe.fit(show_progress=False, class_proportions=class_proportions)
                answer: dict[str, Any] = {"report": str(report)}
            else:
                content, ids = _apply(pipe, content, self._limits)
                answer = {"ids": ids, "relabeled": len(content.relabeled), "removed": len(content.removed)}
        answer = {"edit": self._log.count + 1, **answer}
        self._log.begin(request, before.version, content, answer)
        try:
            state = self._save_state(before, pipe)
        except Exception as error:  # of any type, such as a full disk: what was not saved must not come back later
            if isinstance(error, Refused) or self._holds(before.version):
                self._log.withdraw(request)
            raise
        if not self._log.is_in_place():
            raise _replaced()
        self.classifier.state = state
        if content.removed:
            self._forget_removed()
        return {"version": state.version, **answer}

    def reload_if_replaced(self) -> None:
        """Serve the version in the folder, if another program has replaced it."""
        if self.classifier.is_replaced():
            self.classifier.reload()

    def _open_log(self) -> EditLog:
        """Open the log in the folder, and lock it."""
        folder = self.classifier.folder
        try:
            return EditLog(folder, version_on_disk(folder))
        except BlockingIOError:
            raise ValueError(
                f"Another server takes edits of {folder}: stop it, or start this one without a token for edits."
            ) from None

    def _current(self) -> State:
        """The state to change: the one in the folder."""
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
        return self.classifier.state

    def _forget_removed(self) -> None:
        """Overwrite the texts of removed examples in the log."""
        forget_edits(self.classifier.folder, set(self.classifier.state.pipe.datastore.ids))

    def _save_state(self, before: State, pipe: KNNClassifierPipeline) -> State:
        """Save a pipeline to the folder in one moment, unless another program has replaced it."""
        folder = self.classifier.folder
        self._refuse_if_replaced(before)
        has_same_calibration = pipe.model.config.to_dict() == before.pipe.model.config.to_dict()
        try:
            with save_lock(folder):
                self._refuse_if_replaced(before)
                (pipe.datastore if has_same_calibration else pipe).save_pretrained(folder)
                return State(pipe, version_on_disk(folder), before.precision, weights_on_disk(folder))
        except SafetensorError as error:  # what safetensors raises when the disk is full
            raise OSError(f"{folder} cannot be written: {error}") from error

    def _holds(self, version: str) -> bool:
        """Whether the folder is in its place, and has a version."""
        return self._log.is_in_place() and version_on_disk(self.classifier.folder) == version

    def _refuse_if_replaced(self, before: State) -> None:
        """Refuse a change of a version that is not the one in the folder."""
        if not self._holds(before.version):
            raise _replaced()


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
    if not len(pipe.datastore):
        raise unprocessable("A classifier needs an example: the last one is not removed.", "remove", "no_examples")
    example_of = dict(zip(ids, content.added, strict=True))
    new = tuple(replace(example, id=row_id) for row_id, example in example_of.items() if row_id not in known)
    return replace(content, added=new), ids


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
