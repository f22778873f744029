"""Editor: changes the examples of a served classifier, fits it, and saves it, one change at a time."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from safetensors import SafetensorError

from ...content_hash import sha256_of_json
from ...reading.text_warnings import unlogged
from ...storage.atomic_replacement import save_lock
from .classifiers import Classifier, State, copied, version_on_disk, weights_on_disk
from .edit_log import LOG_NAME, AddedExample, EditContent, EditLog
from .errors import CONFLICT, UNAVAILABLE, Refused, unprocessable

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...classifier.knn_datastore import KNNDatastore
    from ...classifier.pipeline import KNNClassifierPipeline
    from .settings import Limits

logger = logging.getLogger(__name__)


class NewExample(NamedTuple):
    """A text with a label, to add."""

    text: str
    text_pair: str | None
    label: str | list[str]
    id: str | None


class Changes(NamedTuple):
    """Changes of examples that are made together, or not at all."""

    add: list[NewExample]
    relabel: dict[str, str | list[str]]
    remove: list[str]


class Request(NamedTuple):
    """Who sends a request, its idempotency key, and its SHA-256."""

    who: str
    key: str | None
    digest: str


class Editor:
    """The one writer of a classifier's folder.

    Changes are made in a copy of the classifier, written to the edit log, saved to the folder, and only then served and
    acknowledged. So answers come from the state before a change or the state after it.
    """

    def __init__(self, classifier: Classifier, limits: Limits) -> None:
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

    def change(self, changes: Changes, request: Request) -> dict[str, Any]:
        """Change examples, and return the answer that acknowledges it."""
        state = self._current()
        known = self._log.finished(request.key)
        if known is not None:
            return _repeated(known.request, known.answer, request)
        pipe = copied(state.pipe)
        with unlogged():
            content, ids = _apply(pipe, changes, self._limits)
        answer = {"ids": ids, "relabeled": len(changes.relabel), "removed": len(changes.remove)}
        return self._log_and_save(state, pipe, content, answer, request)

    def fit(self, class_proportions: Any, request: Request) -> dict[str, Any]:
        """Fit the experts, and return the report."""
        state = self._current()
        known = self._log.finished(request.key)
        if known is not None:
            return _repeated(known.request, known.answer, request)
        pipe = copied(state.pipe)
        with unlogged():
            report = pipe.fit(show_progress=False, class_proportions=class_proportions)
        return self._log_and_save(state, pipe, EditContent(kind="fit"), {"report": str(report)}, request)

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

    def _log_and_save(
        self, before: State, pipe: KNNClassifierPipeline, content: EditContent, answer: dict[str, Any], request: Request
    ) -> dict[str, Any]:
        """Log a change, save it, serve it, and return the answer with the new version."""
        edit = self._log.begin(request.key, request.digest, request.who, content)
        try:
            state = self._save_state(before, pipe)
        except Exception as error:  # of any type, such as a full disk: what was not saved must not come back later
            if isinstance(error, Refused) or self._holds(before.version):
                self._log.withdraw(edit)
            raise
        if not self._log.is_in_place():
            raise _replaced()
        answer = {"edit": edit.number, "version": state.version, **answer}
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
                return State(pipe, version_on_disk(folder), weights_on_disk(folder))
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
                logger.error(message, edit.number, name, LOG_NAME)
                continue
            state = self._save_state(state, pipe)
            answer = {
                "edit": edit.number,
                "version": state.version,
                "ids": [example.id for example in edit.content.added],
                "relabeled": len(edit.content.relabeled),
                "removed": len(edit.content.removed),
            }
            self._log.finish(edit, answer)
            self.classifier.state = state
            logger.info("Edit %d of %s was interrupted, and is finished now.", edit.number, name)


def _replaced() -> Refused:
    """The error for an edit of a version that is no longer in the folder."""
    return Refused(CONFLICT, "replaced", "The folder was replaced by another program: try again.")


def digest_of(body: dict[str, Any]) -> str:
    """The SHA-256 of a request, by which a repeated one is recognized."""
    return sha256_of_json(body)


def _repeated(known_request: str, answer: dict[str, Any], request: Request) -> dict[str, Any]:
    """The answer to a request that was answered before; another request with its key is refused."""
    if known_request != request.digest:
        raise Refused(
            CONFLICT,
            "key_reused",
            "This Idempotency-Key belongs to another request: take a new key for each request.",
        )
    return answer | {"repeated": True}


def _apply(pipe: KNNClassifierPipeline, changes: Changes, limits: Limits) -> tuple[EditContent, list[str]]:
    """Make changes in a pipeline; return what they do, and the id of each added example."""
    store: KNNDatastore = pipe.datastore
    _check_ids(store, changes)
    new_ids: list[str] = []
    if changes.remove:
        pipe.remove_examples(changes.remove)
    if changes.relabel:
        pipe.relabel(changes.relabel)
    if changes.add:
        known = set(pipe.datastore.ids)
        new_ids = _add(pipe, changes.add)
        if len(pipe.datastore.label_names) > limits.labels:
            raise unprocessable(f"A classifier may have {limits.labels:,} labels here.", "add", "too_many_labels")
    else:
        known = set()
    added = [
        AddedExample(row_id, example.text, example.text_pair, example.label)
        for row_id, example in dict(zip(new_ids, changes.add, strict=True)).items()
        if row_id not in known
    ]
    _check_examples_left(pipe)
    content = EditContent(
        kind="examples",
        added=tuple(added),
        relabeled=tuple(changes.relabel.items()),
        removed=tuple(changes.remove),
    )
    return content, new_ids


def _check_examples_left(pipe: KNNClassifierPipeline) -> None:
    """Refuse to remove the last example."""
    if not len(pipe.datastore):
        raise unprocessable("A classifier needs an example: the last one is not removed.", "remove", "no_examples")


def _check_ids(store: KNNDatastore, changes: Changes) -> None:
    """Refuse ids that are unknown, or that are given twice."""
    known = set(store.ids)
    for name, ids in (("relabel", list(changes.relabel)), ("remove", changes.remove)):
        for row_id in ids:
            if row_id not in known:
                raise unprocessable(f"No example has the id {row_id!r}.", name, "unknown_id")
    if len(set(changes.remove)) < len(changes.remove):
        raise unprocessable("An id is to be removed twice.", "remove", "repeated_id")
    both = set(changes.relabel) & set(changes.remove)
    if both:
        raise unprocessable(f"{min(both)!r} is to be relabeled and removed: choose one.", "relabel", "repeated_id")


def _add(pipe: KNNClassifierPipeline, examples: list[NewExample]) -> list[str]:
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
    relabeled = {row_id: label for row_id, label in content.relabeled if row_id in present}
    if relabeled:
        pipe.relabel(relabeled)
    missing = [NewExample(**asdict(example)) for example in content.added if example.id not in present]
    if missing:
        _add(pipe, missing)
    _check_examples_left(pipe)
