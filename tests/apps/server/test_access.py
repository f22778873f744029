"""Who may read and who may edit, by the token of a request; and which addresses need a token."""

import pytest
from starlette.requests import Request

from docsplit_hf.apps.server.access import Access, check_exposure, read_tokens
from docsplit_hf.apps.server.errors import Refused

from ...event_loops import run_elsewhere

READER = "r" * 16
EDITOR = "e" * 16


def tokens(folder, *lines):
    (folder / "tokens").write_text("\n".join(["# who has one", *lines]))
    return read_tokens("NO_SUCH_VARIABLE", folder / "tokens", "somebody")


@pytest.fixture
def readers(tmp_path):
    return tokens(tmp_path, READER)


@pytest.fixture
def editors(tmp_path):
    return tokens(tmp_path, f"ann={EDITOR}")


def asking(token=None, header="authorization", scheme="Bearer "):
    """A request with a token."""
    headers = [] if token is None else [(header.encode(), f"{scheme}{token}".encode())]
    return Request({"type": "http", "method": "POST", "headers": headers})


def outcome(check, request):
    """What a check returns, or the code of its refusal."""
    try:
        return run_elsewhere(check(request))
    except Refused as refused:
        return refused.code


def test_readers_and_editors_may_read_and_editors_alone_may_edit(readers, editors):
    access = Access(readers, editors)
    for token, reads, edits in (
        (READER, None, "not_an_editor"),
        (EDITOR, None, "ann"),
        ("x" * 16, "wrong_token", "wrong_token"),
        (None, "missing_token", "missing_token"),
    ):
        assert (outcome(access.check_reader, asking(token)), outcome(access.editor, asking(token))) == (reads, edits)


def test_without_tokens_of_readers_all_may_read_and_without_those_of_editors_nobody_may_edit(readers, editors):
    assert outcome(Access({}, editors).check_reader, asking()) is None
    assert outcome(Access({}, editors).editor, asking()) == "missing_token"
    assert outcome(Access(readers, {}).editor, asking(READER)) == "editing_is_off"


@pytest.mark.parametrize(("header", "scheme"), [("authorization", "bearer  "), ("x-api-key", "")])
def test_a_token_is_read_in_the_forms_that_clients_send(header, scheme, readers, editors):
    assert outcome(Access(readers, editors).editor, asking(EDITOR, header, scheme)) == "ann"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "[::]", "192.168.0.7", "machine.example", "localhost.example"])
def test_an_address_that_other_machines_reach_needs_a_token_or_the_word_open(host, readers):
    with pytest.raises(ValueError, match="other machines could ask this server, and it has no token"):
        check_exposure(host, {}, is_open=False)
    check_exposure(host, {}, is_open=True)
    check_exposure(host, readers, is_open=False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_an_address_of_this_machine_needs_none(host):
    check_exposure(host, {}, is_open=False)
