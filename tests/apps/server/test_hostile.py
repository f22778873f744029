"""Hostile requests are refused in a sentence, and the server goes on answering."""

import json
import socket

import pytest

from docsplit_hf.apps.server.access import check_exposure, owner_of, read_tokens

TEXT = {"text": "The river feeds the valley."}
DEEP = b'{"state": ' + b"[" * 50_000 + b"]" * 50_000 + b', "questions": {}}'
MANY_OPTIONS = {str(number): None for number in range(30_000)}


def sentence_of(content):
    message = json.loads(content)["error"]["message"]
    assert message.endswith((".", "..."))
    assert "/" not in message.replace("/docs", "").replace("https://", "")  # no path of the machine
    return message


@pytest.fixture(autouse=True)
def still_alive(shared_server):
    yield
    assert shared_server.send("POST", "/v1/classify", TEXT)[0] == 200


@pytest.mark.parametrize(
    ("path", "body", "status", "sentence"),
    [
        ("/v1/classify", b"x" * 600_000, 413, "larger than 0.5 MB"),
        ("/v1/systemone", DEEP, 422, "recursion limit"),
        ("/v1/classify", b'{"text": "\xff\xfe"}', 422, "not JSON"),
        ("/v1/classify", b"", 400, "not JSON"),
        ("/v1/classify", json.dumps({"texts": ["a"] * 101}).encode(), 422, "101 texts are too many"),
        ("/v1/classify", json.dumps({"text": "a" * 20_001}).encode(), 422, "at most 20,000"),
        (
            "/v1/systemone",
            json.dumps({"state": "a", "questions": {"q": {"type": "choice", "criteria": MANY_OPTIONS}}}).encode(),
            422,
            "30,000 options",
        ),
        (
            "/v1/systemone",
            json.dumps({"state": "a", "questions": {str(n): {"type": "noul"} for n in range(129)}}).encode(),
            422,
            "129 questions are too many",
        ),
        ("/v1/systemone", b'{"state": NaN, "questions": {"river": {"type": "noul"}}}', 422, ""),
        ("/v1/classify/../../etc/passwd", b"{}", 404, "nothing at this address"),
        ("/v1/models/..%2f..%2fetc%2fpasswd", None, 404, "nothing at this address"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_bodies_and_paths(shared_server, path, body, status, sentence):
    found, content, _ = shared_server.send_raw("GET" if body is None else "POST", path, body)
    assert found == status
    assert sentence in sentence_of(content)


@pytest.mark.parametrize("text", ["\ud800", "a\x00b", "\u202e" * 50, "𝕏" * 1000, "?"], ids=ascii)
def test_odd_characters_are_answered_or_refused(shared_server, text):
    assert shared_server.send("POST", "/v1/classify", {"text": text})[0] in (200, 422)


def test_edits_need_the_token_of_an_editor(shared_server):
    """It is checked before a body is read."""
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"X_API_Key": "wrong"}, {"Authorization": "Basic eDp5"}):
        for method, path in (
            ("POST", "/v1/examples"),
            ("POST", "/v1/fit"),
        ):
            status, content, answered = shared_server.send_raw(method, path, b"x" * 600_000, **headers)
            assert status == 401
            assert "oken" in sentence_of(content)
            assert answered["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Host": "localhost"}, 200),
    ],
)
def test_other_hosts_and_sites_are_refused(shared_server, headers, status):
    found, content, answered = shared_server.send_raw("POST", "/v1/classify", json.dumps(TEXT).encode(), **headers)
    assert found == status
    assert "access-control-allow-origin" not in {name.lower() for name in answered}
    if status != 200:
        assert "--allowed_hosts" in sentence_of(content)


def test_a_slow_body_is_given_up(shared_server):
    with socket.create_connection(("127.0.0.1", shared_server.port), timeout=60) as slow:
        slow.sendall(b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        answer = slow.recv(10_000)
    assert b" 408 " in answer


@pytest.mark.parametrize("length", [b"-1", b"1e3", b"+5", b"0x10", b"1_0", "\u0663".encode()], ids=repr)
def test_a_malformed_length_is_refused(shared_server, length):
    with socket.create_connection(("127.0.0.1", shared_server.port), timeout=30) as odd:
        odd.sendall(b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + length + b"\r\n\r\n{}")
        assert b" 400 " in odd.recv(10_000)


def test_a_wrong_length_and_a_flood_of_connections(shared_server):
    with socket.create_connection(("127.0.0.1", shared_server.port), timeout=30) as liar:
        liar.sendall(b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
        assert b" 413 " in liar.recv(10_000)
    idle = [socket.create_connection(("127.0.0.1", shared_server.port)) for _ in range(200)]
    assert shared_server.send("POST", "/v1/classify", TEXT)[0] == 200
    for connection in idle:
        connection.close()


def test_too_much_waiting_work_is_refused_with_a_time_to_come_back(start, folder):
    """Clients that send more than is read get 429 and Retry-After, and the others their answers."""
    from concurrent.futures import ThreadPoolExecutor

    server = start(str(folder), "--max_waiting_tokens", "600", "--batch_tokens", "50")
    body = json.dumps({"texts": [f"The river feeds the valley of number {n}." for n in range(20)]}).encode()
    with ThreadPoolExecutor(24) as pool:
        found = list(pool.map(lambda _: server.send_raw("POST", "/v1/classify", body), range(96)))
    by_status = {status for status, _, _ in found}
    assert by_status == {200, 429}
    for status, content, headers in found:
        if status == 429:
            assert int(headers["retry-after"]) >= 1
            assert "try again later" in sentence_of(content)


def test_texts_are_not_logged(start, folder):
    """Two labels for one text, of which one is spelled like a known label: both are worth a warning in the log."""
    server = start(str(folder))
    text = "The river zyxwvut"
    status, _ = server.edit(
        "/v1/examples", {"add": [{"text": text, "label": "River"}, {"text": text, "label": "garden"}]}
    )
    assert status == 200
    server.stop()
    log = server.log.read_text()
    assert "was edited by" in log and "zyxwvut" not in log and "'River'" not in log


def test_tokens(tmp_path, monkeypatch):
    monkeypatch.setenv("A_TOKEN", "0123456789abcdef")
    tokens = read_tokens("A_TOKEN", None, "reader")
    assert owner_of("0123456789abcdef", tokens) == "reader"
    assert owner_of("0123456789abcdeg", tokens) is None
    assert owner_of(None, tokens) is None
    file = tmp_path / "tokens"
    for content, sentence in (("short", "5 characters"), ("two words here and", "without spaces"), ("\n", "no token")):
        file.write_text(content)
        with pytest.raises(ValueError, match=sentence):
            read_tokens("NO_SUCH_VARIABLE", file, "reader")
    assert not read_tokens("NO_SUCH_VARIABLE", None, "reader")


def test_an_open_address_needs_a_token(monkeypatch):
    monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
    none = read_tokens("NO_SUCH_VARIABLE", None, "reader")
    for host in ("127.0.0.1", "localhost", "::1"):
        check_exposure(host, none, is_open=False)
    with pytest.raises(ValueError, match="--open"):
        check_exposure("0.0.0.0", none, is_open=False)
    check_exposure("0.0.0.0", none, is_open=True)


@pytest.mark.parametrize("path", ["/v1/systemone", "/v1/decisions"])
def test_only_files_have_other_limits(shared_server, path):
    status, content, _ = shared_server.send_raw(
        "POST", path, b"x" * 600_000, Content_Type="multipart/form-data; boundary=x"
    )
    assert status == 413
    assert "larger than 0.5 MB" in sentence_of(content)
