"""Mistyped paths."""

import pytest

from docsplit_hf.text.sources import refuse_mistyped_path


def test_mistyped_paths_are_refused_with_the_nearest_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "output" / "pretrain").mkdir(parents=True)
    for file in ("documents.jsonl", "l.csv"):
        (tmp_path / file).touch()
    mistyped = {"output/pretrian": "output/pretrain", "document.jsonl": "documents.jsonl", "l.cvs": "l.csv"}
    for name, near in mistyped.items():
        with pytest.raises(FileNotFoundError, match=f"'{name}'. Did you mean '{near}'"):
            refuse_mistyped_path(name)
    for name in ("/no/such", "./nothing", "~/nothing", "a/b/c"):
        with pytest.raises(FileNotFoundError, match="There is no file or folder"):
            refuse_mistyped_path(name)


def test_existing_paths_and_names_on_the_hub_pass(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "facebook" / "contriever").mkdir(parents=True)
    for name in (
        "facebook/contriever",
        "facebook/contriever-msmarco",
        "bert-base-uncased",
        "sentence-transformers/LaBSE",
    ):
        assert refuse_mistyped_path(name) is None
