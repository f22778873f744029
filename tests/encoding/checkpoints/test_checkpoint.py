"""Checkpoints by name, the checkpoint that ships, and the class by which pipeline loads an encoder."""

import copy
import json
import os
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from peft import LoraConfig, get_peft_model
from transformers import AutoModel, BertConfig, BertModel, DistilBertConfig, pipeline

from docsplit_hf import (
    AutoModelForDocSplit,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DocumentEncoder,
    KNNClassifier,
    KNNClassifierConfig,
    __version__,
    default_checkpoint,
    load_system,
    segment_documents,
)
from docsplit_hf.encoding.checkpoints.checkpoint import (
    DEFAULT_CHECKPOINT,
    DEFAULT_FOLDER,
    AutoModelWithoutHead,
    find_checkpoint,
    open_checkpoint,
    override_config,
)


def test_a_folder_states_its_pooling_and_an_adapter_has_no_configuration(tiny_model, tmp_path):
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


def test_a_local_folder_takes_precedence_over_the_shipped_checkpoint(tmp_path, monkeypatch):
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
        (
            "nobody/nothing",
            OSError,
            "'nobody/nothing' could not be loaded: .*Without a network here, run 'hf download nobody/",
        ),
    ],
)
def test_a_name_without_a_checkpoint(load, name, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        load.from_pretrained(name)


def test_all_files_are_requested_from_the_hub_with_the_same_arguments(monkeypatch, tiny_config):
    asked = {}
    package = "docsplit_hf.encoding.checkpoints"

    def download(_, file, **arguments):
        asked[file] = arguments
        raise LocalEntryNotFoundError(file)

    monkeypatch.setattr(f"{package}.sentence_transformers_files.hf_hub_download", download)
    monkeypatch.setattr(
        f"{package}.checkpoint.AutoConfig.from_pretrained",
        lambda _, **arguments: asked.update({"config.json": arguments}) or tiny_config,
    )
    monkeypatch.setattr(
        f"{package}.checkpoint.PretrainedConfig.get_config_dict",
        lambda _, **arguments: asked.update({"before": arguments}) or ({}, {}),
    )
    checkpoint = open_checkpoint("me/model", revision="v1", token="secret", cache_dir="elsewhere")
    assert checkpoint.pooling is None and checkpoint.max_length is None and not checkpoint.is_adapter
    expected = {"revision": "v1", "token": "secret", "cache_dir": "elsewhere"}
    assert len(asked) == 6 and all(expected.items() <= arguments.items() for arguments in asked.values())


def test_the_shipped_folder_is_small_and_complete():
    files = {str(path.relative_to(DEFAULT_FOLDER)): path for path in DEFAULT_FOLDER.rglob("*") if path.is_file()}
    assert set(files) == {
        "1_Pooling/config.json", "README.md", "config.json", "model.safetensors", "modules.json",
        "sentence_bert_config.json", "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip
    assert sum(path.stat().st_size for path in files.values()) <= 25_000_000
    for name, path in files.items():
        if name not in ("model.safetensors", "README.md"):
            json.loads(path.read_text())


def test_none_and_the_default_name_load_the_same_checkpoint(texts):
    expected = DocumentEncoder.from_pretrained(default_checkpoint()).encode(texts[:3], show_progress=False)
    for encoder in (
        DocumentEncoder.from_pretrained(),
        DocumentEncoder.from_pretrained(DEFAULT_CHECKPOINT),
        load_system(DEFAULT_CHECKPOINT).encoder,
    ):
        assert (encoder.encode(texts[:3], show_progress=False) == expected).all()
        assert repr(encoder).startswith(f"DocumentEncoder('{DEFAULT_CHECKPOINT}', ")


def test_an_installation_without_the_checkpoint_raises(tmp_path, monkeypatch):
    monkeypatch.setattr("docsplit_hf.encoding.checkpoints.checkpoint.DEFAULT_FOLDER", tmp_path / DEFAULT_CHECKPOINT)
    with pytest.raises(FileNotFoundError, match="install docsplit_hf again"):
        DocumentEncoder.from_pretrained()


def test_the_pipeline_without_a_model_becomes_a_classifier(texts, tmp_path, transformers_log):
    texts = texts[:12]
    pipe = pipeline("docsplit-knn", device="cpu")
    (notice,) = transformers_log.records  # and no report of weights that would have to be trained
    assert notice.levelname == "INFO" and notice.getMessage() == (
        f"No model was given: docsplit-knn uses docsplit-small-en, which ships with docsplit_hf {__version__}."
    )
    with pytest.raises(ValueError, match=r"call add_examples\(texts, labels\)") as empty:
        pipe(texts[0])
    assert "text-classification" not in str(empty.value)  # which would classify with random weights
    names = ["river" if "river" in text else "other" for text in texts]
    pipe.add_examples(texts, names)
    assert [answer["label"] for answer in pipe(list(texts), k=1)] == names
    pipe.save_pretrained(tmp_path / "saved")
    assert not mentions_of_its_folder(tmp_path / "saved")
    card = (tmp_path / "saved" / "README.md").read_text()
    assert f"base_model: {DEFAULT_CHECKPOINT}" in card
    again = pipeline("docsplit-knn", model=str(tmp_path / "saved"), device="cpu")
    assert again(list(texts), k=1) == pipe(list(texts), k=1)


def test_an_adapter_on_the_default_names_it_and_loads_it(texts, tmp_path):
    import peft
    from datasets import Dataset
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(default_checkpoint())
    model = AutoModelForDocSplit.from_pretrained()
    model = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False))
    arguments = ContrastiveTrainingArguments(str(tmp_path), use_cpu=True, max_steps=1, per_device_train_batch_size=4)
    documents = segment_documents(Dataset.from_dict({"text": texts}), tokenizer)
    trainer = ContrastiveTrainer(model, arguments, documents, processing_class=tokenizer)
    trainer.train()
    trainer.save_model()
    assert not mentions_of_its_folder(tmp_path)
    assert json.loads((tmp_path / "adapter_config.json").read_text())["base_model_name_or_path"] == DEFAULT_CHECKPOINT
    card = (tmp_path / "README.md").read_text()
    assert f"base_model: {DEFAULT_CHECKPOINT}" in card and f"| Starting point | {DEFAULT_CHECKPOINT} |" in card
    assert "base = AutoModelForMaskedLM.from_pretrained(default_checkpoint())" in card
    adapted = DocumentEncoder.from_pretrained(str(tmp_path)).encode(texts[:2], show_progress=False)
    merged = DocumentEncoder(trainer.model.merge_and_unload().base_model, tokenizer, "mean")
    assert adapted == pytest.approx(merged.encode(texts[:2], show_progress=False), abs=1e-5)
    assert abs(adapted - DocumentEncoder.from_pretrained().encode(texts[:2], show_progress=False)).max() > 1e-3


def mentions_of_its_folder(folder):
    """The files with the path of the checkpoint in them: of where this package is installed."""
    path = os.fsencode(DEFAULT_FOLDER)
    return [file for file in Path(folder).rglob("*") if file.is_file() and path in file.read_bytes()]


def test_the_encoder_of_a_masked_lm_without_a_report(tiny_checkpoint, tiny_model, transformers_log):
    encoder = AutoModelWithoutHead.from_pretrained(tiny_checkpoint)
    assert type(encoder) is BertModel and encoder.pooler is None and "REPORT" not in transformers_log.text
    for name, tensor in tiny_model.base_model.state_dict().items():
        assert encoder.state_dict()[name].equal(tensor)
    AutoModel.from_pretrained(tiny_checkpoint)
    assert "UNEXPECTED" in transformers_log.text  # what it is for, as long as transformers does so


def test_other_models_load_as_by_auto_model(tiny_config, tmp_path):
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
def test_float16_on_a_cpu_only_if_requested(tiny_model, tmp_path, monkeypatch, accelerator, dtype, expected):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: accelerator)
    tiny_model.half().save_pretrained(tmp_path)
    assert AutoModelWithoutHead.from_pretrained(tmp_path, **dtype).dtype == expected


def test_the_revision_is_kept_for_the_other_files(tiny_checkpoint):
    assert AutoModelWithoutHead.from_pretrained(tiny_checkpoint, revision="abc").loaded_revision == "abc"


def test_override_config_changes_a_copy():
    config = BertConfig(docsplit={"pooling": "mean", "max_length": 9})
    before = copy.deepcopy(config)
    changed = override_config(config, {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0.3})
    assert (changed.hidden_dropout_prob, changed.attention_probs_dropout_prob) == (0, 0.3)
    assert config.to_dict() == before.to_dict()
    changed.hidden_dropout_prob = changed.attention_probs_dropout_prob = 0.1
    assert changed.to_dict() == before.to_dict()


def test_an_alias_of_a_setting_is_accepted():
    assert override_config(DistilBertConfig(), {"hidden_size": 24}).dim == 24


@pytest.mark.parametrize(
    "overrides, message",
    [
        ({"hidden_dropout": 0.1}, "'bert' has no setting 'hidden_dropout'. Did you mean hidden_dropout_prob"),
        ({"attention_dropout": 0.1}, "'attention_dropout'. Did you mean attention_probs_dropout_prob"),
        ({"docsplit": {}}, "no setting 'docsplit'"),  # --pooling and --max_length set it
        ({"dtype": "float16"}, "no setting 'dtype'"),
        ({"xyzzy": 1}, "no setting 'xyzzy'. It has .*hidden_dropout_prob, "),
        ({"hidden_dropout_prob": "0.1"}, "hidden_dropout_prob='0.1', which is not allowed: .*expected float"),
        ([0.1], r"a dictionary such as .*got \[0.1\]"),
    ],
)
def test_unknown_settings_are_refused(overrides, message):
    with pytest.raises(ValueError, match=message):
        override_config(BertConfig(docsplit={}), overrides)
