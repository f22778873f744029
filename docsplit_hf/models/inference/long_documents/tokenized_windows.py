"""All tokens of texts, with their places and sentences, of a long text one window at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

from ....text.lone_surrogates import replace_lone_surrogates
from ....text.segmentation.sentences import split_lines_plain
from ....text.segmentation.tokens_per_sentence import tokens_per_sentence
from ....text.windows import WINDOW, certain_cuts, windows
from ..batching import tokenizer_batches
from .pieces import Frame


class TokenizedWindow(NamedTuple):
    """The tokens of a window of a text, and of each window the instruction before it."""

    text: int  # the number of the text
    ids: np.ndarray  # int32 (n,)
    spans: np.ndarray  # int64 (n, 2): where each stands in the text, in characters
    sentence_lengths: list[int]  # tokens of each sentence; one, where all of the text fits into a piece
    instruction: list[int]  # tokens before each piece of the text
    is_last: bool  # of its text

    def behind(self, before: TokenizedWindow | None) -> TokenizedWindow:
        """This window with what is left of those before it."""
        if before is None:
            return self
        return self._replace(
            ids=np.concatenate([before.ids, self.ids]),
            spans=np.concatenate([before.spans, self.spans]),
            sentence_lengths=[*before.sentence_lengths, *self.sentence_lengths],
            instruction=before.instruction,
        )

    def since(self, start: int) -> TokenizedWindow:
        """What is left behind the first ``start`` tokens."""
        return self._replace(
            ids=self.ids[start:],
            spans=self.spans[start:],
            sentence_lengths=self.sentences_between(start, len(self.ids)),
        )

    def characters(self, start: int, end: int) -> tuple[int, int]:
        """Where in the text some of the tokens stand, at least one."""
        return int(self.spans[start, 0]), int(self.spans[end - 1, 1])

    def sentences_between(self, start: int, end: int) -> list[int]:
        """The lengths of the sentences between two tokens, of those that are cut there of what is between."""
        places = np.cumsum([0, *self.sentence_lengths]).clip(start, end)
        lengths = np.diff(places)
        return lengths[lengths > 0].tolist()


class _Window(NamedTuple):
    text: int
    content: str
    start: int
    is_last: bool


def tokenized_windows(texts: Sequence[str], frame: Frame) -> Iterator[TokenizedWindow]:
    """The windows of each text in order, at least one. The end of a window ends a sentence."""
    cuts = certain_cuts(frame.tokenizer) if any(len(text) > WINDOW for text in texts) else None
    stream = (window for number, text in enumerate(texts) for window in _windows(number, frame.instructed(text), cuts))
    for batch in tokenizer_batches(stream, lambda window: len(window.content)):
        tokenized = _tokens_and_ends(frame.tokenizer, [window.content for window in batch])
        for window, (ids, spans) in zip(batch, tokenized, strict=True):
            own = frame.instruction_length if window.start == 0 else 0
            text = texts[window.text]
            # An instruction is joined to the stripped text.
            ahead = len(text) - len(text.lstrip()) - len(frame.instruction) if frame.instruction else 0
            fits = window.start == 0 and window.is_last and len(ids) - own <= frame.room
            sentences = [window.content] if fits else split_lines_plain(window.content)
            lengths = tokens_per_sentence(sentences, spans[:, 1])
            places = (spans + window.start + ahead).clip(0, len(text))
            whole = TokenizedWindow(window.text, ids, places, lengths, ids[:own].tolist(), window.is_last)
            yield whole.since(own) if own else whole


def _windows(number: int, text: str, cuts: re.Pattern[str] | None) -> Iterator[_Window]:
    end = 0
    for content in windows(text, cuts):
        start, end = end, end + len(content)
        yield _Window(number, content, start, end == len(text))


def _tokens_and_ends(
    tokenizer: PreTrainedTokenizerBase, contents: list[str]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of each content its tokens, and where they stand in it; all of a sentence, where a tokenizer does not say it."""
    options = {"add_special_tokens": False, "return_attention_mask": False, "verbose": False}
    valid = [replace_lone_surrogates(content) for content in contents]
    if tokenizer.is_fast:
        encoding = tokenizer(valid, return_offsets_mapping=True, **options)
        for ids, spans in zip(encoding["input_ids"], encoding["offset_mapping"], strict=True):
            yield np.array(ids, dtype=np.int32), np.array(spans, dtype=np.int64).reshape(-1, 2)
        return
    for content in valid:
        sentences = split_lines_plain(content)
        ids = [tokenizer(sentence, **options)["input_ids"] for sentence in sentences]
        ends = np.cumsum([len(sentence) for sentence in sentences])
        spans = np.repeat(np.column_stack([np.array([0, *ends])[:-1], ends]), [len(row) for row in ids], axis=0)
        yield np.array(list(chain.from_iterable(ids)), dtype=np.int32), spans
