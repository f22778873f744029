"""Watcher: sorts new files of a folder by label, and learns from files that a person moves to another label."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...reading.files.finding import ALL_FILES, FileInput, files_in, log_left_out
from ...reading.inputs import InputRow, read_inputs
from ...storage.atomic_replacement import FolderState, save_lock
from .folder_names import FAILED_FOLDER, UNSURE_FOLDER
from .sorted_files import SortedFile, count_by_folder, now, sub_folder_of
from .sorted_folder import FILES_AT_A_TIME, Move, SortedFolder, sha256_of_present, signature_of

logger = logging.getLogger(__name__)

PATIENCE = 10  # times as long as other files, those rest that cannot be read: they may be unfinished
UNFINISHED_ENDINGS = (".part", ".partial", ".crdownload", ".download", ".tmp")  # of downloads and copies
MOVED = "moved here by a person"  # the reason in the manifest


@dataclass
class Waiting:
    """A file that was changed: its state when it was last seen, and when it has rested."""

    signature: tuple[int, ...]
    ready_at: float
    was_read: bool = False


@dataclass
class Watcher:
    """Sorts the files of an inbox into a folder.

    Each ``step`` compares both folders with the manifest, so it does not matter what happened since the last one, or
    whether there were events at all.

    Args:
        open_classifier: Opens the pipeline.
        folder: The folder of the classifier; corrections are saved to it.
        inbox: The folder with the files.
        sorted_folder: The folder that they are sorted into.
        options: Options of a call of the classifier.
        rest: How many seconds a file must be unchanged before it is read.
    """

    open_classifier: Callable[[], Any]
    folder: Path
    inbox: Path
    sorted_folder: SortedFolder
    options: Mapping[str, Any]
    rest: float

    def __post_init__(self) -> None:
        self._waiting: dict[Path, Waiting] = {}
        self._known: dict[Path, tuple[int, ...]] = {}  # files that were sorted, in their state of then
        self._corrections = 0
        self._open()

    def step(self) -> None:
        """Learn from files that were moved, and sort files that have rested."""
        if FolderState.of(self.folder) != self._state:
            logger.info("%s was changed: it is opened again.", self.folder)
            self._open()
        moves = self.sorted_folder.moves(self._labels)
        self._learn([move for move in moves if _is_correction(move)])
        # After the example was saved: what a killed process has learned is learned again, which changes nothing.
        self.sorted_folder.append([_moved(move) for move in moves])
        self._look()
        ready = sorted(path for path, waiting in self._waiting.items() if waiting.ready_at <= time.monotonic())
        self._sort(ready[:FILES_AT_A_TIME])

    def next_step(self) -> float:
        """When the next file has rested, by ``time.monotonic``; infinity if none is waiting."""
        return min((waiting.ready_at for waiting in self._waiting.values()), default=float("inf"))

    def plan(self) -> list[SortedFile]:
        """Return where the files of the inbox would go, as they are now; nothing is copied, and nothing is learned."""
        self._look()
        return list(self._answered(sorted(self._waiting)).values())

    def status(self) -> str:
        """Describe the numbers of files, in a line."""
        counts = Counter(count_by_folder(self.sorted_folder.entries.values()))
        unsure = counts.pop(UNSURE_FOLDER, 0)
        failed = counts.pop(FAILED_FOLDER, 0)
        return (
            f"{counts.total():,} sorted, {unsure:,} unsure, {failed:,} unreadable, {len(self._waiting):,} waiting, "
            f"{self._corrections:,} corrections"
        )

    def _open(self) -> None:
        """Open the classifier in its present state."""
        self._state = FolderState.of(self.folder)
        self._classifier = self.open_classifier()
        self._labels = self._classifier.datastore.label_names

    def _look(self) -> None:
        """Note which files of the inbox were changed, and which have gone."""
        left_out: Counter[str] = Counter()
        found: dict[Path, Waiting] = {}
        for path in files_in(self.inbox, ALL_FILES, left_out):
            with contextlib.suppress(FileNotFoundError):
                new = Waiting(signature_of(path), time.monotonic() + self.rest)
                if self._known.get(path) != new.signature and path.suffix.lower() not in UNFINISHED_ENDINGS:
                    before = self._waiting.get(path, new)
                    found[path] = before if before.signature == new.signature else new
        self._waiting = found
        log_left_out(self.inbox, left_out)

    def _sort(self, paths: Sequence[Path]) -> None:
        """Copy files to the places that their answers name; those that cannot be read wait once more."""
        known = [path for path in paths if self.sorted_folder.knows(path, sha256_of_present(path))]
        planned = self._answered([path for path in paths if path.is_file() and path not in known])
        ready = [one for path, one in planned.items() if one.score is not None or self._waiting[path].was_read]
        put = self.sorted_folder.put(ready)
        for path in paths:
            entry = planned.get(path)
            if path in known or entry in put:
                self._known[path] = self._waiting.pop(path).signature
            else:
                logger.info("%s cannot be read yet: it is tried again.", path)
                self._waiting[path].was_read = True
                self._waiting[path].ready_at += PATIENCE * self.rest + 1
            if entry in put:
                logger.info("%s -> %s%s", path.name, entry.target, entry.remark())

    def _answered(self, paths: Sequence[Path]) -> dict[Path, SortedFile]:
        """Answer files, and plan their places."""
        given = [FileInput(path, path.relative_to(self.inbox).as_posix()) for path in paths]
        answers = self._classifier(given, **self.options) if given else []
        return self.sorted_folder.plan(paths, answers, self._labels)

    def _learn(self, moves: Sequence[Move]) -> None:
        """Add files with the labels of their new folders, or relabel them; fit and save the classifier."""
        given = [FileInput(self.sorted_folder.path / move.target, Path(move.entry.source).name) for move in moves]
        learned = 0
        for move, row in zip(moves, read_inputs(given), strict=True):
            if move.label not in self._labels:
                logger.info("You moved a file to %s, which is the folder of no label.", move.target)
            elif not isinstance(row, InputRow):
                logger.info("You moved a file to %s, which teaches nothing: %s.", move.target, row.reason)
            else:
                self._give_label(row, move.label)
                learned += 1
                logger.info("You moved a file to %s: it is an example of %s now.", move.target, move.label)
        if learned and not self._fit_and_save():
            self._open()
            self._learn(moves)
        else:
            self._corrections += learned

    def _give_label(self, row: InputRow, label: str) -> None:
        """Relabel the examples with a text, or add one."""
        store = self._classifier.datastore
        labels = [label] if store.multi_label else label
        same = [row_id for row_id, text in zip(store.ids, store.texts, strict=True) if text == row.text]
        if same:
            self._classifier.relabel(dict.fromkeys(same, labels))
        else:
            self._classifier.add_examples([row], [labels])

    def _fit_and_save(self) -> bool:
        """Fit the classifier, unless its head was trained, and save it; return False if another one is there now."""
        classifier = self._classifier
        if classifier.datastore.fitted is not None and not classifier.model.config.num_labels:
            classifier.fit(show_progress=False)
        with save_lock(self.folder):
            if FolderState.of(self.folder) != self._state:
                return False
            classifier.save_pretrained(self.folder)
            self._state = FolderState.of(self.folder)
        return True


def _is_correction(move: Move) -> bool:
    """Whether a file was moved to another label."""
    return sub_folder_of(move.target) != sub_folder_of(move.entry.target)


def _moved(move: Move) -> SortedFile:
    """The line of the manifest for a file that was moved."""
    entry = replace(move.entry, target=move.target, time=now())
    return replace(entry, label=move.label, score=None, page=None, reason=MOVED) if _is_correction(move) else entry
