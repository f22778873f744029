"""Change a visitor's texts: add, label and remove texts, and save a classifier."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .sessions import Session, counted
from .uploads import LabeledTexts

if TYPE_CHECKING:
    from ...classifier.active_learning import Suggestion
    from ...classifier.knn_datastore import KNNDatastore

SUGGESTIONS_PER_FIT = 10  # texts that are suggested together, so that they differ, before the next fit
FIRST_CANDIDATES = 2_000  # texts from which the suggestions before any label are chosen


def add_texts(session: Session, given: LabeledTexts) -> str:
    """Add texts with and without labels, refit, and return a summary."""
    pipe = session.pipe
    labeled = [i for i, label in enumerate(given.labels) if label is not None]
    rest = [i for i, label in enumerate(given.labels) if label is None]
    before = session.counts()
    session.limits.check_rows(before.texts + len(given.texts))
    session.limits.check_labels([*session.labels, *(given.labels[i] for i in labeled)])
    if labeled:
        pipe.add_examples([given.texts[i] for i in labeled], [given.labels[i] for i in labeled], allow_new_labels=True)
    if rest:
        pipe.add_documents([given.texts[i] for i in rest], show_progress=True)
    after = session.counts()
    added_labeled = after.labeled - before.labeled
    added_unlabeled = after.unlabeled - before.unlabeled
    different = counted(len({given.labels[i] for i in labeled}), "label")
    message = f"Added {counted(added_labeled, 'text')} with {different} and {max(added_unlabeled, 0):,} without."
    if given.left_out:
        message += f" Left out {counted(given.left_out, 'row')} without a text."
    already_there = len(given.texts) - added_labeled - added_unlabeled
    if already_there > 0:
        message += f" Not added again, as already there: {already_there:,}."
    learn(session)
    return message


def give_label(
    session: Session, text: str, label: str, learn_now: bool = True, given: Mapping[str, Any] | None = None
) -> str:
    """Set the label of a new or known text, and refit now or later; ``given``: the text with its file and places."""
    label = label.strip()
    if not text.strip() or not label:
        raise ValueError("Write a text and a label first.")
    session.limits.check_texts([text])
    pipe = session.pipe
    store = pipe.datastore
    session.limits.check_labels([*session.labels, label])
    same = _ids_of(store, text)
    if same and label in store.label_names:
        pipe.relabel(dict.fromkeys(same, label))
    else:
        session.limits.check_rows(session.counts().texts + 1)
        if same:
            pipe.remove_examples(same)
        pipe.add_examples([text if given is None else dict(given)], [label], allow_new_labels=True)
    session.stale = True
    if learn_now or not session.fitted:
        learn(session)
    return f"This text now has the label {label!r}."


def keep_label(session: Session, text: str, _: str = "") -> str:
    """Confirm the label of a text, so that the audit does not list it again."""
    session.kept = [*session.kept, *_ids_of(session.pipe.datastore, text)]
    return "The label is confirmed."


def remove_text(session: Session, text: str, _: str = "") -> str:
    """Remove a text with or without a label, and refit."""
    store = session.pipe.datastore
    labeled = _ids_of(store, text)
    unlabeled = _ids_of(None if store is None else store.documents, text)
    if not labeled and not unlabeled:
        raise ValueError("This text is not there any more.")
    if labeled:
        session.pipe.remove_examples(labeled)
    if unlabeled:
        store.remove_documents(unlabeled)
    learn(session)
    return "The text is removed."


def _ids_of(store: KNNDatastore | None, text: str) -> list[str]:
    """The ids of all rows with a text."""
    return [] if store is None else [row_id for row_id, one in zip(store.ids, store.texts, strict=True) if one == text]


def learn(session: Session) -> None:
    """Fit the experts if there are at least two labels."""
    pipe = session.pipe
    session.stale = False
    if pipe.model.config.num_labels or pipe.datastore is None:
        return  # a classifier with a trained head has no experts
    if session.counts().labels < 2:
        pipe.datastore.fitted = None  # the experts were fitted on labels that were removed
    else:
        pipe.fit(show_progress=True)


def suggested_text(session: Session) -> Suggestion | None:
    """The next text to label; None if all have a label. When a batch of suggestions is used up, a new one is made."""
    store = session.pipe.datastore
    unlabeled = None if store is None else store.documents
    unlabeled_texts = set(unlabeled.texts) if unlabeled else ()
    if unlabeled and not any(one["text"] in unlabeled_texts for one in session.suggestions):
        if session.stale:
            learn(session)
        count = min(SUGGESTIONS_PER_FIT, len(unlabeled))
        try:
            session.suggestions = session.pipe.suggest(count) if session.fitted else _first_suggestions(store, count)
        except ValueError:
            session.suggestions = session.pipe.suggest(count, again=True)  # only skipped texts are left
    return next((one for one in session.suggestions if one["text"] in unlabeled_texts), None)


def _first_suggestions(store: KNNDatastore, count: int) -> list[Suggestion]:
    """Choose texts to label before the first fit, one of each large group of similar texts."""
    import numpy as np

    from ...classifier.active_learning import choose_documents

    documents = store.documents
    texts = documents.texts
    ids = documents.ids
    rows = np.random.default_rng(0).permutation(len(texts))[:FIRST_CANDIDATES]
    chosen = choose_documents(
        np.asarray(documents.keys[rows], np.float32),
        np.ones(len(rows)),
        np.asarray(store.keys, np.float32),
        count,
        [texts[row] or "" for row in rows],
    )
    suggestions: list[Suggestion] = []
    for choice in chosen:
        row = rows[choice.row]
        reason = f"One text of a group of {len(choice.cluster):,} similar ones"
        suggestions.append({"id": ids[row], "text": texts[row], "label": None, "reason": reason})
    return suggestions


def save_classifier(session: Session) -> Path:
    """Write the output of ``save_pretrained`` (safetensors, tables, JSON; no pickle) as a zip file."""
    session.check_labeled()
    target = session.folder / "classifier.zip"
    # Not compressed: compression would take most of the time, and weights hardly shrink.
    with tempfile.TemporaryDirectory(dir=session.folder) as folder, zipfile.ZipFile(target, "w") as archive:
        session.pipe.save_pretrained(Path(folder, "classifier"))
        for path in Path(folder).rglob("*"):
            archive.write(path, path.relative_to(folder))
    return target
