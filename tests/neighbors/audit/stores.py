"""Fitted datastores in which a label is wrong, a text is a copy, or a text is near nothing."""

from dataclasses import replace

import numpy as np

from docsplit_hf import KNNDatastore
from docsplit_hf.neighbors.experts.fit_experts import fit_experts

from ..experts.stores import NAMES, make_keys, make_store, make_texts

WRONG = {"4": "animal", "20": "fruit", "35": "fruit"}  # 4 is a mineral, 20 and 35 are animals


def spoiled_store(examples=60, several=False, **options):
    """Three labels are wrong; examples 60 and 61 are copies of 0 and 7, 62 of 9 with another label."""
    store = make_store(examples, 0, several=several, **options)
    labels = [[int(n)] if several else int(n) for n in np.arange(examples) % 3]
    for row_id, name in WRONG.items():
        labels[int(row_id)] = [NAMES.index(name)] if several else NAMES.index(name)
    texts = make_texts(np.arange(examples) % 3)
    copied = [texts[0], f"{texts[7]} again", texts[9]]
    given = [labels[0], labels[7], [1] if several else 1]
    keys = np.concatenate([store.keys, store.keys[[0, 7, 9]]])
    spoiled = KNNDatastore(keys, labels + given, NAMES, texts + copied)
    spoiled.fitted = fit_experts(spoiled.snapshot, show_progress=False).to_state()
    return spoiled


def marked(audit):
    """The audit as a person leaves it who agrees with all of it."""
    return replace(audit, label_issues=[replace(issue, apply=True) for issue in audit.label_issues])


def more_of(store, count=1, label="fruit"):
    """Add examples after fit."""
    numbers = [NAMES.index(label)] * count
    return store.add(make_keys(numbers, 77), numbers, make_texts(numbers, 78))
