"""From a name to a checkpoint; what it says of itself is tested in test_settings."""

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError
from peft import LoraConfig, get_peft_model

from docsplit_hf import AutoModelForDocSplit, DocumentEncoder
from docsplit_hf.models.checkpoints.checkpoint import find_checkpoint, open_checkpoint
from docsplit_hf.models.checkpoints.shipped_checkpoint import DEFAULT_CHECKPOINT, DEFAULT_FOLDER


def test_a_folder_says_how_it_pools_and_an_adapter_has_no_configuration_of_its_own(tiny_model, tmp_path):
    tiny_model.config.docsplit = {"pooling": "mean", "max_length": 20}
    tiny_model.save_pretrained(tmp_path / "model")
    found = open_checkpoint(tmp_path / "model")
    assert found.path == str(tmp_path / "model") and found.config.model_type == "bert"
    assert (found.pooling, found.max_length, found.is_adapter) == ("mean", 20, False)
    base = AutoModelForDocSplit.from_pretrained(str(tmp_path / "model"))
    get_peft_model(base, LoraConfig(target_modules="all-linear")).save_pretrained(tmp_path / "adapter")
    adapter = open_checkpoint(tmp_path / "adapter")
    assert adapter.is_adapter and adapter.config is None and adapter.pooling is None
    with pytest.raises(OSError, match="adapter' could not be loaded: it is an adapter"):
        AutoModelForDocSplit.from_pretrained(str(tmp_path / "adapter"))


def test_a_folder_here_goes_before_the_checkpoint_that_ships(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_checkpoint(None) == find_checkpoint(DEFAULT_CHECKPOINT) == str(DEFAULT_FOLDER)
    (tmp_path / DEFAULT_CHECKPOINT).mkdir()
    assert find_checkpoint(DEFAULT_CHECKPOINT) == DEFAULT_CHECKPOINT
    assert find_checkpoint(f"me/{DEFAULT_CHECKPOINT}") == f"me/{DEFAULT_CHECKPOINT}"  # on the Hub, maybe


@pytest.mark.parametrize("load", [DocumentEncoder, AutoModelForDocSplit])
@pytest.mark.parametrize(
    "name, error, message",
    [
        ("docsplit-smal-en", FileNotFoundError, "called 'docsplit-small-en'"),
        ("./output/pretrain", FileNotFoundError, "no file or folder './output/pretrain'"),
        ("nobody/nothing", OSError, "'nobody/nothing' could not be loaded: .*Check the spelling"),
    ],
)
def test_a_name_without_a_checkpoint(load, name, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        load.from_pretrained(name)


def test_how_the_hub_is_asked_is_the_same_for_all_files(monkeypatch, tiny_config):
    asked = {}
    package = "docsplit_hf.models.checkpoints"

    def download(_, file, **arguments):
        asked[file] = arguments
        raise LocalEntryNotFoundError(file)

    monkeypatch.setattr(f"{package}.settings.hf_hub_download", download)
    monkeypatch.setattr(
        f"{package}.checkpoint.AutoConfig.from_pretrained",
        lambda _, **arguments: asked.update({"config.json": arguments}) or tiny_config,
    )
    given = {"revision": "v1", "token": "secret", "cache_dir": "elsewhere"}
    assert open_checkpoint("me/model", **given)[3:] == (None, None, False)
    assert len(asked) == 5 and all(given.items() <= arguments.items() for arguments in asked.values())
