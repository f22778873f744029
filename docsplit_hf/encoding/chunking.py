"""Cut texts into chunks that fit an encoder's maximum length, by each strategy for long texts.

``first`` and ``head_tail`` make one chunk of a text; with ``whole``, ``average`` and ``passages`` the chunks cover all
of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from numbers import Integral
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from ..reading.characters import replace_lone_surrogates
from ..reading.segmentation.sentences import split_lines_plain
from ..reading.text_warnings import read_fractions, warn_of_cut_texts
from ..reading.tokenization import (
    PLAIN,
    WINDOW,
    array_parts,
    beginning,
    ending,
    find_safe_cut_pattern,
    input_beginnings,
    special_tokens_around,
    token_arrays,
    token_ids_and_spans,
    tokenizer_batches,
    tokens_per_sentence,
    windows,
)

if TYPE_CHECKING:
    from tokenizers import Encoding
    from transformers import PreTrainedTokenizerBase

SingleVector = Literal["first", "head_tail", "whole", "average"]
SINGLE_VECTOR = get_args(SingleVector)
PASSAGES = "passages"  # the strategy that gives a text several vectors
SINGLE_CHUNK = ("first", "head_tail")
HEAD_FRACTION = 0.25  # Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?": 128 + 382 of 510 tokens
WINDOWS_AT_ONCE = 4  # of a long text that are tokenized together: others wait for the tokenizer, or only few are read
# Tokens of a probe without the prompt: so short that all settings for long texts give the same embeddings.
PROBE_LENGTH = 16
TRIAL_WORD = "the"  # a text to try a prompt with
ADVICE_WHOLE = "long_documents='whole' reads all of them."
ADVICE_ALL_PASSAGES = "Without max_passages all of each text is read."


class ChunkSettings(NamedTuple):
    """The longest chunk, and the special tokens and the prompt in it."""

    tokenizer: PreTrainedTokenizerBase
    prefix: list[int]  # special tokens before the text
    suffix: list[int]  # special tokens after the text
    max_length: int  # in tokens, special tokens and prompt included
    prompt: str = ""  # precedes the text
    prompt_length: int = 0  # in tokens
    first_pooled: int = 0  # the first token of a chunk that mean, max and first-token pooling read

    @classmethod
    def of(
        cls,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int,
        prompt: str = "",
        include_prompt: bool = True,
        is_paired: bool = False,
    ) -> ChunkSettings:
        """Make the settings for a tokenizer; settings that leave no room for text are refused."""
        special = tokenizer.num_special_tokens_to_add(pair=is_paired)
        if max_length <= special:
            raise ValueError(f"max_length={max_length} leaves no room for text beside the {special} special tokens.")
        prefix, suffix = special_tokens_around(tokenizer)
        if not prompt:
            return cls(tokenizer, prefix, suffix, max_length)
        alone, before_text = (ids.tolist() for ids in token_arrays(tokenizer, [prompt, prompt + TRIAL_WORD]))
        if max_length <= special + len(alone):
            too_long = f"The prompt {prompt!r} has {len(alone)} tokens"
            raise ValueError(f"{too_long}: with max_length={max_length} there is no room for text behind it.")
        # A space at the end of a prompt may become a part of the first token of the text.
        shared = [ours == theirs for ours, theirs in zip(alone, before_text, strict=False)]
        return cls(
            tokenizer,
            prefix,
            suffix,
            max_length,
            prompt,
            prompt_length=[*shared, False].index(False),
            # As in sentence-transformers: the tokens of the prompt by itself.
            first_pooled=0 if include_prompt else len(prefix) + len(alone),
        )

    @property
    def max_text_tokens(self) -> int:
        """The most tokens of a text in a chunk."""
        return self.max_length - len(self.prefix) - len(self.suffix) - self.prompt_length

    def with_special_tokens(self, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Put special tokens around the tokens of each row, int32 ``(n,)``: the same, parts of one array."""
        prefix = np.array(self.prefix, dtype=np.int32)
        suffix = np.array(self.suffix, dtype=np.int32)
        joined = np.concatenate([part for ids in rows for part in (prefix, ids, suffix)])
        return array_parts(joined, [len(prefix) + len(ids) + len(suffix) for ids in rows])


class Chunk(NamedTuple):
    """Tokens of a text that an encoder reads together, and that get one embedding."""

    text: int  # the number of the text
    input_ids: np.ndarray  # int32 (n,), special tokens included
    start: int  # in the text, in characters
    end: int  # in the text, in characters
    weight: int = 0  # in the text's average (token count); 0 if it is the only chunk of the text
    read_fraction: float = 1.0  # the part of the text that all of its chunks cover
    token_type_ids: np.ndarray | None = None  # int32 (n,): in a pair of texts, the number of each token's text
    is_first: bool = True  # whether it is the first chunk of its text


def check_strategy(name: str, strategies: Sequence[str] = (*SINGLE_VECTOR, PASSAGES)) -> str:
    """Return the name of a strategy for long texts; raise if there is no such strategy."""
    if name in strategies:
        return name
    known = ", ".join(map(repr, strategies))
    if name == PASSAGES:
        known += f" ({name!r} gives a text several embeddings: use encode_passages)"
    raise ValueError(f"long_documents must be one of {known}, got {name!r}.")


def probe_length(tokenizer: PreTrainedTokenizerBase, prompt: str) -> int:
    """The longest input of a probe, in tokens."""
    return PROBE_LENGTH + len(token_arrays(tokenizer, [prompt])[0])


def read_chunks(
    texts: Sequence[str],
    settings: ChunkSettings,
    strategy: str,
    passage_length: int | None = None,
    max_passages: int | None = None,
    pairs: Sequence[str | None] | None = None,
) -> Iterator[Chunk]:
    """Cut each text into chunks, in order; the arguments are those of ``DocumentEncoder.encode_passages``.

    ``pairs``: the second text of each, or None. With them a text has one chunk, and texts without a second come first.
    """
    if pairs is not None:
        if max_passages is not None:
            raise ValueError(f"max_passages={max_passages!r} is for single texts: leave it out for pairs.")
        if strategy not in ("first", "whole"):
            raise ValueError(f"long_documents={strategy!r} is for single texts: for pairs use 'first' or 'whole'.")
        return _read_pair_chunks(texts, pairs, settings)
    if max_passages is not None and strategy in SINGLE_CHUNK:
        raise ValueError(
            f"max_passages={max_passages!r} has no effect with long_documents={strategy!r}, which reads one chunk of a "
            "text: remove it."
        )
    if max_passages is not None and (not isinstance(max_passages, Integral) or max_passages < 1):
        raise ValueError(f"max_passages must be a whole number from 1, got {max_passages!r}.")
    if strategy in SINGLE_CHUNK:
        return _truncated_chunks(texts, settings, has_tail=strategy == "head_tail")
    longest = settings.max_length
    overhead = longest - settings.max_text_tokens  # special tokens and prompt
    if passage_length is None:
        passage_length = longest
    if not isinstance(passage_length, Integral) or not overhead < passage_length <= longest:
        raise ValueError(
            f"passage_length must be from {overhead + 1} to {longest} tokens, got {passage_length!r}: {overhead} "
            f"are taken by special tokens and the prompt, and the encoder reads at most {longest}."
        )
    return _passages(texts, settings._replace(max_length=passage_length), max_passages)


def _read_pair_chunks(
    texts: Sequence[str], text_pairs: Sequence[str | None], settings: ChunkSettings
) -> Iterator[Chunk]:
    """Yield first a truncated chunk of each unpaired text, then one of each pair (``longest_first`` truncation)."""
    alone = [i for i, pair in enumerate(text_pairs) if pair is None]
    for chunk in _truncated_chunks([texts[i] for i in alone], settings):
        yield chunk._replace(text=alone[chunk.text])
    paired = [i for i, pair in enumerate(text_pairs) if pair is not None]
    valid = (
        (replace_lone_surrogates(settings.prompt + texts[i]), replace_lone_surrogates(text_pairs[i])) for i in paired
    )
    inputs = zip(paired, input_beginnings(valid, settings.max_length, settings.tokenizer), strict=True)
    lengths = []  # of both texts, in characters
    read_fractions = []
    for batch in tokenizer_batches(inputs, lambda given: sum(map(len, given[1]))):
        numbers = [number for number, _ in batch]
        encoding = settings.tokenizer(
            [first for _, (first, _) in batch],
            [second for _, (_, second) in batch],
            truncation=True,
            max_length=settings.max_length,
            return_attention_mask=False,
        )
        types = encoding.get("token_type_ids", [None] * len(numbers))
        for place, (number, ids, kinds) in enumerate(zip(numbers, encoding["input_ids"], types, strict=True)):
            length = len(texts[number]) + len(text_pairs[number])
            if encoding.encodings:
                read_fraction = _pair_read_fraction(encoding.encodings[place], length, len(settings.prompt))
            else:  # slow tokenizers do not return the tokens that they cut off
                whole = len(settings.tokenizer(settings.prompt + texts[number], text_pairs[number])["input_ids"])
                read_fraction = min(settings.max_length / whole, 1.0)
            lengths.append(length)
            read_fractions.append(read_fraction)
            yield Chunk(
                text=number,
                input_ids=np.array(ids, dtype=np.int32),
                start=0,
                end=len(texts[number]),
                read_fraction=read_fraction,
                token_type_ids=None if kinds is None else np.array(kinds, dtype=np.int32),
            )
    warn_of_cut_texts(lengths, np.array(read_fractions), settings.max_length, unit="characters", limit_unit="tokens")


def token_counts(chunks: Iterable[Chunk], texts: int) -> list[int]:
    """The number of tokens of the chunks of each of so many texts."""
    counts = [0] * texts
    for chunk in chunks:
        counts[chunk.text] += len(chunk.input_ids)
    return counts


def passage_bounds(sentence_lengths: Sequence[int] | np.ndarray, max_tokens: int) -> np.ndarray:
    """Put the sentences of a document into passages: start and end of each in tokens, int64 ``(P, 2)``, P at least 1.

    A passage gets sentences as long as the next one fits; a sentence of more than ``max_tokens`` is cut.
    """
    bounds = []
    start = 0
    end = 0
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
    """Make one chunk of each text: its first tokens, or its first and last ones. Cut tokens are logged at the end."""
    room = settings.max_text_tokens
    head = max(round(HEAD_FRACTION * room), 1) if has_tail else room
    tail = room - head
    # Only the beginning of a very long text is tokenized; the text's token count is extrapolated.
    prompt = settings.prompt_length
    safe_cut_pattern = find_safe_cut_pattern(settings.tokenizer) if any(len(text) > WINDOW for text in texts) else None
    starts = (beginning(settings.prompt + text, prompt + room, settings.tokenizer, safe_cut_pattern) for text in texts)
    lengths: list[int] = []  # in tokens
    is_estimated = False
    for batch in tokenizer_batches(starts):
        first = len(lengths)
        rows = []
        for start, ids in zip(batch, token_arrays(settings.tokenizer, batch), strict=True):
            text = texts[len(lengths)]
            prompted = len(settings.prompt) + len(text)
            is_whole = len(text) <= WINDOW or len(start) == prompted
            characters = len(start) if is_whole else prompted
            is_estimated = is_estimated or not is_whole
            length = round(len(ids) * characters / max(len(start), 1)) - prompt
            lengths.append(length)
            kept = ids[: prompt + head]
            if tail and length > room:
                rest = ids
                if not is_whole:
                    end = ending(text, tail, settings.tokenizer, safe_cut_pattern)
                    (rest,) = token_arrays(settings.tokenizer, [end])
                kept = np.concatenate([kept, rest[-tail:]])
            elif tail:
                kept = ids
            rows.append(kept)
        for number, input_ids in enumerate(settings.with_special_tokens(rows), start=first):
            yield Chunk(
                text=number,
                input_ids=input_ids,
                start=0,
                end=len(texts[number]),
                read_fraction=min(room / lengths[number], 1) if lengths[number] else 1.0,
            )
    warn_of_cut_texts(
        lengths, read_fractions(lengths, room), settings.max_length, advice=ADVICE_WHOLE, estimated=is_estimated
    )


def _pair_read_fraction(row: Encoding, characters: int, prompt: int) -> float:
    """The fraction of a pair's ``characters`` that its tokens cover, without the characters of the prompt."""
    if not row.overflowing:
        return 1.0
    ends = [0, 0]
    for sequence, (_, end) in zip(row.sequence_ids, row.offsets, strict=True):
        if sequence is not None:
            ends[sequence] = max(ends[sequence], end)
    return min((sum(ends) - prompt) / characters, float(np.nextafter(1, 0)))


class _Tokens(NamedTuple):
    """Consecutive tokens of a text."""

    ids: np.ndarray  # int32 (n,)
    spans: np.ndarray  # int64 (n, 2): start and end of each in the text, in characters
    sentence_lengths: list[int]  # tokens of each sentence; a text that fits into one chunk counts as one sentence

    def between(self, start: int, end: int) -> _Tokens:
        """The tokens from ``start`` to ``end``; sentences are cut at both."""
        lengths = np.diff(np.cumsum([0, *self.sentence_lengths]).clip(start, end))
        return _Tokens(self.ids[start:end], self.spans[start:end], lengths[lengths > 0].tolist())


def _passages(texts: Sequence[str], settings: ChunkSettings, max_passages: int | None = None) -> Iterator[Chunk]:
    """Cut each text into passages, a chunk each; what ``max_passages`` cuts off is logged at the end."""
    pending: _Tokens | None = None  # the unfinished last passage of the previous window
    prompt = np.empty(0, dtype=np.int32)
    yielded = 0  # passages of this text
    read_fraction = np.ones(len(texts))
    for text, window, window_prompt, is_last in _tokenized_windows(texts, settings, read_fraction):
        if read_fraction[text] < 1:  # the text already has max_passages; this window was tokenized in the same batch
            continue
        if pending is None:
            tokens = window
            prompt = window_prompt
        else:
            tokens = _Tokens(
                ids=np.concatenate([pending.ids, window.ids]),
                spans=np.concatenate([pending.spans, window.spans]),
                sentence_lengths=pending.sentence_lengths + window.sentence_lengths,
            )
        bounds = passage_bounds(tokens.sentence_lengths, settings.max_text_tokens)
        for start, end in (bounds if is_last else bounds[:-1]).tolist():
            yielded += 1
            passage = tokens.between(start, end)
            is_only = is_last and yielded == 1 and len(bounds) == 1
            first, last = (0, len(texts[text])) if is_only else (int(passage.spans[0, 0]), int(passage.spans[-1, 1]))
            is_cut = yielded == max_passages and not (is_last and end == bounds[-1, 1])
            if is_cut:
                read_fraction[text] = min(last / len(texts[text]), float(np.nextafter(1, 0)))
            (input_ids,) = settings.with_special_tokens([np.concatenate([prompt, passage.ids])])
            yield Chunk(
                text=text,
                input_ids=input_ids,
                start=first,
                end=last,
                weight=0 if is_only else len(input_ids) - len(prompt),
                read_fraction=float(read_fraction[text]),
                is_first=yielded == 1,
            )
            if is_cut:
                break
        if is_last or read_fraction[text] < 1:
            pending = None
            yielded = 0
        else:
            pending = tokens.between(bounds[-1, 0], len(tokens.ids))
    if max_passages is not None:
        lengths = [len(text) for text in texts]
        warn_of_cut_texts(
            lengths, read_fraction, max_passages, unit="characters", advice=ADVICE_ALL_PASSAGES, limit_unit="passages"
        )


def _tokenized_windows(
    texts: Sequence[str], settings: ChunkSettings, read_fraction: np.ndarray
) -> Iterator[tuple[int, _Tokens, np.ndarray, bool]]:
    """Tokenize each text window by window; a window ends with a sentence.

    Yields the number of the text, the tokens of a window, those of the prompt before it, int32 ``(n,)``, empty after
    the text's first window, and whether it is the text's last window.

    To skip the rest of a text, the caller sets ``read_fraction[text] < 1`` in this shared array ``(N,)``.
    """
    safe_cut_pattern = find_safe_cut_pattern(settings.tokenizer) if any(len(text) > WINDOW for text in texts) else None

    def contents() -> Iterator[tuple[int, str, int, bool]]:
        """Number of the text, content of a window, its start in characters, and whether it is the last."""
        for number, text in enumerate(texts):
            prompted = settings.prompt + text
            end = 0
            for content in windows(prompted, safe_cut_pattern):
                if read_fraction[number] < 1:
                    break
                start = end
                end += len(content)
                yield number, content, start, end == len(prompted)

    for batch in tokenizer_batches(contents(), lambda window: len(window[1]), WINDOWS_AT_ONCE * WINDOW):
        tokenize = token_ids_and_spans if settings.tokenizer.is_fast else _token_ids_and_sentence_spans
        tokenized = tokenize(settings.tokenizer, [content for _, content, _, _ in batch])
        for (number, content, start, is_last), (ids, spans) in zip(batch, tokenized, strict=True):
            prompt_length = settings.prompt_length if start == 0 else 0
            fits = start == 0 and is_last and len(ids) - prompt_length <= settings.max_text_tokens
            sentences = [content] if fits else split_lines_plain(content)
            tokens = _Tokens(
                ids=ids,
                spans=(spans + start - len(settings.prompt)).clip(0, len(texts[number])),
                sentence_lengths=tokens_per_sentence(sentences, spans[:, 1]),
            )
            if prompt_length:
                tokens = tokens.between(prompt_length, len(ids))
            yield number, tokens, ids[:prompt_length], is_last


def _token_ids_and_sentence_spans(
    tokenizer: PreTrainedTokenizerBase, contents: list[str]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """As ``token_ids_and_spans``, by a slow tokenizer, which gives no offsets: each token gets its sentence's span."""
    for content in map(replace_lone_surrogates, contents):
        sentences = split_lines_plain(content)
        ids = [tokenizer(sentence, **PLAIN)["input_ids"] for sentence in sentences]
        ends = np.cumsum([len(sentence) for sentence in sentences])
        spans = np.repeat(np.column_stack([np.array([0, *ends])[:-1], ends]), [len(row) for row in ids], axis=0)
        yield np.array(list(chain.from_iterable(ids)), dtype=np.int32), spans
