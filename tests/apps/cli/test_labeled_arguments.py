"""Labeled examples and documents as docsplit fit and docsplit train load them."""

import pandas as pd

from docsplit_hf.apps.cli.fit import load_unlabeled
from docsplit_hf.apps.cli.labeled_arguments import LabeledArguments, load_splits


def test_copies_are_left_out_of_what_is_learned_from_and_chosen_by_and_held_out_texts_of_the_documents(tmp_path):
    for number, name in enumerate(("train", "validation", "test")):
        texts = [f"Text {number} of {label}." for label in "abab"]  # each of them twice
        pd.DataFrame({"text": texts, "label": list("abab")}).to_csv(tmp_path / f"{name}.csv", index=False)
    data = LabeledArguments(dataset_name=str(tmp_path))
    splits = load_splits(data, seed=0)
    assert {name: len(rows) for name, rows in splits.items()} == {"train": 2, "validation": 2, "test": 4}

    documents = [text for rows in splits.values() for text in rows["text"]]
    pd.DataFrame({"text": [*documents, "Another text."]}).to_csv(tmp_path / "documents.csv", index=False)
    unlabeled = load_unlabeled(data, str(tmp_path / "documents.csv"), splits)
    assert set(unlabeled["text"]) == {*splits["train"]["text"], "Another text."}
    assert load_unlabeled(data, None, splits) is None
