"""Changes of a visitor's texts: add, label, remove, and load another classifier in their place."""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .sessions import Limits, Session, SharedModel, counted
from .uploads import Texts

if TYPE_CHECKING:
    from ..classification.pipeline import KNNClassifierPipeline
    from ..datastore.knn_datastore import KNNDatastore

BATCH = 10  # texts that are suggested together, so that no two of them ask the same; then is learned from them
CANDIDATES = 2_000  # texts to choose the first ones from


def add_texts(session: Session, given: Texts) -> str:
    """Add texts with and without labels, learn, and say what was done."""
    pipe = session.pipe
    labeled = [i for i, label in enumerate(given.labels) if label is not None]
    rest = [i for i, label in enumerate(given.labels) if label is None]
    have, _, without = session.counts()
    session.limits.check_rows(have + without + len(given.texts))
    session.limits.check_labels([*session.labels, *(given.labels[i] for i in labeled)])
    if labeled:
        pipe.add_examples([given.texts[i] for i in labeled], [given.labels[i] for i in labeled], allow_new_labels=True)
    if rest:
        pipe.add_documents([given.texts[i] for i in rest], show_progress=True)
    now, labels, now_without = session.counts()
    said = f"Added {counted(now - have, 'text')} with a label and {max(now_without - without, 0):,} without."
    if given.left_out:
        said += f" Left out {counted(given.left_out, 'row')} without a text."
    if (known_already := len(given.texts) - (now - have) - (now_without - without)) > 0:
        said += f" Not added again, as already there: {known_already:,}."
    learn(session)
    return said


def give_label(session: Session, text: str, label: str, learn_now: bool = True) -> str:
    """Give a text a label, whether it has another one, none, or is new; and learn from it, now or later."""
    label = label.strip()
    if not text.strip() or not label:
        raise ValueError("Write a text and a label first.")
    session.limits.check_texts([text])
    pipe, store = session.pipe, session.pipe.datastore
    session.limits.check_labels([*session.labels, label])
    same = _ids_of(store, text)
    if same and label in store.label_names:
        pipe.relabel(dict.fromkeys(same, label))
    else:
        session.limits.check_rows(sum(session.counts()[::2]) + 1)
        if same:
            pipe.remove_examples(same)
        pipe.add_examples([text], [label], allow_new_labels=True)
    session.stale = True
    if learn_now or not session.fitted:
        learn(session)
    return f"This text now has the label {label!r}."


def keep_label(session: Session, text: str, _: str = "") -> str:
    """Remember that the label of a text was looked at, and is right."""
    session.kept += _ids_of(session.pipe.datastore, text)
    return "The label stays, and this is not asked again."


def remove_text(session: Session, text: str, _: str = "") -> str:
    """Remove a text, with a label or without, and learn from the others."""
    store = session.pipe.datastore
    labeled, without = _ids_of(store, text), _ids_of(None if store is None else store.documents, text)
    if not labeled and not without:
        raise ValueError("This text is not there any more.")
    if labeled:
        session.pipe.remove_examples(labeled)
    if without:
        session.pipe.remove_documents(without)
    learn(session)
    return "The text is removed."


def _ids_of(store: KNNDatastore | None, text: str) -> list[str]:
    return [] if store is None else [row_id for row_id, one in zip(store.ids, store.texts, strict=True) if one == text]


def learn(session: Session) -> None:
    """Fit the experts, where there are two labels."""
    pipe, (_, labels, _) = session.pipe, session.counts()
    session.stale = False
    if pipe.model.config.num_labels or pipe.datastore is None:
        return  # it was trained: its neighbors know the text
    if labels < 2:
        pipe.datastore.fitted = None  # of labels that are gone
    else:
        pipe.fit(show_progress=True)


def suggested_text(session: Session) -> dict[str, Any] | None:
    """The next suggestion, or None if no text is left. New ones are made when all have a label."""
    store = session.pipe.datastore
    left = None if store is None else store.documents
    there = set(left.texts) if left else ()
    if left and not any(one["text"] in there for one in session.suggestions):
        if session.stale:
            learn(session)
        count = min(BATCH, len(left))
        try:
            session.suggestions = session.pipe.suggest(count) if session.fitted else _first_texts(store, count)
        except ValueError:
            session.suggestions = session.pipe.suggest(count, again=True)  # those that were skipped
    return next((one for one in session.suggestions if one["text"] in there), None)


def _first_texts(store: KNNDatastore, count: int) -> list[dict[str, Any]]:
    """Texts to begin with, where nothing is known of labels yet: each stands for many similar ones."""
    import numpy as np

    from ..classification.active_learning import choose_documents

    texts, ids = store.documents.texts, store.documents.ids
    rows = np.random.default_rng(0).permutation(len(texts))[:CANDIDATES]
    keys, examples = (np.asarray(own, np.float32) for own in (store.documents.keys[rows], store.keys))
    chosen = choose_documents(keys, np.ones(len(rows)), examples, count)
    reason = "One text of a group of {:,} similar ones"
    first = [(rows[one.row], reason.format(len(one.cluster))) for one in chosen]
    return [{"id": ids[row], "text": texts[row], "label": None, "reason": why} for row, why in first]


def save_classifier(session: Session) -> Path:
    """The zip of what ``save_pretrained`` writes: weights as safetensors, tables, JSON; no pickle."""
    _ = session.store
    made = session.folder / "classifier.zip"
    # Not compressed: that would take most of the time, and weights hardly shrink.
    with tempfile.TemporaryDirectory(dir=session.folder) as folder, zipfile.ZipFile(made, "w") as archive:
        session.pipe.save_pretrained(Path(folder, "classifier"))
        for path in Path(folder).rglob("*"):
            archive.write(path, path.relative_to(folder))
    return made


def open_classifier(path: Path, shared: SharedModel, limits: Limits) -> KNNClassifierPipeline:
    """A pipeline with the texts of a saved classifier.

    Its weights are not read: the texts were embedded by the encoder of this page, or are refused.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            reading = _unpack(path, Path(folder), limits)
        except zipfile.BadZipFile as error:
            raise ValueError(f"{path.name} is not a zip file: choose one that was saved here.") from error
        try:
            pipe = shared.new_pipeline(folder, **reading)
        except (ValueError, OSError) as error:
            raise ValueError(f"{path.name} cannot be used: {str(error).replace(folder, path.name)}") from error
    have, labels, without = Session(pipe, limits).counts()
    limits.check_rows(have + without)
    limits.check_labels(map(str, range(labels)))
    return pipe


def _unpack(path: Path, folder: Path, limits: Limits) -> dict[str, str | int | None]:
    """Unpack only the datastore, under our own file names; gives how the configuration reads long texts."""
    from ..encoders.portable.configuration_knn_classifier import LONG_DOCUMENTS

    with zipfile.ZipFile(path) as archive:
        of_store = [entry for entry in archive.infolist() if Path(entry.filename).parent.name == "datastore"]
        files = [entry for entry in of_store if not entry.is_dir()]
        configs = [entry for entry in archive.infolist() if entry.filename in ("classifier/config.json", "config.json")]
        if not files or len(configs) != 1:
            raise ValueError(f"{path.name} holds no classifier: choose a zip that was saved here.")
        if sum(entry.file_size for entry in [*files, *configs]) > 4 * limits.megabytes * 10**6:
            raise ValueError(f"{path.name} unpacks to more than this page takes.")
        Path(folder, "datastore").mkdir()
        for entry in files:
            with archive.open(entry) as source, open(Path(folder, "datastore", Path(entry.filename).name), "wb") as to:
                shutil.copyfileobj(source, to)
        try:
            config = json.loads(archive.read(configs[0]))
            strategy, length = config["long_documents"], config["passage_length"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path.name} does not say how its texts were read: choose a zip that was saved here."
            ) from error
    if strategy not in LONG_DOCUMENTS or not isinstance(length, int | None):
        raise ValueError(f"{path.name} reads long texts by {str(strategy)[:40]!r}, which is not known here.")
    return {"long_documents": strategy, "passage_length": length}
