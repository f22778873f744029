"""Systems to compare: encoders, and TF-IDF as a baseline."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from tqdm.auto import tqdm

from ..content_hash import sha256_of_json
from ..encoding.backends.endpoint_classifier import convert_options, is_endpoint, load_endpoint, split_name
from ..encoding.document_encoder import DocumentEncoder

logger = logging.getLogger(__name__)

Features = np.ndarray | sparse.csr_matrix  # (N, D)

VERSION = 2  # raise it when the same options of an encoder give other embeddings
# Words of two or more characters, as in scikit-learn, and single Chinese or Japanese characters: these scripts have no
# spaces between words, and pairs of characters are nearly as good as words.
_CHARACTERS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
WORDS = rf"[{_CHARACTERS}]|[^\W{_CHARACTERS}]{{2,}}"
MAX_FEATURES = 50_000  # the most frequent words and pairs; the first layer of a probe has as many rows
WORD_COUNTS = "tfidf"


class TextEncoder(Protocol):
    """Interface of encoders, such as ``DocumentEncoder`` and ``EndpointEncoder``."""

    @property
    def fingerprint(self) -> str:
        """A hash of all that embeddings depend on: weights, tokenizer, pooling, length, prompt, precision."""

    def encode(self, texts: Sequence[str], show_progress: bool = True) -> np.ndarray:
        """Embed N texts: float32 of shape ``(N, D)``, of norm 1."""


class EncoderWithOptions:
    """A ``DocumentEncoder`` with fixed options: ``long_documents``, ``bf16``."""

    def __init__(self, encoder: DocumentEncoder, **options: Any) -> None:
        self.encoder = encoder
        self.options = options

    def __repr__(self) -> str:
        return f"{self.encoder!r} with {', '.join(f'{name}={value!r}' for name, value in self.options.items())}"

    @property
    def fingerprint(self) -> str:
        """A hash of everything that embeddings depend on, options included."""
        return sha256_of_json([VERSION, self.encoder.fingerprint, self.options])

    def encode(self, texts: Sequence[str], show_progress: bool = True) -> np.ndarray:
        """Embed N texts: float32 of shape ``(N, D)``, of norm 1."""
        return self.encoder.encode(texts, show_progress=show_progress, **self.options)


class System(Protocol):
    """Interface of systems, which compute features of texts."""

    name: str  # in the tables
    fingerprint: str

    def features(self, train: Sequence[str], *others: Sequence[str]) -> list[Features]:
        """Compute features of each list of texts, float32 or sparse ``(N, D)``; any fitting uses ``train`` only."""


@dataclass(eq=False)
class EncoderSystem:
    """An encoder."""

    name: str
    encoder: TextEncoder

    @property
    def fingerprint(self) -> str:
        """The encoder's fingerprint."""
        return self.encoder.fingerprint

    def features(self, train: Sequence[str], *others: Sequence[str]) -> list[Features]:
        """Embed the training texts and each other list of texts: float32 ``(N, D)``, of norm 1."""
        lists = tqdm([train, *others], desc=f"Embedding by {self.name}", unit="split", leave=None)
        return [self.encoder.encode(texts, show_progress=True) for texts in lists]


class TfidfSystem:
    """TF-IDF of words and pairs of words, with logarithmic term frequency: a strong baseline on long documents."""

    def __init__(self, name: str = WORD_COUNTS) -> None:
        self.name = name
        self.fingerprint = f"tfidf 1, words and pairs, {MAX_FEATURES} features, {WORDS}"

    def features(self, train: Sequence[str], *others: Sequence[str]) -> list[Features]:
        """Compute TF-IDF vectors, sparse float32 ``(N, D)``, of norm 1; 0 for texts without known words."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(
            sublinear_tf=True,
            dtype=np.float32,
            ngram_range=(1, 2),
            max_features=MAX_FEATURES,
            token_pattern=WORDS,
        )
        return [vectorizer.fit_transform(train), *(vectorizer.transform(texts) for texts in others)]


def load_system(
    name: str, max_length: int | None = None, bf16: bool = False, long_documents: str = "first"
) -> EncoderSystem | TfidfSystem:
    """Load a system by its name on a command line; for endpoints, the other arguments are ignored, which is logged.

    ====================================================  ===========================================================
    ``"tfidf"``                                           word counts
    ``"sentence-transformers/all-MiniLM-L6-v2"``          a model on the Hub
    ``"docsplit-small-en"``                               the checkpoint that ships
    ``"out/docsplit"``                                    a folder: a DocSplit checkpoint, an adapter, any other encoder
    ``"hkunlp/instructor-base#prompt=Represent:"``        with a prompt of one's own before every text
    ``"Qwen/Qwen3-Embedding-0.6B#prompt_name=query"``     with another of its prompts than that for classification
    ``"google-bert/bert-base-uncased#pooling=mean"``      with another pooling than its own
    ``"https://api.openai.com/v1#text-embedding-3-small"``  a model behind an OpenAI-compatible endpoint; it may be
                                                          followed by ``#max_characters=20000`` and
                                                          ``#key_variable=MY_API_KEY``
    ====================================================  ===========================================================

    ``#name=DocSplit`` at the end of a name sets the name in tables. By default a key (``OPENAI_API_KEY``) is sent only
    to api.openai.com. For other hosts, name the variable with ``#key_variable``.

    Args:
        name: The name.
        max_length: Longest input of an encoder in tokens. None: its own.
        bf16: Whether an encoder computes in bfloat16.
        long_documents: Strategy for long texts, as in ``DocumentEncoder.encode``.

    Returns:
        The system.

    Raises:
        ValueError: If an option does not exist, or the name is misspelled.
        OSError: If there is no such encoder.
    """
    base, options = split_name(name)
    shown = options.pop("name", None)
    if base == WORD_COUNTS:
        if options:
            raise ValueError(f"{name!r}: {base} has no options but name.")
        return TfidfSystem(shown or base)
    if difflib.get_close_matches(base.lower(), [WORD_COUNTS]) and not Path(base).exists():
        raise ValueError(f"There is no system {base!r}. Did you mean {WORD_COUNTS!r}?")
    without_name = "#".join(part for part in name.split("#") if part.partition("=")[0].strip() != "name")
    try:
        encoder = _load_encoder(without_name, base, options, max_length, bf16, long_documents)
    except OSError as error:
        known = f"{WORD_COUNTS}, a folder, a model on the Hub or 'https://HOST/v1#MODEL' for an endpoint"
        raise OSError(f"{error} A system is {known}.") from error
    return EncoderSystem(shown or name, encoder)


def load_systems(names: Sequence[str], ways: Sequence[str], max_length: int, bf16: bool) -> list[System]:
    """Load systems, encoders once for each of the ``ways`` to read long texts, and word counts; all names differ."""
    systems: list[System] = []
    for name in names:
        for way in ways:
            system = load_system(name, max_length, bf16, way)
            if system.name == name:
                system.name = Path(name).name or name
            if isinstance(system, TfidfSystem):
                systems.append(system)
                break
            if len(ways) > 1:
                system.name += f" ({way})"
            systems.append(system)
    if not any(isinstance(system, TfidfSystem) for system in systems):
        systems.append(TfidfSystem(WORD_COUNTS))
    shown = [system.name for system in systems]
    for name in shown:
        if shown.count(name) > 1:
            raise ValueError(f"Two models are called {name!r}: rename one by '...#name=ANOTHER'.")
    return systems


def _load_encoder(
    name: str, base: str, options: dict[str, str], max_length: int | None, bf16: bool, long_documents: str
) -> TextEncoder:
    """Load an encoder by its name, of which ``base`` and ``options`` are the parts."""
    if is_endpoint(base):
        if max_length is not None or bf16 or long_documents != "first":
            logger.warning(
                "%s is an endpoint: max_length, bf16 and long_documents have no effect. To truncate texts, append "
                "#max_characters=N to %s.",
                base,
                name,
            )
        return load_endpoint(name)
    converted = convert_options(name, options, {"prompt": str, "prompt_name": str, "pooling": str})
    encoder = DocumentEncoder.from_pretrained(base, max_length=max_length, **converted)
    if not bf16 and long_documents == "first":
        return encoder
    return EncoderWithOptions(encoder, bf16=bf16, long_documents=long_documents)
