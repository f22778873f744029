"""Systems to compare: encoders, with embeddings cached on disk, and TF-IDF as a baseline."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from tqdm.auto import tqdm

from ..content_hash import sha256_of_json, sha256_of_parts
from ..encoding.backends.endpoint import convert_options, is_endpoint, load_endpoint, split_name
from ..encoding.document_encoder import DocumentEncoder
from ..reading.text_warnings import sum_up_warnings
from ..reading.tokenization import check_texts
from ..storage.inside_folder import write_file

logger = logging.getLogger(__name__)

Features = np.ndarray | sparse.csr_matrix  # (N, D)

VERSION = 2  # raise it when the same options of an encoder give other embeddings
NAME = "embeddings"  # of the array in a file
CHUNK = 256  # texts in a file of embeddings; a killed run loses at most this many embeddings
# Words of two or more characters, as in scikit-learn, and single Chinese or Japanese characters: these scripts have no
# spaces between words, and pairs of characters are nearly as good as words.
_CHARACTERS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
WORDS = rf"[{_CHARACTERS}]|[^\W{_CHARACTERS}]{{2,}}"
MAX_FEATURES = 50_000  # the most frequent words and pairs; the first layer of a probe has as many rows


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


def load_text_encoder(
    name: str, max_length: int | None = None, bf16: bool = False, long_documents: str = "first"
) -> TextEncoder:
    """Load an encoder by its name on a command line; for endpoints, the other arguments are ignored, which is logged.

    ====================================================  ===========================================================
    ``"sentence-transformers/all-MiniLM-L6-v2"``          a model on the Hub
    ``"docsplit-small-en"``                               the checkpoint that ships
    ``"out/docsplit"``                                    a folder: a DocSplit checkpoint, an adapter, any other encoder
    ``"hkunlp/instructor-base#prompt=Represent:"``        with a prompt of one's own before every text
    ``"Qwen/Qwen3-Embedding-0.6B#prompt_name=query"``     with another of its prompts than that for classification
    ``"google-bert/bert-base-uncased#pooling=mean"``      with another pooling than its own
    ``"https://api.openai.com/v1#text-embedding-3-small"``  a model behind an OpenAI-compatible endpoint; it may be
                                                          followed by ``#requests_per_minute=60``,
                                                          ``#max_characters=20000`` and ``#key_variable=MY_API_KEY``
    ====================================================  ===========================================================

    By default a key (``OPENAI_API_KEY``) is sent only to api.openai.com. For other hosts, name the variable with
    ``#key_variable``.
    """
    base, options = split_name(name)
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


def cached_embeddings(
    encoder: TextEncoder,
    texts: Sequence[str],
    folder: str | Path | None,
    on_done: Callable[[int], Any] | None = None,
) -> np.ndarray:
    """Embed N texts, or read their cached embeddings: float32 ``(N, D)``.

    A file of the cache has the embeddings of 256 texts, and is named by a checksum of the encoder's fingerprint and the
    texts. The folder may be deleted.

    Args:
        encoder: The encoder.
        texts: The texts.
        folder: The folder of the cache. None: no cache.
        on_done: Called with the number of texts after each file.
    """

    check_texts(texts)
    fingerprint = encoder.fingerprint
    chunks: list[np.ndarray] = []
    cached = 0
    with sum_up_warnings():
        for start in range(0, len(texts), CHUNK):
            part = texts[start : start + CHUNK]
            path = None if folder is None else Path(folder, f"{_chunk_key(fingerprint, part)}.safetensors")
            embeddings = None if path is None else _read(path, len(part))
            if embeddings is None:
                embeddings = encoder.encode(part, show_progress=False)
                _check(encoder, embeddings, part, start)
                if path is not None:
                    _write(path, embeddings)
            else:
                cached += len(part)
            chunks.append(embeddings)
            if embeddings.shape[1] != chunks[0].shape[1]:
                raise ValueError(
                    f"{encoder!r} gives {embeddings.shape[1]} dimensions after {chunks[0].shape[1]}: delete the "
                    f"embeddings in {folder}."
                )
            if on_done is not None:
                on_done(len(part))
    if folder is not None and texts:
        logger.info("%d of %d embeddings of %r come from %s.", cached, len(texts), encoder, folder)
    return np.concatenate(chunks) if chunks else encoder.encode([], show_progress=False)


def _chunk_key(fingerprint: str, texts: Sequence[str]) -> str:
    """The checksum that names the file of a chunk of texts."""
    contents = [text.encode("utf-8", "surrogatepass") for text in texts]
    return sha256_of_parts([fingerprint.encode(), *(len(data).to_bytes(8, "big") + data for data in contents)])


def _check(encoder: TextEncoder, embeddings: np.ndarray, texts: Sequence[str], start: int) -> None:
    """Refuse a wrong number of embeddings, NaN and infinity; ``start``: the number of the first text."""
    if len(embeddings) != len(texts):
        raise ValueError(f"{encoder!r} gives {len(embeddings)} embeddings for {len(texts)} texts.")
    broken = np.flatnonzero(~np.isfinite(embeddings).all(1))
    if len(broken):
        text = texts[broken[0]]
        raise ValueError(
            f"{encoder!r} gives NaN or infinity for {len(broken)} of {len(texts)} texts, the first of them text "
            f"{start + broken[0]}: {text[:80] + '...' if len(text) > 80 else text!r}. Its weights may be damaged, or "
            "its states too large for the precision: try float32."
        )


def _checksum(embeddings: np.ndarray) -> str:
    """The SHA-256 of the embeddings in a file."""
    return sha256_of_parts([np.ascontiguousarray(embeddings)])


def _write(path: Path, embeddings: np.ndarray) -> None:
    """Write embeddings with their checksum."""
    from safetensors.numpy import save

    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, save({NAME: np.ascontiguousarray(embeddings)}, {"sha256": _checksum(embeddings)}))


def _read(path: Path, number: int) -> np.ndarray | None:
    """Read the embeddings of ``number`` texts; None if the file does not exist or is damaged."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        return None
    try:
        with safe_open(path, "np") as file:
            embeddings = file.get_tensor(NAME)
            stated = (file.metadata() or {}).get("sha256")
        if len(embeddings) == number and stated == _checksum(embeddings):
            return embeddings
        damage = "checksum mismatch"
    except SafetensorError as error:
        damage = str(error)
    logger.warning("%s is damaged (%s): its %d texts are embedded again.", path, damage, number)
    return None


class System(Protocol):
    """Interface of systems, which compute features of the texts of a task."""

    name: str  # in the tables
    fingerprint: str

    def features(self, train: Sequence[str], *others: Sequence[str]) -> list[Features]:
        """Compute features of each list of texts, float32 or sparse ``(N, D)``; any fitting uses ``train`` only."""


@dataclass(eq=False)
class EncoderSystem:
    """An encoder with embeddings cached in ``cache_folder``; the encoder must not be changed."""

    name: str
    encoder: TextEncoder
    cache_folder: str | Path | None = None

    @cached_property
    def fingerprint(self) -> str:
        """The encoder's fingerprint."""
        return self.encoder.fingerprint

    def features(self, train: Sequence[str], *others: Sequence[str]) -> list[Features]:
        """Embed the training texts and each other list of texts: float32 ``(N, D)``, of norm 1."""
        return self.embed_lists(cached_embeddings, train, *others)

    def embed_lists(self, embed_one: Callable[..., Any], *lists: Sequence[str]) -> list[Any]:
        """Call ``embed_one`` on each list of texts, with one progress bar for all."""
        total = sum(len(texts) for texts in lists)
        with tqdm(total=total, desc=f"Embedding by {self.name}", unit="text") as progress:
            return [embed_one(self.encoder, texts, self.cache_folder, progress.update) for texts in lists]

    def with_strategies(self, strategies: Sequence[str]) -> list[EncoderSystem]:
        """Make a system for each strategy for long documents, all with the same encoder in memory."""
        encoder = self.encoder
        options: dict[str, str | bool] = {"bf16": False}
        if isinstance(encoder, EncoderWithOptions):
            options = encoder.options
            encoder = encoder.encoder
        if not isinstance(encoder, DocumentEncoder):  # an endpoint has no strategies
            return [self]
        systems = []
        for strategy in strategies:
            reader = EncoderWithOptions(encoder, **options | {"long_documents": strategy})
            systems.append(EncoderSystem(f"{self.name} ({strategy})", reader, self.cache_folder))
        return systems


class TfidfSystem:
    """TF-IDF of words and pairs of words, with logarithmic term frequency: a strong baseline on long documents."""

    def __init__(self, name: str = "tfidf") -> None:
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


SYSTEMS_WITHOUT_ENCODER: Mapping[str, Callable[[str], System]] = {"tfidf": TfidfSystem}


def load_system(
    name: str,
    cache_folder: str | Path | None = None,
    max_length: int | None = None,
    bf16: bool = False,
    long_documents: str = "first",
    word_counts: Mapping[str, Callable[[str], System]] = SYSTEMS_WITHOUT_ENCODER,
) -> System:
    """Load a system by its name on a command line.

    Args:
        name: ``"tfidf"``, or an encoder as for ``load_text_encoder``: a folder, a model on the Hub, or
            ``"https://HOST/v1#MODEL"``. ``#name=DocSplit`` at its end sets its name in tables.
        cache_folder: The folder for embeddings. None: they are not cached.
        max_length: Longest input of an encoder in tokens. None: its own.
        bf16: Whether an encoder computes in bfloat16.
        long_documents: Strategy for long texts, as in ``DocumentEncoder.encode``.
        word_counts: Systems without an encoder, by their names.

    Returns:
        The system.

    Raises:
        ValueError: If an option does not exist, or the name is misspelled.
        OSError: If there is no such encoder.
    """
    base, options = split_name(name)
    shown = options.pop("name", None)
    if base in word_counts:
        if options:
            raise ValueError(f"{name!r}: {base} has no options but name.")
        return word_counts[base](shown or base)
    near = difflib.get_close_matches(base.lower(), word_counts, n=1)
    if near and not Path(base).exists():
        raise ValueError(f"There is no system {base!r}. Did you mean {near[0]!r}?")
    without_name = "#".join(part for part in name.split("#") if part.partition("=")[0].strip() != "name")
    try:
        encoder = load_text_encoder(without_name, max_length, bf16, long_documents)
    except OSError as error:
        known = f"{', '.join(word_counts)}, a folder, a model on the Hub or 'https://HOST/v1#MODEL' for an endpoint"
        raise OSError(f"{error} A system is {known}.") from error
    return EncoderSystem(shown or name, encoder, cache_folder)
