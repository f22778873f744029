import json

import pytest
from transformers import BertConfig

from docsplit_hf.models.checkpoints.sentence_transformers_files import save_sentence_transformers_files


@pytest.mark.parametrize("pooling", ["cls", "mean", "max", "last"])
def test_sentence_transformers_reads_the_settings(pooling, tiny_config, tokenizer, texts, tmp_path):
    from sentence_transformers import SentenceTransformer
    from transformers import BertModel

    from docsplit_hf import DocumentEncoder

    model = BertModel(tiny_config)
    model.config.docsplit = {"pooling": pooling, "max_length": 20}
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    save_sentence_transformers_files(tmp_path, model.config)
    expected = SentenceTransformer(str(tmp_path), device="cpu").encode(texts[:7])
    encoder = DocumentEncoder.from_pretrained(str(tmp_path))
    assert (encoder.pooling, encoder.max_length) == (pooling, 20)
    assert encoder.encode(texts[:7], show_progress=False) == pytest.approx(expected, abs=1e-5)


def test_beside_an_adapter_only_the_settings_are_written(tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    config = BertConfig(docsplit={"pooling": "last", "max_length": 9})
    save_sentence_transformers_files(tmp_path, config)
    assert not (tmp_path / "modules.json").exists()
    assert json.loads((tmp_path / "1_Pooling" / "config.json").read_text())["pooling_mode_lasttoken"] is True
