"""A released checkpoint has half the bytes and the same embeddings, and loads as float32."""

import json
import sys

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

from benchmarks.release import checkpoint
from benchmarks.release.checkpoint import save_in_half_precision
from docsplit_hf import AutoModelForDocSplit, DocumentEncoder
from docsplit_hf.encoding.checkpoints.sentence_transformers_files import save_sentence_transformers_files


def save(folder, config, tokenizer, seed, **options):
    """Save the files of a training run that matter here."""
    torch.manual_seed(seed)
    model = AutoModelForDocSplit.from_config(config, pooling="mean", **options)
    model.config.docsplit["max_length"] = 32
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save_sentence_transformers_files(folder, model.config)
    (folder / "training_args.json").write_text("{}")
    return model


@pytest.fixture
def trained(tiny_config, tokenizer, tmp_path):
    save(tmp_path / "trained", tiny_config, tokenizer, 0)
    return tmp_path / "trained"


@pytest.fixture
def release(monkeypatch):
    """Run the script with these options."""

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["checkpoint.py", *map(str, options)])
        checkpoint.main()

    return run


def test_half_the_bytes_and_the_same_embeddings_in_float32(trained, texts, tmp_path):
    from sentence_transformers import SentenceTransformer

    least = save_in_half_precision(trained, tmp_path / "half", texts[:9])
    size = (tmp_path / "half" / "model.safetensors").stat().st_size
    before = (trained / "model.safetensors").stat().st_size
    assert 0.9999 < least <= 1.000001 and 0.45 < size / before < 0.6
    assert not (tmp_path / "half" / "training_args.json").exists()
    for auto_class in (AutoModel, AutoModelForMaskedLM, AutoModelForDocSplit):
        assert auto_class.from_pretrained(tmp_path / "half").dtype == torch.float32
    # Exactly the embeddings of the rounded weights, which are near those of the checkpoint.
    rounded = AutoModelForMaskedLM.from_pretrained(trained)
    with torch.no_grad():
        for parameter in rounded.parameters():
            parameter.copy_(parameter.half().float())
    expected = DocumentEncoder(rounded.base_model, AutoTokenizer.from_pretrained(trained), "mean", 32)
    expected = expected.encode(texts, show_progress=False)
    ours = DocumentEncoder.from_pretrained(str(tmp_path / "half")).encode(texts, show_progress=False)
    theirs = SentenceTransformer(str(tmp_path / "half"), device="cpu").encode(texts)
    assert (ours == expected).all() and theirs == pytest.approx(expected, abs=1e-5)


def test_the_tokenizer_has_the_maximum_length_of_the_model_and_no_path_of_this_machine(trained, texts, tmp_path):
    save_in_half_precision(trained, tmp_path / "half", texts[:1])
    saved = json.loads((tmp_path / "half" / "tokenizer_config.json").read_text())
    assert saved["model_max_length"] == 64 and not {"is_local", "local_files_only", "name_or_path"} & set(saved)
    halved = AutoTokenizer.from_pretrained(tmp_path / "half")
    whole = AutoTokenizer.from_pretrained(trained)
    assert halved(texts)["input_ids"] == whole(texts)["input_ids"]
    assert len(halved(" ".join(texts), truncation=True)["input_ids"]) == 64


def test_the_command_reports_the_bytes_and_keeps_the_head(release, trained, tmp_path, capsys):
    release(trained, f"--folder={tmp_path / 'shipped'}", "--max_length=64")
    assert "bytes. Least cosine with the embeddings of" in capsys.readouterr().out
    shipped, info = AutoModelForMaskedLM.from_pretrained(tmp_path / "shipped", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and shipped.dtype == torch.float32
    assert shipped.cls.predictions.decoder.weight is shipped.bert.embeddings.word_embeddings.weight
    encoder = DocumentEncoder.from_pretrained(str(tmp_path / "shipped"))
    assert (encoder.pooling, encoder.max_length) == ("mean", 64)
