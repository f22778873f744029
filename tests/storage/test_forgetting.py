"""Copies of texts beside a datastore go with the rows, also those of an export that was killed."""

import numpy as np

from docsplit_hf import KNNDatastore
from docsplit_hf.storage.classifier_folder import EXPORTED, TEXTS, UNFINISHED_EXPORT


def test_copies_of_texts_are_deleted_when_rows_change(tmp_path):
    datastore = KNNDatastore(np.eye(3), ["a", "b", "a"], [], texts=["One.", "Two.", "Three."])
    datastore.save_pretrained(tmp_path)
    folders = [tmp_path / EXPORTED, tmp_path / f"{UNFINISHED_EXPORT}x" / EXPORTED]
    for folder in folders:
        folder.mkdir(parents=True)
        for name in (TEXTS, "texts.safetensors", "model.onnx"):
            (folder / name).write_text("Two.")
    datastore.save_pretrained(tmp_path)
    assert all((folder / TEXTS).exists() for folder in folders)  # nothing has changed
    datastore.remove(["1"])
    datastore.save_pretrained(tmp_path)
    assert [[file.name for file in folder.iterdir()] for folder in folders] == [["model.onnx"]] * 2
    assert KNNDatastore.from_pretrained(tmp_path).texts == ["One.", "Three."]
