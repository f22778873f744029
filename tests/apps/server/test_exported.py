"""docsplit serve answers by an exported model where there is one, with the pipeline's answers."""

import asyncio
import shutil

import pytest

from docsplit_hf.apps.server.batching import Batcher
from docsplit_hf.apps.server.served_folders import ServedFolder
from docsplit_hf.apps.server.settings import ServerSettings
from docsplit_hf.apps.server.states import Encoders, State
from docsplit_hf.classifier.answering import checked_options
from docsplit_hf.classifier.exported_classifier import ExportedClassifier
from docsplit_hf.classifier.pipeline import KNNClassifierPipeline
from docsplit_hf.cores import core_count
from docsplit_hf.encoding.exported.export import export_classifier

from ...conftest import make_text
from ...event_loops import run_elsewhere

TOLERANCE = 1e-5  # torch and ONNX Runtime round differently


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A cache of this module's own, since what a user exported is remembered there."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.setattr("huggingface_hub.constants.HF_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def exported(fitted_folder, loaded, home, tmp_path_factory):
    folder = shutil.copytree(fitted_folder, tmp_path_factory.mktemp("exported") / "subjects")
    export_classifier(loaded.embedder, folder)
    return folder


def assert_answers(found, expected):
    """The same labels, with scores that differ by rounding."""
    assert [answer["label"] for answer in found] == [answer["label"] for answer in expected]
    for one, other in zip(found, expected, strict=True):
        assert one["score"] == pytest.approx(other["score"], abs=TOLERANCE)


def test_the_state_is_exported_if_it_may_be(exported, fitted_folder):
    state = Encoders(exported=True).open(exported)
    assert isinstance(state.pipe, ExportedClassifier) and state.pipe.embedder.config.precision == "float32"
    assert isinstance(Encoders().open(exported).pipe, KNNClassifierPipeline)
    bare = Encoders(exported=True).open(fitted_folder)
    assert isinstance(bare.pipe, KNNClassifierPipeline)
    assert state.version == Encoders().open(exported).version and len(state.pipe.datastore) == len(bare.pipe.datastore)


def test_a_model_of_somebody_else_is_opened_only_if_it_is_trusted(exported, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path))
    assert isinstance(Encoders(exported=True).open(exported).pipe, KNNClassifierPipeline)
    assert "The exported model is not used: " in caplog.text and "exported by somebody else" in caplog.text
    assert isinstance(Encoders(exported=True, trust=True).open(exported).pipe, ExportedClassifier)


def test_an_exported_model_runs_in_the_threads_that_are_given_and_keeps_to_them_when_it_is_replaced(exported):
    for given, expected in ((1, 1), (3, 3), (None, core_count())):
        served = ServedFolder("subjects", exported, Encoders(exported=True, threads=given))
        first = served.state
        served.state = State(first.pipe, "an earlier version")
        served.reload_if_replaced()
        assert served.state.pipe is not first.pipe
        for state in (first, served.state):
            assert state.pipe.embedder._session.get_session_options().intra_op_num_threads == expected


def test_requests_are_read_together_and_long_ones_apart(exported, loaded):
    state = Encoders(exported=True).open(exported)
    batcher = Batcher(ServerSettings(threads=2))
    texts = ["The river feeds the valley.", make_text(1, sentences=3), make_text(2, sentences=1)]
    texts.append(" ".join(make_text(number, sentences=20) for number in range(80)))  # more than a turn
    options = checked_options(reject=0.5)

    async def ask():
        return await asyncio.gather(*(batcher.read(state, [text], [None], options) for text in texts))

    found = run_elsewhere(ask())
    batcher.stop()
    answers = [result.predicted.answer(0) for result in found]
    assert_answers(answers, loaded(texts, reject=0.5))
    assert [result.token_count for result in found] == [
        sum(len(chunk.input_ids) for chunk in loaded.embedder.chunks([text], [None])) for text in texts
    ]


def test_the_command_answers_as_the_pipeline(exported, loaded, start):
    # A forked process has another home, so that it knows of no export of its user.
    server = start(str(exported), "--threads", "1", "--trust", DOCSPLIT_SERVE_EDIT_TOKEN="")
    assert "The exported model is not used" not in server.log.read_text()
    texts = [make_text(number, sentences=1 + number % 4) for number in range(100, 106)]
    status, answer = server.send("POST", "/v1/classify", {"texts": texts, "max_length": 20})
    assert status == 200
    assert_answers(answer["answers"], loaded(texts, max_length=20))
    status, answer = server.send("GET", "/v1/models")
    assert status == 200 and answer["data"][0]["x_examples"] == 36


def test_with_a_token_for_edits_the_pipeline_answers_and_learns(exported, tmp_path, start):
    folder = shutil.copytree(exported, tmp_path / "subjects")
    server = start(str(folder), "--trust")
    status, _ = server.edit("/v1/examples", {"add": [{"text": "The rose needs water.", "label": "garden"}]})
    assert status == 200
    server.stop()
    again = start(str(folder), "--trust", DOCSPLIT_SERVE_EDIT_TOKEN="")  # exported, and changed since
    assert "The exported model is not used" not in again.log.read_text()
    status, answer = again.send("GET", "/v1/models")
    assert status == 200 and answer["data"][0]["x_examples"] == 37
