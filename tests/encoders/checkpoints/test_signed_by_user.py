import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from huggingface_hub import constants

from docsplit_hf.encoders.checkpoints.signed_by_user import is_signed, secret_file, sign


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_changed_content_and_signatures_of_others_are_refused(monkeypatch, tmp_path):
    signature = sign("a", 1, ["b"])
    assert len(signature) == 64 and is_signed(signature, "a", 1, ["b"])
    assert not any(is_signed(signature, *said) for said in (("a", 1), ("a", 1, ["b", "c"]), ("a", 1, "b"), ()))
    assert not any(
        is_signed(other, "a", 1, ["b"]) for other in ("", None, 3, "\xe4", signature[:-1], signature.upper())
    )
    monkeypatch.setattr(constants, "HF_HOME", str(tmp_path / "another machine"))
    assert not is_signed(signature, "a", 1, ["b"])


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such modes")
def test_a_secret_that_others_can_read_is_not_used(caplog):
    signature = sign("a")
    assert stat.S_IMODE(secret_file().stat().st_mode) == 0o600 and len(list(secret_file().parent.iterdir())) == 1
    secret_file().chmod(0o644)
    assert not is_signed(signature, "a") and sign("a") == ""
    assert "readable by others" in caplog.text and not is_signed("", "a")


def test_without_a_secret_nothing_is_signed(home, caplog):
    home.write_text("a file where the folder should be")
    assert sign("a") == "" and not is_signed("", "a")
    assert "finish killed saves with docsplit_hf.finish_save" in caplog.text


def test_concurrent_processes_make_one_secret():
    with ThreadPoolExecutor(16) as pool:
        signatures = set(pool.map(lambda _: sign("a"), range(64)))
    assert len(signatures) == 1 and os.listdir(secret_file().parent) == [secret_file().name]
