import json
import os
import subprocess
import sys

from docsplit_hf.models.small_bert import cached_small_bert_tokenizer, small_bert_config

CODE = """
import json, sys
from docsplit_hf.models.small_bert import cached_small_bert_tokenizer
print(json.dumps(cached_small_bert_tokenizer(json.loads(sys.argv[1]), vocab_size=200).get_vocab()))
"""


def test_processes_share_one_vocabulary(texts, tmp_path):
    environment = {**os.environ, "HF_HOME": str(tmp_path)}
    started = [
        subprocess.Popen([sys.executable, "-c", CODE, json.dumps(texts)], stdout=subprocess.PIPE, env=environment)
        for _ in range(2)
    ]
    first, second = (json.loads(process.communicate(timeout=100)[0].splitlines()[-1]) for process in started)
    assert first == second and len(first) <= 200
    assert len(list((tmp_path / "docsplit_hf").iterdir())) == 1


def test_other_texts_get_another_vocabulary(texts):
    other = cached_small_bert_tokenizer(["entirely different words"], vocab_size=60)
    assert other.get_vocab() != cached_small_bert_tokenizer(texts, vocab_size=60).get_vocab()
    assert small_bert_config(other).vocab_size == len(other)
