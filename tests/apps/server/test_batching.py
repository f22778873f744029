"""Requests that are read together, and rows of what was read together."""

import asyncio
import time

import numpy as np
import pytest

from docsplit_hf.apps.server.batching import Batcher, predictions_at
from docsplit_hf.apps.server.settings import ServerLimits, ServerSettings
from docsplit_hf.apps.server.states import State
from docsplit_hf.arrays.passages import Passages, Predictions
from docsplit_hf.encoding.chunking import token_counts
from docsplit_hf.encoding.classifier_embedder import ClassifierEmbedder

from ...conftest import make_text
from ...event_loops import run_elsewhere


def test_one_request_is_taken_however_long_it_is_and_no_second_one(loaded):
    batcher = Batcher(ServerSettings(limits=ServerLimits(waiting_tokens=10)))
    state = State(loaded, "version")
    texts = [make_text(number, sentences=20) for number in range(3)]

    async def ask():
        with batcher._tokenizing:  # nothing is read meanwhile
            reads = [asyncio.ensure_future(batcher.read(state, [text], [None], {})) for text in texts]
            await asyncio.sleep(0)  # each begins
        return await asyncio.gather(*reads, return_exceptions=True)

    found = run_elsewhere(ask())
    batcher.stop()
    assert [getattr(one, "code", "answered") for one in found] == ["answered", "overloaded", "overloaded"]


def test_rows_of_passages():
    """Rows keep their own passages, and texts that all have one get none, as a call with them alone."""
    counts = np.array([1, 3, 1, 2])
    passages = Passages(np.arange(14, dtype=np.float32).reshape(7, 2), counts, np.arange(14).reshape(7, 2))
    embedded = Predictions(np.zeros((4, 0)), np.arange(8, dtype=np.float32).reshape(4, 2), np.ones(4), passages)
    part = predictions_at(embedded, np.array([1, 2]))
    np.testing.assert_array_equal(part.passages.embeddings, passages.embeddings[1:5])
    np.testing.assert_array_equal(part.passages.counts, [3, 1])
    np.testing.assert_array_equal(part.retrieval_embeddings, embedded.retrieval_embeddings[1:3])
    assert predictions_at(embedded, np.array([0, 2])).passages is None
    assert predictions_at(embedded, np.arange(4)) is embedded


def test_texts_cut_together_have_the_tokens_and_embeddings_of_a_call(loaded):
    texts = [make_text(number, sentences=1 + 4 * (number % 3)) for number in range(7)]
    embedder = loaded.embedder
    pairs = [None] * len(texts)
    chunks = list(embedder.chunks(texts, pairs))
    assert token_counts(chunks, len(texts)) == [sum(token_counts(embedder.chunks([text], [None]), 1)) for text in texts]
    expected = embedder.embed(texts)
    found = embedder.embed_chunks_of(texts, chunks)
    np.testing.assert_array_equal(found.retrieval_embeddings, expected.retrieval_embeddings)
    np.testing.assert_array_equal(found.read_fraction, expected.read_fraction)


@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"reject": 0.5, "return_novelty": True}], ids=str)
def test_texts_embedded_before_are_answered_as_by_a_call(loaded, options):
    texts = [make_text(number, sentences=3) for number in range(200, 205)]
    predicted = loaded.predict_embedded(loaded.embedder.embed(texts), texts, **options)
    assert [predicted.answer(row) for row in range(len(texts))] == loaded(texts, **options)


def test_an_error_is_the_answer_to_one_request_alone(loaded, monkeypatch):
    """Requests that come together are read together; if that fails, each is read alone."""
    cut = ClassifierEmbedder.chunks
    together = []

    def refuse_odd_texts(self, texts, pairs=None):
        together.append(len(texts))
        if "odd" in texts:
            raise ValueError("odd")
        return cut(self, texts, pairs)

    monkeypatch.setattr(ClassifierEmbedder, "chunks", refuse_odd_texts)
    batcher = Batcher(ServerSettings(threads=1))
    state = State(loaded, "version")
    texts = ["The river feeds the valley.", "odd", make_text(1, sentences=3), make_text(2, sentences=1)]
    long = " ".join(make_text(number, sentences=20) for number in range(80))  # more than a turn

    async def ask():
        reads = [batcher.read(state, [text], [None], {}) for text in [*texts, long]]
        return await asyncio.gather(*reads, return_exceptions=True)

    *found, last = run_elsewhere(ask())
    batcher.stop()
    assert isinstance(found.pop(1), ValueError)
    for text, result in zip([texts[0], *texts[2:], long], [*found, last], strict=True):
        [expected] = loaded([text])
        answer = result.predicted.answer(0)
        assert (answer["label"], answer["score"]) == (expected["label"], pytest.approx(expected["score"], abs=1e-6))
        assert result.token_count == sum(token_counts(cut(loaded.embedder, [text], [None]), 1))
    assert max(together) > 1
    assert batcher.waiting_tokens == 0


def test_a_tokenizer_is_used_by_one_thread_at_a_time(loaded, monkeypatch):
    """It is changed to cut texts. Without the lock, two threads are in it together."""
    cut = ClassifierEmbedder.chunks
    inside = []
    most = []

    def counted(self, texts, pairs=None):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.02)
        chunks = list(cut(self, texts, pairs))
        inside.pop()
        return chunks

    monkeypatch.setattr(ClassifierEmbedder, "chunks", counted)
    batcher = Batcher(ServerSettings(threads=2))
    state = State(loaded, "version")
    long = " ".join(make_text(number, sentences=20) for number in range(80))  # read beside the short ones
    texts = [long, *(make_text(number, sentences=1) for number in range(6))]

    async def ask():
        return await asyncio.gather(*(batcher.read(state, [text], [None], {}) for text in texts))

    assert len(run_elsewhere(ask())) == 7
    batcher.stop()
    assert len(most) > 1 and max(most) == 1
