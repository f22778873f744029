import numpy as np
import pytest

from docsplit_hf.evaluation.systems import TfidfSystem
from experiments.evaluation.systems import load_system
from experiments.systems import ALL_SYSTEMS_WITHOUT_ENCODER, BM25System, with_passages

TRAIN = ["the red fruit on the table", "a grey mineral on a table", "red red wine"]


def test_bm25_by_its_formula():
    k1 = 1.2
    b = 0.75
    tokens = [[word for word in text.split() if len(word) > 1] for text in TRAIN]
    query = "red wine wine on stones"
    mean = np.mean([len(words) for words in tokens])

    def weight(word, words):
        return (k1 + 1) * words.count(word) / (words.count(word) + k1 * (1 - b + b * len(words) / mean))

    def idf(word):
        documents = sum(word in words for words in tokens)
        return np.log(1 + (len(tokens) - documents + 0.5) / (documents + 0.5))

    known = ["red", "wine", "wine", "on"]  # stones are in no training text
    expected = [sum(idf(w) * weight(w, words) * weight(w, known) for w in set(known)) for words in tokens]
    train, test = BM25System().features(TRAIN, [query])
    assert (train @ test.T).toarray()[:, 0] == pytest.approx(expected, rel=1e-5)


def test_bm25_has_its_own_name_and_fingerprint_and_splits_scripts_without_spaces():
    found = load_system("bm25#name=BM25", word_counts=ALL_SYSTEMS_WITHOUT_ENCODER)
    assert found.name == "BM25" and found.fingerprint != TfidfSystem().fingerprint
    features = found.features(["今天天气很好", "今天下雨", "東京タワー visits"])[0]
    assert features.shape[1] == len(set("今天天气很好下雨東京タワー")) + 1


def test_a_system_of_passages_has_their_mean_as_features(tiny_checkpoint, texts):
    long = [" ".join(texts[:6]), texts[7][:20]]
    [reading] = load_system(f"{tiny_checkpoint}#pooling=mean", max_length=32).with_strategies(["passages"])
    system = with_passages(reading)
    [features] = system.features(long)
    [passages] = system.passages(long)
    encoder = system.encoder.encoder
    average = encoder.encode(long, long_documents="average", show_progress=False)  # weighted by tokens, not characters
    assert (features * average).sum(1) == pytest.approx(1, abs=1e-3) and passages.counts[0] > 5
    alone = encoder.encode(long, show_progress=False)[1]
    assert features[1] == pytest.approx(alone, abs=1e-5) and abs(features[0] @ alone) < 0.999
