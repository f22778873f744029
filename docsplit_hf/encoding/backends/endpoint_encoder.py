"""EndpointEncoder: embeddings of an OpenAI-compatible endpoint, with its key, repeated requests, and errors."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np
from tqdm.auto import tqdm

from ...content_hash import sha256_of_json
from ...extras import check_extra
from ...reading.characters import replace_lone_surrogates
from ...reading.text_warnings import read_fractions, warn_of_cut_texts
from ...reading.tokenization import check_texts

if TYPE_CHECKING:
    from openai import Omit, OpenAI
    from openai.types import CreateEmbeddingResponse

OPENAI_HOST = "api.openai.com"


class EndpointError(RuntimeError):
    """An endpoint returned no answer, or one that cannot be used."""


@dataclass(eq=False, repr=False)
class EndpointEncoder:
    """Embeds texts with a model behind an endpoint, called through the ``openai`` client (the extra ``[endpoint]``).

    The key is read from the environment and sent in one header; it is neither kept nor shown. After the statuses 408,
    409, 429 and 5xx, timeouts and lost connections, a request is repeated. The waits double up to 8 seconds, or last as
    long as ``Retry-After`` demands, up to two minutes. The fingerprint covers the address and the model's name, but not
    its weights: it does not change if a service replaces a model under the same name.

    Args:
        model: The model's name at the endpoint.
        base_url: The address up to ``/v1``.
        key_variable: The environment variable with the key. If it is not set, no key is sent. None: ``OPENAI_API_KEY``
            for OpenAI's own address, and no key for others, so that OpenAI's key is never sent to them.
        batch_size: Texts per request. A service may also limit the tokens of a request.
        max_characters: Longer texts are cut to this many characters, which is logged. None: texts are sent whole.
        timeout: Seconds to wait for an answer.
        max_retries: How often a request is repeated; ten times take about a minute.

    Raises:
        ValueError: If the address is not valid, or a number is out of range.
        ImportError: If the extra ``endpoint`` is not installed.
    """

    model: str
    base_url: str = "https://api.openai.com/v1"
    key_variable: str | None = None
    max_characters: int | None = None
    timeout: float = 60.0
    max_retries: int = 10
    batch_size: int = 32

    def __post_init__(self) -> None:
        check_extra("endpoint", "An endpoint")  # raised here, not after hours of an evaluation
        address = urlsplit(self.base_url)
        self.base_url = self.base_url.rstrip("/")
        if self.key_variable is None and address.hostname == OPENAI_HOST and address.scheme == "https":
            self.key_variable = "OPENAI_API_KEY"
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ValueError(f"base_url must be like 'https://api.openai.com/v1', got {address.hostname!r} in it.")
        if "@" in address.netloc or address.query or address.fragment:
            raise ValueError(f"Give the address of {address.hostname} only: a key belongs in an environment variable.")
        for name in ("max_characters", "timeout", "batch_size"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise ValueError(f"{name} must be more than 0, got {limit}.")
        if self.max_retries < 0:
            raise ValueError(f"max_retries must be 0 or more, got {self.max_retries}.")
        self.dimension: int | None = None  # unknown before the first answer

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, base_url={self.base_url!r})"

    @property
    def fingerprint(self) -> str:
        """64 hexadecimal digits that change with the address, the model's name and the number of characters sent."""
        return sha256_of_json(["endpoint", self.base_url, self.model, self.max_characters])

    def encode(self, texts: Sequence[str], show_progress: bool = True, batch_size: int | None = None) -> np.ndarray:
        """Embed texts.

        Args:
            texts: N texts, none of them blank.
            show_progress: Whether to show a progress bar.
            batch_size: Texts per request, at most those of the encoder. None: as many as those.

        Returns:
            float32 of shape ``(N, D)``, of norm 1; D is 0 if no text was ever embedded.

        Raises:
            TypeError: If ``texts`` is not a list of strings.
            ValueError: If a text is blank.
            EndpointError: If the endpoint returns no embeddings, or embeddings that cannot be used.
        """
        check_texts(texts)
        for i, text in enumerate(texts):
            if not text[: self.max_characters].strip():
                raise ValueError(f"Text {i} is blank as it is sent: endpoints embed no blank texts. Leave it out.")
        texts = [replace_lone_surrogates(text) for text in texts]
        if self.max_characters is not None:
            lengths = [len(text) for text in texts]
            fractions = read_fractions(lengths, self.max_characters)
            warn_of_cut_texts(lengths, fractions, self.max_characters, unit="characters")
            texts = [text[: self.max_characters] for text in texts]
        size = min(batch_size or self.batch_size, self.batch_size)
        batches = []
        with (
            self._client() as client,
            tqdm(total=len(texts), desc="Embedding", unit="text", disable=not show_progress) as progress,
        ):
            for start in range(0, len(texts), size):
                batch = texts[start : start + size]
                batches.append(self._embeddings(self._ask(client, batch), len(batch)))
                progress.update(len(batch))
        embeddings = np.concatenate(batches) if batches else np.empty((0, self.dimension or 0), dtype=np.float32)
        return embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)

    def _ask(self, client: "OpenAI", texts: list[str]) -> "CreateEmbeddingResponse":
        """Ask for the embeddings of some texts, again where that may help, and return the answer with status 200."""
        from openai import APIConnectionError, APIStatusError

        try:
            return client.embeddings.create(
                model=self.model, input=texts, encoding_format="float", extra_headers=self._headers()
            )
        except APIConnectionError as error:
            problem = f"{type(error.__cause__).__name__}, with a timeout of {self.timeout:g} s. Check the address."
        except APIStatusError as error:
            answer = self._without_key(error.response.text)
            problem = f"status {error.status_code} ({answer}). {self._advice(error.status_code)}"
        # A number larger than any float, not JSON, or JSON that is nested too deeply.
        except (OverflowError, ValueError, RecursionError) as error:
            problem = f"an answer that cannot be read ({error}). Does it answer like /v1/embeddings?"
        raise EndpointError(f"{self!r} returned no embeddings, but {problem}")

    def _embeddings(self, response: "CreateEmbeddingResponse", number: int) -> np.ndarray:
        """Read the embeddings in an answer, in the order of the texts: float32 ``(number, D)``."""
        try:
            rows = sorted(response.data, key=lambda row: row.index)
            embeddings = np.array([row.embedding for row in rows], np.float32)
        except (AttributeError, ValueError, TypeError, OverflowError) as error:
            answer = f"{type(error).__name__}: {self._without_key(str(response))}"
            raise EndpointError(f"{self!r} does not answer like /v1/embeddings ({answer})") from None
        self.dimension = self.dimension or embeddings.shape[-1]
        is_whole = embeddings.shape == (number, self.dimension)
        if not is_whole or not (embeddings.any(1) & np.isfinite(embeddings).all(1)).all():
            raise EndpointError(
                f"{self!r} returned embeddings of shape {embeddings.shape} in place of {(number, self.dimension)}, or "
                "one that is not finite or 0 in all dimensions: is it another model?"
            )
        return embeddings

    def _client(self) -> "OpenAI":
        """Make a client of the library ``openai``."""
        from openai import DefaultHttpx2Client, OpenAI

        return OpenAI(
            api_key="replaced by _headers",
            base_url=self.base_url,
            timeout=self.timeout,
            max_retries=self.max_retries,
            http_client=DefaultHttpx2Client(follow_redirects=False),  # a redirection would take the texts elsewhere
        )

    def _key(self) -> str:
        """The key in the environment variable; empty if there is none."""
        return os.environ.get(self.key_variable, "").strip() if self.key_variable else ""

    def _headers(self) -> "dict[str, str | Omit]":
        """Headers that replace those of OpenAI's environment variables, which the client sends to any address."""
        from openai import omit

        if not self._key().isascii() or not self._key().isprintable():
            raise EndpointError(f"The key in {self.key_variable} has characters that are not allowed in a header.")
        authorization = f"Bearer {self._key()}" if self._key() else omit
        return {"Authorization": authorization, "OpenAI-Organization": omit, "OpenAI-Project": omit}

    def _without_key(self, text: str) -> str:
        """The beginning of an answer without the key, which some endpoints repeat when they refuse it."""
        text = text.replace(self._key(), "***") if self._key() else text
        return " ".join(text.split())[:300] or "nothing more"

    def _advice(self, status: int) -> str:
        """The next step after an answer with a status other than 200."""
        if status in (401, 403):
            if self.key_variable is None:
                return "No key was sent: name the environment variable that holds one, as key_variable."
            state = "was refused" if self._key() else "is not set"
            return f"The key is read from the environment variable {self.key_variable}, which {state}."
        if status == 404:
            return "Check the model's name, and that the address ends as in 'https://api.openai.com/v1'."
        if status in (408, 429) or status >= 500:
            return "Check your rate limits, or try later; a lower batch_size reduces the load."
        return "If the texts are too long, max_characters cuts them."
