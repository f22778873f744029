"""A tokenizer.json read by the library tokenizers, with the methods of transformers that cutting texts needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tokenizers import AddedToken, Encoding, Tokenizer


class Tokenized(NamedTuple):
    """Encodings of texts; ``["input_ids"]`` as in transformers."""

    encodings: list[Encoding]
    is_single: bool

    def __getitem__(self, name: str) -> Any:
        """The tokens of each text, or of the single one."""
        if name != "input_ids":
            raise KeyError(name)
        rows = [encoding.ids for encoding in self.encodings]
        return rows[0] if self.is_single else rows


class FileTokenizer:
    """The tokenizer in a file, without truncation and padding, for single texts."""

    is_fast = True
    is_bare_backend = True
    truncation_side = "right"

    def __init__(self, path: Path, unk_token_id: int | None) -> None:
        from tokenizers import Tokenizer

        self.unk_token_id = unk_token_id
        self.backend_tokenizer: Tokenizer = Tokenizer.from_file(str(path))
        self.backend_tokenizer.no_truncation()
        self.backend_tokenizer.no_padding()

    def __call__(self, texts: str | Sequence[str], add_special_tokens: bool = True, **_: Any) -> Tokenized:
        """Tokenize a text, or texts; other options of transformers have no effect here."""
        is_single = isinstance(texts, str)
        given = [texts] if is_single else list(texts)
        encodings = self.backend_tokenizer.encode_batch(given, add_special_tokens=add_special_tokens)
        return Tokenized(encodings, is_single)

    @property
    def added_tokens_decoder(self) -> dict[int, AddedToken]:
        """The tokens that were added to the vocabulary, by their number."""
        return self.backend_tokenizer.get_added_tokens_decoder()

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """The number of special tokens around a text."""
        return self.backend_tokenizer.num_special_tokens_to_add(pair)
