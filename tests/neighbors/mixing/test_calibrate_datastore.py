"""Calibration on a datastore's own examples and on held-out ones."""

import logging

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModel, BertModel

from docsplit_hf import KNNClassifierPipeline, KNNDatastore
from docsplit_hf.models.inference.reader import Predictions
from docsplit_hf.neighbors.mixing.calibrate_datastore import (
    KnownExamplesError,
    TooFewExamplesError,
    calibrate_leaving_one_out,
    calibrate_on_held_out,
    without_self,
)


def clusters(examples=60, labels=3, dimension=4, seed=0):
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, labels, examples)
    return (rng.normal(size=(labels, dimension))[numbers] + rng.normal(size=(examples, dimension))), numbers.tolist()


def make_datastore(keys, labels, texts=None, **options):
    return KNNDatastore(keys, labels, ["a", "b", "c"], texts=texts, **options)


def predictions(keys):
    return Predictions(np.zeros((len(keys), 0), np.float32), np.asarray(keys, np.float32))


def calibration_of(calibration):
    return calibration.temperature, calibration.weight, calibration.log_likelihood


@pytest.mark.parametrize("index", ["Flat", "HNSW16"])
@pytest.mark.parametrize("noise, with_texts", [(0.0, False), (1e-7, False), (0.01, True)])
def test_examples_that_are_there_twice_are_calibrated_as_if_once(noise, with_texts, index):
    """Twice as many neighbors say the same. Another batch, or bfloat16, makes another embedding of the same text."""
    keys, labels = clusters()
    texts = [f"text {i}" for i in range(60)] if with_texts else None
    once = calibrate_leaving_one_out(make_datastore(keys, labels, texts, index=index))
    again = keys + noise * np.random.default_rng(1).normal(size=keys.shape)
    datastore = make_datastore(np.vstack([keys, again]), labels * 2, texts and texts * 2, index=index)
    twice = calibrate_leaving_one_out(datastore)
    assert once.k > 1 and twice.k == 2 * once.k and twice.examples == 120
    np.testing.assert_allclose(calibration_of(twice), calibration_of(once), rtol=0.01 if noise > 1e-6 else 1e-4)


def test_more_copies_than_neighbors_are_looked_at_are_left_out_too():
    keys, labels = clusters()
    copies = np.repeat(keys[:1], 300, axis=0)
    datastore = make_datastore(np.vstack([keys, copies]), labels + [(labels[0] + 1) % 3] * 300)
    rows = np.arange(1, 60)
    calibration = calibrate_leaving_one_out(datastore, np.append(0, rows))
    assert calibration.examples == 60 and np.isfinite(calibration.log_likelihood)


def test_equal_texts_with_different_pairs_are_different():
    keys, labels = clusters(20)
    pairs = [f"pair {i}" for i in range(20)]
    apart = KNNDatastore(keys, labels, ["a", "b", "c"], texts=["same"] * 20, text_pairs=pairs)
    assert calibrate_leaving_one_out(apart) == calibrate_leaving_one_out(make_datastore(keys, labels))
    with pytest.raises(TooFewExamplesError, match="all the same"):
        calibrate_leaving_one_out(make_datastore(keys, labels, ["same"] * 20))


def test_held_out_texts_that_are_among_the_examples_do_not_count(caplog):
    keys, labels = clusters()
    queries, gold = clusters(20, seed=0)
    queries = queries + 0.5
    datastore = make_datastore(keys, labels, [f"text {i}" for i in range(60)])
    texts = [f"held out {i}" for i in range(20)]
    clean = calibrate_on_held_out(predictions(queries), np.array(gold), datastore, texts)
    with caplog.at_level(logging.WARNING):
        mixed = calibrate_on_held_out(
            predictions(np.vstack([queries, keys[:5], keys[5:10] + 0.1])),
            np.array(gold + labels[:10]),
            datastore,
            texts + [f"same embedding {i}" for i in range(5)] + [f"text {i}" for i in range(5, 10)],
        )
    assert mixed == clean and "10 of 30 held-out texts" in caplog.text
    with pytest.raises(ValueError, match="All 60 held-out texts"):
        calibrate_on_held_out(predictions(keys), np.array(labels), datastore, texts[:1] * 60)
    half = make_datastore(keys, labels, dtype="float16")  # without texts, the embeddings tell, and these are rounded
    with pytest.raises(KnownExamplesError):
        calibrate_on_held_out(predictions(keys), np.array(labels), half, texts[:1] * 60)


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 6))
@settings(deadline=None, max_examples=80)
def test_without_self_the_nearest_others_remain(seed, examples, neighbors):
    is_self = np.random.default_rng(seed).random((examples, neighbors)) < 0.4
    columns = without_self(is_self)
    assert columns.shape == (examples, min((~row).sum() for row in is_self)) and columns.dtype == np.int64
    for kept, row in zip(columns.tolist(), is_self, strict=True):
        assert kept == np.flatnonzero(~row)[: len(kept)].tolist()


def test_calibration_on_held_out_texts_is_kept(pipe, texts, tmp_path):
    held_out = [text + " again" for text in texts[:30]]
    labels = ["engine" if "river" in text else "river" for text in texts[:30]]
    calibration = pipe.calibrate(held_out, labels)
    pipe.save_pretrained(tmp_path)
    config = AutoModel.from_pretrained(tmp_path).config
    assert (config.k, config.knn_temperature, config.knn_weight) == calibration[:3]
    assert config.knn_calibration["source"] == "held-out examples"


def test_a_datastore_given_to_a_plain_encoder_is_calibrated(untrained, tiny_config, tokenizer, texts):
    names = ["river" if "river" in text else "other" for text in texts]
    untrained.add_examples(texts, names)
    torch.manual_seed(0)
    own = {"device": "cpu", "long_documents": "whole"}  # how the datastore was made, the encoder does not say
    again = KNNClassifierPipeline(BertModel(tiny_config), tokenizer, untrained.datastore, **own)
    assert again(list(texts)) == untrained(list(texts))
