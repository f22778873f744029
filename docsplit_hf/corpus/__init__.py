"""Blocks of datatrove: a corpus of any size into sentences, or into shards of embeddings."""

import importlib.util

if importlib.util.find_spec("datatrove") is None:
    raise ModuleNotFoundError("docsplit_hf.corpus runs in datatrove: pip install 'docsplit_hf[datatrove]'")
