"""The script that makes a trained checkpoint the one that ships, on a small one."""

import json
import sys

import pytest
import torch
from transformers import AutoModelForMaskedLM

from docsplit_hf import AutoModelForDocSplit, DocumentEncoder
from docsplit_hf.pretraining.card import save_sentence_transformers_files

from .conftest import FOLDER


@pytest.fixture
def ship(monkeypatch):
    """Run the script with these options."""
    monkeypatch.syspath_prepend(FOLDER)
    import ship_checkpoint

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["ship_checkpoint.py", *map(str, options)])
        ship_checkpoint.main()

    yield run
    sys.modules.pop("ship_checkpoint")


def save(folder, config, tokenizer, seed, **options):
    torch.manual_seed(seed)
    model = AutoModelForDocSplit.from_config(config, pooling="mean", **options)
    model.config.docsplit["max_length"] = 32
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save_sentence_transformers_files(folder, model.config)
    return model


def test_the_encoder_of_one_and_the_head_of_the_other(ship, tiny_config, tokenizer, texts, tmp_path, capsys):
    start = save(tmp_path / "start", tiny_config, tokenizer, 0)
    trained = save(tmp_path / "trained", tiny_config, tokenizer, 1, mlm_head=False)
    options = (f"--head_from={tmp_path / 'start'}", f"--folder={tmp_path / 'shipped'}", "--max_length=64")
    ship(tmp_path / "trained", *options)
    assert "bytes. Least cosine with the embeddings of" in capsys.readouterr().out
    shipped, info = AutoModelForMaskedLM.from_pretrained(tmp_path / "shipped", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and shipped.dtype == torch.float32
    for name, tensor in shipped.bert.state_dict().items():
        assert tensor.equal(trained.state_dict()[name].half().float())
    for name, tensor in shipped.cls.predictions.transform.state_dict().items():
        assert tensor.equal(start.cls.predictions.transform.state_dict()[name].half().float())
    assert shipped.cls.predictions.decoder.weight is shipped.bert.embeddings.word_embeddings.weight
    encoder = DocumentEncoder.from_pretrained(str(tmp_path / "shipped"))
    assert (encoder.pooling, encoder.max_length) == ("mean", 64)


def test_a_head_for_other_words_is_refused(ship, tiny_config, tokenizer, tmp_path):
    save(tmp_path / "trained", tiny_config, tokenizer, 1, mlm_head=False)
    save(tmp_path / "start", tiny_config, tokenizer, 0)
    path = tmp_path / "start" / "tokenizer.json"
    content = json.loads(path.read_text())
    vocabulary = content["model"]["vocab"]
    a, b = list(vocabulary)[-2:]
    vocabulary[a], vocabulary[b] = vocabulary[b], vocabulary[a]
    path.write_text(json.dumps(content))
    with pytest.raises(SystemExit, match="has another vocabulary than"):
        ship(tmp_path / "trained", f"--head_from={tmp_path / 'start'}", f"--folder={tmp_path / 'shipped'}")
    assert not (tmp_path / "shipped").exists()
