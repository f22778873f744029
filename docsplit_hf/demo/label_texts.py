"""Giving texts labels: many at once, or one by one, so that the next answer knows."""

from __future__ import annotations

from .read_texts import Texts
from .session import Session, used_labels


def add_texts(session: Session, given: Texts) -> str:
    """Add texts with and without labels, learn, and say what was done."""
    pipe = session.pipe
    labeled = [i for i, label in enumerate(given.labels) if label is not None]
    rest = [i for i, label in enumerate(given.labels) if label is None]
    have, _, without = session.counts()
    session.limits.check_rows(have + without + len(given.texts))
    known = [] if pipe.datastore is None else used_labels(pipe.datastore)
    session.limits.check_labels([*known, *(given.labels[i] for i in labeled)])
    if labeled:
        pipe.add_examples([given.texts[i] for i in labeled], [given.labels[i] for i in labeled], allow_new_labels=True)
    if rest:
        pipe.add_documents([given.texts[i] for i in rest], show_progress=True)
    now, labels, now_without = session.counts()
    said = f"Added {now - have:,} texts with a label and {max(now_without - without, 0):,} without."
    if given.left_out:
        said += f" {given.left_out:,} rows have no text and were left out."
    if (known_already := len(given.texts) - (now - have) - (now_without - without)) > 0:
        said += f" {known_already:,} were there already."
    return f"{said} {learn(session)}".rstrip()


def give_label(session: Session, text: str, label: str) -> str:
    """Give a text a label, whether it has another one, none, or is new; and learn from it."""
    label = label.strip()
    if not text.strip() or not label:
        raise ValueError("A text and a label are needed: write both.")
    session.limits.check_texts([text])
    pipe, store = session.pipe, session.pipe.datastore
    known = [] if store is None else used_labels(store)
    session.limits.check_labels([*known, label])
    same = [] if store is None else [row_id for row_id, one in zip(store.ids, store.texts, strict=True) if one == text]
    if same and label in store.label_names:
        pipe.relabel(dict.fromkeys(same, label))
    else:
        session.limits.check_rows(sum(session.counts()[::2]) + 1)
        if same:
            pipe.remove_examples(same)
        pipe.add_examples([text], [label], allow_new_labels=True)
    session.suggestions = [one for one in session.suggestions if one["text"] != text]
    return f"This text has the label {label!r} now. {learn(session)}".rstrip()


def learn(session: Session) -> str:
    """Fit the experts where that is possible; says why not."""
    pipe, (_, labels, _) = session.pipe, session.counts()
    if pipe.model.config.num_labels:
        return ""  # it was trained: its neighbors know the text
    if labels < 2:
        return "Give texts of two labels or more: then there is something to tell apart."
    pipe.fit(show_progress=False)
    return ""
