"""Words of texts that were removed leave the vocabulary of what was fitted on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...reading.words import words_of
from ..experts.corpus import id_numbers, texts_in

if TYPE_CHECKING:
    from ...arrays.snapshot import Snapshot

FORGOTTEN = "(forgotten {})"  # in place of a word; no text has it, as a word has no brackets


def without_words_of_removed(snapshot: Snapshot) -> Snapshot:
    """Replace terms of the vocabulary that are in no text any more, if texts were removed since the fit."""
    fitted = snapshot.fitted
    if fitted is None or "ids" not in fitted.arrays:
        return snapshot
    states = [state for state in (snapshot, snapshot.documents) if state is not None]
    present = np.concatenate([id_numbers(state.rows, state.keys) for state in states])
    if np.isin(fitted.arrays["ids"], present).all():
        return snapshot
    gone = set(fitted.vocabulary)
    for state in states:
        for text in texts_in(state.rows):
            gone.difference_update(words_of(text))
    terms = [FORGOTTEN.format(number) if term in gone else term for number, term in enumerate(fitted.vocabulary)]
    return replace(snapshot, fitted=replace(fitted, vocabulary=tuple(terms)))
