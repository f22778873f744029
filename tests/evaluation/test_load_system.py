import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docsplit_hf import DocumentEncoder
from docsplit_hf.evaluation.load_system import EncoderSystem, TfidfSystem, load_system

TRAIN = ["the red fruit on the table", "a grey mineral on a table", "red red wine"]


def test_tfidf_is_fitted_on_the_training_texts_alone():
    train, test = TfidfSystem().features(TRAIN, ["red mineral unknown"])
    alone = TfidfSystem().features(TRAIN)[0]
    assert (train != alone).nnz == 0 and train.dtype == np.float32
    assert np.sqrt(train.multiply(train).sum(1)) == pytest.approx(1, abs=1e-6)
    assert (test @ train.T).toarray()[0].min() > 0 and test.nnz == 2


def test_words_of_scripts_without_spaces_are_found():
    texts = ["今天天气很好", "今天下雨", "東京タワー visits"]
    train = TfidfSystem().features(texts)[0]
    similarities = (train @ train.T).toarray()
    assert similarities[0, 1] > 0.1 and similarities[0, 2] == 0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(), max_size=4))
def test_any_text_has_features(texts):
    train, test = TfidfSystem().features(TRAIN, texts or [""])
    assert test.shape == (max(len(texts), 1), train.shape[1]) and np.isfinite(test.data).all()


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


def test_names_that_are_none():
    with pytest.raises(ValueError, match="no system 'TF-IDF'. Did you mean 'tfidf'"):
        load_system("TF-IDF")
    with pytest.raises(ValueError, match="tfidf has no options but name"):
        load_system("tfidf#pooling=mean")
    with pytest.raises(OSError, match=r"'nobody/no-such-model' could not be loaded.* A system is tfidf, a folder"):
        load_system("nobody/no-such-model")
    assert load_system("tfidf#name=words").name == "words"
