"""Embeddings from any OpenAI-compatible endpoint, ``/v1/embeddings``: OpenAI's, another service's, one's own server."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
from tqdm.auto import tqdm

from ...models.inference.batching import check_texts
from ...models.inference.cut_texts import warn_of_cut_texts
from ...text.surrogates import replace_lone_surrogates

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger(__name__)

OPENAI = "api.openai.com"
LONGEST_BACKOFF = 60.0  # seconds; an endpoint may ask for more by Retry-After
LONGEST_RETRY_AFTER = 3600.0  # seconds; who asks for more is not waited for


class EndpointError(RuntimeError):
    """An endpoint gave no embeddings, or none that can be used."""


class EndpointEncoder:
    """Embeds texts with a model behind an endpoint, such as an embedding service or a server of one's own.

    The key comes from the environment, goes into one header, and is neither kept nor shown. An answer of 408, 429 or
    5xx, a timeout, a lost connection and a garbled answer are tried again, each time after twice as long, or as long as
    ``Retry-After`` asks for, up to an hour.

    The fingerprint knows the address and the model's name, not its weights: a service that changes a model under the
    same name is not found out.

    Args:
        model: The model's name at the endpoint.
        base_url: The address up to ``/v1``.
        key_variable: The environment variable with the key. Where it is not set, no key is sent. None:
            ``OPENAI_API_KEY`` for OpenAI's own address; no key for others, which must not get to know that one.
        batch_size: Texts in one request. A service may have a limit on the tokens of a request too.
        requests_per_minute: The most requests a minute, repeated ones included. None: no limit.
        max_characters: Longer texts are cut to so many characters, which is logged. None: all is sent, and the
            endpoint cuts or refuses what is too long.
        timeout: Seconds without an answer after which a request is given up.
        max_retries: How often a request is repeated.
        backoff: Seconds before the first repetition.

    Raises:
        ValueError: If an option makes no sense, or the address holds a user name or a password.

    Example:

        >>> EndpointEncoder("text-embedding-3-small").encode(["a text"]).shape  # doctest: +SKIP
        (1, 1536)
    """

    def __init__(
        self,
        model: str,
        base_url: str = "https://api.openai.com/v1",
        key_variable: str | None = None,
        batch_size: int = 32,
        requests_per_minute: float | None = None,
        max_characters: int | None = None,
        timeout: float = 60.0,
        max_retries: int = 6,
        backoff: float = 1.0,
    ) -> None:
        address = urlsplit(base_url)
        if key_variable is None and address.hostname == OPENAI and address.scheme == "https":
            key_variable = "OPENAI_API_KEY"
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ValueError(f"base_url must be like 'https://api.openai.com/v1', got {address.hostname!r} in it.")
        if "@" in address.netloc or address.query or address.fragment:
            raise ValueError(
                f"The address of {address.hostname} holds more than an address: a key belongs into an environment "
                "variable, and its name into key_variable."
            )
        limits = {"batch_size": batch_size, "requests_per_minute": requests_per_minute}
        limits |= {"max_characters": max_characters, "timeout": timeout}
        for name, limit in limits.items():
            if limit is not None and not limit > 0:
                raise ValueError(f"{name} must be more than 0, got {limit}.")
        for name, limit in {"max_retries": max_retries, "backoff": backoff}.items():
            if not limit >= 0:
                raise ValueError(f"{name} must be 0 or more, got {limit}.")
        self.model = model
        self.base_url = base_url.rstrip("/")
        self.key_variable = key_variable
        self.batch_size = batch_size
        self.requests_per_minute = requests_per_minute
        self.max_characters = max_characters
        self.timeout = timeout
        self.max_retries = max_retries
        self.backoff = backoff
        self.dimension: int | None = None  # known from the first answer on
        self._earliest_request = 0.0  # of time.monotonic

    def __repr__(self) -> str:
        return f"EndpointEncoder({self.model!r}, base_url={self.base_url!r})"

    @property
    def fingerprint(self) -> str:
        """64 hexadecimal digits that change with the address, the model's name and the number of characters sent."""
        described = ["endpoint", self.base_url, self.model, self.max_characters]
        return hashlib.sha256(json.dumps(described).encode()).hexdigest()

    def encode(self, texts: Sequence[str], show_progress: bool = True) -> np.ndarray:
        """Embed texts.

        Args:
            texts: N texts.
            show_progress: Whether to show a progress bar.

        Returns:
            float32 of shape ``(N, D)``, of norm 1; D is 0 if no text was ever embedded.

        Raises:
            TypeError: If ``texts`` is not a sequence, or one string, or if a text is not a string.
            ValueError: If a text is blank, which endpoints refuse.
            EndpointError: If the endpoint cannot be reached, refuses, or answers something else than one finite
                embedding for each text, all of the same dimension.
        """
        import httpx2

        texts = self._prepare(texts)
        batches = []
        with (
            httpx2.Client(timeout=self.timeout) as client,
            tqdm(total=len(texts), desc="Embedding", unit="text", disable=not show_progress) as progress,
        ):
            for start in range(0, len(texts), self.batch_size):
                batch = texts[start : start + self.batch_size]
                batches.append(self._embeddings(self._request(client, batch), len(batch)))
                progress.update(len(batch))
        embeddings = np.concatenate(batches) if batches else np.empty((0, self.dimension or 0), dtype=np.float32)
        return embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)

    def _prepare(self, texts: Sequence[str]) -> list[str]:
        check_texts(texts)
        for i, text in enumerate(texts):
            if not text[: self.max_characters].strip():
                raise ValueError(f"Text {i} is blank as it is sent: endpoints embed no blank texts. Leave it out.")
        texts = [replace_lone_surrogates(text) for text in texts]
        if self.max_characters is None:
            return texts
        warn_of_cut_texts([len(text) for text in texts], self.max_characters, self.max_characters, "characters")
        return [text[: self.max_characters] for text in texts]

    def _request(self, client: httpx2.Client, texts: list[str]) -> httpx2.Response:
        """The endpoint's answer with status 200, however often it has to be asked."""
        import httpx2

        body = {"model": self.model, "input": texts, "encoding_format": "float"}
        for attempt in range(self.max_retries + 1):
            self._wait_for_turn()
            asked_for = 0.0
            try:
                response = client.post(f"{self.base_url}/embeddings", json=body, headers=self._headers())
            except (httpx2.TransportError, httpx2.DecodingError) as error:
                problem = f"{type(error).__name__}, with a timeout of {self.timeout:g} s"
            else:
                if response.status_code == 200:
                    return response
                problem = f"status {response.status_code} ({self._said(response)})"
                if response.status_code not in (408, 429) and response.status_code < 500:
                    raise EndpointError(f"{self!r} refuses the request: {problem}.{self._advice(response)}")
                asked_for = _retry_after(response.headers.get("Retry-After"))
                if asked_for > LONGEST_RETRY_AFTER:
                    raise EndpointError(f"{self!r} asks to be left alone for {asked_for:.0f} s: {problem}. Try later.")
            if attempt < self.max_retries:
                wait = max(min(self.backoff * 2**attempt, LONGEST_BACKOFF), asked_for)
                logger.warning("%r: %s. Trying again in %.1f s.", self, problem, wait)
                time.sleep(wait)
        raise EndpointError(
            f"{self!r} gives no answer after {self.max_retries + 1} attempts; the last: {problem}. Check the address, "
            "and your limits there: requests_per_minute and batch_size ask for less at a time."
        )

    def _wait_for_turn(self) -> None:
        if self.requests_per_minute is not None:
            time.sleep(max(self._earliest_request - time.monotonic(), 0))
            self._earliest_request = time.monotonic() + 60 / self.requests_per_minute

    def _key(self) -> str:
        return os.environ.get(self.key_variable, "").strip() if self.key_variable else ""

    def _headers(self) -> dict[str, str]:
        if not self._key():
            return {}
        # The http library would show the key in its own error.
        if not self._key().isascii() or not self._key().isprintable():
            raise EndpointError(f"The key in {self.key_variable} holds characters that no header may hold.")
        return {"Authorization": f"Bearer {self._key()}"}

    def _said(self, response: httpx2.Response) -> str:
        # Some endpoints repeat the key when they refuse it.
        text = response.text.replace(self._key(), "***") if self._key() else response.text
        return " ".join(text.split())[:300] or "nothing more"

    def _advice(self, response: httpx2.Response) -> str:
        if response.status_code in (401, 403):
            if self.key_variable is None:
                return " No key was sent: name the environment variable that holds one, as key_variable."
            state = "was refused" if self._key() else "is not set"
            return f" The key is read from the environment variable {self.key_variable}, which {state}."
        if response.status_code == 404:
            return " Check the model's name, and that the address ends as in 'https://api.openai.com/v1'."
        return " If the texts are too long for it, max_characters cuts them."

    def _embeddings(self, response: httpx2.Response, number: int) -> np.ndarray:
        """float32 of shape (number, D), in the order of the texts."""
        try:
            rows: list[Any] = sorted(response.json()["data"], key=lambda row: row["index"])
            indices = [row["index"] for row in rows]
            embeddings = [np.array(row["embedding"], dtype=np.float32) for row in rows]
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise EndpointError(
                f"{self!r} does not answer like /v1/embeddings ({type(error).__name__}): {self._said(response)}"
            ) from None
        if indices != list(range(number)):
            raise EndpointError(f"{self!r} was asked for {number} embeddings and gives those of {indices}.")
        for embedding in embeddings:
            self.dimension = self.dimension or embedding.size
            if embedding.shape != (self.dimension,) or not embedding.size:
                raise EndpointError(
                    f"{self!r} gives an embedding of shape {embedding.shape} after one of {self.dimension} dimensions: "
                    "has the model behind the name been changed?"
                )
            if not np.isfinite(embedding).all() or not embedding.any():
                raise EndpointError(f"{self!r} gives an embedding that is not finite, or 0 in all dimensions.")
        return np.stack(embeddings)


def _retry_after(header: str | None) -> float:
    """The seconds that ``Retry-After`` asks for: a number, or a date; 0 if there is nothing that can be read."""
    if header is None:
        return 0.0
    if header.strip().isdecimal():
        return float(header)
    try:
        date = parsedate_to_datetime(header)
    except ValueError:
        return 0.0
    return max((date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds(), 0.0)
