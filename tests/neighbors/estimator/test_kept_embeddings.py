import numpy as np
import pytest

from docsplit_hf.models.inference.reader import Reader
from docsplit_hf.neighbors.estimator import kept_embeddings
from docsplit_hf.neighbors.estimator.kept_embeddings import embed_once


@pytest.fixture
def embedded(monkeypatch):
    """The texts that are embedded, call by call, with nothing kept before."""
    calls = []

    def counted(reader, texts, pairs):
        calls.append(texts)
        return read(reader, texts, pairs)

    read = Reader.read
    monkeypatch.setattr(Reader, "read", counted)
    monkeypatch.setattr(kept_embeddings, "_kept", {})
    return calls


def test_they_are_those_of_the_reader_and_each_text_is_embedded_once(untrained, texts, embedded):
    given = [texts[0], texts[1], texts[0]], [None, None, texts[1]]
    expected = untrained.reader.read(*given).retrieval_embeddings
    embedded.clear()
    for _ in range(2):
        found = embed_once(untrained.reader, "encoder", *given)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    embed_once(untrained.reader, "encoder", texts[:3], [None] * 3)
    assert embedded == [given[0], [texts[2]]]
    assert embed_once(untrained.reader, "encoder", [], []).shape == (0, 32)


def test_another_encoder_or_length_has_its_own(untrained, texts, embedded):
    for fingerprint, max_length in (("one", 64), ("two", 64), ("one", 16), ("one", 64)):
        untrained.model.config.max_length = max_length
        embed_once(untrained.reader, fingerprint, texts[:1], [None])
    assert len(embedded) == 3


def test_the_oldest_go_first(untrained, texts, embedded, monkeypatch):
    monkeypatch.setattr(kept_embeddings, "MOST_TEXTS", 2)
    for i in (0, 1, 2, 2, 1, 0):
        embed_once(untrained.reader, "encoder", [texts[i]], [None])
    assert embedded == [[texts[i]] for i in (0, 1, 2, 0)]
    assert len(kept_embeddings._kept) == 2
