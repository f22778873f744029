"""A small fitted classifier in a folder, and a server of it that many tests share."""

import shutil

import pytest

from .processes import ForkedServer, ServerProcess

LABELS = ("river", "engine", "garden")


def labels_of(texts):
    """Three labels that depend weakly on the texts."""
    return [LABELS[0] if "river" in text else LABELS[1 + len(text) % 2] for text in texts]


@pytest.fixture(scope="session")
def fitted_folder(make_tiny_config, tokenizer, texts, tmp_path_factory):
    """A folder with a fitted classifier; tests that change it use a copy."""
    import torch
    from transformers import BertModel, pipeline

    import docsplit_hf  # noqa: F401  which registers the pipeline

    torch.manual_seed(0)
    pipe = pipeline("docsplit-knn", model=BertModel(make_tiny_config()), tokenizer=tokenizer, device="cpu")
    pipe.add_examples(texts[:36], labels_of(texts[:36]))
    pipe.add_documents(texts[36:])
    pipe.fit(show_progress=False)
    folder = tmp_path_factory.mktemp("served") / "subjects"
    pipe.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def loaded(fitted_folder):
    """The pipeline of the folder, in this process."""
    from transformers import pipeline

    return pipeline("docsplit-knn", model=str(fitted_folder), device="cpu")


@pytest.fixture
def folder(fitted_folder, tmp_path):
    """A copy of the folder, for one test."""
    return shutil.copytree(fitted_folder, tmp_path / "subjects")


@pytest.fixture(scope="session")
def shared_server(fitted_folder, tmp_path_factory):
    """A server of the folder, and of a second classifier with the same encoder; for tests that change nothing.

    It is started as users start it; those of single tests are forked.
    """
    home = tmp_path_factory.mktemp("shared_server")
    folder = shutil.copytree(fitted_folder, home / "subjects")
    other = shutil.copytree(fitted_folder, home / "other")
    limits = ("--max_megabytes", "0.5", "--max_body_seconds", "2", "--max_texts", "100", "--max_characters", "20000")
    server = ServerProcess(str(folder), f"second={other}", *limits, log=home / "log")
    server.wait_until_ready()
    yield server
    server.stop()


@pytest.fixture
def start(server, tmp_path):
    """Function that starts a server; all of them are stopped at the end."""
    started = []

    def start_server(*arguments, wait=True, port=None, **environment):
        process = ForkedServer(*arguments, log=tmp_path / "server.log", port=port, **environment)
        started.append(process)
        if wait:
            process.wait_until_ready()
        return process

    yield start_server
    for process in started:
        process.stop()
