"""Session: the pipeline and the texts of one visitor, within limits."""

from __future__ import annotations

import copy
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ...classifier.active_learning import Suggestion
    from ...classifier.knn_datastore import KNNDatastore
    from ...classifier.pipeline import KNNClassifierPipeline
    from ...fitting.ensemble.fitted_ensemble import Fit
    from ...fitting.ensemble.scoring import PreparedExperts

LABEL_CHARACTERS = 200  # the most characters of a label
Row = Mapping[str, Any]  # of a table: JSON values by column
PASSAGE_LENGTH = 128  # tokens; short, so that a passage shows the decisive place


def counted(number: int, noun: str) -> str:
    """Format a number with its noun: ``1 text``, ``2 texts``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percentage(fraction: float) -> str:
    """Format a fraction: ``94%``; only exactly 1 is shown as 100%, and only exactly 0 as 0%."""
    rounded = f"{fraction:.0%}"
    if rounded == "100%" and fraction < 1:
        return "above 99%"
    if rounded == "0%" and fraction > 0:
        return "below 1%"
    return rounded


@dataclass(frozen=True)
class PageLimits:
    """Limits of the page; each is an argument of ``docsplit demo``: ``--max_rows``, ..."""

    rows: int = 10_000  # rows of a file, and texts of a session
    megabytes: int = 100  # size of an upload
    labels: int = 200  # different labels
    characters: int = 100_000  # characters of a text
    sessions: int = 100  # sessions that are kept, in memory and on disk

    def check_texts(self, texts: Iterable[str]) -> None:
        """Refuse a text that is too long."""
        for number, text in enumerate(texts, start=1):
            if len(text) > self.characters:
                raise ValueError(
                    f"Text {number} has {len(text):,} characters, and this page takes {self.characters:,}: cut it, or "
                    "start docsplit demo with a larger --max_characters."
                )

    def check_rows(self, rows: int) -> None:
        """Refuse too many texts."""
        if rows > self.rows:
            raise ValueError(
                f"These are {rows:,} texts or more, and this page takes {self.rows:,}: leave some out, or start "
                "docsplit demo with a larger --max_rows."
            )

    def check_labels(self, labels: Iterable[str]) -> None:
        """Refuse too many different labels, and labels that are too long."""
        different = set(labels)
        count = len(different)
        if count > self.labels:
            raise ValueError(
                f"There are {count:,} different labels, and this page takes {self.labels:,}: is it the right column?"
            )
        longest = max(different, key=len, default="")
        if len(longest) > LABEL_CHARACTERS:
            raise ValueError(
                f"The label {longest[:40] + ' ...'!r} has {len(longest):,} characters, and this page takes "
                f"{LABEL_CHARACTERS}: is it the right column?"
            )


class SharedModel:
    """The encoder or saved classifier that all sessions share; None: the checkpoint that ships."""

    def __init__(self, name: str | None = None) -> None:
        from ..pipelines import open_pipeline

        self.name = name
        self._first = open_pipeline(name)

    def new_pipeline(self, folder: Path | None = None) -> KNNClassifierPipeline:
        """Make a pipeline with the shared weights and its own configuration, tokenizer and datastore."""
        from ...classifier.pipeline import KNNClassifierPipeline

        first = self._first
        model = copy.copy(first.model)  # the weights are the same tensors
        model.config = copy.deepcopy(first.model.config)
        is_new = first.datastore is None
        pipe = KNNClassifierPipeline(
            model=model,
            tokenizer=copy.deepcopy(first.tokenizer),
            datastore=folder or copy.deepcopy(first.datastore),
            device=first.device,
            long_documents="passages" if is_new else None,
            passage_length=min(PASSAGE_LENGTH, first.embedder.max_length or PASSAGE_LENGTH) if is_new else None,
        )
        if pipe.datastore is not None and pipe.datastore.multi_label:
            raise ValueError("Its texts may have several labels each, and this page gives one: use docsplit_hf itself.")
        return pipe


@dataclass(frozen=True)
class PlannedText:
    """A text or a document that is classified, with its answer.

    Attributes:
        name: The name of the document, or the beginning of the text.
        given: The text as a pipeline takes it, with its file and places.
        row: What the file of the answers says of it.
        file: The uploaded document; None for a row of a table.
        label: The label of the answer, or that of the visitor; None without an answer.
        score: Its probability.
        page: The page that speaks most for it; may be empty.
        first_page: The number of that page; None if there is none.
        reason: The words that decided, or why there is no answer; may be empty.
        passage: The words of the passage that decided, with marks.
        link: The address that opens the file at the page; None if the browser shows no such file.
        checked: What the visitor has done with the answer, in a word; empty before.
    """

    name: str
    given: dict[str, Any]
    row: Row
    file: Path | None = None
    label: str | None = None
    score: float = 0.0
    page: str = ""
    first_page: int | None = None
    reason: str = ""
    passage: list[tuple[str, str | None]] = field(default_factory=list)
    link: str | None = None
    checked: str = ""


class Finding(NamedTuple):
    """A finding of the audit: a text with a label to check."""

    id: str
    kind: str  # the end of a sentence about the label
    label: str
    suggested: str  # another label; "" if there is none
    why: str  # a sentence
    text: str


class TextCounts(NamedTuple):
    """The numbers of texts with a label, of different labels, and of texts without a label."""

    labeled: int
    labels: int
    unlabeled: int

    @property
    def texts(self) -> int:
        """All texts."""
        return self.labeled + self.unlabeled


@dataclass(eq=False)
class Session:
    """The pipeline of one visitor, and the state of the page."""

    pipe: KNNClassifierPipeline
    limits: PageLimits
    kept: list[str] = field(default_factory=list)  # ids of texts with confirmed labels
    listed: list[str] = field(default_factory=list)  # ids of the texts in the list of step 2
    findings: list[Finding] = field(default_factory=list)  # of the audit, in their order on the page
    planned: tuple[PlannedText, ...] = ()  # what was classified last
    unread: Sequence[Row] = ()  # what the file of the answers says of the files that could not be read
    suggestions: list[Suggestion] = field(default_factory=list)  # the current batch
    earlier: list[Session] = field(default_factory=list)  # copies that undo restores, the latest last
    stale: bool = False  # whether labels were added since the last fit
    lock: threading.RLock = field(default_factory=threading.RLock)  # one change at a time
    _folder: tempfile.TemporaryDirectory = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="docsplit-demo-")
    )
    _ready: PreparedExperts | None = None

    def __post_init__(self) -> None:
        """See whether the last labels of a session that was saved are to be learned."""
        self.stale = self.fitted is not None and self.fitted.report.examples != len(self.pipe.datastore)

    @property
    def folder(self) -> Path:
        """Folder of files to download; deleted with the session."""
        return Path(self._folder.name)

    @property
    def store(self) -> KNNDatastore:
        """Datastore of the labeled texts; raises if no text has a label."""
        self.check_labeled()
        return self.pipe.datastore

    def check_labeled(self) -> None:
        """Refuse a session without labeled texts."""
        if self.pipe.datastore is None or not len(self.pipe.datastore):
            raise ValueError("No text has a label yet: give some a label in step 2 or 4.")

    def restore(self, earlier: Session) -> None:
        """Become a copy of this session that was made earlier."""
        vars(self).update(vars(earlier))

    @property
    def fitted(self) -> Fit | None:
        """The fitted experts, or None before a fit."""
        from ...fitting.ensemble.scoring import prepare_experts

        store = self.pipe.datastore
        self._ready = None if store is None else prepare_experts(store.snapshot, self._ready)
        return None if self._ready is None else self._ready.fitted

    @property
    def labels(self) -> list[str]:
        """Names of the labels in use, in the datastore's order."""
        store = self.pipe.datastore
        return [] if store is None else [store.label_names[number] for number in sorted(set(store.labels.tolist()))]

    def counts(self) -> TextCounts:
        """Count texts and labels."""
        store = self.pipe.datastore
        if store is None:
            return TextCounts(labeled=0, labels=0, unlabeled=0)
        return TextCounts(labeled=len(store), labels=len(self.labels), unlabeled=len(store.documents or ()))
