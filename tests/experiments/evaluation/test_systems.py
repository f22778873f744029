"""Encoders with a cache of embeddings, and TF-IDF."""

import logging
import os

import numpy as np
import pytest
from transformers import BertModel

from docsplit_hf import DocumentEncoder
from docsplit_hf.encoding.backends.endpoint_encoder import EndpointEncoder
from docsplit_hf.evaluation.systems import EncoderWithOptions, TfidfSystem
from experiments.evaluation import systems
from experiments.evaluation.systems import EncoderSystem, cached_embeddings, load_system

TRAIN = ["the red fruit on the table", "a grey mineral on a table", "red red wine"]


def test_tfidf_is_fitted_on_the_training_texts_only():
    train, test = TfidfSystem().features(TRAIN, ["red mineral unknown"])
    alone = TfidfSystem().features(TRAIN)[0]
    assert (train != alone).nnz == 0 and train.dtype == np.float32
    assert np.sqrt(train.multiply(train).sum(1)) == pytest.approx(1, abs=1e-6)
    assert (test @ train.T).toarray()[0].min() > 0 and test.nnz == 2


def test_an_encoder_is_a_system_with_a_cache(tiny_checkpoint, texts, tmp_path, monkeypatch):
    name = f"{tiny_checkpoint}#pooling=mean# name = Tiny"
    system = load_system(name, cache_folder=tmp_path, max_length=32)
    assert isinstance(system, EncoderSystem) and system.name == "Tiny" and system.encoder.pooling == "mean"
    train, test = system.features(texts[:7], texts[7:9])
    assert train.shape == (7, 32) and test.shape == (2, 32)
    assert test == pytest.approx(system.encoder.encode(texts[7:9], show_progress=False), abs=1e-5)
    monkeypatch.setattr(DocumentEncoder, "encode", None)  # nothing is embedded again
    again = load_system(name, cache_folder=tmp_path, max_length=32)
    assert again.fingerprint == system.fingerprint
    assert again.features(texts[:7], texts[7:9])[0].tobytes() == train.tobytes()
    assert load_system(str(tiny_checkpoint), max_length=32).name == str(tiny_checkpoint)


def test_unknown_systems_and_options_are_refused():
    with pytest.raises(ValueError, match="no system 'TF-IDF'. Did you mean 'tfidf'"):
        load_system("TF-IDF")
    with pytest.raises(ValueError, match="tfidf has no options but name"):
        load_system("tfidf#pooling=mean")
    with pytest.raises(OSError, match=r"'nobody/no-such-model' could not be loaded.* A system is tfidf, a folder"):
        load_system("nobody/no-such-model")
    assert load_system("tfidf#name=words").name == "words"


def test_precision_and_long_documents_are_part_of_the_fingerprint(tiny_checkpoint, texts):
    name = str(tiny_checkpoint)
    plain = load_system(name).encoder
    short = load_system(name, max_length=20).encoder
    bf16 = load_system(name, bf16=True).encoder
    average = load_system(name, max_length=20, long_documents="average").encoder
    assert load_system(name).encoder.fingerprint == plain.fingerprint
    assert len({encoder.fingerprint for encoder in (plain, short, bf16, average)}) == 4
    assert isinstance(bf16, EncoderWithOptions) and "bf16=True" in repr(bf16)
    long = [" ".join(texts)]
    assert abs(average.encode(long, show_progress=False) - short.encode(long, show_progress=False)).max() > 1e-3
    assert average.encode(long, show_progress=False) == pytest.approx(
        short.encode(long, show_progress=False, long_documents="average"), abs=1e-6
    )


def test_an_address_loads_an_endpoint_encoder(caplog):
    name = "http://localhost:8000/v1#org/model#max_characters=100#key_variable=MY_KEY"
    encoder = load_system(name, max_length=512).encoder
    assert isinstance(encoder, EndpointEncoder) and encoder.model == "org/model"
    assert (encoder.max_characters, encoder.key_variable) == (100, "MY_KEY")
    assert "is an endpoint: max_length, bf16 and long_documents have no effect" in caplog.text
    with pytest.raises(ValueError, match="max_characters must be a number, got 'many'"):
        load_system("http://localhost:8000/v1#model#max_characters=many")
    with pytest.raises(ValueError, match="has the option 'prompt'; allowed are: model, key_variable"):
        load_system("http://localhost:8000/v1#model#prompt=Represent:")


class CountingEncoder:
    """Counts what it embeds."""

    def __init__(self, fingerprint="one"):
        self.fingerprint = fingerprint
        self.embedded = 0
        self.dimension = 3

    def encode(self, texts, show_progress=True):
        self.embedded += len(texts)
        return np.array([np.random.default_rng(len(t)).standard_normal(self.dimension) for t in texts], np.float32)


TEXTS = [f"text number {'x' * n}" for n in range(25)]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch, caplog):
    monkeypatch.setattr(systems, "CHUNK", 10)
    caplog.set_level(logging.INFO)


def test_the_second_run_embeds_nothing(tmp_path, caplog):
    encoder = CountingEncoder()
    first = cached_embeddings(encoder, TEXTS, tmp_path / "new" / "folder")
    assert first == pytest.approx(encoder.encode(TEXTS)) and first.dtype == np.float32
    again = CountingEncoder()
    assert cached_embeddings(again, TEXTS, tmp_path / "new" / "folder").tobytes() == first.tobytes()
    assert again.embedded == 0
    assert "25 of 25 embeddings of" in caplog.text
    assert len(list((tmp_path / "new" / "folder").iterdir())) == 3
    assert cached_embeddings(encoder, [], tmp_path).size == 0
    for _ in range(2):
        cached_embeddings(again, TEXTS, None)  # without a folder nothing is kept
    assert again.embedded == 50


def test_truncation_is_logged_once_with_the_totals_of_all_chunks(tiny_config, tokenizer, texts, caplog):
    encoder = DocumentEncoder(BertModel(tiny_config), tokenizer, max_length=32)
    encoder.encode(texts, show_progress=False)
    [expected] = [record.message for record in caplog.records if "longer than 32 tokens" in record.message]
    caplog.clear()
    cached_embeddings(encoder, texts, None)
    assert [record.message for record in caplog.records if "longer than" in record.message] == [expected]


def test_another_encoder_or_text_misses_the_cache(tmp_path):
    cached_embeddings(CountingEncoder(), TEXTS, tmp_path)
    changed_texts = [*TEXTS[:3], "another", *TEXTS[4:]]
    for fingerprint, texts, embedded in (("two", TEXTS, 25), ("one", changed_texts, 10), ("one", TEXTS[1:], 24)):
        encoder = CountingEncoder(fingerprint)
        cached_embeddings(encoder, texts, tmp_path)
        assert encoder.embedded == embedded
    for texts in (["ab", "c"], ["a", "bc"]):  # the same characters, split elsewhere
        encoder = CountingEncoder()
        cached_embeddings(encoder, texts, tmp_path)
        assert encoder.embedded == 2


@pytest.mark.parametrize("damage", ["cut", "flipped", "other_rows", "no_checksum"])
def test_a_damaged_file_is_noticed_and_replaced(tmp_path, damage, caplog):
    from safetensors.numpy import save_file

    first = cached_embeddings(CountingEncoder(), TEXTS, tmp_path)
    path = sorted(tmp_path.iterdir())[0]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    if damage == "other_rows":
        save_file({"embeddings": first[:2]}, path, {"sha256": systems._checksum(first[:2])})
    elif damage == "no_checksum":
        save_file({"embeddings": first[:10]}, path)
    else:
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else data)
    encoder = CountingEncoder()
    for _ in range(2):
        assert cached_embeddings(encoder, TEXTS, tmp_path).tobytes() == first.tobytes()
        assert encoder.embedded in (5, 10) and "is damaged" in caplog.text


def test_nan_names_the_model_and_the_text(tmp_path):
    encoder = CountingEncoder()
    embeddings = encoder.encode(TEXTS)
    embeddings[13, 1] = np.nan
    chunks = iter([embeddings[:10], embeddings[10:20]])
    encoder.encode = lambda texts, show_progress: next(chunks)
    with pytest.raises(ValueError, match="CountingEncoder.* gives NaN .* 1 of 10 texts.* text 13: 'text number xxx"):
        cached_embeddings(encoder, TEXTS, tmp_path)
    assert len(list(tmp_path.iterdir())) == 1  # the chunk before is kept, the broken one is not


def test_an_encoder_that_changes_under_the_same_fingerprint_is_refused(tmp_path):
    encoder = CountingEncoder()
    cached_embeddings(encoder, TEXTS[:10], tmp_path)
    encoder.dimension = 4
    with pytest.raises(ValueError, match="gives 4 dimensions after 3"):
        cached_embeddings(encoder, TEXTS, tmp_path)
    encoder.encode = lambda texts, show_progress: np.zeros((1, 3), np.float32)
    with pytest.raises(ValueError, match="gives 1 embeddings for 10 texts"):
        cached_embeddings(encoder, TEXTS, None)


class InterruptionError(Exception):
    pass


@pytest.mark.parametrize("place", ["embedding", "writing"])
def test_an_interrupted_run_continues_from_its_finished_chunks(tmp_path, monkeypatch, place):
    """In tests/end_to_end a real process is killed with SIGKILL."""
    encoder = CountingEncoder()
    target = encoder if place == "embedding" else os
    name = "encode" if place == "embedding" else "replace"
    original = getattr(target, name)
    calls = []

    def fail_at_the_third_call(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 3:
            raise InterruptionError
        return original(*arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(target, name, fail_at_the_third_call)
        with pytest.raises(InterruptionError):
            cached_embeddings(encoder, TEXTS, tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) == 2
    (tmp_path / "of-a-killed-process.tmp").write_bytes(b"half of a file")
    again = CountingEncoder()
    assert cached_embeddings(again, TEXTS, tmp_path) == pytest.approx(CountingEncoder().encode(TEXTS))
    assert again.embedded == 5
