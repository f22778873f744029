"""Update the classifier with labels given by hand, and choose the next documents."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from datasets import Dataset
from transformers import pipeline

from ...classification.ensemble.report import ENSEMBLE, FitReport
from ...classification.pipeline import KNNClassifierPipeline
from ...content_hash import sha256_of_json
from ...datastore.store import Store
from ...encoders.checkpoints.checkpoint import open_checkpoint
from ...text.labels import labels_by_name
from .files import LabelRow, ProgressRow, has_classifier
from .state import Document

Content = tuple[str, str | None]  # a text and its pair, which identify a document
BY_HAND = "hand:"  # prefix of the ids of examples that were labeled by hand
BARS = "▁▂▃▄▅▆▇█"
SHOWN_BARS = 20
ID_DIGITS = 16  # hexadecimal


def open_classifier(folder: Path, model: str | None) -> KNNClassifierPipeline:
    """Open the classifier in a folder, or make one from an encoder or from a classifier elsewhere."""
    name = str(folder) if has_classifier(folder) else model
    pipe = pipeline("docsplit-knn", model=None if name is None else open_checkpoint(name).path)
    if pipe.model.config.num_labels > 0:
        raise ValueError(
            f"{name} was trained, so new labels cannot be added to it. Give an encoder, or a classifier made with "
            "--no_training; afterwards, docsplit classify can train on the labels."
        )
    if pipe.datastore is not None and pipe.datastore.multi_label:
        raise ValueError(
            f"The texts of {name} may have several labels each, but labeling by hand needs one: give an encoder."
        )
    return pipe


def add_new(
    pipe: KNNClassifierPipeline,
    documents: Mapping[Content, str],
    labels: Mapping[str, str | None],
    examples: Dataset | None,
) -> bool:
    """Add documents with ids, labels with descriptions, and labeled examples; return whether any are new.

    Texts that were added before are not embedded again.
    """
    store = pipe.datastore
    before = _contents_of_datastore(pipe)
    known = () if store is None else store.label_names
    described = {} if store is None else dict(zip(store.ids, store.texts, strict=True))
    new_labels = {
        name: description or name
        for name, description in labels.items()
        if name not in known or description not in (None, described.get(f"label:{name}"))
    }
    if new_labels:
        pipe.add_labels(new_labels)
    store = pipe.datastore
    known_contents = {*_contents(store), *_contents(store.documents)}
    new = {content: name for content, name in documents.items() if content not in known_contents}
    if new:
        _add_documents(pipe, new, show_progress=True)
    if examples is not None:
        pipe.add_examples(examples, labels_by_name(examples))
    return _contents_of_datastore(pipe) != before


class LearnedExample(NamedTuple):
    """An example of the classifier that was labeled by hand."""

    id: str
    label: str


def learn_labels(pipe: KNNClassifierPipeline, rows: Sequence[LabelRow]) -> bool:
    """Update the examples from the rows of the file, the last row of each text; return whether anything changed.

    Skipped documents are not used. A document is unlabeled again after its label was undone.
    """
    before = _contents_of_datastore(pipe)
    labels = {content_of(row): row["label"] for row in rows}
    names = {content_of(row): row["id"] for row in rows}
    learned = _learned_by_hand(pipe.datastore)
    wrong = [content for content, example in learned.items() if labels.get(content) != example.label]
    if wrong:
        pipe.remove_examples([learned[content].id for content in wrong])
        unlabeled = [content for content in wrong if content not in labels]
        if unlabeled:
            _add_documents(pipe, {content: learned[content].id.removeprefix(BY_HAND) for content in unlabeled})
    documents = pipe.datastore.documents
    contents = {} if documents is None else dict(zip(documents.ids, _contents(documents), strict=True))
    skipped = [row_id for row_id, content in contents.items() if labels.get(content, "") is None]
    if skipped:
        pipe.remove_documents(skipped)
    right = learned.keys() - set(wrong)
    new = {content: label for content, label in labels.items() if label is not None and content not in right}
    new_labels = {label: label for label in new.values() if label not in pipe.datastore.label_names}
    if new_labels:
        pipe.add_labels(new_labels)
    if new:
        ids = _ids({content: f"{BY_HAND}{names[content]}" for content in new}, pipe.datastore.ids)
        pipe.add_examples([_as_input(content) for content in new], list(new.values()), ids=ids)
    return _contents_of_datastore(pipe) != before


def add_again(pipe: KNNClassifierPipeline, content: Content, name: str) -> None:
    """Add a skipped text as a document again, if it is missing."""
    if content not in {*_contents(pipe.datastore), *_contents(pipe.datastore.documents)}:
        _add_documents(pipe, {content: name})


def next_documents(pipe: KNNClassifierPipeline, most: int) -> list[Document]:
    """Return the documents to label next, with the current answers and their reasons."""
    left = documents_left(pipe)
    if not left:
        return []
    # With again, documents that were suggested but not labeled are suggested again.
    suggestions = pipe.suggest(min(most, left), again=True)
    inputs = [_as_input((suggestion["text"], suggestion["text_pair"])) for suggestion in suggestions]
    documents = []
    for suggestion, answers in zip(suggestions, pipe(inputs, top_k=None, explain=True), strict=True):
        [answer] = [answer for answer in answers if answer["label"] == suggestion["label"]]
        document = Document(
            id=suggestion["id"],
            text=suggestion["text"],
            text_pair=suggestion["text_pair"],
            label=suggestion["label"],
            score=suggestion["score"],
            words=tuple(word["word"] for word in answer["explanation"]["words"]),
            reason=suggestion["reason"],
        )
        documents.append(document)
    return documents


def documents_left(pipe: KNNClassifierPipeline) -> int:
    """Return the number of documents without a label."""
    return 0 if pipe.datastore.documents is None else len(pipe.datastore.documents)


def measure(pipe: KNNClassifierPipeline, labels: int) -> ProgressRow:
    """Return the cross-validation metrics of the examples, after this many labels by hand."""
    report = FitReport.of(pipe.datastore.fitted.settings)
    row = ProgressRow(labels=labels, examples=report.examples, held_out=report.texts)
    if not report.measured:
        return row
    ensemble = next(record for record in report.measured if record["expert"] == ENSEMBLE)
    found = report.ensemble_accuracy()
    row["accuracy"] = found.accuracy
    row["low"] = found.low
    row["high"] = found.high
    row["macro_f1"] = ensemble["macro_f1"]
    row["answered_at_5"] = report.answered["0.05"]
    return row


def describe_progress(rows: Sequence[ProgressRow]) -> str:
    """Describe the last row, with a sparkline of the accuracy so far."""
    if not rows:
        return ""
    last = rows[-1]
    if "accuracy" not in last:
        return f"{last['labels']} labels by hand, too few to measure accuracy."
    accuracies = [row["accuracy"] for row in rows if "accuracy" in row]
    bars = "".join(BARS[min(int(accuracy * len(BARS)), len(BARS) - 1)] for accuracy in accuracies[-SHOWN_BARS:])
    return (
        f"{bars} {last['labels']} labels: {last['accuracy']:.0%} right on folds ({last['low']:.0%} to "
        f"{last['high']:.0%}), macro F1 {last['macro_f1']:.0%}, {last['answered_at_5']:.0%} answered at 5% error."
    )


def content_of(row: LabelRow) -> Content:
    """Return the text of a row, and its pair."""
    return row["text"], row.get("text_pair")


def _learned_by_hand(store: Store) -> dict[Content, LearnedExample]:
    """Return the examples that were labeled by hand, by their content."""
    learned: dict[Content, LearnedExample] = {}
    for row_id, content, label in zip(store.ids, _contents(store), store.labels, strict=True):
        if row_id.startswith(BY_HAND):
            learned[content] = LearnedExample(row_id, store.label_names[label])
    return learned


class DatastoreContents(NamedTuple):
    """Contents of a datastore, for comparison."""

    ids: list[str]
    texts: list[str]
    labels: list[int]
    documents: list[str]  # ids


def _contents_of_datastore(pipe: KNNClassifierPipeline) -> DatastoreContents | None:
    store = pipe.datastore
    if store is None:
        return None
    documents = [] if store.documents is None else store.documents.ids
    return DatastoreContents(store.ids, store.texts, store.labels.tolist(), documents)


def _contents(store: Store | None) -> list[Content]:
    return [] if store is None else list(zip(store.texts, store.text_pairs, strict=True))


def _as_input(content: Content) -> dict[str, str]:
    text, pair = content
    return {"text": text} if pair is None else {"text": text, "text_pair": pair}


def _add_documents(pipe: KNNClassifierPipeline, new: Mapping[Content, str], show_progress: bool = False) -> None:
    documents = [] if pipe.datastore.documents is None else pipe.datastore.documents.ids
    taken = {name.removeprefix(BY_HAND) for name in (*documents, *pipe.datastore.ids)}
    pipe.add_documents([_as_input(content) for content in new], ids=_ids(new, taken), show_progress=show_progress)


def _ids(wanted: Mapping[Content, str], taken: Iterable[str]) -> list[str]:
    """Return the wanted ids; an id of another text, such as the former text of a file, gets a hash appended."""
    ids = dict.fromkeys(taken)
    for content, name in wanted.items():
        ids[f"{name} {id_of(content)}" if name in ids else name] = content
    return [name for name, content in ids.items() if content is not None]


def id_of(content: Content) -> str:
    """Return an id that depends on the content only."""
    return sha256_of_json(content)[:ID_DIGITS]
