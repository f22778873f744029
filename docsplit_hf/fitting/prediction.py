"""Predictions by fitted experts, or by head and neighbors, and the answers made from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypedDict

import numpy as np

from ..arrays.passages import Predictions
from ..arrays.snapshot import ExampleShown, SearchResult, Snapshot, TextSpan
from ..reading.files.failures import FailedFile, UnreadableFile
from ..reading.inputs import InputRow
from ..reading.origins import Origin, PlaceShown
from .label_tree import FLAT, NO_LEVEL, LabelTree

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
    words: list[WordWeight]
    style: list[str]  # what speaks for the label in how the text is written
    note: str  # for a label added after fit, instead of contributions
    passage: TextSpan  # the passage of the text with the highest probability of the label


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


class ShownNeighbors(Protocol):
    """Neighbors of N texts that answers show, nearest first."""

    def example(self, query: int, rank: int) -> ShownText:
        """Describe one neighbor of text number ``query``; rank 0 is the nearest."""

    def query_passage(self, query: int, rank: int) -> int:
        """Return the number of the query's passage that the neighbor is nearest to, if the query has several."""


class RequestedParts(NamedTuple):
    """Parts of an answer that a call requests, in addition to label and score."""

    neighbors: int = 0  # number of nearest examples
    documents: int = 0  # number of nearest unlabeled documents
    explanation: bool = False
    novelty: bool = False
    read: bool = False  # fraction of the text that was read


class TextInputs(NamedTuple):
    """N texts with their embeddings and the nearest documents, if these are shown."""

    texts: Sequence[str]  # pairs of texts are joined
    embedded: Predictions
    documents: SearchResult | None
    origins: Sequence[Origin | None] | None = None  # None if no text comes from a file

    def origin(self, row: int) -> Origin | None:
        """Return the file and places of a text; None if it comes from no file."""
        return None if self.origins is None else self.origins[row]

    def span(self, row: int, start: int, end: int) -> TextSpan:
        """Describe a part of a text."""
        span = TextSpan(start=start, end=end, text=self.texts[row][start:end])
        origin = self.origin(row)
        return span if origin is None else span | origin.shown(start, end)

    def passage(self, row: int, number: int) -> TextSpan:
        """Describe the part of a text that its passage ``number`` covers."""
        _, spans = self.embedded.passages.of(row)
        start, end = spans[number].tolist()
        return self.span(row, start, end)


class Rejection(NamedTuple):
    """Rejection of N texts."""

    levels: np.ndarray  # int64 (N,): the level of the label in the tree of labels; NO_LEVEL if a text gets no label
    has_no_content: np.ndarray  # bool (N,)


class LabelSets(NamedTuple):
    """Sets of labels of N texts that hold the right one with a guaranteed probability."""

    is_in_set: np.ndarray  # bool (N, L)
    per_class: bool  # whether the probability holds for the texts of each label


class Prediction(NamedTuple):
    """Label probabilities of N texts over L labels, and everything that answers show."""

    inputs: TextInputs
    label_names: tuple[str, ...]
    probabilities: np.ndarray  # float64 (N, L)
    neighbors: ShownNeighbors
    neighbor_weights: np.ndarray  # (N, k) or wider
    thresholds: np.ndarray | None = None  # (L,), by fitted experts, if a text may have several labels
    novelty: np.ndarray | None = None  # (N,), by fitted experts, from 0 to 1; on request
    tree: LabelTree = FLAT  # of the L labels
    rejection: Rejection | None = None  # by fitted experts; on request
    label_sets: LabelSets | None = None  # by fitted experts; on request
    explain: Callable[[int, int], Explanation] | None = None  # of a text and a label, by number; by fitted experts


def text_inputs(
    texts: Sequence[str],
    embedded: Predictions,
    snapshot: Snapshot,
    shown: RequestedParts,
    origins: Sequence[Origin | None] | None = None,
) -> TextInputs:
    """Put together texts and their embeddings, and search the nearest documents, if they are shown.

    Raises:
        ValueError: If documents are to be shown, and there are none.
    """
    documents = None
    if shown.documents:
        if not snapshot.document_count:
            raise ValueError(f"return_documents={shown.documents}: there are no documents without labels.")
        documents = snapshot.documents.search(embedded.retrieval_embeddings, shown.documents, embedded.passages)
    return TextInputs(texts=texts, embedded=embedded, documents=documents, origins=origins)


def make_answer(
    prediction: Prediction,
    row: int,
    top_k: int | None,
    shown: RequestedParts,
    best_only: bool,
) -> Answer | list[Answer]:
    """Make the answer to one text.

    Args:
        prediction: The predictions of all texts.
        row: The number of the text.
        top_k: The number of labels; None for all. Ignored with ``best_only``.
        shown: What the answer shows.
        best_only: Whether to answer with the best label and all neighbors. False: with a list of labels, each with the
            neighbors that have it.

    Returns:
        The answer, or a list of answers, best first.
    """
    scores = prediction.probabilities[row]
    count = min(shown.neighbors, prediction.neighbor_weights.shape[1])
    neighbors = [_neighbor(prediction, row, rank) for rank in range(count)]
    answers: list[Answer] = []
    for label in np.argsort(-scores, kind="stable")[: 1 if best_only else top_k]:
        name = prediction.label_names[label]
        answer = Answer(label=name, score=float(scores[label]))
        if shown.neighbors:
            of_label = [neighbor for neighbor in neighbors if name in _labels(neighbor)]
            answer["neighbors"] = neighbors if best_only else of_label
        if shown.explanation:
            answer["explanation"] = prediction.explain(row, int(label))
        if prediction.tree.upper_levels:
            answer["path"] = _path(prediction, row, int(label))
        answers.append(answer)
    best = answers[0]
    origin = prediction.inputs.origin(row)
    if origin is not None:
        best |= _place(prediction, row, origin, best.get("explanation"))
    if best_only and prediction.thresholds is not None:
        above = np.flatnonzero(scores >= prediction.thresholds)
        best["labels"] = [prediction.label_names[label] for label in above]
    if prediction.label_sets is not None:
        best["labels"] = _label_set(prediction, row)
        best["labels_per_class"] = prediction.label_sets.per_class
    rejection = prediction.rejection
    if rejection is not None:
        level = int(rejection.levels[row])
        if level == NO_LEVEL:
            best["label"] = None
        elif level < len(prediction.tree.upper_levels):
            best["label"] = best["path"][level]["label"]
            best["score"] = best["path"][level]["score"]
        if rejection.has_no_content[row]:
            best["reason"] = NO_CONTENT
    if shown.novelty:
        best["novelty"] = float(prediction.novelty[row])
    if shown.read:
        best["read"] = float(prediction.inputs.embedded.read_fraction[row])
    if shown.documents:
        found = prediction.inputs.documents
        best["documents"] = [_document(prediction, found, row, rank) for rank in range(found.rows.shape[1])]
    return best if best_only else answers


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


def raise_if_unreadable(answer: Answer | list[Answer]) -> None:
    """Raise UnreadableFile for the answer to a file that could not be read."""
    best = answer[0] if isinstance(answer, list) else answer
    if best["score"] is None:
        raise UnreadableFile(best["file"], best["reason"], best["remedy"], best.get("detail", ""))


def _path(prediction: Prediction, row: int, label: int) -> list[ScoredLabel]:
    """Nodes from the top to a label with their probabilities, and the label."""
    scores = prediction.probabilities[row]
    path = []
    for level in prediction.tree.upper_levels:
        node = int(level.node_of_label[label])
        of_node = np.flatnonzero(level.node_of_label == node)
        path.append(ScoredLabel(label=level.names[node], score=float(scores[of_node].sum())))
    path.append(ScoredLabel(label=prediction.label_names[label], score=float(scores[label])))
    return path


def _label_set(prediction: Prediction, row: int) -> list[ScoredLabel]:
    """Labels in the set of a text, most probable first."""
    scores = prediction.probabilities[row]
    is_in_set = prediction.label_sets.is_in_set[row]
    labels = []
    for label in np.argsort(-scores, kind="stable"):
        if is_in_set[label]:
            labels.append(ScoredLabel(label=prediction.label_names[label], score=float(scores[label])))
    return labels


def _labels(neighbor: ShownText) -> list[str | None]:
    """Labels of a neighbor; ``[None]`` if it has none."""
    return neighbor["labels"] if "labels" in neighbor else [neighbor.get("label")]


def _neighbor(prediction: Prediction, row: int, rank: int) -> ShownText:
    """Describe a neighbor with its weight."""
    neighbor = prediction.neighbors.example(row, rank)
    neighbor |= {"weight": float(prediction.neighbor_weights[row, rank])}
    neighbor |= _text_passage(prediction, prediction.neighbors, row, rank)
    return {name: value for name, value in neighbor.items() if name != "text_pair" or value is not None}


def _document(prediction: Prediction, found: SearchResult, row: int, rank: int) -> ShownText:
    """Describe a nearest document without empty fields."""
    document = found.example(row, rank) | _text_passage(prediction, found, row, rank)
    return {name: value for name, value in document.items() if name != "labels" and value is not None}


def _text_passage(prediction: Prediction, found: ShownNeighbors, row: int, rank: int) -> ShownText:
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
    place = PlaceShown(file=origin.file)
    for name in PlaceShown.__annotations__:
        if name in passage:
            place[name] = passage[name]
    return place
