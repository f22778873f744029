"""The wheel of this tree on a machine that has no network and has never had one."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PREFIX = "docsplit_hf/encoding/checkpoints/docsplit-small-en/"

BUILD = """
import sys
from setuptools import build_meta
folder = sys.argv[1]  # setuptools puts its own arguments in place
build_meta.build_sdist(folder)
build_meta.build_wheel(folder)
"""

# What the README shows, and the embeddings of everybody who can load the checkpoint. A socket is the end, where the
# absence of a network would be an error after many retries, and one that may be caught.
WITHOUT_NETWORK = """
import contextlib, io, json, os, runpy, socket, sys

HEAVY = ("faiss", "pysbd", "datasets", "peft", "sklearn", "pyarrow", "accelerate", "matplotlib")

class Socket(socket.socket):
    def __init__(self, *arguments, **options):
        os.write(2, b"a socket was opened")
        os._exit(3)

def resolve(*arguments, **options):
    Socket()

socket.socket, socket.getaddrinfo = Socket, resolve

from transformers import Pipeline, PreTrainedModel, pipeline
before = set(sys.modules)
import docsplit_hf, docsplit_hf.reading.segmentation.sentences
loaded = [name for name in HEAVY if name in set(sys.modules) - before]
from docsplit_hf import KNNClassifierPipeline, KNNDatastore
loaded += [name for name in ("openai", "faiss", "pyarrow", "datasets") if name in sys.modules]
p = pipeline('docsplit-knn')
p.add_examples(["Returns the eigenvalues of a matrix.", "Downloads a data set."], ["numerics", "data"])
answer = p("Computes the singular values of a matrix.")

import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

folder, texts = docsplit_hf.default_checkpoint(), json.loads(sys.argv[1])
tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
length = model.config.docsplit["max_length"]
inputs = tokenizer(texts, truncation=True, max_length=length, padding=True, return_tensors="pt")
with torch.no_grad():
    states = model(**inputs).last_hidden_state
mask = inputs["attention_mask"][:, :, None]
batch = {name: inputs[name] for name in ("input_ids", "attention_mask")}
to_train = docsplit_hf.AutoModelForDocSplit.from_pretrained().eval()
with torch.no_grad():
    trained = to_train(**batch).embeddings
sys.argv, code = ["docsplit", "embed", "--dataset_name=a.csv"], None
with contextlib.redirect_stderr(io.StringIO()) as said:
    try:
        runpy.run_module("docsplit_hf", run_name="__main__")
    except SystemExit as end:
        code = end.code
print("REPORT" + json.dumps({
    "file": docsplit_hf.__file__,
    "loaded": loaded,
    "answer": answer,
    "command": [code, said.getvalue()],
    "dtypes": sorted({str(part.dtype) for part in (model, p.model, to_train)}),
    "DocumentEncoder": docsplit_hf.DocumentEncoder.from_pretrained().encode(texts, show_progress=False).tolist(),
    "AutoModelForDocSplit": torch.nn.functional.normalize(trained).tolist(),
    "AutoModel": torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1)).tolist(),
    "SentenceTransformer": SentenceTransformer(folder, device="cpu").encode(texts).tolist(),
}))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The source distribution, and the wheel, unpacked as an installation does."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(ROOT / "docsplit_hf", tree / "docsplit_hf", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-c", BUILD, out], cwd=tree, check=True, capture_output=True, timeout=100)
    (wheel,), (source,) = out.glob("*.whl"), out.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(out / "site")
    with tarfile.open(source) as archive:
        return out / "site", {name.partition("/")[2] for name in archive.getnames()}


def test_wheel_and_source_hold_the_checkpoint_and_every_file_of_the_package(built):
    site, source = built
    wheel = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    package = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "docsplit_hf").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {f"{PREFIX}model.safetensors", f"{PREFIX}1_Pooling/config.json", f"{PREFIX}README.md"} <= package
    assert package <= wheel and package <= source
    assert not any("examples" in Path(name).parts for name in wheel)


def test_the_command_shows_its_help_from_the_wheel(built, tmp_path):
    environment = os.environ | {"PYTHONPATH": str(built[0]), "COLUMNS": "80"}
    arguments = [sys.executable, "-m", "docsplit_hf", "fit", "--help"]
    finished = subprocess.run(arguments, capture_output=True, text=True, timeout=100, cwd=tmp_path, env=environment)
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert "usage: docsplit fit [options]\n\nMake a classifier from a few labels per class" in finished.stdout


def test_the_defaults_and_a_command_work_and_agree(built, texts, tmp_path):
    few = [*texts[:5], " ".join(texts)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"PYTHONPATH": str(built[0]), "HF_HOME": str(tmp_path / "empty")}
    finished = subprocess.run(
        [sys.executable, "-c", WITHOUT_NETWORK, json.dumps(few)],
        capture_output=True, text=True, timeout=100, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr[-3000:]
    report = json.loads(finished.stdout.rpartition("REPORT")[2])
    assert report["file"].startswith(str(built[0])) and report["dtypes"] == ["torch.float32"]
    assert report["loaded"] == []  # importing loads nothing heavy beside what transformers loads for a pipeline
    assert report["answer"][0]["label"] == "numerics"
    code, said = report["command"]
    assert code == 2 and "docsplit embed: error: There is no file 'a.csv'." in said
    for other in ("AutoModelForDocSplit", "AutoModel", "SentenceTransformer"):
        for expected, embedding in zip(report["DocumentEncoder"], report[other], strict=True):
            assert embedding == pytest.approx(expected, abs=1e-5), other
