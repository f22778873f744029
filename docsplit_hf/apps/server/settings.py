"""ServerSettings: limits, waiting times and options of a server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ServerLimits:
    """Limits on requests and on work that waits.

    Args:
        megabytes: The largest body of a request.
        file_megabytes: The largest body of a request with uploaded files.
        files: The most files in a request.
        body_seconds: The longest time in which the body of a request must arrive.
        texts: The most texts in a request.
        characters: The most characters in a text.
        tokens: The most tokens that are read for a request, by an estimate of four bytes each.
        labels: The most labels of a classifier that requests may add to.
        questions: The most questions in a request for decisions.
        waiting_tokens: The most tokens that may wait for the encoder, of short and of long requests each; further ones
            get status 429.
        seconds: The longest time for an answer.
    """

    megabytes: float = 4.0
    file_megabytes: float = 50.0
    files: int = 20
    body_seconds: float = 20.0
    texts: int = 1_000
    characters: int = 1_000_000
    tokens: int = 131_072
    labels: int = 1_000
    questions: int = 128
    waiting_tokens: int = 262_144
    seconds: float = 60.0


@dataclass(frozen=True)
class ServerSettings:
    """All settings of a server.

    Args:
        limits: See the class.
        batch_tokens: The most tokens that are read together, unless one text has more.
        reject: The error rate to allow where a request says nothing, as for a call. None: no text is rejected.
        novelty: The fraction of in-scope texts that may be rejected as novel, as for a call.
        reject_label: The option of a choice that means "none of the labels".
        threads: The threads that read texts. None: as many as torch uses, or one for each core.
    """

    limits: ServerLimits = ServerLimits()
    batch_tokens: int = 8_192
    reject: float | None = None
    novelty: float | None = None
    reject_label: str | None = None
    threads: int | None = None
