import json
import logging
import sys
import time
import traceback

import numpy as np
import pytest

from docsplit_hf.encoding.backends.endpoint_encoder import EndpointEncoder, EndpointError

from ..endpoints import answer, embed, serve

KEY = "sk-secret-of-the-test"


@pytest.fixture
def endpoint():
    with serve() as server:
        yield server


@pytest.fixture
def encoder(endpoint, monkeypatch, caplog):
    monkeypatch.setenv("TEST_API_KEY", f"{KEY}\n")
    caplog.set_level(logging.DEBUG)
    yield EndpointEncoder("a-model", endpoint.url, "TEST_API_KEY", batch_size=3)
    assert KEY not in caplog.text


TEXTS = ["a" * n for n in range(1, 8)]
EXPECTED = np.array([np.array(embed(text)) / np.linalg.norm(embed(text)) for text in TEXTS])


def test_embeddings_have_the_order_of_the_texts_norm_1_and_the_key_in_a_header(endpoint, encoder):
    endpoint.script = [{"body": lambda texts: {"data": answer(texts)["data"][::-1]}}]
    embeddings = encoder.encode(TEXTS, show_progress=False)
    assert embeddings.dtype == np.float32 and embeddings == pytest.approx(EXPECTED, abs=1e-6)
    assert [len(body["input"]) for _, _, body in endpoint.requests] == [3, 3, 1]
    path, headers, body = endpoint.requests[0]
    assert (path, headers["Authorization"], body["model"]) == ("/v1/embeddings", f"Bearer {KEY}", "a-model")
    assert encoder.encode([]).shape == (0, 4)


@pytest.mark.parametrize(
    "trouble",
    [
        {"status": 429, "headers": {"Retry-After": "0.01"}, "text": "{}"},
        {"status": 500, "headers": {"Retry-After": "0.01"}, "text": "oops"},
        {"sleep": 2},
        {"hang_up": True},
    ],
)
def test_transient_errors_are_retried(endpoint, encoder, trouble):
    if "sleep" in trouble:
        encoder.timeout = 1.0
    endpoint.script = [{}, trouble]
    assert encoder.encode(TEXTS, show_progress=False) == pytest.approx(EXPECTED, abs=1e-6)
    assert len(endpoint.requests) == 4


def test_attempts_are_limited_and_spaced(endpoint, encoder):
    encoder.max_retries = 2
    start = time.monotonic()
    endpoint.script = [{"status": 503, "headers": {"Retry-After": "0.3"}, "text": "oops"}] * 3
    with pytest.raises(EndpointError, match=r"status 503 \(oops\).*Check your rate limits"):
        encoder.encode(TEXTS, show_progress=False)
    assert len(endpoint.times) == 3 and endpoint.times[-1] - start >= 0.6  # a first request may arrive late


def embeddings_of(embedding, indices=range(3)):
    return {"text": json.dumps({"data": [{"index": index, "embedding": embedding} for index in indices]})}


@pytest.mark.parametrize(
    "step, message",
    [
        (embeddings_of([1] * 5), r"shape \(3, 5\) in place of \(3, 4\)"),
        (embeddings_of([1] * 4, indices=[0, 1]), r"shape \(2, 4\) in place of \(3, 4\)"),
        (embeddings_of([1, 2, 3, np.nan]), "finite"),
        (embeddings_of([0] * 4), "0 in all"),
        (embeddings_of("AAAA"), "does not answer like"),
        (embeddings_of([10**400]), "cannot be read .*too large.*answer like /v1/embeddings"),
        ({"text": '{"data": [', "headers": {"Content-Type": "application/json"}}, "cannot be read .*Does it answer"),
        ({"text": "<html>Welcome</html>"}, "does not answer like /v1/embeddings .*Welcome"),
        ({"status": 429, "headers": {"Retry-After": "7200"}, "text": "no"}, r"429 \(no\).*batch_size"),
        ({"status": 400, "text": "too many tokens"}, "too many tokens.*max_characters"),
        ({"status": 404, "text": "no such model"}, "Check the model's name"),
        ({"status": 302, "text": "", "headers": {"Location": "http://127.0.0.1:1/"}}, "status 302"),
    ],
)
def test_unusable_answers_raise_at_once(endpoint, encoder, step, message):
    endpoint.script = [{}, step]
    with pytest.raises(EndpointError, match=message):
        encoder.encode(TEXTS, show_progress=False)
    assert len(endpoint.requests) == 2


def shown_with_locals(error):
    """All that an error could show: its text, its causes, and the variables of all functions but the test."""
    error.__traceback__ = error.__traceback__.tb_next
    return repr(error) + "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())


def test_the_key_is_never_shown(endpoint, encoder, monkeypatch):
    encoder.max_retries = 0
    seen = [repr(encoder), str(vars(encoder)), encoder.fingerprint]

    def refuse(match):
        with pytest.raises(EndpointError, match=match) as error:
            encoder.encode(TEXTS, show_progress=False)
        seen.append(shown_with_locals(error.value))

    endpoint.script = [{"status": 401, "text": json.dumps({"error": f"Incorrect API key: {KEY}."})}, {"hang_up": True}]
    refuse(r"Incorrect API key: \*\*\*.*TEST_API_KEY, which was refused")
    refuse("RemoteProtocolError")
    for broken in (f"{KEY}\nInjected: header", f"{KEY}é"):
        monkeypatch.setenv("TEST_API_KEY", broken)
        refuse("The key in TEST_API_KEY has characters")
    monkeypatch.delenv("TEST_API_KEY")
    endpoint.script = [{"status": 401, "text": "no key"}]
    refuse("TEST_API_KEY, which is not set")
    assert "Authorization" not in endpoint.requests[-1][1]
    with pytest.raises(ValueError, match="a key belongs in an environment variable") as error:
        EndpointEncoder("a-model", f"https://user:{KEY}@example.com/v1")
    assert not [text for text in (*seen, str(error.value)) if KEY in text]


def test_only_openais_address_gets_openais_key(endpoint, monkeypatch):
    for variable in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{variable}", KEY)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"authorization: Bearer {KEY}")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://example.com/v1")
    assert EndpointEncoder("a-model").key_variable == "OPENAI_API_KEY"
    for address in ("http://api.openai.com/v1", "https://api.openai.com.example.com/v1", "https://example.com/v1"):
        assert EndpointEncoder("a-model", address).key_variable is None
    encoder = EndpointEncoder("a-model", endpoint.url)
    encoder.encode(TEXTS[:1], show_progress=False)
    endpoint.script = [{"status": 401, "text": "no key"}]
    with pytest.raises(EndpointError, match="No key was sent: name the environment variable"):
        encoder.encode(TEXTS[:1], show_progress=False)
    assert len(endpoint.requests) == 2 and not [headers for _, headers, _ in endpoint.requests if KEY in str(headers)]


def test_without_the_client_an_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ModuleNotFoundError, match=r"openai, which is not installed: pip install -e \"\.\[endpoint\]"):
        EndpointEncoder("a-model")


def test_long_texts_are_cut_and_counted(endpoint, encoder, caplog):
    encoder.max_characters = 5
    encoder.encode(TEXTS, show_progress=False)
    assert "2 of 7 texts are longer than 5 characters" in caplog.text
    assert endpoint.requests[-1][2]["input"] == ["a" * 5]


def test_the_fingerprint_depends_on_address_model_and_length():
    def fingerprint(model="a-model", url="http://localhost/v1", **options):
        return EndpointEncoder(model, url, **options).fingerprint

    assert fingerprint() == fingerprint(url="http://localhost/v1/", batch_size=7)
    others = [fingerprint("another"), fingerprint(url="http://example.com/v1"), fingerprint(max_characters=9)]
    assert len({fingerprint(), *others}) == 4


def test_bad_arguments_are_refused_before_a_request(encoder, endpoint):
    with pytest.raises(ValueError, match="base_url must be like"):
        EndpointEncoder("a-model", "localhost:8000/v1")
    with pytest.raises(ValueError, match="batch_size must be more than 0, got 0"):
        EndpointEncoder("a-model", batch_size=0)
    with pytest.raises(ValueError, match="max_retries must be 0 or more, got -1"):
        EndpointEncoder("a-model", max_retries=-1)
    with pytest.raises(ValueError, match="Text 1 is blank"):
        encoder.encode(["a text", " "])
    encoder.max_characters = 3
    with pytest.raises(ValueError, match="Text 0 is blank as it is sent"):
        encoder.encode(["    text"])
    assert not endpoint.requests
