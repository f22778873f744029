import subprocess
import sys

import docsplit_hf


def test_importing_loads_nothing_heavy():
    """Beside what transformers loads for a pipeline of its own."""
    heavy = ("faiss", "pysbd", "datasets", "peft", "sklearn", "pyarrow", "accelerate", "matplotlib")
    code = f"""
import sys
from transformers import Pipeline, PreTrainedModel
before = set(sys.modules)
import docsplit_hf, docsplit_hf.text.segmentation.sentences
print([name for name in {heavy} if name in set(sys.modules) - before])
from docsplit_hf import KNNClassifierPipeline, KNNDatastore
print([name for name in ("pymilvus", "grpc", "openai", "faiss", "pyarrow", "datasets") if name in sys.modules])"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split() == ["[]", "[]"]


def test_every_public_name_is_there():
    for name in docsplit_hf.__all__:
        assert getattr(docsplit_hf, name).__doc__
    assert set(docsplit_hf.__all__) == set(docsplit_hf._MODULE_OF_NAME) <= set(dir(docsplit_hf))
