"""The checkpoint that ships: what is in its folder, and what loads it where no model is named."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import pipeline

from docsplit_hf import (
    AutoModelForDocSplit,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DocumentEncoder,
    KNNClassifier,
    __version__,
    default_checkpoint,
    load_system,
    segment_documents,
)
from docsplit_hf.models.checkpoints.shipped_checkpoint import DEFAULT_CHECKPOINT, DEFAULT_FOLDER


def test_its_folder_is_small_and_holds_what_loading_needs():
    files = {str(path.relative_to(DEFAULT_FOLDER)): path for path in DEFAULT_FOLDER.rglob("*") if path.is_file()}
    assert set(files) == {
        "1_Pooling/config.json", "README.md", "config.json", "model.safetensors", "modules.json",
        "sentence_bert_config.json", "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip
    assert sum(path.stat().st_size for path in files.values()) <= 16_000_000
    for name, path in files.items():
        if name not in ("model.safetensors", "README.md"):
            json.loads(path.read_text())


def test_it_is_float16_on_disk_and_float32_in_training():
    assert {tensor.dtype for tensor in load_file(DEFAULT_FOLDER / "model.safetensors").values()} == {torch.float16}
    model = AutoModelForDocSplit.from_pretrained()
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    classifier = KNNClassifier.from_encoder(num_labels=2)
    assert {parameter.dtype for parameter in classifier.parameters()} == {torch.float32}


def test_none_and_its_name_are_the_same(texts):
    expected = DocumentEncoder.from_pretrained(default_checkpoint()).encode(texts[:3], show_progress=False)
    for encoder in (
        DocumentEncoder.from_pretrained(),
        DocumentEncoder.from_pretrained(DEFAULT_CHECKPOINT),
        load_system(DEFAULT_CHECKPOINT).encoder,
    ):
        assert (encoder.encode(texts[:3], show_progress=False) == expected).all()
        assert repr(encoder).startswith(f"DocumentEncoder('{DEFAULT_CHECKPOINT}', ")


def test_an_installation_without_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "docsplit_hf.models.checkpoints.shipped_checkpoint.DEFAULT_FOLDER", tmp_path / DEFAULT_CHECKPOINT
    )
    with pytest.raises(FileNotFoundError, match="install docsplit_hf again"):
        DocumentEncoder.from_pretrained()


def test_the_pipeline_without_a_model_becomes_a_classifier(texts, tmp_path, transformers_log):
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


def test_an_adapter_on_it_names_it_and_finds_it(texts, tmp_path):
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
