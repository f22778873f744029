"""Predictions by fitted experts, or by head and neighbors, and the answers made from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np

from ..arrays.passages import Predictions
from ..arrays.snapshot import ExampleShown, SearchResult, TextSpan
from ..reading.files.failures import FailedFile, UnreadableFile
from ..reading.inputs import InputRow
from ..reading.origins import Origin, PlaceShown
from .label_tree import FLAT, NO_LEVEL, LabelTree
from .rejection import RejectionLimits

NO_CONTENT = "no content"  # reason of an answer without a label


class ShownText(ExampleShown, total=False):
    """An example or a document as answers show it."""

    label_probability: float  # of the most probable label propagated to a document
    weight: float  # fraction of the vote
    text_passage: TextSpan  # the nearest passage of the text that was classified


class WordWeight(TypedDict):
    """A word and its contribution to the log odds of a label."""

    word: str
    weight: float


class Explanation(TypedDict, total=False):
    """Explanation of a label, compared with the next best one."""

    against: str | None  # the next best label; None if a text may have several
    experts: dict[str, float]  # contributions to the log odds, by expert
    summary: str  # what makes the label more likely, what makes it less likely, and how many times
    words: list[WordWeight]  # that speak most for the label
    words_against: list[WordWeight]  # that speak most against it; with negative weights
    style: list[str]  # what speaks for the label in how the text is written
    style_against: list[str]  # what speaks against the label, where style as a whole does
    note: str  # for a label added after fit, instead of contributions
    passage: TextSpan  # the passage of the text with the highest probability of the label, without style


class ScoredLabel(TypedDict):
    """A label with its probability."""

    label: str
    score: float


class Answer(PlaceShown, total=False):
    """Answer to a text, as calls of the pipeline return it.

    If the text comes from a file: with the file, and the pages of the passage that speaks most for the label.
    """

    # None if the text was rejected, or the file was not read; with a tree of labels it may be a parent.
    label: str | None
    score: float | None  # probability of the label; None if the file was not read
    path: list[ScoredLabel]  # of the most probable label, from the top, if labels are a tree
    neighbors: list[ShownText]
    explanation: Explanation
    # Names of the labels above their thresholds, if a text may have several; with labels_at the set of labels, most
    # probable first.
    labels: list[str] | list[ScoredLabel]
    labels_per_class: bool  # whether the level of labels_at holds for the texts of each label
    reason: str  # of a rejection, or why the file was not read
    detail: str  # about that reason
    remedy: str  # what to do about that reason
    novelty: float  # from 0 to 1
    read: float  # fraction of the text that was read
    documents: list[ShownText]


class ReadingOptions(TypedDict, total=False):
    """Options for reading texts."""

    max_length: int
    max_passages: int
    batch_size: int | None
    bf16: bool | Literal["auto"]


class CallOptions(ReadingOptions, total=False):
    """Options of a call, as ``KNNClassifierPipeline.__call__`` describes them."""

    top_k: int | None
    method: Literal["experts", "knn"]
    k: int
    return_neighbors: int
    return_documents: int
    explain: bool
    return_novelty: bool
    return_read: bool
    show_progress: bool
    reject: RejectionLimits
    labels_at: float


class TextInputs(NamedTuple):
    """N texts with their embeddings and the nearest documents, if these are shown."""

    texts: Sequence[str]  # pairs of texts are joined
    embedded: Predictions
    documents: SearchResult | None
    origins: Sequence[Origin | None]  # the file and places of each text; None if it comes from no file

    def span(self, row: int, start: int, end: int) -> TextSpan:
        """Describe a part of a text."""
        span = TextSpan(start=start, end=end, text=self.texts[row][start:end])
        origin = self.origins[row]
        return span if origin is None else span | origin.shown(start, end)

    def passage(self, row: int, number: int) -> TextSpan:
        """Describe the part of a text that its passage ``number`` covers."""
        _, spans = self.embedded.passages.of(row)
        start, end = spans[number].tolist()
        return self.span(row, start, end)


class Prediction(NamedTuple):
    """Label probabilities of N texts over L labels, and everything that answers show, by the options of their call."""

    inputs: TextInputs
    options: CallOptions
    label_names: tuple[str, ...]
    probabilities: np.ndarray  # float64 (N, L)
    # Nearest first; has ``example`` and ``query_passage``, as ``SearchResult``. By fitted experts, None unless shown.
    neighbors: Any
    neighbor_weights: np.ndarray | None  # (N, k) or wider; None without neighbors
    thresholds: np.ndarray | None = None  # (L,), by fitted experts, if a text may have several labels
    novelty: np.ndarray | None = None  # (N,), by fitted experts, from 0 to 1; on request
    tree: LabelTree = FLAT  # of the L labels
    # By fitted experts, with ``reject``: the level of the label in the tree, int64 (N,), NO_LEVEL for no label.
    levels: np.ndarray | None = None
    has_no_content: np.ndarray | None = None  # bool (N,); with ``reject``
    # By fitted experts, with ``labels_at``: the set of labels that holds the right one, bool (N, L).
    is_in_set: np.ndarray | None = None
    labels_per_class: bool = False  # whether the probability holds for the texts of each label
    explain: Callable[[int, int], Explanation] | None = None  # of a text and a label, by number; by fitted experts

    def answer(self, row: int) -> Answer | list[Answer]:
        """Make the answer to one text; with ``top_k`` a list of answers, best first, each with its own neighbors."""
        options = self.options
        best_only = "top_k" not in options
        scores = self.probabilities[row]
        wanted = options.get("return_neighbors", 0)
        count = min(wanted, self.neighbor_weights.shape[1]) if wanted else 0
        neighbors = [_neighbor(self, row, rank) for rank in range(count)]
        answers: list[Answer] = []
        for label in np.argsort(-scores, kind="stable")[: options.get("top_k", 1)]:
            name = self.label_names[label]
            answer = Answer(label=name, score=float(scores[label]))
            if wanted:
                of_label = [one for one in neighbors if name in one.get("labels", [one.get("label")])]
                answer["neighbors"] = neighbors if best_only else of_label
            if options.get("explain"):
                answer["explanation"] = self.explain(row, int(label))
            if self.tree:
                answer["path"] = _path(self, row, int(label))
            answers.append(answer)
        best = answers[0]
        origin = self.inputs.origins[row]
        if origin is not None:
            best |= _place(self, row, origin, best.get("explanation"))
        _add_labels(self, row, best)
        if options.get("return_novelty"):
            best["novelty"] = float(self.novelty[row])
        if options.get("return_read"):
            best["read"] = float(self.inputs.embedded.read_fraction[row])
        if options.get("return_documents"):
            count = self.inputs.documents.rows.shape[1]
            best["documents"] = [_document(self, row, rank) for rank in range(count)]
        return best if best_only else answers


def _add_labels(prediction: Prediction, row: int, best: Answer) -> None:
    """Add the labels above their thresholds or in the set, and take back the label of a rejected text."""
    scores = prediction.probabilities[row]
    if "top_k" not in prediction.options and prediction.thresholds is not None:
        above = np.flatnonzero(scores >= prediction.thresholds)
        best["labels"] = [prediction.label_names[label] for label in above]
    if prediction.is_in_set is not None:
        best["labels"] = [
            ScoredLabel(label=prediction.label_names[label], score=float(scores[label]))
            for label in np.argsort(-scores, kind="stable")
            if prediction.is_in_set[row, label]
        ]
        best["labels_per_class"] = prediction.labels_per_class
    if prediction.levels is None:
        return
    level = int(prediction.levels[row])
    if level == NO_LEVEL:
        best["label"] = None
    elif level < len(prediction.tree):
        best |= best["path"][level]
    if prediction.has_no_content[row]:
        best["reason"] = NO_CONTENT


def with_unreadable(given: Iterable[InputRow | FailedFile], answers: Iterable[Any], best_only: bool) -> list[Any]:
    """Return an answer for each input: that to its text, or one that says why its file could not be read."""
    found = iter(answers)
    return [_unreadable(one, best_only) if isinstance(one, FailedFile) else next(found) for one in given]


def _unreadable(failed: FailedFile, best_only: bool) -> Answer | list[Answer]:
    """The answer to a file that could not be read."""
    answer = Answer(label=None, score=None, reason=failed.reason, remedy=failed.remedy, file=failed.file)
    if failed.detail:
        answer["detail"] = failed.detail
    return answer if best_only else [answer]


def failed_file_of(answer: Mapping[str, Any]) -> FailedFile:
    """The file that could not be read, by the answer to it."""
    return FailedFile(answer["file"], answer["reason"], answer["remedy"], answer.get("detail", ""))


def raise_if_unreadable(answer: Answer | list[Answer]) -> None:
    """Raise UnreadableFile for the answer to a file that could not be read."""
    best = answer[0] if isinstance(answer, list) else answer
    if best["score"] is None:
        raise UnreadableFile.of(failed_file_of(best))


def _path(prediction: Prediction, row: int, label: int) -> list[ScoredLabel]:
    """Nodes from the top to a label with their probabilities, and the label."""
    scores = prediction.probabilities[row]
    path = []
    for level in prediction.tree:
        node = level.node_of_label[label]
        score = float(scores[level.node_of_label == node].sum())
        path.append(ScoredLabel(label=level.names[node], score=score))
    return [*path, ScoredLabel(label=prediction.label_names[label], score=float(scores[label]))]


def _neighbor(prediction: Prediction, row: int, rank: int) -> ShownText:
    """Describe a neighbor with its weight."""
    found = prediction.neighbors
    weight = float(prediction.neighbor_weights[row, rank])
    neighbor = found.example(row, rank) | {"weight": weight} | _text_passage(prediction, found, row, rank)
    return {name: value for name, value in neighbor.items() if name != "text_pair" or value is not None}


def _document(prediction: Prediction, row: int, rank: int) -> ShownText:
    """Describe a nearest document without empty fields."""
    found = prediction.inputs.documents
    document = found.example(row, rank) | _text_passage(prediction, found, row, rank)
    return {name: value for name, value in document.items() if name != "labels" and value is not None}


def _text_passage(prediction: Prediction, found: Any, row: int, rank: int) -> ShownText:
    """Describe the passage of the text that a neighbor is nearest to, if the text has several."""
    passages = prediction.inputs.embedded.passages
    if passages is None or passages.counts[row] == 1:
        return {}
    return {"text_passage": prediction.inputs.passage(row, found.query_passage(row, rank))}


def _place(prediction: Prediction, row: int, origin: Origin, explanation: Explanation | None) -> PlaceShown:
    """Name the file of a text, and the pages of the passage that speaks most for its label, if it is known.

    ``explanation``: of the most probable label, if it was made already.
    """
    if len(origin.places) == 1:
        return origin.shown(0, len(prediction.inputs.texts[row]))
    passage: Mapping[str, Any] = {}
    if origin.places and prediction.explain is not None:
        if explanation is None:
            explanation = prediction.explain(row, int(np.argmax(prediction.probabilities[row])))
        passage = explanation.get("passage", {})
    elif origin.places and prediction.neighbor_weights.shape[1]:
        passage = _text_passage(prediction, prediction.neighbors, row, 0).get("text_passage", {})
    return PlaceShown(file=origin.file) | {
        name: passage[name] for name in PlaceShown.__annotations__ if name in passage
    }
