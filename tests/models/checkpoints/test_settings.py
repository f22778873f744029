"""Tests of what a checkpoint says of itself: it comes from others, and is not to be believed unread."""

import json

import pytest
from transformers import BertConfig

from docsplit_hf.models.checkpoints.settings import checkpoint_settings, module_folders


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.mark.parametrize(
    "file, content, message",
    [
        ("modules.json", '{"0": ', "modules.json of .* is not JSON: .*Download it again"),
        ("modules.json", {"type": "Pooling"}, "modules.json of .* holds a dict instead of a list"),
        ("modules.json", ["Pooling"], "holds 'Pooling' where a module should be"),
        ("modules.json", [{"type": "Pooling", "path": "../1_Pooling"}], "keeps its Pooling in '../1_Pooling'"),
        ("1_Pooling/config.json", ["mean"], "1_Pooling/config.json of .* holds a list instead of a dict"),
        ("sentence_bert_config.json", [512], "holds a list instead of a dict"),
        ("sentence_bert_config.json", {"max_seq_length": "512"}, "max_seq_length='512', which is no length"),
        ("sentence_bert_config.json", {"max_seq_length": -1}, "max_seq_length=-1, which is no length"),
    ],
)
def test_files_that_do_not_hold_what_they_should(tmp_path, file, content, message):
    write(tmp_path, file, content)
    with pytest.raises(ValueError, match=message):
        checkpoint_settings(str(tmp_path), None, with_projection=True)


def test_modules_in_another_order_than_here(tmp_path):
    def modules(*kinds):
        content = [{"type": f"models.{kind}", "path": f"{i}_{kind}"} for i, kind in enumerate(kinds)]
        write(tmp_path, "modules.json", content)
        return checkpoint_settings(str(tmp_path), None, with_projection=True)

    assert modules("Transformer", "Pooling", "Dense", "Dense", "Normalize") == {}
    assert module_folders(str(tmp_path), "Dense") == ["2_Dense", "3_Dense"]
    assert modules("Transformer", "Pooling", "Normalize", "Dense", "Normalize") == {}
    with pytest.raises(ValueError, match="Transformer, Pooling, Dense, Normalize, Dense, in this order"):
        modules("Transformer", "Pooling", "Dense", "Normalize", "Dense")


@pytest.mark.parametrize(
    "docsplit, message",
    [
        ({"pooling": "mean", "max_lenght": 64}, "config.docsplit of .* has .max_lenght., and knows"),
        ({"pooling": "mean", "max_length": "64"}, "config.docsplit of .* has max_length='64', which is no length"),
        ({"pooling": "mean", "max_length": -3}, "max_length=-3, which is no length"),
    ],
)
def test_a_configuration_that_does_not_hold_what_it_should(docsplit, message):
    with pytest.raises(ValueError, match=message):
        checkpoint_settings("any name", BertConfig(docsplit=docsplit))
