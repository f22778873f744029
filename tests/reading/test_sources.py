"""Mistyped paths, and names on the Hub."""

import socket

import datasets
import huggingface_hub
import pytest

from docsplit_hf.reading.sources import load_from_hub, refuse_mistyped_path


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


def test_a_hub_that_cannot_be_reached_is_asked_once(monkeypatch):
    with socket.socket() as closed:  # bound, and nobody listens
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(datasets, "load_dataset", lambda *_: pytest.fail("datasets would ask six times"))
        with pytest.raises(OSError, match="'somebody/animals' is neither a file or folder here, nor found on the Hub"):
            load_from_hub("somebody/animals")
