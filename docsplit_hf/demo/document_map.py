"""A map: all texts in two dimensions, near where their embeddings are."""

from __future__ import annotations

from typing import Any

import numpy as np

from .limits import counted
from .session import Session

MOST_POINTS = 2_000  # more of them are a cloud, and t-SNE takes long
FEWEST_FOR_TSNE = 10


def document_map(session: Session) -> tuple[str, dict[str, Any]]:
    """A sentence on it, and ``points``: x and y from 0 to 1, the number of a label in ``labels`` or -1, and the id."""
    store = session.store
    documents, labels = store.documents, session.labels
    numbers = {name: number for number, name in enumerate(labels)}
    of_points = [numbers[store.label_names[label]] for label in store.labels]
    ids, texts, keys = store.ids, store.texts, [store.keys]
    if documents is not None:
        of_points += [-1] * len(documents)
        ids, texts, keys = ids + documents.ids, texts + documents.texts, [*keys, documents.keys]
    keys = np.concatenate(keys).astype(np.float32)
    # The order is that of the texts: a text that gets a label does not move.
    order = np.array(sorted(range(len(texts)), key=lambda row: (texts[row] or "", ids[row])))
    said = f"{counted(len(order), 'text')}."
    if len(order) > MOST_POINTS:
        order = np.sort(np.random.default_rng(0).choice(len(order), MOST_POINTS, replace=False))
        said = f"{MOST_POINTS:,} of {len(texts):,} texts, drawn at random."
    places = _places(keys[order])
    points = [[*map(float, place), of_points[row], ids[row]] for place, row in zip(places.round(4), order, strict=True)]
    return said, {"points": points, "labels": labels}


def text_of(session: Session, row_id: str) -> tuple[str, str | None]:
    """The text of a point, and its label or None. Ids are looked up in the session's own texts alone."""
    store = session.store
    if row_id in (ids := store.ids):
        row = ids.index(row_id)
        return store.texts[row] or "", store.label_names[store.labels[row]]
    documents = store.documents
    if documents is None or row_id not in (ids := documents.ids):
        raise ValueError("This text is not there any more.")
    return documents.texts[ids.index(row_id)] or "", None


def _places(keys: np.ndarray) -> np.ndarray:
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    if len(keys) < 2:
        return np.full((len(keys), 2), 0.5)
    if len(keys) >= FEWEST_FOR_TSNE:
        places = TSNE(perplexity=min(30, (len(keys) - 1) / 3), init="pca", random_state=0).fit_transform(keys)
    else:
        places = PCA(2, random_state=0).fit_transform(keys)
    least = places.min(0)
    return (places - least) / np.maximum(np.ptp(places, axis=0), 1e-9)
