"""A tokenizer.json read by the library tokenizers, with the methods of transformers that cutting texts needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import AddedToken, Encoding, Tokenizer


class Tokenized(dict[str, Any]):
    """``input_ids`` and ``token_type_ids`` as in transformers, and the encodings that they are from."""

    encodings: list[Encoding]


class FileTokenizer:
    """The tokenizer in a file, without padding. It is used by one thread at a time, as it is changed to cut pairs."""

    is_fast = True
    is_bare_backend = True
    truncation_side = "right"

    def __init__(self, path: Path, unk_token_id: int | None) -> None:
        from tokenizers import Tokenizer

        self.unk_token_id = unk_token_id
        self.backend_tokenizer: Tokenizer = Tokenizer.from_file(str(path))
        self.backend_tokenizer.no_truncation()
        self.backend_tokenizer.no_padding()

    def __call__(
        self,
        texts: str | Sequence[str],
        text_pairs: str | Sequence[str] | None = None,
        add_special_tokens: bool = True,
        truncation: bool = False,
        max_length: int | None = None,
        **_: Any,
    ) -> Tokenized:
        """Tokenize texts, or pairs of texts; other options of transformers have no effect here."""
        is_single = isinstance(texts, str)
        given: list[Any] = [texts] if is_single else list(texts)
        if text_pairs is not None:
            given = list(zip(given, [text_pairs] if is_single else text_pairs, strict=True))
        if truncation and max_length is not None:
            self.backend_tokenizer.enable_truncation(max_length)
        encodings = self.backend_tokenizer.encode_batch(given, add_special_tokens=add_special_tokens)
        self.backend_tokenizer.no_truncation()
        rows = [encoding.ids for encoding in encodings]
        tokenized = Tokenized(
            input_ids=rows[0] if is_single else rows,
            token_type_ids=[encoding.type_ids for encoding in encodings],
        )
        tokenized.encodings = encodings
        return tokenized

    @property
    def added_tokens_decoder(self) -> dict[int, AddedToken]:
        """The tokens that were added to the vocabulary, by their number."""
        return self.backend_tokenizer.get_added_tokens_decoder()

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """The number of special tokens around a text."""
        return self.backend_tokenizer.num_special_tokens_to_add(pair)
