"""Embeddings from any OpenAI-compatible endpoint, ``/v1/embeddings``: OpenAI's, another service's, one's own server."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np
from tqdm.auto import tqdm

from ...text.lone_surrogates import replace_lone_surrogates
from .batching import check_texts
from .encoder_names import convert_options, split_name
from .long_documents.cut_texts import shares_read, warn_of_cut_texts

if TYPE_CHECKING:
    from httpx2 import Request
    from openai import Omit, OpenAI
    from openai.types import CreateEmbeddingResponse

logger = logging.getLogger(__name__)

OPENAI_HOST = "api.openai.com"
OPTIONS = {"model": str, "key_variable": str, "max_characters": int, "requests_per_minute": float}


class EndpointError(RuntimeError):
    """An endpoint gave no embeddings, or none that can be used."""


class EndpointEncoder:
    """Embeds texts with a model behind an endpoint, through the ``openai`` client (the extra ``[endpoint]``).

    The key comes from the environment, goes into one header, and is neither kept nor shown. Of OpenAI's environment
    variables, only ``OPENAI_CUSTOM_HEADERS`` reaches other addresses, without its ``Authorization``.

    The statuses 408, 409, 429 and 5xx, timeouts and lost connections are tried again, after waits that double up to
    8 seconds, or after what ``Retry-After`` asks for, up to two minutes. The fingerprint knows the address and the
    model's name, not its weights: a service that changes a model under the same name is not noticed.

    Args:
        model: The model's name at the endpoint.
        base_url: The address up to ``/v1``.
        key_variable: The environment variable with the key. Where it is not set, no key is sent. None:
            ``OPENAI_API_KEY`` for OpenAI's own address; no key for others, which must not see OpenAI's.
        batch_size: Texts per request. A service may limit the tokens of a request too.
        requests_per_minute: The most requests per minute, including repeated ones. None: no limit.
        max_characters: Longer texts are cut to this many characters, which is logged. None: texts are sent whole.
        timeout: Seconds without an answer after which a request is given up.
        max_retries: How often a request is repeated; ten times take about a minute.
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
        max_retries: int = 10,
    ) -> None:
        if importlib.util.find_spec("openai") is None:  # said here, before hours of measuring
            raise ModuleNotFoundError("openai is not installed: pip install 'docsplit_hf[endpoint]'")
        address = urlsplit(base_url)
        if key_variable is None and address.hostname == OPENAI_HOST and address.scheme == "https":
            key_variable = "OPENAI_API_KEY"
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ValueError(f"base_url must be like 'https://api.openai.com/v1', got {address.hostname!r} in it.")
        if "@" in address.netloc or address.query or address.fragment:
            raise ValueError(
                f"The address of {address.hostname} holds more than an address: a key belongs into an environment "
                "variable, and its name into key_variable."
            )
        self.model = model
        self.base_url = base_url.rstrip("/")
        self.key_variable = key_variable
        self.batch_size = batch_size
        self.requests_per_minute = requests_per_minute
        self.max_characters = max_characters
        self.timeout = timeout
        self.max_retries = max_retries
        for name in ("batch_size", "requests_per_minute", "max_characters", "timeout"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise ValueError(f"{name} must be more than 0, got {limit}.")
        if max_retries < 0:
            raise ValueError(f"max_retries must be 0 or more, got {max_retries}.")
        self.dimension: int | None = None  # known from the first answer on
        self._earliest_request = 0.0  # of time.monotonic

    def __repr__(self) -> str:
        return f"EndpointEncoder({self.model!r}, base_url={self.base_url!r})"

    @property
    def fingerprint(self) -> str:
        """64 hexadecimal digits that change with the address, the model's name and the number of characters sent."""
        described = ["endpoint", self.base_url, self.model, self.max_characters]
        return hashlib.sha256(json.dumps(described).encode()).hexdigest()

    def encode(self, texts: Sequence[str], show_progress: bool = True, batch_size: int | None = None) -> np.ndarray:
        """Embed N texts: float32 of shape ``(N, D)``, of norm 1; D is 0 if no text was ever embedded."""
        texts = self._prepare(texts)
        size, batches = min(batch_size or self.batch_size, self.batch_size), []
        with (
            self._client() as client,
            tqdm(total=len(texts), desc="Embedding", unit="text", disable=not show_progress) as progress,
        ):
            for start in range(0, len(texts), size):
                batch = texts[start : start + size]
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
        lengths = [len(text) for text in texts]
        warn_of_cut_texts(lengths, shares_read(lengths, self.max_characters), self.max_characters, "characters")
        return [text[: self.max_characters] for text in texts]

    def _client(self) -> OpenAI:
        from openai import DefaultHttpx2Client, OpenAI

        hooks = {"request": [self._wait_for_turn]}  # before repeated requests too
        return OpenAI(
            api_key="see _headers",
            base_url=self.base_url,
            timeout=self.timeout,
            max_retries=self.max_retries,
            http_client=DefaultHttpx2Client(follow_redirects=False, event_hooks=hooks),
        )

    def _wait_for_turn(self, request: Request) -> None:
        repeated = int(request.headers.get("x-stainless-retry-count", 0))
        if repeated:  # the client waits in silence, and says why at the end only
            logger.warning("%r gives no embeddings: attempt %d of %d.", self, repeated + 1, self.max_retries + 1)
        if self.requests_per_minute is not None:
            time.sleep(max(self._earliest_request - time.monotonic(), 0))
            self._earliest_request = time.monotonic() + 60 / self.requests_per_minute

    def _key(self) -> str:
        return os.environ.get(self.key_variable, "").strip() if self.key_variable else ""

    def _headers(self) -> dict[str, str | Omit]:
        """In place of the headers that the client makes from OpenAI's environment variables, whatever the address."""
        from openai import omit

        if not self._key().isascii() or not self._key().isprintable():
            raise EndpointError(f"The key in {self.key_variable} holds characters that no header may hold.")
        authorization = {"Authorization": f"Bearer {self._key()}" if self._key() else omit}
        return authorization | {"OpenAI-Organization": omit, "OpenAI-Project": omit}

    def _request(self, client: OpenAI, texts: list[str]) -> CreateEmbeddingResponse:
        """The answer with status 200, after as many attempts as it takes."""
        from openai import APIConnectionError, APIStatusError

        try:
            return client.embeddings.create(
                model=self.model, input=texts, encoding_format="float", extra_headers=self._headers()
            )
        except APIConnectionError as error:
            problem = f"{type(error.__cause__).__name__}, with a timeout of {self.timeout:g} s. Check the address."
        except APIStatusError as error:
            said = self._without_key(error.response.text)
            problem = f"status {error.status_code} ({said}). {self._advice(error.status_code)}"
        except (OverflowError, ValueError) as error:  # a number larger than any float, and what is no JSON
            problem = f"something that cannot be read ({error}). Does it answer like /v1/embeddings?"
        raise EndpointError(f"{self!r} gives no embeddings, but {problem}")

    def _without_key(self, text: str) -> str:
        """The beginning of an answer; some endpoints repeat the key when they refuse it."""
        text = text.replace(self._key(), "***") if self._key() else text
        return " ".join(text.split())[:300] or "nothing more"

    def _advice(self, status: int) -> str:
        if status in (401, 403):
            if self.key_variable is None:
                return "No key was sent: name the environment variable that holds one, as key_variable."
            state = "was refused" if self._key() else "is not set"
            return f"The key is read from the environment variable {self.key_variable}, which {state}."
        if status == 404:
            return "Check the model's name, and that the address ends as in 'https://api.openai.com/v1'."
        if status in (408, 429) or status >= 500:
            return "Check your limits there, or try later: requests_per_minute and batch_size ask for less at a time."
        return "If the texts are too long for it, max_characters cuts them."

    def _embeddings(self, response: CreateEmbeddingResponse, number: int) -> np.ndarray:
        """float32 of shape (number, D), in the order of the texts."""
        try:
            rows = sorted(response.data, key=lambda row: row.index)
            indices = [row.index for row in rows]
            embeddings = [np.array(row.embedding, dtype=np.float32) for row in rows]
        except (AttributeError, ValueError, TypeError, OverflowError) as error:
            raise EndpointError(
                f"{self!r} does not answer like /v1/embeddings ({type(error).__name__}): "
                f"{self._without_key(str(response))}"
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


def load_endpoint(name: str, key_variable: str | None = None) -> EndpointEncoder:
    """The endpoint that ``"https://HOST/v1#MODEL#option=value"`` names; the options are those in ``OPTIONS``."""
    base_url, options = split_name(name)
    return EndpointEncoder(
        base_url=base_url, **{"key_variable": key_variable} | convert_options(name, options, OPTIONS)
    )
