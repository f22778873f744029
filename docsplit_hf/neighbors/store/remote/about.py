"""About: what a collection says of itself, in a partition of its own: format, encoder, labels, and the last change."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .collection import ABOUT, FIELDS, PK, VECTOR, Collection

FORMAT, VERSION = "docsplit_hf datastore", 1


@dataclass(frozen=True, eq=False)
class About:
    """What a collection says of itself. ``multi_label`` is None before the first labels; ``changed`` is a token."""

    dimension: int
    label_names: tuple[str, ...]
    multi_label: bool | None
    probe: np.ndarray | None
    changed: str


def read_about(collection: Collection, dimension: int) -> About | None:
    """What is there; None where nothing was written yet."""
    rows = {row[PK]: row for row in collection.rows(ABOUT, FIELDS)}
    if "about" not in rows:
        return None
    settings = json.loads(rows["about"]["text"])
    if settings.get("format") != FORMAT or settings.get("version") != VERSION:
        raise ValueError(
            f"{collection!r} says {settings.get('format')!r}, version {settings.get('version')!r}, and this "
            f"docsplit_hf reads {FORMAT!r}, version {VERSION}: upgrade docsplit_hf, or take another collection."
        )
    labels = sorted((row["row"], row["text"]) for pk, row in rows.items() if pk.startswith("label-"))
    probe = [rows[f"probe-{i}"][VECTOR] for i in range(settings["probe"])]
    return About(
        dimension,
        tuple(name for _, name in labels),
        settings["multi_label"],
        np.array(probe, dtype=np.float32) if probe else None,
        rows["changed"]["text"],
    )


def write_about(collection: Collection, about: About) -> None:
    """Write all but the labels."""
    probe = [] if about.probe is None else list(about.probe)
    settings = {"format": FORMAT, "version": VERSION, "multi_label": about.multi_label, "probe": len(probe)}
    rows = [_row(about, f"probe-{i}", vector=vector) for i, vector in enumerate(probe)]
    # The settings are the last: without them, nothing is there.
    rows += [_row(about, "changed", about.changed), _row(about, "about", json.dumps(settings))]
    for row in rows:
        collection.write(ABOUT, [row])


def write_labels(collection: Collection, about: About, names: Iterable[str], first: int) -> None:
    """Write names of labels, each as a row: two processes may add different ones."""
    rows = [
        _row(about, f"label-{hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}", name, first + i)
        for i, name in enumerate(names)
    ]
    if rows:
        collection.write(ABOUT, rows)


def read_changed(collection: Collection) -> str:
    """The token of the last change."""
    found = collection.get(["changed"], ["text"])
    return found[0]["text"] if found else ""


def write_changed(collection: Collection, about: About) -> str:
    """Say that something changed; gives the token."""
    token = uuid.uuid4().hex
    collection.write(ABOUT, [_row(about, "changed", token)])
    return token


def _row(about: About, key: str, text: str = "", number: int = 0, vector: Any = None) -> dict[str, Any]:
    texts = {"id": "", "content": "", "labels": "", "text": text, "text_pair": None}
    numbers = {"row": number, "passage": 0, "passages": 0, "start": 0, "end": 0, "rest": 0}
    return {PK: key, **texts, **numbers, VECTOR: np.zeros(about.dimension, np.float32) if vector is None else vector}
