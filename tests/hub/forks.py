"""Push and load, each in a process of its own that is forked from this one, which has imported the libraries.

docsplit_hf is not installed here, as it is not for some users who load; for the others it is put on the path.
"""

import importlib
import json
import os
import sys
from pathlib import Path

# What push.py and load.py import beside docsplit_hf; they themselves are imported with it or without.
import datasets  # noqa: F401
import httpx2  # noqa: F401
import peft  # noqa: F401
import sentence_transformers  # noqa: F401
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, pipeline  # noqa: F401

if __name__ == "__main__":
    for line in sys.stdin:
        script, has_docsplit, arguments = json.loads(line)
        if os.fork() == 0:
            if script == "push":
                os.environ["HF_TOKEN"] = "hf_right"
            if has_docsplit:
                sys.path.insert(0, str(Path(__file__).parents[2]))
            print(json.dumps(importlib.import_module(script).main(*arguments)), flush=True)
            os._exit(0)
        if os.wait()[1]:
            sys.exit(1)
