"""The blocks of datatrove, run as an executor runs them: a task at a time."""

import importlib
import json
import sys
from itertools import islice

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoTokenizer

from docsplit_hf import DocumentEncoder, KNNClassifier, default_checkpoint

datatrove = pytest.importorskip("datatrove", reason="The extra datatrove is not installed.")
from datatrove.data import Document  # noqa: E402

from docsplit_hf.connectors.datatrove import EmbedDocuments, JsonlRangeReader  # noqa: E402
from docsplit_hf.encoding.classifier_embedder import make_embedder  # noqa: E402
from docsplit_hf.storage.shards import SETTINGS  # noqa: E402

IDS = [*"01234567", "8\ud800"]
TEXTS = [f"The report {i} is long. " * (i + 1) for i in range(7)] + [" \n", "One\ud800 sentence."]


@pytest.fixture
def documents():
    return [Document(text, IDS[i], metadata={"kind": "ab"[i % 2]}) for i, text in enumerate(TEXTS)]


def test_each_task_writes_the_embeddings_of_its_documents(tmp_path, documents):
    embed = EmbedDocuments(tmp_path, dtype="float32", label_key="kind", max_length=64)
    for task in (0, 1):
        assert list(embed.run(iter(documents[task::2]), task, 2)) == documents[task::2]
    encoder = DocumentEncoder.from_pretrained(device="cpu", max_length=64)
    for task, numbers in enumerate(([0, 2, 4, 6, 8], [1, 3, 5])):  # one is of white space
        rows = pq.read_table(tmp_path / f"0000{task}.parquet").to_pydict()
        assert rows["id"] == [IDS[i].replace("\ud800", "\ufffd") for i in numbers] and set(rows["label"]) == {
            "ab"[task]
        }
        assert rows["text"] == [TEXTS[i].replace("\ud800", "\ufffd") for i in numbers]
        np.testing.assert_allclose(rows["embedding"], encoder.encode(rows["text"], show_progress=False), atol=1e-6)
    shared = json.loads(pq.read_metadata(tmp_path / "00000.parquet").metadata[SETTINGS])
    assert shared["encoder"]["name"] == "docsplit-small-en"
    model = KNNClassifier.from_encoder(default_checkpoint(), num_labels=0, decouple=False, normalize=True)
    tokenizer = AutoTokenizer.from_pretrained(default_checkpoint())
    np.testing.assert_allclose(shared["probe"], make_embedder(model, tokenizer).probe(), atol=1e-6)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    assert list(embed.run(iter(documents), 0, 2)) == []  # the shard is there: nothing is read
    others = [EmbedDocuments(tmp_path, dtype="float32", **other) for other in ({"max_length": 32}, {"max_length": 64})]
    for other, tasks in ((others[0], 2), (others[1], 2), (embed, 3)):  # another length, no labels, more tasks
        with pytest.raises(ValueError, match="was begun with other settings"):
            next(other.run(iter(documents), 0, tasks))
    unlabeled = EmbedDocuments(tmp_path / "other", label_key="missing")
    with pytest.raises(ValueError, match="The document 0 has no 'missing'"):
        list(unlabeled.run(iter(documents), 0, 1))
    assert not list((tmp_path / "other").iterdir())
    several = EmbedDocuments(tmp_path / "several", label_key="kinds")
    with pytest.raises(ValueError, match=r"is \['a', 'b'\]: give it one label"):
        list(several.run(iter([Document("A text.", "0", metadata={"kinds": ["a", "b"]})]), 0, 1))
    assert {file: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()} == before


def test_a_pipeline_may_begin_with_a_list(tmp_path, documents):
    embed = EmbedDocuments(tmp_path, max_length=64)
    assert list(islice(embed.run(documents), 20)) == documents  # not again and again
    counts = {name: embed.stats[name].total for name in ("embedded", "left out, white space only")}
    assert counts == {"embedded": 8, "left out, white space only": 1}


def test_a_task_computes_in_one_thread_and_leaves_their_number(tmp_path, documents):
    """Another number of threads may change the last bits of an embedding, and so the bytes of a shard."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = [torch.get_num_threads() for _ in EmbedDocuments(tmp_path, max_length=64).run(documents)]
        assert {*found} == {1} and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_tasks_read_each_line_of_a_file_once(tmp_path):
    file = tmp_path / "rows.jsonl"
    rows = [{"text": "x" * i, "label": i} for i in range(1, 60)] + [{"text": ""}]
    file.write_text("\ufeff" + "\n".join(map(json.dumps, rows)))
    for tasks in (1, 2, 7, 100):
        reader = JsonlRangeReader(file)
        read = [document for task in range(tasks) for document in reader.run(rank=task, world_size=tasks)]
        assert [document.text for document in read] == [row["text"] for row in rows[:-1]]
        assert len({document.id for document in read}) == 59 and read[3].metadata == {"label": 4}
    for options in ({"limit": 3}, {"skip": 1}):
        with pytest.raises(ValueError, match="give a file with only the lines that you want"):
            JsonlRangeReader(file, **options)
    file.write_text("words\n")
    with pytest.raises(ValueError, match="rows.jsonl: the line 'words' is not JSON"):
        list(JsonlRangeReader(file).run())


def test_without_datatrove_an_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datatrove", None)
    monkeypatch.delitem(sys.modules, "docsplit_hf.connectors.datatrove")
    with pytest.raises(
        ModuleNotFoundError, match=r"datatrove, which is not installed: pip install -e \"\.\[datatrove\]"
    ):
        importlib.import_module("docsplit_hf.connectors.datatrove")
