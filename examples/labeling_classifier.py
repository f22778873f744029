"""The classifier of labeling by hand: descriptions of labels at first, then what the file of labels says."""

import contextlib
import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from labeling_files import has_classifier
from labeling_keys import Document
from scipy.stats import binomtest
from transformers import pipeline

from docsplit_hf import KNNClassifierPipeline
from docsplit_hf.models.checkpoints.checkpoint import open_checkpoint
from docsplit_hf.neighbors.experts.fit_report import FitReport

BY_HAND = "hand:"  # ids of examples that were labeled by hand begin so
BARS = "▁▂▃▄▅▆▇█"

Content = tuple[str, str | None]  # a text, and its pair: what tells documents apart


def open_classifier(folder: Path, model: str | None) -> KNNClassifierPipeline:
    """The classifier in a folder; or a new one on an encoder, or on a classifier that lies elsewhere."""
    name = str(folder) if has_classifier(folder) else model
    pipe = pipeline("docsplit-knn", model=None if name is None else open_checkpoint(name).path)
    if pipe.model.config.num_labels > 0:
        raise ValueError(
            f"{name} was trained, and learns by training only. Label on an encoder, or on a classifier that was made "
            "with --no_training; run_classification.py trains on the file of labels afterwards."
        )
    if pipe.datastore is not None and pipe.datastore.multi_label:
        raise ValueError(f"The texts of {name} may have several labels each, and a key gives one: label on an encoder.")
    return pipe


def add_what_is_new(
    pipe: KNNClassifierPipeline,
    documents: Mapping[Content, str],
    labels: Mapping[str, str | None],
    examples: tuple[Any, list[str]],
) -> bool:
    """Add documents and their ids, labels (with what is said of each) and labeled examples; gives whether any are new.

    What is there already is not embedded again.
    """
    store, before = pipe.datastore, _state(pipe)
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
    there = {*_contents(store), *_contents(store.documents)}
    if new := {content: name for content, name in documents.items() if content not in there}:
        _add_documents(pipe, new, show_progress=True)
    if examples[1]:
        pipe.add_examples(*examples)
    return _state(pipe) != before


def learn_labels(pipe: KNNClassifierPipeline, rows: list[dict[str, Any]]) -> bool:
    """Make the examples what the rows of the file say, of a text the last one; gives whether anything was new.

    Skipped documents are left out of all that is learned. What was taken back is a document again.
    """
    before, store = _state(pipe), pipe.datastore
    given = {(row["text"], row.get("text_pair")): row["label"] for row in rows}
    names = {(row["text"], row.get("text_pair")): row["id"] for row in rows}
    labels = zip(store.ids, _contents(store), (store.label_names[number] for number in store.labels), strict=True)
    learned = {content: (row_id, label) for row_id, content, label in labels if row_id.startswith(BY_HAND)}
    if wrong := [content for content, (_, label) in learned.items() if given.get(content) != label]:
        pipe.remove_examples([learned[content][0] for content in wrong])
        if free := [content for content in wrong if content not in given]:
            _add_documents(pipe, {content: learned[content][0].removeprefix(BY_HAND) for content in free})
    documents = pipe.datastore.documents
    there = [] if documents is None else zip(documents.ids, _contents(documents), strict=True)
    if skipped := [row_id for row_id, content in there if content in given and given[content] is None]:
        pipe.remove_documents(skipped)
    right = learned.keys() - set(wrong)
    new = {content: label for content, label in given.items() if label is not None and content not in right}
    if unknown := {label: label for label in new.values() if label not in pipe.datastore.label_names}:
        pipe.add_labels(unknown)
    if new:
        ids = _ids({content: f"{BY_HAND}{names[content]}" for content in new}, pipe.datastore.ids)
        pipe.add_examples([_as_input(content) for content in new], list(new.values()), ids=ids)
    return _state(pipe) != before


def add_again(pipe: KNNClassifierPipeline, content: Content, name: str) -> None:
    """Make a text a document again that was skipped, if it is none."""
    if content not in {*_contents(pipe.datastore), *_contents(pipe.datastore.documents)}:
        _add_documents(pipe, {content: name})


def fit_and_save(pipe: KNNClassifierPipeline, folder: Path) -> None:
    """Learn from all that is there, and save it."""
    with contextlib.redirect_stdout(io.StringIO()):  # the table of the experts; what it says of the whole is shown
        pipe.fit()
    pipe.save_pretrained(folder)


def next_documents(pipe: KNNClassifierPipeline, most: int) -> list[Document]:
    """The documents to label next, with the present answers and what speaks for them."""
    left = documents_left(pipe)
    if not left:
        return []
    # again: what was suggested and got no label is still to be asked; what was labeled or skipped is gone.
    found = pipe.suggest(min(most, left), again=True)
    answers = pipe([_as_input((one["text"], one["text_pair"])) for one in found], top_k=None, explain=True)
    documents = []
    for one, labels in zip(found, answers, strict=True):
        [answer] = [answer for answer in labels if answer["label"] == one["label"]]
        words = tuple(word["word"] for word in answer["explanation"]["words"])
        shown = {name: one[name] for name in ("id", "text", "text_pair", "label", "score", "reason")}
        documents.append(Document(**shown, words=words))
    return documents


def documents_left(pipe: KNNClassifierPipeline) -> int:
    """How many documents have no label."""
    return 0 if pipe.datastore.documents is None else len(pipe.datastore.documents)


def measured(pipe: KNNClassifierPipeline, labels: int) -> dict[str, Any]:
    """What the folds of the examples say: a row of the file of progress, after so many labels by hand."""
    report = FitReport.of(pipe.datastore.fitted.settings)
    row = {"labels": labels, "examples": report.examples, "held_out": report.texts}
    if not report.measured:
        return row
    mixture = next(record for record in report.measured if record["expert"] == "mixture")
    right = round(mixture["accuracy"] * report.texts)
    interval = binomtest(right, report.texts).proportion_ci(0.95, method="wilson")
    row |= {"accuracy": mixture["accuracy"], "low": interval.low, "high": interval.high}
    return row | {"macro_f1": mixture["macro_f1"], "answered_at_5": report.answered["0.05"]}


def describe_progress(rows: list[dict[str, Any]]) -> str:
    """The last row in words, and the accuracy of all of them as a sparkline."""
    if not rows:
        return ""
    last, known = rows[-1], [row["accuracy"] for row in rows if "accuracy" in row]
    if "accuracy" not in last:
        return f"{last['labels']} labels by hand, too few to measure accuracy."
    bars = "".join(BARS[min(int(accuracy * len(BARS)), len(BARS) - 1)] for accuracy in known[-20:])
    return (
        f"{bars} {last['labels']} labels: {last['accuracy']:.0%} right on folds ({last['low']:.0%} to "
        f"{last['high']:.0%}), macro F1 {last['macro_f1']:.0%}, {last['answered_at_5']:.0%} answered at 5% error."
    )


def _state(pipe: KNNClassifierPipeline) -> tuple[Any, ...]:
    store = pipe.datastore
    if store is None:
        return ()
    documents = [] if store.documents is None else store.documents.ids
    return store.ids, store.texts, store.labels.tolist(), documents


def _contents(store: Any) -> list[Content]:
    return [] if store is None else list(zip(store.texts, store.text_pairs, strict=True))


def _as_input(content: Content) -> dict[str, str]:
    text, pair = content
    return {"text": text} if pair is None else {"text": text, "text_pair": pair}


def _add_documents(pipe: KNNClassifierPipeline, new: Mapping[Content, str], **options: Any) -> None:
    documents = [] if pipe.datastore.documents is None else pipe.datastore.documents.ids
    taken = {name.removeprefix(BY_HAND) for name in (*documents, *pipe.datastore.ids)}
    pipe.add_documents([_as_input(content) for content in new], ids=_ids(new, taken), **options)


def _ids(wanted: Mapping[Content, str], taken: Iterable[str]) -> list[str]:
    """The ids that are wanted; one that another text has, as of a file that was changed, is followed by a hash."""
    ids = dict.fromkeys(taken)
    for content, name in wanted.items():
        ids[f"{name} {id_of(content)}" if name in ids else name] = content
    return [name for name, content in ids.items() if content is not None]


def id_of(content: Content) -> str:
    """An id that is the same in each session, whatever else is among the documents."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
