import os

import pytest
import torch

from docsplit_hf.neighbors.estimator.loaded_encoder import encoder_pipeline


def weights(pipe):
    return torch.cat([parameter.flatten() for parameter in pipe.model.parameters()])


def test_each_has_a_pipeline_of_its_own(tiny_checkpoint):
    first, fingerprint = encoder_pipeline(tiny_checkpoint)
    before = weights(first).clone()
    with torch.no_grad():
        next(first.model.parameters()).zero_()
    second, again = encoder_pipeline(tiny_checkpoint)
    assert again == fingerprint and torch.equal(weights(second), before)
    assert second.datastore is None


def test_a_name_and_a_folder_from_elsewhere_are_the_same(tiny_checkpoint, monkeypatch):
    expected = encoder_pipeline(tiny_checkpoint)[1]
    monkeypatch.chdir(tiny_checkpoint.parent)
    assert encoder_pipeline("tiny")[1] == expected


def test_a_folder_that_was_saved_again_is_loaded_again(tiny_checkpoint, tiny_model):
    before = encoder_pipeline(tiny_checkpoint)[1]
    with torch.no_grad():
        next(tiny_model.parameters()).zero_()
    tiny_model.save_pretrained(tiny_checkpoint)
    os.utime(tiny_checkpoint / "model.safetensors")
    assert encoder_pipeline(tiny_checkpoint)[1] != before


def test_a_classifier_is_refused(classifier, tokenizer, tmp_path):
    classifier.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="pass the encoder that it was made from"):
        encoder_pipeline(tmp_path)
