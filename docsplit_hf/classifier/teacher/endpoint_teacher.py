"""EndpointTeacher: asks a decision model behind an address which label fits a text."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np
from tqdm.auto import tqdm

from ...content_hash import sha256_of_json
from ...encoding.backends.endpoint import convert_options, split_name
from ...encoding.backends.endpoint_client import OPENAI_HOST, Endpoint, EndpointError, check_positive
from ...reading.characters import replace_lone_surrogates
from ...reading.text_warnings import read_fractions, warn_of_cut_texts
from .protocols import MAX_OPTIONS, PROTOCOLS, Option

if TYPE_CHECKING:
    from openai import OpenAI

logger = logging.getLogger(__name__)

# Options after the address of a teacher, and their types.
OPTIONS = {
    "model": str,
    "protocol": str,
    "key_variable": str,
    "max_characters": int,
    "parallel_requests": int,
}


@dataclass(eq=False, repr=False)
class EndpointTeacher(Endpoint):
    """Asks a decision model which label fits a text, called as ``Endpoint`` describes.

    Args:
        protocol: ``"systemone"`` or ``"decisions"``. None: ``"decisions"`` for OpenAI's own address, ``"systemone"``
            for others.
        parallel_requests: Requests that wait for an answer at the same time.

    Others are those of ``Endpoint``.
    """

    protocol: str | None = None
    parallel_requests: int = 8

    answers = "decisions"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("parallel_requests", self.parallel_requests)
        if self.protocol is None:
            self.protocol = "decisions" if urlsplit(self.base_url).hostname == OPENAI_HOST else "systemone"
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol is {self.protocol!r}: choose {' or '.join(map(repr, PROTOCOLS))}.")

    @property
    def path(self) -> str:
        """Path of the protocol, for messages."""
        return f"/v1{PROTOCOLS[self.protocol].path}"

    @property
    def host(self) -> str:
        """Host that texts are sent to."""
        return urlsplit(self.base_url).hostname

    def fingerprint(self, options: Sequence[Option]) -> str:
        """64 hexadecimal digits that change with the address, the model's name, and what is asked."""
        asked = [list(option) for option in options]
        return sha256_of_json(["teacher", self.base_url, self.model, self.protocol, self.max_characters, asked])

    def ask(self, texts: Sequence[str], options: Sequence[Option], show_progress: bool = True) -> np.ndarray:
        """Ask which of C options fits each of N texts.

        Args:
            texts: The texts, one request each.
            options: The labels, 2 to 255.
            show_progress: Whether to show a progress bar.

        Returns:
            Probabilities, float32 ``(N, C)``; NaN in the row of a text without an answer.

        Raises:
            ValueError: If there are too few or too many options.
            EndpointError: If the endpoint gives no answer, or one that cannot be used. If that happens after some
                answers, these are returned, with a warning.
        """
        if not 2 <= len(options) <= MAX_OPTIONS:
            raise ValueError(f"A teacher chooses among 2 to {MAX_OPTIONS} labels, not among {len(options)}.")
        sent = [replace_lone_surrogates(text) for text in texts]
        if self.max_characters is not None:
            lengths = [len(text) for text in sent]
            fractions = read_fractions(lengths, self.max_characters)
            warn_of_cut_texts(lengths, fractions, self.max_characters, unit="characters")
            sent = [text[: self.max_characters] for text in sent]
        probabilities = np.full((len(sent), len(options)), np.nan, np.float32)
        with (
            self._client() as client,
            ThreadPoolExecutor(self.parallel_requests) as threads,
            tqdm(total=len(sent), desc="Asking the teacher", unit="text", disable=not show_progress) as progress,
        ):
            answers = threads.map(partial(self._ask_one, client, options), sent)
            received = 0
            try:
                for answer in answers:
                    if answer is not None:
                        probabilities[received] = answer
                    received += 1
                    progress.update()
            except EndpointError as error:
                threads.shutdown(cancel_futures=True)
                if not received:
                    raise
                logger.warning(
                    "%s %d of %d answers came before, and are used: call fit() with the teacher again for the others.",
                    error,
                    received,
                    len(sent),
                )
        return probabilities

    def _ask_one(self, client: OpenAI, options: Sequence[Option], text: str) -> np.ndarray | None:
        """Probabilities of the options for one text; None if the model refused."""
        protocol = PROTOCOLS[self.protocol]
        body = protocol.request(self.model, text, options)
        answer = self._send(
            lambda: client.post(protocol.path, cast_to=object, body=body, options={"headers": self._headers()})
        )
        try:
            return protocol.probabilities(answer, options)
        except ValueError as error:
            said = self._without_key(str(error))
            raise EndpointError(f"{self!r} does not answer like {self.path}: {said}.") from None


def load_teacher(name: str) -> EndpointTeacher:
    """Make the teacher for ``"http://HOST/v1#MODEL#option=value"``; ``OPTIONS`` has all options."""
    base_url, options = split_name(name)
    if "model" not in options:
        raise ValueError(
            f"teacher must be an address with a model, as in 'http://localhost:8000/v1#MODEL', got {name!r}."
        )
    return EndpointTeacher(base_url=base_url, **convert_options(name, options, OPTIONS))
