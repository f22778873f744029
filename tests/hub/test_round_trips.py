"""One process pushes and others load, from a Hub that has the API of the real one."""

import contextlib
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.classifier.conftest import labels_of
from tests.environments import without_docsplit_hf

from .server import serve

HERE = Path(__file__).parent
FILES = {
    ".gitattributes", "1_Pooling/config.json", "README.md", "config.json", "model.safetensors", "modules.json",
    "sentence_bert_config.json", "tokenizer.json", "tokenizer_config.json", "training_args.json",
}  # fmt: skip


def nearly(answers):
    """Answers as numbers to compare within rounding, and all else as it is."""
    if isinstance(answers, dict):
        return {name: nearly(value) for name, value in answers.items()}
    if isinstance(answers, list):
        return [nearly(value) for value in answers]
    return pytest.approx(answers, abs=1e-5) if isinstance(answers, float) else answers


@contextlib.contextmanager
def runner(folder, hub):
    """Processes with the Hub in the place of the real one, a cache of their own, and online."""
    python, variables = without_docsplit_hf(folder / "environment")
    kept = {name: value for name, value in variables.items() if name not in ("HF_HUB_OFFLINE", "HF_TOKEN")}
    own = {"HF_ENDPOINT": hub.url, "HF_HOME": str(folder / "home"), "HF_HUB_DISABLE_XET": "1"}
    with (
        open(folder / "log", "w") as log,
        subprocess.Popen(
            [python, HERE / "forks.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=folder,
            env=kept | own,
        ) as process,
    ):

        def run(name, *arguments, has_docsplit=True):
            process.stdin.write(json.dumps([name, has_docsplit, arguments]) + "\n")
            process.stdin.flush()
            answer = next((line for line in process.stdout if line.startswith('{"')), None)  # training prints, too
            shutil.rmtree(folder / "home")  # the next process finds no cache
            assert answer, (folder / "log").read_text()[-4000:]
            return json.loads(answer)

        yield run


def saved(folder):
    """The files in a folder, as a repository has them."""
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: content for name, content in files.items() if not name.startswith((".", "checkpoint-"))}


def pushed(hub, name, revision="main"):
    return {name: content for name, content in hub.files(f"me/{name}", revision).items() if name != ".gitattributes"}


def test_pushed_files_are_those_saved_and_load_by_name_and_revision(tiny_checkpoint, texts, tmp_path):
    with serve() as hub, runner(tmp_path, hub) as run:
        made = run("push", texts, labels_of(texts))
        used = {"push": hub.requests[:]}
        for name in ("checkpoint", "adapter", "trained"):
            assert pushed(hub, name) == saved(tmp_path / name)
        assert len(hub.repositories["me/checkpoint"].commits) == 2  # nothing in between: that would hold a pickle
        assert hub.files("me/checkpoint").keys() == FILES
        for name in ("first", "second"):
            there = pushed(hub, "classifier", made[name]["commit"])
            here = saved(tmp_path / name)
            assert b'model="me/classifier"' in there.pop("README.md") and here.pop("README.md")
            assert there == here  # so the files of the larger datastore and its code are gone
        assert len(hub.repositories["me/classifier"].commits) == 3  # one for each push that went well
        assert "No commits now" in made["refused"]

        commits = [made["first"]["commit"], made["datastore"], "main"]
        hub.requests.clear()
        hub.cut = {"GET": 1}
        loaded = run("load", texts[:6], commits)
        assert hub.cut["GET"] == 0
        used["load"] = hub.requests[:]
        hub.requests.clear()
        elsewhere = run("load", texts[:6], commits, has_docsplit=False)
        used["load without docsplit_hf"] = hub.requests[:]

    assert (loaded["has docsplit_hf"], elsewhere["has docsplit_hf"]) == (True, False)
    for answers in (loaded, elsewhere):
        assert answers["AutoModel"] == "BertModel"
        assert np.allclose(answers["SentenceTransformer"], loaded["me/checkpoint"], atol=1e-6)
    assert loaded["first"] == loaded["secret"] == nearly(made["first"]["answers"])
    for name in ("me/classifier", "second"):
        assert loaded[name] == nearly(made["second"]["answers"])
    assert elsewhere["trained"] == nearly(loaded["trained"])
    assert "in a clone of it, pip install -e ." in elsewhere["from_encoder"]
    assert loaded["rows"] == [[24, 16], [18, None]]
    assert "There is no datastore in" in loaded["no datastore"]
    assert np.allclose(loaded["me/adapter"], loaded["adapter"], atol=1e-6)
    for token in ("hf_wrong", "hf_other", False):
        for refusal in (loaded[f"pipeline {token}"], loaded[f"datastore {token}"], elsewhere[f"pipeline {token}"]):
            assert "me/secret" in refusal, token
    for name, requests in used.items():
        received = sum(request.received for request in requests)
        sent = sum(request.sent for request in requests)
        print(f"{name}: {len(requests)} requests, {received:,} bytes received, {sent:,} sent")
