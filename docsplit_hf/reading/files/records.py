"""The text of a file, or its failure, as JSON: between processes, and in the cache."""

from __future__ import annotations

import json
from typing import Any

from .failures import REMEDIES, FailedFile
from .places import KINDS, FileText, LeftOut, Place


def encode_result(digest: str, result: FileText | FailedFile) -> bytes:
    """Write a result as one line of JSON without the line end."""
    if isinstance(result, FailedFile):
        content: dict[str, Any] = {"digest": digest, "failure": result._asdict()}
    else:
        content = {
            "digest": digest,
            "text": result.text,
            "places": [list(place) for place in result.places],
            "left_out": [list(part) for part in result.left_out],
            "pages_without_text": result.pages_without_text,
            "dropped_lines": result.dropped_lines,
        }
    # Names of files may have lone surrogates, which stand for bytes that are no UTF-8; json.loads takes them back.
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def decode_result(line: bytes) -> tuple[str, FileText | FailedFile]:
    """Read a result and check each value; raise ``ValueError`` if it is none."""
    try:
        content = json.loads(line)
        if "failure" in content:
            failure = FailedFile(**content["failure"])
            *texts, pages = failure
            is_whole = all(isinstance(value, str) for value in texts) and isinstance(pages, int)
            if failure.reason not in REMEDIES or not is_whole:
                raise ValueError("it holds no failure")
            return content["digest"], failure
        left_out = tuple(LeftOut(str(name), str(reason)) for name, reason in content["left_out"])
        counts = {name: int(content[name]) for name in ("pages_without_text", "dropped_lines")}
        text = content["text"]
        places = tuple(_checked_place(values, len(text)) for values in content["places"])
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"it is not the text of a file: {error!r}") from error
    found = FileText(text=text, places=places, left_out=left_out, **counts)
    return content["digest"], found


def _checked_place(values: list, length: int) -> Place:
    """A place whose values can be true."""
    kind, name, start, end = values
    if kind not in KINDS or not isinstance(name, str) or not 0 <= start <= end <= length:
        raise ValueError(f"it holds a place {values!r}")
    return Place(kind=kind, name=name, start=start, end=end)
