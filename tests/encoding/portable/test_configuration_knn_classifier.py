import json

import pytest
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig

from docsplit_hf import KNNClassifierConfig


@pytest.fixture
def config(tiny_config):
    return KNNClassifierConfig(encoder_config=tiny_config, num_labels=3)


def test_a_configuration_is_loaded_as_saved(config, tmp_path):
    config.k = 8
    config.knn_temperature = 1
    config.knn_weight = 0.25
    config.max_length = 32
    config.save_pretrained(tmp_path)
    again = AutoConfig.from_pretrained(tmp_path)
    assert again.to_dict() | {"_name_or_path": ""} == config.to_dict() and again.knn_temperature == 1


@pytest.mark.parametrize(
    "change, message",
    [
        ({"k": "abc"}, "'k' expected int, got str"),
        ({"k": 0}, "'k':.*must be 1 or above, got 0"),
        ({"max_length": -3}, "'max_length':.*must be 1 or above, got -3"),
        ({"max_length": 12.5}, "'max_length' with value 12.5"),
        ({"retrieval_dimension": 0}, "must be 1 or above, got 0"),
        ({"knn_temperature": -1.0}, "must be a number above 0, got -1.0: calibrate"),
        ({"knn_temperature": float("nan")}, "must be a number above 0, got nan"),
        ({"knn_weight": 2.0}, "'knn_weight':.*from 0 to 1, got 2.0"),
        ({"decouple": "no"}, "'decouple' expected bool, got str"),
        ({"knn_calibration": [1]}, "'knn_calibration' with value"),
        ({"knn_temprature": 3.0}, "no 'knn_temprature'. Did you mean 'knn_temperature'"),
        ({"id2label": {"0": "a", "2": "b"}}, "numbers from 0 to 1"),
    ],
)
def test_values_from_a_file_are_checked(config, change, message, tmp_path):
    config.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises((StrictDataclassError, ValueError), match=f"(?s){message}"):
        AutoConfig.from_pretrained(tmp_path)


def test_assigned_values_are_checked(config):
    with pytest.raises(StrictDataclassError, match="must be 1 or above"):
        config.k = 0
