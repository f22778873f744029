"""Sign content as written by this user on this machine, with a secret that is in no archive, copy or repository."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import logging
import os
import secrets
import stat
import uuid
from pathlib import Path

logger = logging.getLogger(__name__)

SECRET_SIZE = 32  # bytes


def sign(*content: object) -> str:
    """Sign JSON values: hexadecimal digits, or ``""`` if no secret can be kept on this machine."""
    secret = _user_secret()
    return "" if secret is None else hmac.new(secret, _as_bytes(content), hashlib.sha256).hexdigest()


def is_signed(signature: object, *content: object) -> bool:
    """Whether this user signed JSON values on this machine."""
    if not isinstance(signature, str) or not signature.isascii():
        return False
    expected = sign(*content)
    return expected != "" and hmac.compare_digest(signature, expected)


def secret_file() -> Path:
    """The file of the user's secret, in ``docsplit_hf`` below ``HF_HOME``, which users may share."""
    from huggingface_hub import constants

    user = os.getuid() if hasattr(os, "getuid") else "user"
    return Path(constants.HF_HOME) / "docsplit_hf" / f"secret-{user}"


def _user_secret() -> bytes | None:
    """The user's secret, made if there is none yet; None if it cannot be kept or is not private."""
    path = secret_file()
    try:
        if not path.exists():
            _make_secret(path)
        descriptor = os.open(path, os.O_RDONLY)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            secret = file.read()
    except OSError as error:
        logger.warning("%s cannot be kept (%s): finish killed saves with docsplit_hf.finish_save.", path, error)
        return None
    is_private = not hasattr(os, "getuid") or (
        status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077
    )
    if not is_private or len(secret) != SECRET_SIZE:
        logger.warning("%s is readable by others, or damaged, and is not used: delete it.", path)
        return None
    return secret


def _make_secret(path: Path) -> None:
    """Write a new secret, unless another process has written one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(secrets.token_bytes(SECRET_SIZE))
            file.flush()
            os.fsync(descriptor)
        with contextlib.suppress(FileExistsError):  # another process was first
            os.link(temporary, path)
    finally:
        temporary.unlink()


def _as_bytes(content: tuple[object, ...]) -> bytes:
    """The content as JSON in ASCII."""
    return json.dumps(content).encode("ascii")
