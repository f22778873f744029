"""What an encoder reads of texts: chunks, by each strategy for texts that are longer than it reads.

``first`` and ``head_tail`` read one chunk of a text; ``whole``, ``average``, ``passages`` and ``late`` read all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from numbers import Integral
from typing import Literal, NamedTuple, get_args

import numpy as np
from tokenizers import Encoding
from transformers import PreTrainedTokenizerBase

from ...text.characters import replace_lone_surrogates
from ...text.segmentation.sentences import split_lines_plain
from ...text.tokenization import (
    PLAIN,
    WINDOW,
    beginning,
    certain_cuts,
    ending,
    input_beginnings,
    special_tokens_around,
    token_ids,
    tokenizer_batches,
    tokens_per_sentence,
    windows,
)
from .text_warnings import read_fractions, warn_of_cut_texts

SingleVector = Literal["first", "head_tail", "whole", "average"]
SeveralVectors = Literal["passages", "late"]
SINGLE_VECTOR, SEVERAL_VECTORS = get_args(SingleVector), get_args(SeveralVectors)
SINGLE_CHUNK = ("first", "head_tail")  # one forward per text
HEAD_FRACTION = 0.25  # Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?": 128 + 382 of 510 tokens
LATE_PASSAGE = 256  # tokens, where nothing else is asked for
GROUP_TOKENS = 2**20  # held at once; enough for batches of similar length
ADVICE = "long_documents='whole' reads all of them."
ALL_PASSAGES = "Without max_passages all of each text is read."


class ChunkSettings(NamedTuple):
    """What stands around the tokens of a text in a chunk: special tokens, and maybe an instruction."""

    tokenizer: PreTrainedTokenizerBase
    prefix: list[int]  # special tokens before it
    suffix: list[int]  # special tokens after it
    max_length: int  # in tokens, with all of this
    instruction: str = ""  # what stands before the text
    instruction_length: int = 0  # in tokens

    @classmethod
    def of(
        cls, tokenizer: PreTrainedTokenizerBase, max_length: int, instruction: str = "", is_paired: bool = False
    ) -> ChunkSettings:
        """What a tokenizer puts around a text. It must leave room for some of the text."""
        special = tokenizer.num_special_tokens_to_add(pair=is_paired)
        if max_length <= special:
            raise ValueError(f"max_length={max_length} leaves no room for text beside the {special} special tokens.")
        length = len(token_ids(tokenizer, [instruction])[0]) if instruction else 0
        if max_length <= special + length:
            too_long = f"The instruction {instruction!r} has {length} tokens"
            raise ValueError(f"{too_long}: with max_length={max_length} there is no room for text behind it.")
        return cls(tokenizer, *special_tokens_around(tokenizer), max_length, instruction, length)

    @property
    def around(self) -> int:
        """How many special tokens a chunk has."""
        return len(self.prefix) + len(self.suffix)

    @property
    def max_text_tokens(self) -> int:
        """How many tokens of a text a chunk has."""
        return self.max_length - self.around - self.instruction_length

    @property
    def prompt_length(self) -> int:
        """How many tokens at the beginning of a chunk are not pooled."""
        return len(self.prefix) + self.instruction_length if self.instruction else 0

    def with_instruction(self, text: str) -> str:
        """The text behind the instruction, if there is one."""
        return self.instruction + text.strip() if self.instruction else text

    def with_special_tokens(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Tokens with special tokens around them, int32 ``(n,)``."""
        return np.concatenate([self.prefix, ids, self.suffix]).astype(np.int32)


class Chunk(NamedTuple):
    """Tokens of a text that an encoder reads together."""

    text: int  # the number of the text
    input_ids: np.ndarray  # int32 (n,), special tokens included
    start: int  # where it begins in the text, in characters
    end: int
    weight: int = 0  # in the average of its text: how many tokens it has; 0 for the only chunk
    share: float = 1.0  # of its text that is read; of all its chunks
    parts: np.ndarray | None = None  # int64 (p, 4): tokens pooled apart, from and to, and their characters
    token_type_ids: np.ndarray | None = None  # int32 (n,): of a pair of texts, which one each token belongs to
    is_first: bool = True  # of its text

    @property
    def is_only(self) -> bool:
        """Whether the text has this chunk alone, and one embedding."""
        return self.weight == 0

    @property
    def spans(self) -> np.ndarray:
        """The characters of the text that each embedding stands for, int64 ``(p, 2)``."""
        return np.array([[self.start, self.end]]) if self.parts is None else self.parts[:, 2:]

    @property
    def weights(self) -> np.ndarray:
        """The weight of each embedding in the average of the text: its number of tokens, int64 ``(p,)``."""
        return np.array([self.weight]) if self.parts is None else self.parts[:, 1] - self.parts[:, 0]


class Passages(NamedTuple):
    """The embeddings of the passages of N texts, those of a text together and in order."""

    embeddings: np.ndarray  # float32 (P, D)
    counts: np.ndarray  # int64 (N,): passages per text, at least 1
    spans: np.ndarray  # int64 (P, 2): where each begins and ends in its text, in characters

    @classmethod
    def joined(cls, texts: Sequence[tuple[np.ndarray, np.ndarray]]) -> Passages:
        """Of each text the embeddings of its passages, ``(p, D)``, and their spans, ``(p, 2)``."""
        embeddings, spans = zip(*texts, strict=True)
        counts = np.array([len(part) for part in embeddings], dtype=np.int64)
        return cls(np.concatenate(embeddings), counts, np.concatenate(spans))

    def of(self, text: int) -> tuple[np.ndarray, np.ndarray]:
        """The embeddings of the passages of a text, ``(p, D)``, and their spans, ``(p, 2)``."""
        start = int(self.counts[:text].sum())
        part = slice(start, start + int(self.counts[text]))
        return self.embeddings[part], self.spans[part]


def check_strategy(name: str, strategies: Sequence[str] = (*SINGLE_VECTOR, *SEVERAL_VECTORS)) -> str:
    """Return ``name`` if there is such a strategy."""
    if name in strategies:
        return name
    known = ", ".join(map(repr, strategies))
    if name in SEVERAL_VECTORS:
        known += f"; {name!r} gives a text several embeddings: encode_passages"
    raise ValueError(f"long_documents must be one of {known}, got {name!r}.")


def read_chunks(
    texts: Sequence[str],
    settings: ChunkSettings,
    strategy: str,
    passage_length: int | None = None,
    max_passages: int | None = None,
) -> Iterator[Chunk]:
    """The chunks of each text, in order; the arguments are those of ``DocumentEncoder.encode_passages``."""
    if max_passages is not None and strategy in SINGLE_CHUNK:
        raise ValueError(
            f"max_passages={max_passages!r} limits what is read in passages, and long_documents={strategy!r} reads one "
            "chunk of a text: leave it out."
        )
    if max_passages is not None and (not isinstance(max_passages, Integral) or max_passages < 1):
        raise ValueError(f"max_passages must be a whole number from 1, got {max_passages!r}.")
    if strategy in SINGLE_CHUNK:
        return _truncated_chunks(texts, settings, has_tail=strategy == "head_tail")
    around, longest = settings.max_length - settings.max_text_tokens, settings.max_length
    if passage_length is None:
        passage_length = min(LATE_PASSAGE, longest) if strategy == "late" else longest
    if not isinstance(passage_length, Integral) or not around < passage_length <= longest:
        raise ValueError(
            f"passage_length must be from {around + 1} to {longest} tokens, got {passage_length!r}: a passage has "
            f"{around} tokens around its text, and no more than the {longest} that the encoder reads."
        )
    if strategy == "late":
        return _late_chunks(texts, settings, passage_length - around, max_passages)
    return (chunk for *_, chunk in _passages(texts, settings._replace(max_length=passage_length), max_passages))


def read_pair_chunks(
    texts: Sequence[str], text_pairs: Sequence[str | None], settings: ChunkSettings
) -> Iterator[Chunk]:
    """The texts without a pair first, each by its beginning; then the pairs, of which the longer text is cut first."""
    alone = [i for i, pair in enumerate(text_pairs) if pair is None]
    for chunk in _truncated_chunks([texts[i] for i in alone], settings):
        yield chunk._replace(text=alone[chunk.text])
    paired = [i for i, pair in enumerate(text_pairs) if pair is not None]
    valid = ((replace_lone_surrogates(texts[i]), replace_lone_surrogates(text_pairs[i])) for i in paired)
    inputs = zip(paired, input_beginnings(valid, settings.max_length, settings.tokenizer), strict=True)
    lengths, shares = [], []
    for batch in tokenizer_batches(inputs, lambda given: sum(map(len, given[1]))):
        numbers, beginnings = zip(*batch, strict=True)
        options = {"truncation": True, "max_length": settings.max_length, "return_attention_mask": False}
        encoding = settings.tokenizer(*map(list, zip(*beginnings, strict=True)), **options)
        types = encoding.get("token_type_ids", [None] * len(numbers))
        for place, (number, ids, kinds) in enumerate(zip(numbers, encoding["input_ids"], types, strict=True)):
            lengths.append(len(texts[number]) + len(text_pairs[number]))
            if encoding.encodings:
                shares.append(_read_fraction(encoding.encodings[place], lengths[-1]))
            else:  # a tokenizer that is not fast does not say what it cuts off
                whole = len(settings.tokenizer(texts[number], text_pairs[number])["input_ids"])
                shares.append(min(settings.max_length / whole, 1.0))
            kinds = None if kinds is None else np.array(kinds, dtype=np.int32)
            row = np.array(ids, dtype=np.int32)
            yield Chunk(number, row, 0, len(texts[number]), share=shares[-1], token_type_ids=kinds)
    warn_of_cut_texts(lengths, np.array(shares), settings.max_length, "characters", "", "tokens")


def grouped(chunks: Iterable[Chunk], texts: Sequence[str]) -> Iterator[tuple[list[Chunk], int]]:
    """Pieces in groups of a million tokens, each with the number of all chunks, estimated till the last group."""
    characters = [0, *accumulate(len(text) for text in texts)]
    group: list[Chunk] = []
    known = tokens = 0
    for chunk in chunks:
        group.append(chunk)
        known, tokens = known + 1, tokens + len(chunk.input_ids)
        if tokens >= GROUP_TOKENS:
            read = characters[chunk.text] + chunk.end
            yield group, max(known, round(known * characters[-1] / max(read, 1)))
            group, tokens = [], 0
    if group:
        yield group, known


def passage_bounds(sentence_lengths: Sequence[int] | np.ndarray, max_tokens: int) -> np.ndarray:
    """Where the passages of a document begin and end, in tokens: int64 ``(P, 2)``, at least one, in order.

    A passage takes sentences until the next one does not fit; a sentence that is too long is cut.
    """
    bounds, start, end = [], 0, 0
    for length in sentence_lengths:
        if end + length - start > max_tokens and end > start:
            bounds.append((start, end))
            start = end
        end += int(length)
        while end - start > max_tokens:
            bounds.append((start, start + max_tokens))
            start += max_tokens
    if end > start or not bounds:
        bounds.append((start, end))
    return np.array(bounds, dtype=np.int64)


def _truncated_chunks(texts: Sequence[str], settings: ChunkSettings, has_tail: bool = False) -> Iterator[Chunk]:
    """A chunk of each text: its first tokens, or its first and last ones. How much was cut is logged at the end."""
    head = max(round(HEAD_FRACTION * settings.max_text_tokens), 1) if has_tail else settings.max_text_tokens
    cuts = certain_cuts(settings.tokenizer) if any(len(text) > WINDOW for text in texts) else None
    instruction, tail = settings.instruction_length, settings.max_text_tokens - head
    starts = (
        beginning(settings.with_instruction(text), instruction + settings.max_text_tokens, settings.tokenizer, cuts)
        for text in texts
    )
    lengths: list[int] = []
    estimated = False
    for batch in tokenizer_batches(starts):
        for start, ids in zip(batch, token_ids(settings.tokenizer, batch), strict=True):
            number, text = len(lengths), texts[len(lengths)]
            is_whole = len(text) <= WINDOW or len(start) == len(settings.with_instruction(text))
            characters = len(start) if is_whole else len(settings.with_instruction(text))
            estimated = estimated or not is_whole
            lengths.append(round(len(ids) * characters / max(len(start), 1)) - instruction)
            kept = ids[: instruction + head]
            if tail and lengths[-1] > settings.max_text_tokens:
                rest = (
                    ids
                    if is_whole
                    else token_ids(settings.tokenizer, [ending(text, tail, settings.tokenizer, cuts)])[0]
                )
                kept = kept + rest[-tail:]
            elif tail:
                kept = ids
            share = min(settings.max_text_tokens / lengths[-1], 1) if lengths[-1] else 1.0
            yield Chunk(number, settings.with_special_tokens(kept), 0, len(text), share=share)
    shares = read_fractions(lengths, settings.max_text_tokens)
    warn_of_cut_texts(lengths, shares, settings.max_length, advice=ADVICE, estimated=estimated)


def _read_fraction(row: Encoding, whole: int) -> float:
    """The share of a pair's ``whole`` characters that its tokens cover: below 1 if anything was cut off."""
    if not row.overflowing:
        return 1.0
    ends = [0, 0]
    for sequence, (_, end) in zip(row.sequence_ids, row.offsets, strict=True):
        if sequence is not None:
            ends[sequence] = max(ends[sequence], end)
    return min(sum(ends) / whole, float(np.nextafter(1, 0)))


class _Tokens(NamedTuple):
    """Some tokens of a text, one after the other."""

    ids: np.ndarray  # int32 (n,)
    spans: np.ndarray  # int64 (n, 2): where each stands in the text, in characters
    sentence_lengths: list[int]  # tokens of each sentence; one, where all of the text fits into a chunk

    def between(self, start: int, end: int) -> _Tokens:
        """Those from ``start`` to ``end``; sentences are cut there."""
        lengths = np.diff(np.cumsum([0, *self.sentence_lengths]).clip(start, end))
        return _Tokens(self.ids[start:end], self.spans[start:end], lengths[lengths > 0].tolist())

    @property
    def characters(self) -> tuple[int, int]:
        """Where they stand in the text."""
        return int(self.spans[0, 0]), int(self.spans[-1, 1])


def _late_chunks(
    texts: Sequence[str], settings: ChunkSettings, part_length: int, max_passages: int | None
) -> Iterator[Chunk]:
    """As much as fits in each chunk, with its passages as ``parts`` (late chunking, Günther et al. 2024).

    ``max_passages`` counts chunks here: the passages of a chunk are read together, at no further cost.
    """
    for tokens, ahead, chunk in _passages(texts, settings, max_passages):
        bounds = passage_bounds(tokens.sentence_lengths, part_length)
        if len(bounds) > 1 or not chunk.is_only:
            places = [tokens.between(first, last).characters for first, last in bounds]
            chunk = chunk._replace(weight=len(tokens.ids), parts=np.column_stack([bounds + ahead, places]))
        yield chunk


def _passages(
    texts: Sequence[str], settings: ChunkSettings, max_passages: int | None = None
) -> Iterator[tuple[_Tokens, int, Chunk]]:
    """The passages of each text: the tokens, how many tokens stand before them in the chunk, and the chunk.

    How much of the texts ``max_passages`` cuts off is logged at the end.
    """
    left: _Tokens | None = None  # of the windows before
    yielded = 0  # passages of this text
    shares = np.ones(len(texts))
    for text, window, own, is_last in _tokenized_windows(texts, settings, shares):
        if shares[text] < 1:  # a window that was tokenized before its text was known to have enough passages
            continue
        if left is None:
            tokens, instruction = window, own
        else:
            parts = (np.concatenate([left.ids, window.ids]), np.concatenate([left.spans, window.spans]))
            tokens = _Tokens(*parts, left.sentence_lengths + window.sentence_lengths)
        bounds = passage_bounds(tokens.sentence_lengths, settings.max_text_tokens)
        # Where the text goes on, its last passage waits: it may get more tokens.
        for start, end in (bounds if is_last else bounds[:-1]).tolist():
            yielded += 1
            passage = tokens.between(start, end)
            is_only = is_last and yielded == 1 and len(bounds) == 1
            ids = settings.with_special_tokens(instruction + passage.ids.tolist())
            characters = (0, len(texts[text])) if is_only else passage.characters
            weight = 0 if is_only else settings.around + end - start
            is_cut = yielded == max_passages and not (is_last and end == bounds[-1, 1])
            if is_cut:
                shares[text] = min(characters[1] / len(texts[text]), float(np.nextafter(1, 0)))
            share = float(shares[text])
            chunk = Chunk(text, ids, *characters, weight, share=share, is_first=yielded == 1)
            yield passage, len(settings.prefix) + len(instruction), chunk
            if is_cut:
                break
        is_done = is_last or shares[text] < 1
        left, yielded = (None, 0) if is_done else (tokens.between(bounds[-1, 0], len(tokens.ids)), yielded)
    if max_passages is not None:
        lengths = [len(text) for text in texts]
        warn_of_cut_texts(lengths, shares, max_passages, "characters", ALL_PASSAGES, limit_unit="passages")


def _tokenized_windows(
    texts: Sequence[str], settings: ChunkSettings, shares: np.ndarray
) -> Iterator[tuple[int, _Tokens, list[int], bool]]:
    """Each window of each text: the text's number, tokens, those of the instruction, and whether it is the last one.

    The end of a window ends a sentence. A text whose ``shares``, ``(N,)``, falls below 1 meanwhile is read no further.
    """
    cuts = certain_cuts(settings.tokenizer) if any(len(text) > WINDOW for text in texts) else None

    def contents() -> Iterator[tuple[int, str, int, bool]]:
        for number, text in enumerate(texts):
            text, end = settings.with_instruction(text), 0
            for content in windows(text, cuts):
                if shares[number] < 1:
                    break
                start, end = end, end + len(content)
                yield number, content, start, end == len(text)

    for batch in tokenizer_batches(contents(), lambda window: len(window[1])):
        tokenized = _tokens_and_spans(settings.tokenizer, [content for _, content, _, _ in batch])
        for (number, content, start, is_last), (ids, spans) in zip(batch, tokenized, strict=True):
            own = settings.instruction_length if start == 0 else 0
            text = texts[number]
            # An instruction is joined to the stripped text.
            ahead = len(text) - len(text.lstrip()) - len(settings.instruction) if settings.instruction else 0
            fits = start == 0 and is_last and len(ids) - own <= settings.max_text_tokens
            sentences = [content] if fits else split_lines_plain(content)
            places = (spans + start + ahead).clip(0, len(text))
            whole = _Tokens(ids, places, tokens_per_sentence(sentences, spans[:, 1]))
            yield number, whole.between(own, len(ids)) if own else whole, ids[:own].tolist(), is_last


def _tokens_and_spans(
    tokenizer: PreTrainedTokenizerBase, contents: list[str]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The tokens of each content and where each stands in it; with a slow tokenizer, where its sentence stands."""
    valid = [replace_lone_surrogates(content) for content in contents]
    if tokenizer.is_fast:
        encoding = tokenizer(valid, return_offsets_mapping=True, **PLAIN)
        for ids, spans in zip(encoding["input_ids"], encoding["offset_mapping"], strict=True):
            yield np.array(ids, dtype=np.int32), np.array(spans, dtype=np.int64).reshape(-1, 2)
        return
    for content in valid:
        sentences = split_lines_plain(content)
        ids = [tokenizer(sentence, **PLAIN)["input_ids"] for sentence in sentences]
        ends = np.cumsum([len(sentence) for sentence in sentences])
        spans = np.repeat(np.column_stack([np.array([0, *ends])[:-1], ends]), [len(row) for row in ids], axis=0)
        yield np.array(list(chain.from_iterable(ids)), dtype=np.int32), spans
