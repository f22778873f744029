"""What the pipeline loads a checkpoint by."""

import pytest
import torch
from transformers import AutoModel, BertModel

from docsplit_hf import KNNClassifier, KNNClassifierConfig
from docsplit_hf.models.checkpoints.auto_model_without_head import AutoModelWithoutHead


def test_the_encoder_of_a_masked_lm_without_a_report(tiny_checkpoint, tiny_model, transformers_log):
    encoder = AutoModelWithoutHead.from_pretrained(tiny_checkpoint)
    assert type(encoder) is BertModel and encoder.pooler is None and "REPORT" not in transformers_log.text
    for name, tensor in tiny_model.base_model.state_dict().items():
        assert encoder.state_dict()[name].equal(tensor)
    AutoModel.from_pretrained(tiny_checkpoint)
    assert "UNEXPECTED" in transformers_log.text  # what it is for, as long as transformers does so


def test_all_else_as_auto_model_loads_it(tiny_config, tmp_path):
    for model in (BertModel(tiny_config), KNNClassifier(KNNClassifierConfig(encoder_config=tiny_config, num_labels=2))):
        model.save_pretrained(tmp_path)
        loaded = AutoModelWithoutHead.from_pretrained(tmp_path)
        assert type(loaded) is type(model) and loaded.state_dict().keys() == model.state_dict().keys()


@pytest.mark.parametrize(
    "accelerator, dtype, expected",
    [
        (False, {"dtype": "auto"}, torch.float32),  # as pipeline() passes it on
        (False, {}, torch.float32),
        (False, {"dtype": "float16"}, torch.float16),
        (True, {"dtype": "auto"}, torch.float16),
    ],
)
def test_float16_on_a_cpu_only_if_it_is_asked_for(tiny_model, tmp_path, monkeypatch, accelerator, dtype, expected):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: accelerator)
    tiny_model.half().save_pretrained(tmp_path)
    assert AutoModelWithoutHead.from_pretrained(tmp_path, **dtype).dtype == expected


def test_which_revision_it_is_of_is_kept_for_what_lies_beside_it(tiny_checkpoint):
    assert AutoModelWithoutHead.from_pretrained(tiny_checkpoint, revision="abc").loaded_revision == "abc"
