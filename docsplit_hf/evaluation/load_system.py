"""What is compared: encoders, and the word counts that they have to beat."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from tqdm.auto import tqdm

from ..models.inference.encoder import DocumentEncoder
from ..models.inference.endpoint import split_name
from .embedding_cache import cached_embeddings
from .encoders import EncoderWithOptions, TextEncoder, load_encoder

Features = np.ndarray | sparse.csr_matrix  # (N, D)

# Words of two characters and more, as in scikit-learn, and each Chinese or Japanese character by itself: these scripts
# put no spaces between words, and pairs of characters do nearly as well there as words.
_CHARACTERS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
WORDS = rf"[{_CHARACTERS}]|[^\W{_CHARACTERS}]{{2,}}"
MAX_FEATURES = 50_000  # the most frequent ones; the first layer of a probe has as many rows


class System(Protocol):
    """What turns the texts of a task into features."""

    name: str  # as in the tables
    fingerprint: str

    def features(self, train: Sequence[str], *others: Sequence[str]) -> list[Features]:
        """Features of the training texts and of each other list of texts, ``(N, D)``, float32 and dense, or sparse.

        What has to be fitted is fitted on the training texts: never on labels, never on the others.
        """


class EncoderSystem:
    """An encoder, whose embeddings are computed once and kept in ``cache_folder``; it must not change afterwards."""

    def __init__(self, name: str, encoder: TextEncoder, cache_folder: str | Path | None = None) -> None:
        self.name = name
        self.encoder = encoder
        self.cache_folder = cache_folder

    @cached_property
    def fingerprint(self) -> str:
        return self.encoder.fingerprint

    def features(self, train: Sequence[str], *others: Sequence[str]) -> list[Features]:
        """The embeddings of the training texts and of each other list of texts: float32 ``(N, D)``, of norm 1."""
        return self.embed(cached_embeddings, train, *others)

    def embed(self, embed: Callable[..., Any], *lists: Sequence[str]) -> list[Any]:
        """What ``embed`` gives for each list of texts, with one bar for all."""
        total = sum(len(texts) for texts in lists)
        with tqdm(total=total, desc=f"Embedding by {self.name}", unit="text") as progress:
            return [embed(self.encoder, texts, self.cache_folder, progress.update) for texts in lists]

    def reading(self, strategies: Sequence[str]) -> list[EncoderSystem]:
        """The system once for each way to read long documents, with one encoder in memory."""
        encoder = self.encoder
        inner, options = getattr(encoder, "encoder", encoder), getattr(encoder, "options", {"bf16": False})
        if not isinstance(inner, DocumentEncoder):  # an endpoint reads as it does
            return [self]
        readers = [EncoderWithOptions(inner, **options | {"long_documents": name}) for name in strategies]
        pairs = zip(strategies, readers, strict=True)
        return [EncoderSystem(f"{self.name} ({name})", reader, self.cache_folder) for name, reader in pairs]


class TfidfSystem:
    """TF-IDF of words and pairs of words: not in the papers, and hard to beat on long documents, which it reads whole.

    As good as it gets without tuning on a task: logarithmic term frequency, the 50,000 most frequent features.
    """

    def __init__(self, name: str = "tfidf") -> None:
        self.name = name
        self.fingerprint = f"tfidf 1, words and pairs, {MAX_FEATURES} features, {WORDS}"

    def features(self, train: Sequence[str], *others: Sequence[str]) -> list[Features]:
        """TF-IDF vectors, sparse float32 ``(N, D)``, of norm 1; 0 where no word of a text is in the training texts."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(
            sublinear_tf=True, ngram_range=(1, 2), max_features=MAX_FEATURES, token_pattern=WORDS, dtype=np.float32
        )
        return [vectorizer.fit_transform(train), *(vectorizer.transform(texts) for texts in others)]


WORD_COUNTS: Mapping[str, Callable[[str], System]] = {"tfidf": TfidfSystem}


def load_system(
    name: str,
    cache_folder: str | Path | None = None,
    max_length: int | None = None,
    bf16: bool = False,
    long_documents: str = "first",
    word_counts: Mapping[str, Callable[[str], System]] = WORD_COUNTS,
) -> System:
    """Load ``"tfidf"``, or an encoder by a name that ``load_encoder`` knows, and the other arguments go to.

    ``"...#name=DocSplit"`` gives any of them another name in the tables.
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
        encoder = load_encoder(without_name, max_length, bf16, long_documents)
    except OSError as error:
        raise OSError(
            f"{error} A system is {', '.join(word_counts)}, a folder, a model on the Hub or "
            "'https://HOST/v1#MODEL' for an endpoint."
        ) from error
    return EncoderSystem(shown or name, encoder, cache_folder)
