"""A teacher behind an address: both protocols over real HTTP, limits, errors, and what was answered before one."""

import numpy as np
import pytest

from benchmarks.quality.teacher_server import serve_teacher
from docsplit_hf.classifier.teacher.endpoint_teacher import load_teacher
from docsplit_hf.classifier.teacher.protocols import Option
from docsplit_hf.encoding.backends.endpoint_client import EndpointError

from ...encoding.endpoints import serve

NAMES = ["engine", "lake", "river"]
OPTIONS = [Option(name, None) for name in NAMES]
TEXTS = [f"Text {i}" for i in range(20)]
TRUTH = {text: NAMES[i % 3] for i, text in enumerate(TEXTS)}


@pytest.fixture
def server():
    with serve_teacher(TRUTH, accuracy=1.0) as server:
        yield server


@pytest.mark.parametrize("protocol", ["systemone", "decisions"])
def test_answers_come_in_the_order_of_texts_and_options(server, protocol):
    server.refused = {TEXTS[4]}
    found = load_teacher(f"{server.address}#protocol={protocol}").ask(TEXTS, OPTIONS, show_progress=False)
    assert sorted(server.texts) == sorted(TEXTS)
    assert np.isnan(found[4]).all() and np.isfinite(np.delete(found, 4, axis=0)).all()
    rows = np.delete(np.arange(20), 4)
    assert (found[rows].argmax(1) == rows % 3).all()
    np.testing.assert_allclose(found[rows].sum(1), 1, rtol=1e-6)


def test_long_texts_are_cut(server, caplog):
    server.truth = {"Text": "lake"}
    load_teacher(f"{server.address}#max_characters=4").ask(TEXTS[:3], OPTIONS, show_progress=False)
    assert server.texts == ["Text"] * 3
    assert "longer than 4 characters" in caplog.text


def test_answers_before_an_error_are_kept(server, caplog):
    server.failing_after = 7
    found = load_teacher(f"{server.address}#parallel_requests=1").ask(TEXTS, OPTIONS, show_progress=False)
    assert np.isfinite(found[:7]).all() and np.isnan(found[7:]).all()
    assert "The credit is used up" in caplog.text and "7 of 20 answers came before" in caplog.text
    server.failing_after = 0
    with pytest.raises(EndpointError, match="status 400 .*The credit is used up"):
        load_teacher(server.address).ask(TEXTS, OPTIONS, show_progress=False)


def test_an_answer_that_is_none_names_the_protocol(server):
    with pytest.raises(EndpointError, match="does not answer like /v1/systemone: 'river' is none of the options"):
        server.choose = lambda text, options: {"river": 1.0}
        load_teacher(server.address).ask(TEXTS, OPTIONS[:2], show_progress=False)


@pytest.mark.parametrize(
    "name, problem",
    [
        ("http://localhost:1/v1", "has no model"),
        ("stand-in", "must be an address with a model"),
        ("http://localhost:1/v1#m#protocol=jev", "protocol is 'jev': choose 'systemone' or 'decisions'"),
        ("http://localhost:1/v1#m#batch_size=3", "has the option 'batch_size'"),
        ("http://localhost:1/v1#m#parallel_requests=0", "parallel_requests must be more than 0"),
    ],
)
def test_a_mistyped_address(name, problem):
    with pytest.raises(ValueError, match=problem):
        load_teacher(name)


def test_a_server_that_is_not_there():
    teacher = load_teacher("http://127.0.0.1:9/v1#stand-in")
    teacher.max_retries = 0
    with pytest.raises(EndpointError, match="returned no decisions, but Connect"):
        teacher.ask(TEXTS[:1], OPTIONS, show_progress=False)


def test_openai_gets_its_own_protocol_and_the_fingerprint_has_no_address():
    assert load_teacher("https://api.openai.com/v1#m").protocol == "decisions"
    teacher = load_teacher("http://localhost:8000/v1#m")
    assert teacher.protocol == "systemone"
    assert "localhost" not in teacher.fingerprint(OPTIONS)
    assert teacher.fingerprint(OPTIONS) != teacher.fingerprint([*OPTIONS[:2], Option("river", "Water.")])
    with pytest.raises(ValueError, match="among 2 to 255 labels, not among 1"):
        teacher.ask(TEXTS, OPTIONS[:1])


@pytest.fixture
def scripted():
    with serve() as server:
        yield server


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        ({"text": "x" * 3_000_000, "status": 400}, "status 400"),
        ({"text": "[" * 100_000}, "cannot be read .*recursion"),
        ({"text": '{"answers": "' + "x" * 500_000 + '"}'}, "does not answer like /v1/systemone: answers is 'xxx"),
    ],
    ids=["long error", "deep", "long"],
)
def test_hostile_answers_get_a_sentence(scripted, step, sentence):
    scripted.script = [{"headers": {"Content-Type": "application/json"}} | step]
    with pytest.raises(EndpointError, match=sentence) as raised:
        load_teacher(f"{scripted.url}#model").ask(TEXTS[:1], OPTIONS, show_progress=False)
    assert len(str(raised.value)) < 1_000
