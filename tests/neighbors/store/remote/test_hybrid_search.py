"""Searching a collection by embeddings and words: who is found, what is said of them, what a pipeline makes of it."""

import logging

import numpy as np
import pytest
import torch
from transformers import BertModel, pipeline

from docsplit_hf import KNNDatastore

from ..datastores import make_passages

TEXTS = ["the green river", "a river flows", "stones and sand", None, "", "??", "sand in the river"]


@pytest.fixture
def rows():
    return np.random.default_rng(0).standard_normal((len(TEXTS), 8)).astype(np.float32)


def fill(datastore, rows):
    datastore.add(rows, ["fruit"] * len(TEXTS), TEXTS, ids=list("abcdefg"))
    return datastore


def test_the_nearest_and_those_with_the_words_are_found(milvus, rows):
    datastore = milvus.reopened(fill(milvus.make(analyzer="standard"), rows))
    assert datastore.has_bm25 and not milvus.make().has_bm25
    queries = np.stack([rows[2], rows[3], rows[3]])
    found = datastore.hybrid_search(queries, 2, texts=["RIVER stones", "", "\ud800 river"])
    exact = np.square(rows[None] - queries[:, None]).sum(-1)
    for query, (nearest, words) in enumerate((("c", "cabg"), ("d", ""), ("d", "abg"))):
        ids = found.ids[query]
        assert len({*ids}) == 4 and ids[0] == nearest
        by_words = {row_id for row_id, score in zip(ids, found.bm25[query], strict=True) if score > 0}
        assert by_words <= {*words} and len(by_words) == min(2, len(words))
        places = ["abcdefg".index(row_id) for row_id in ids]
        assert found.distances[query] == pytest.approx(np.sort(exact[query, places]), abs=1e-5)
        assert {*datastore.search(queries, 2).ids[query]} <= {*ids}
    best = found.bm25[0].argmax()
    assert found.example(0, best)["text"] == "stones and sand"  # the rarest word
    assert found.example(0, best)["bm25"] == found.bm25[0, best]


def test_of_several_passages_too(milvus, rows):
    """A row that is found by words alone has the distance and the passage that a search for all rows says."""
    datastore, texts = milvus.make(analyzer="standard"), [f"{text}, and so on" for text in TEXTS]
    datastore.add(rows, ["fruit"] * len(texts), texts, ids=list("abcdefg"), passages=make_passages(rows))
    hybrid, everyone = datastore.hybrid_search(rows[3:4], 1, texts=["stones"]), datastore.search(rows[3:4], 7)
    places = [0, everyone.ids[0].index("c")]
    assert hybrid.ids[0] == [everyone.ids[0][place] for place in places]
    assert hybrid.distances[0] == pytest.approx(everyone.distances[0, places])
    assert hybrid.passage_spans[0].tolist() == everyone.passage_spans[0, places].tolist()


def test_a_collection_without_words_says_so(milvus, rows):
    datastore = fill(milvus.make(), rows)
    with pytest.raises(ValueError, match="knows no words: make another one, with an analyzer"):
        datastore.hybrid_search(rows, 2, texts=TEXTS)
    with pytest.raises(ValueError, match="was made without an analyzer: leave it out, or take another name"):
        milvus.connect(datastore, analyzer="standard")


def test_a_pipeline_weighs_words_where_they_tell_more_than_embeddings(milvus, tiny_config, tokenizer, caplog):
    """Of a tiny encoder with random weights the neighbors know little, and one word tells the label."""
    caplog.set_level(logging.INFO, "docsplit_hf")
    rng = np.random.default_rng(0)
    words = {"fruit": "apple", "mineral": "quartz"}
    others = ["river", "stone", "garden", "window", "paper", "music"]
    texts = [" ".join([*rng.permutation(others)[:4], word]) for _ in range(30) for word in words.values()]
    torch.manual_seed(0)
    model, answers = BertModel(tiny_config), {}
    for analyzer in (None, "standard"):
        datastore = milvus.make(tiny_config.hidden_size, [], analyzer=analyzer)
        address = f"milvus://{milvus.address}/{datastore.collection}"
        pipe = pipeline("docsplit-knn", model=model, tokenizer=tokenizer, device="cpu", datastore=address)
        assert pipe.datastore.probe is not None  # a collection that was made by hand belongs to this encoder now
        pipe.add_examples(texts, [*words] * 30)
        asked = [f"music paper {word} window" for word in words.values()]
        answers[analyzer] = pipe(asked, return_neighbors=2)
        weight = pipe.model.config.bm25_weight
        assert weight > 0 if analyzer else weight == 0
    assert [answer["label"] for answer in answers["standard"]] == [*words]
    assert all(answer["neighbors"][0]["bm25"] > 0 for answer in answers["standard"])
    assert "Words add up to" in caplog.text
    assert pipe.calibrate(asked, [*words]).bm25_weight >= 0
    local = KNNDatastore(datastore.snapshot.keys, datastore.snapshot.labels, [*words])
    pipeline("docsplit-knn", model=pipe.model, tokenizer=tokenizer, device="cpu", datastore=local)
