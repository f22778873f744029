"""Texts of several passages in the pipeline: the deciding passage, and unchanged results of single passages."""

import copy

import numpy as np
import pytest
import torch
from transformers import BertModel, pipeline

import docsplit_hf  # noqa: F401 - registers the pipeline
from docsplit_hf import KNNClassifier, KNNClassifierPipeline, KNNDatastore
from docsplit_hf.arrays.passages import take_passages
from docsplit_hf.encoding.classifier_embedder import make_embedder

FILLER = (
    "The town has a station, a library and two bridges. Its streets were paved a hundred years ago. Trains stop there "
    "four times a day. The library opens in the afternoon. Nothing of note has happened since the last election. "
) * 8
TELLING = {
    "football": "The striker scored two goals, the goalkeeper was injured, and the team won the football match 3 to 1.",
    "cooking": "Fry the onions in butter, add flour and cream, season with salt and pepper, and bake it in the oven.",
}
EXAMPLES = {
    "football": [
        "The team lost the match by a goal.",
        "The goalkeeper saved a penalty in the match.",
        "The striker joined another football team.",
        "The coach praised the goalkeeper after the match.",
        "The team won the match, the striker scored a goal.",
    ],
    "cooking": [
        "Bake the cake with butter in the oven for an hour.",
        "Season the soup with salt and pepper.",
        "Boil the potatoes, drain them, and add salt.",
        "Melt the butter in a pan and add the onions.",
        "A recipe with flour, eggs and cream.",
    ],
}
READ = {"device": "cpu", "long_documents": "passages", "passage_length": 64}


@pytest.fixture(scope="module")
def pipe():
    """The encoder that ships, with short examples."""
    pipe = pipeline("docsplit-knn", **READ)
    for label, texts in EXAMPLES.items():
        pipe.add_examples(texts, [label] * len(texts))
    return pipe


@pytest.fixture(scope="module")
def fitted():
    """The same with the sentences inside long examples, so no passage was an example by itself."""
    fitted = pipeline("docsplit-knn", **READ)
    for label, sentences in EXAMPLES.items():
        texts = [hidden(sentence, number / 5)[0] for number, sentence in enumerate(sentences)]
        fitted.add_examples(texts, [label] * len(texts))
    fitted.fit(show_progress=False)
    return fitted


def hidden(sentence, place):
    """A long text with one telling sentence, as far behind its beginning, and where that stands."""
    start = FILLER.index("The town", int(place * len(FILLER)))
    return FILLER[:start] + sentence + " " + FILLER[start:], start, start + len(sentence)


def test_passages_are_those_of_their_text_in_whatever_order_texts_are_added(pipe):
    texts = [f"C. {FILLER}", "A. The striker scored.", f"B. {FILLER[:700]}"]  # they are embedded in sorted order
    changed = copy.copy(pipe)
    changed.datastore = None
    ids = changed.add_examples(texts, ["football", "cooking", "football"])
    store = changed.datastore
    assert store.ids == ids
    for text, (embeddings, spans) in zip(texts, store.snapshot.passages.by_text(), strict=True):
        alone = pipe.embedder.embed([text])
        expected = alone.retrieval_embeddings if alone.passages is None else alone.passages.embeddings
        np.testing.assert_allclose(embeddings, expected, atol=1e-5)
        assert spans[-1, 1] == len(text.rstrip())


def test_a_call_reads_a_limited_number_of_passages_and_logs_the_rest(pipe, fitted, caplog):
    text, start, end = hidden(next(iter(TELLING.values())), 0.85)
    (whole,) = fitted(text, return_read=True, explain=True)
    (capped,) = fitted(text, return_read=True, explain=True, max_passages=2)
    assert whole["read"] == 1 and capped["read"] < 0.5
    assert capped["explanation"]["passage"]["end"] < start
    assert "1 of 1 texts are longer than 2 passages: " in caplog.text
    assert f"{100 * (1 - capped['read']):.1f} % of all characters were cut off" in caplog.text
    with pytest.raises(ValueError, match="max_passages must be a whole number from 1, got 0"):
        fitted(text, max_passages=0)


@pytest.mark.parametrize("place", [0, 0.4, 0.85])
@pytest.mark.parametrize("label", TELLING)
def test_the_explanation_names_the_deciding_passage(pipe, fitted, label, place):
    text, start, end = hidden(TELLING[label], place)
    answer = fitted(text, explain=True, return_read=True)[0]
    passage = answer["explanation"]["passage"]
    assert answer["label"] == label and answer["read"] == 1
    assert passage["start"] < end and start < passage["end"]
    assert passage["text"] == text[passage["start"] : passage["end"]]
    assert len(passage["text"]) < len(text) / 4

    answer = pipe(text, return_neighbors=1, k=3)[0]
    passage = answer["neighbors"][0]["text_passage"]
    assert answer["label"] == label and "passage" not in answer["neighbors"][0]  # an example is one passage
    assert passage["start"] < end and start < passage["end"]


def test_a_labeled_document_keeps_its_passages():
    pipe = pipeline("docsplit-knn", **READ)
    long, _, _ = hidden(TELLING["football"], 0.4)
    pipe.add_documents([long, "A short text."])
    before = take_passages(pipe.datastore.documents.snapshot.passages, [0])
    pipe.add_examples([TELLING["cooking"], long, FILLER], ["cooking", "football", "football"])
    after = take_passages(pipe.datastore.snapshot.passages, [1])
    assert before.counts[0] > 4
    assert all(np.array_equal(old, new) for old, new in zip(before, after, strict=True))
    assert take_passages(pipe.datastore.snapshot.passages, [0]).counts.tolist() == [1]
    assert pipe.datastore.documents.texts == ["A short text."]
    assert pipe(long, return_neighbors=1, k=1)[0]["neighbors"][0]["distance"] == pytest.approx(0, abs=1e-9)


def test_a_saved_pipeline_keeps_its_reading_strategy(fitted, tmp_path):
    fitted.save_pretrained(tmp_path)
    loaded = pipeline("docsplit-knn", model=str(tmp_path), device="cpu")
    text = hidden(TELLING["cooking"], 0.4)[0]
    answers = [pipe(text, explain=True, return_neighbors=3, return_read=True) for pipe in (loaded, fitted)]
    assert answers[0] == answers[1]
    assert (loaded.model.config.long_documents, loaded.model.config.passage_length) == ("passages", 64)
    with pytest.raises(
        ValueError, match="long_documents='first': the texts of the datastore were embedded with 'passages'"
    ):
        pipeline("docsplit-knn", model=str(tmp_path), device="cpu", long_documents="first")
    pipeline("docsplit-knn", model=str(tmp_path), device="cpu", long_documents="passages")


@pytest.fixture
def model(tiny_config):
    torch.manual_seed(0)
    return KNNClassifier.around(BertModel(tiny_config), 2, pooling="mean", max_length=32).eval()


def test_strategies_for_long_texts_do_not_change_short_ones(model, tokenizer):
    texts = ["The river feeds the valley.", "A garden.", "", "The engine moves."]
    expected = make_embedder(model, tokenizer).embed(texts)
    for strategy in ("head_tail", "whole", "average", "passages"):
        found = make_embedder(model, tokenizer, long_documents=strategy).embed(texts)
        assert found.passages is None and (found.read_fraction == 1).all()
        assert (found.logits == expected.logits).all()
        assert (found.retrieval_embeddings == expected.retrieval_embeddings).all()


def test_logits_of_a_long_text_are_the_mean_of_its_passages(model, tokenizer):
    text = "The river feeds the valley. A garden, a stone and an engine. " * 6
    whole = make_embedder(model, tokenizer, long_documents="passages").embed([text, "A garden."])
    parts = [text[start:end] for start, end in whole.passages.of(0)[1]]
    alone = make_embedder(model, tokenizer).embed(parts)
    weights = np.array([len(tokenizer(part)["input_ids"]) for part in parts])
    assert whole.logits[0] == pytest.approx(np.average(alone.logits, axis=0, weights=weights), abs=1e-5)
    assert whole.passages.of(0)[0] == pytest.approx(alone.retrieval_embeddings, abs=1e-5)
    directions = alone.retrieval_embeddings / np.linalg.norm(alone.retrieval_embeddings, axis=1, keepdims=True)
    mean = np.average(directions, axis=0, weights=weights)
    norm = np.average(np.linalg.norm(alone.retrieval_embeddings, axis=1), weights=weights)
    assert whole.retrieval_embeddings[0] == pytest.approx(mean / np.linalg.norm(mean) * norm, abs=1e-5)
    both = make_embedder(model, tokenizer, long_documents="whole").embed([text, "A garden."])
    assert both.logits[0] == pytest.approx((whole.logits[0] + alone.logits[0]) / 2, abs=1e-5)
    direction = mean / np.linalg.norm(mean) + directions[0]
    assert both.retrieval_embeddings[0] == pytest.approx(direction / np.linalg.norm(direction) * norm, abs=1e-5)


def test_the_fraction_that_was_read(model, tokenizer):
    texts = ["river " * 15 + "garden " * 45, "A garden."]
    for strategy, expected in (("first", 0.5), ("head_tail", 0.5), ("whole", 1.0), ("passages", 1.0)):
        shares = make_embedder(model, tokenizer, long_documents=strategy).embed(texts).read_fraction
        assert shares.tolist() == pytest.approx([expected, 1.0], abs=0.1), strategy
    pairs = make_embedder(model, tokenizer).embed(texts, [None, "garden " * 60]).read_fraction
    assert 0 < pairs[1] < 0.6


def test_methods_on_documents_use_their_passages(fitted, tmp_path):
    """Audit, suggestions, reports, labels by hand and removal use whole documents."""
    pipe = KNNClassifierPipeline(fitted.model, fitted.tokenizer, copy.deepcopy(fitted.datastore), device="cpu")
    waiting = [hidden(sentence, 0.3)[0] for sentence in (*TELLING.values(), "The train was late.")]
    pipe.add_documents(waiting)
    pipe.add_examples([waiting[0]], ["cooking"], ids=["wrong"])  # it is about football
    pipe.fit(show_progress=False)
    assert pipe.audit(show_progress=False).examples == 11
    assert {found["text"] for found in pipe.suggest(2)} <= set(waiting[1:])
    assert pipe.measure_drift(waiting).texts == 3
    pipe.relabel({"wrong": "football"})
    assert pipe(waiting[0], method="knn", return_neighbors=1)[0]["neighbors"][0]["id"] == "wrong"
    pipe.remove_examples(["wrong"])
    pipe.datastore.remove_documents(pipe.datastore.documents.ids[:1])
    counts = [
        len(take_passages(store.snapshot.passages, np.arange(len(store))).embeddings)
        for store in (pipe.datastore, pipe.datastore.documents)
    ]
    pipe.save_pretrained(tmp_path)
    loaded = KNNDatastore.from_pretrained(tmp_path)
    assert counts == [
        len(take_passages(store.snapshot.passages, np.arange(len(store))).embeddings)
        for store in (loaded, loaded.documents)
    ]
    assert len(loaded.documents) == 1 and len(loaded) == 10


def test_impossible_strategies_are_refused_before_anything_is_added(model, tokenizer):
    model.config.pooling = "cls"
    for options, message in (
        ({"long_documents": "salient"}, "'passages', got 'salient'"),
        ({"long_documents": "passages", "passage_length": 1000}, "passage_length=1000 is more than the 32 tokens"),
    ):
        with pytest.raises(ValueError, match=message):
            KNNClassifierPipeline(model, tokenizer, device="cpu", **options)
        assert (model.config.long_documents, model.config.passage_length) == ("first", None)


def test_neighbors_of_long_texts_have_the_nearest_passage():
    """All passages of the minutes are equal; only one passage of each text has a topic."""
    pipe = pipeline("docsplit-knn", **READ)
    minutes = "The committee met and approved the minutes. " * 60
    match = "The striker scored two goals, and the team won the match. The coach praised the goalkeeper. " * 2
    meal = "Fry the onions in butter and add the flour. Season it with salt, and bake it in the oven. " * 2
    pipe.add_examples([minutes + match, minutes + meal], ["football", "cooking"])
    asked = "The goalkeeper saved a penalty. The team lost the match, and the coach was angry with the striker. " * 2
    (neighbor,) = pipe(minutes + asked + minutes, k=1, return_neighbors=1)[0]["neighbors"]
    assert neighbor["label"] == "football"
    assert "penalty" in neighbor["text_passage"]["text"] and "goals" in neighbor["passage"]["text"]
