import copy

import pytest
from transformers import BertConfig, DistilBertConfig

from docsplit_hf.models.checkpoints.configuration import override_config


def test_a_changed_copy():
    config = BertConfig(docsplit={"pooling": "mean", "max_length": 9})
    before = copy.deepcopy(config)
    changed = override_config(config, {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0.3})
    assert (changed.hidden_dropout_prob, changed.attention_probs_dropout_prob) == (0, 0.3)
    assert config.to_dict() == before.to_dict()
    changed.hidden_dropout_prob = changed.attention_probs_dropout_prob = 0.1
    assert changed.to_dict() == before.to_dict()


def test_the_other_name_of_a_setting():
    assert override_config(DistilBertConfig(), {"hidden_size": 24}).dim == 24


@pytest.mark.parametrize(
    "overrides, message",
    [
        ({"hidden_dropout": 0.1}, "'bert' has no setting 'hidden_dropout'. Did you mean hidden_dropout_prob"),
        ({"attention_dropout": 0.1}, "'attention_dropout'. Did you mean attention_probs_dropout_prob"),
        ({"docsplit": {}}, "no setting 'docsplit'"),  # --pooling and --max_length set it
        ({"dtype": "float16"}, "no setting 'dtype'"),
        ({"xyzzy": 1}, "no setting 'xyzzy'. It has .*hidden_dropout_prob, "),
        ({"hidden_dropout_prob": "0.1"}, "hidden_dropout_prob='0.1', which does not fit: .*expected float"),
        ([0.1], r"a dictionary such as .*got \[0.1\]"),
    ],
)
def test_settings_that_there_are_not(overrides, message):
    with pytest.raises(ValueError, match=message):
        override_config(BertConfig(docsplit={}), overrides)
