"""A process that reads files, one after another, within limits of memory and time.

A request is a line of JSON on the standard input: a path and options. The answer is a line of JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from .failures import (
    DAMAGED,
    MISSING_LIBRARY,
    NOT_A_FILE,
    NOT_ACCESSIBLE,
    TOO_LARGE,
    TOO_MUCH_MEMORY,
    FailedFile,
    Refusal,
    failed_file,
)
from .formats import read_text
from .options import FileOptions
from .places import FileText, encode_result
from .readers.ocr import memory_of_engine


def read_in_this_process(path: str, options: FileOptions) -> tuple[str, FileText | FailedFile]:
    """Read a file; return the SHA-256 of its content, empty if there is none, and the text or the failure."""
    digest = ""
    try:
        content = read_bytes(path, options)
        digest = hashlib.sha256(content).hexdigest()
        return digest, read_text(content, path, options)
    except Refusal as refusal:
        return digest, failed_file(path, refusal.reason, refusal.detail, refusal.pages_without_text)
    except MemoryError:
        return digest, failed_file(path, TOO_MUCH_MEMORY, f"more than max_memory_bytes={options.max_memory_bytes:,}")
    except ModuleNotFoundError as error:
        return digest, failed_file(path, MISSING_LIBRARY, str(error))
    except OSError as error:
        return digest, failed_file(path, DAMAGED if digest else NOT_ACCESSIBLE, str(error))
    except Exception as error:  # libraries raise anything on a damaged file
        return digest, failed_file(path, DAMAGED, f"{type(error).__name__}: {error}"[:300])


def read_bytes(path: str, options: FileOptions) -> bytes:
    """Read a regular file of at most ``max_bytes``."""
    check_size(path, options)
    with open(path, "rb") as file:
        content = file.read(options.max_bytes + 1)
    if len(content) > options.max_bytes:
        raise Refusal(TOO_LARGE, f"more than max_bytes={options.max_bytes:,}")
    return content


def check_size(path: str | Path, options: FileOptions) -> None:
    """Refuse what is not a regular file, or too large, before it is opened."""
    state = os.stat(path)
    if not stat.S_ISREG(state.st_mode):
        raise Refusal(NOT_A_FILE)
    if state.st_size > options.max_bytes:
        raise Refusal(TOO_LARGE, f"{state.st_size:,} bytes, more than max_bytes={options.max_bytes:,}")


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more."""
    for line in requests:
        request = json.loads(line)
        options = FileOptions(**request["options"])
        _limit_memory(options.max_memory_bytes + memory_of_engine(options))
        signal.setitimer(signal.ITIMER_REAL, options.seconds)  # its signal ends this process, even within a library
        digest, result = read_in_this_process(request["path"], options)
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(encode_result(digest, result) + b"\n")
        answers.flush()


def _limit_memory(size: int) -> None:
    """Limit the address space of this process, where the system can."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = size if hard == resource.RLIM_INFINITY else min(size, hard)
    with suppress(ValueError, OSError):  # macOS refuses some limits
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def main() -> None:
    """Serve the parent over the standard streams, on which nothing else may write."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the memory of a worker that crashes has texts in it
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with suppress(BrokenPipeError):
        serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
