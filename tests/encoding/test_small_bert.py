import json

import pytest

from docsplit_hf.encoding.small_bert import cached_small_bert_tokenizer, small_bert_config

from ..end_to_end.forked import finish_script, start_script

SCRIPT = """
import json, sys
from huggingface_hub import constants
from docsplit_hf.encoding.small_bert import cached_small_bert_tokenizer
constants.HF_HOME = sys.argv[1]
print(json.dumps(cached_small_bert_tokenizer(json.loads(sys.argv[2]), vocab_size=200).get_vocab()))
"""


@pytest.mark.slow
def test_processes_share_one_vocabulary(server, texts, tmp_path, monkeypatch):
    script, home, log = (tmp_path / name for name in ("script.py", "home", "log"))
    script.write_text(SCRIPT)
    process = start_script(script, home, json.dumps(texts), log=log)
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(home))
    first = cached_small_bert_tokenizer(texts, vocab_size=200).get_vocab()
    assert first == json.loads(finish_script(process, log).splitlines()[-1]) and len(first) <= 200
    assert len(list((home / "docsplit_hf").iterdir())) == 1


def test_other_texts_get_another_vocabulary(texts):
    other = cached_small_bert_tokenizer(["entirely different words"], vocab_size=60)
    assert other.get_vocab() != cached_small_bert_tokenizer(texts, vocab_size=60).get_vocab()
    assert small_bert_config(other).vocab_size == len(other)
