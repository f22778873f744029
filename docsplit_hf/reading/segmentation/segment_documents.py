"""Segment documents into sentences and tokenize them; cached and in parallel."""

from __future__ import annotations

import logging
import math
import multiprocessing
import re
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from ...cores import core_count
from ..characters import replace_lone_surrogates
from ..tokenization import PLAIN, WINDOW, find_safe_cut_pattern, tokens_per_sentence, windows
from ..usable_rows import (
    EMPTY,
    KEPT,
    NOT_A_STRING,
    SINGLE_SENTENCE,
    describe_dropped,
    keep_usable,
    refuse_other_types,
)
from .sentences import Splitter, get_segmenter

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

SINGLE_SENTENCE_CHOICES = ("drop", "dropout_pair")
DOCUMENTS_PER_CORE_SECOND = 700  # articles of Wikipedia
START_SECONDS = 0.15  # of a process, one after another
FIRST_LOG = 100  # number of documents of a stream after which the counts are logged for the first time
# Temporary columns about the segmentation of a document.
_OUTCOME = "_docsplit_outcome"
_REPLACED = "_docsplit_replaced"
_TEMPORARY = [_OUTCOME, _REPLACED]


class SegmentedDocument(TypedDict):
    """A row of ``segment_documents``; other columns are kept beside these."""

    input_ids: list[int]  # without special tokens
    sentence_lengths: list[int]  # tokens of each sentence


_Tokens = tuple[list[int], list[int]]  # the tokens of a document, and how many each sentence has that has any


def segment_documents(
    dataset: Dataset | IterableDataset,
    tokenizer: PreTrainedTokenizerBase,
    text_column: str = "text",
    segmenter: str | Splitter = "pysbd",
    language: str = "en",
    single_sentence: Literal["drop", "dropout_pair"] = "drop",
    num_proc: int | None = None,
) -> Dataset | IterableDataset:
    """Split documents into sentences and tokenize them, so that views can be cut from token ids.

    A document is tokenized once, as a whole; each token belongs to the sentence with its last character. Unusable
    documents are dropped and counted in the log: those that are not strings, those that are empty or white space, and,
    by default, those of one sentence, which cannot be halved.

    Args:
        dataset: Documents with a column of texts. A ``Dataset`` is processed in this call, in ``num_proc`` processes
            and with a progress bar, and cached by ``datasets``; an ``IterableDataset`` is processed while it is read.
        tokenizer: The tokenizer of the model to train.
        text_column: The column of the texts.
        segmenter: ``"pysbd"``; ``"newline"``, with lines as sentences; ``"whitespace"``, with words as sentences; or a
            function from a text to the list of its sentences, which must join to the text.
        language: The two-letter code of the language, for pysbd.
        single_sentence: Treatment of documents of one sentence: ``"drop"``; or ``"dropout_pair"``, to keep them and
            pair them with themselves.
        num_proc: Number of processes; 1: this process. None: ``default_processes``, and this process if ``segmenter``
            is a function or processes are not forked. The documents are the same. Not used for an
            ``IterableDataset``.

    Returns:
        The usable documents, with ``input_ids`` (the document's tokens, no special tokens) and ``sentence_lengths``
        (tokens per sentence, summing to ``len(input_ids)``) in place of the text. Other columns are kept.

    Raises:
        ValueError: If the column does not exist or does not hold strings, or no document is usable.

    Example:

        >>> from datasets import Dataset
        >>> from docsplit_hf.encoding.small_bert import train_small_bert_tokenizer
        >>> texts = ["One sentence. And another one.", "Only one sentence."]
        >>> tokenizer = train_small_bert_tokenizer(texts, vocab_size=60)
        >>> documents = segment_documents(Dataset.from_dict({"text": texts, "label": [0, 1]}), tokenizer)
        >>> len(documents), sorted(documents.column_names), len(documents[0]["sentence_lengths"])
        (1, ['input_ids', 'label', 'sentence_lengths'], 2)
    """
    import datasets

    if single_sentence not in SINGLE_SENTENCE_CHOICES:
        raise ValueError(f"single_sentence must be one of {SINGLE_SENTENCE_CHOICES}, got {single_sentence!r}.")
    check_text_column(dataset, text_column)
    options: dict[str, Any] = {
        "fn_kwargs": {
            "tokenizer": tokenizer,
            "text_column": text_column,
            "single_sentence": single_sentence,
            "segmenter": get_segmenter(segmenter, language),
        },
        "batched": True,
        "batch_size": 100,
        "remove_columns": [text_column],
    }
    if isinstance(dataset, datasets.IterableDataset):
        marked = dataset.map(_segment_batch, **options)
        return marked.filter(_KeptAndCounted(), input_columns=_TEMPORARY).remove_columns(_TEMPORARY)
    processes = _processes(num_proc, len(dataset), segmenter)
    segmented = dataset.map(_segment_batch, num_proc=processes, desc="Segmenting and tokenizing documents", **options)
    outcomes = segmented[_OUTCOME][:]
    counts = Counter(outcomes)
    _log_counts(counts, sum(segmented[_REPLACED]))
    if counts[KEPT] == 0:
        advice = f"Check that column {text_column!r} is the one with the texts."
        if counts[SINGLE_SENTENCE]:
            advice = (
                "Pretraining compares the halves of a document, which needs two sentences for that: give longer texts, "
                "or pair each text with itself (single_sentence='dropout_pair')."
            )
        raise ValueError(f"None of the {len(dataset)} documents can be used: {describe_dropped(counts)}. {advice}")
    return keep_usable(segmented.remove_columns(_TEMPORARY), outcomes)


def default_processes(documents: int, cores: int) -> int:
    """The number of processes that segment ``documents`` in the least time, at most ``cores``."""
    # The time is documents / (700 * processes) + 0.15 s * processes.
    fastest = math.sqrt(documents / (DOCUMENTS_PER_CORE_SECOND * START_SECONDS))
    return max(1, min(math.floor(fastest), cores))


def _processes(num_proc: int | None, documents: int, segmenter: str | Splitter) -> int | None:
    """The ``num_proc`` for ``Dataset.map``; None: this process."""
    if num_proc is None:
        # A process that is not forked needs a script with a main guard; a function may use a GPU or open files, which
        # do not survive a fork; a daemon, such as a data loader's worker, may start no process.
        is_forked = multiprocessing.get_all_start_methods()[0] == "fork"
        if callable(segmenter) or not is_forked or multiprocessing.current_process().daemon:
            return None
        num_proc = default_processes(documents, core_count())
    return None if num_proc == 1 else num_proc  # with 1, Dataset.map would start another process


def check_text_column(dataset: Dataset | IterableDataset, text_column: str) -> None:
    """Refuse a data set without a column of strings; of a stream, at most the first row is read."""
    import datasets

    if isinstance(dataset, datasets.Dataset):
        columns = dataset.column_names if len(dataset) else []
    else:
        columns = dataset.column_names or list(next(iter(dataset.take(1)), {}))
    if not columns:
        raise ValueError("The data set is empty: there is nothing to segment.")
    if text_column not in columns:
        raise ValueError(f"There is no column {text_column!r}. The data set has {sorted(columns)}: choose text_column.")
    if dataset.features is not None and text_column in dataset.features:
        refuse_other_types(dataset.features[text_column], text_column, "text_column")


def _segment_batch(
    batch: dict[str, list[Any]],
    tokenizer: PreTrainedTokenizerBase,
    text_column: str,
    segmenter: Splitter,
    single_sentence: str,
) -> dict[str, list[Any]]:
    """Segment all rows; unusable ones are only marked, so that the counts are cached together with the documents."""
    texts = batch[text_column]
    valid = [replace_lone_surrogates(text) if isinstance(text, str) else "" for text in texts]
    tokenized = _tokenize([segmenter(text) if text.strip() else [] for text in valid], tokenizer)
    outcomes = []
    for text, (_, sentence_lengths) in zip(texts, tokenized, strict=True):
        sentence_count = len(sentence_lengths)
        if not isinstance(text, str):
            outcomes.append(NOT_A_STRING)
        elif sentence_count == 0:
            outcomes.append(EMPTY)
        elif sentence_count > 1 or single_sentence == "dropout_pair":
            outcomes.append(KEPT)
        else:
            outcomes.append(SINGLE_SENTENCE)
    return {
        "input_ids": [ids for ids, _ in tokenized],
        "sentence_lengths": [sentence_lengths for _, sentence_lengths in tokenized],
        _OUTCOME: outcomes,
        _REPLACED: [int(isinstance(text, str) and text != clean) for text, clean in zip(texts, valid, strict=True)],
    }


def _tokenize(documents: list[list[str]], tokenizer: PreTrainedTokenizerBase) -> list[_Tokens]:
    """Tokenize documents, given as sentences."""
    if not tokenizer.is_fast:
        return [_tokenize_sentences(sentences, tokenizer) for sentences in documents]
    if any(sum(map(len, sentences)) > WINDOW for sentences in documents):
        cuts = find_safe_cut_pattern(tokenizer)
        return [_tokenize_windows(sentences, tokenizer, cuts) for sentences in documents]
    encoding = tokenizer(["".join(sentences) for sentences in documents], return_offsets_mapping=True, **PLAIN)
    tokenized = []
    for ids, offsets, sentences in zip(encoding["input_ids"], encoding["offset_mapping"], documents, strict=True):
        ends = np.array(offsets).reshape(-1, 2)[:, 1]
        tokenized.append((ids, tokens_per_sentence(sentences, ends)))
    return tokenized


def _tokenize_sentences(sentences: list[str], tokenizer: PreTrainedTokenizerBase) -> _Tokens:
    """Tokenize each sentence by itself, for a tokenizer without offsets."""
    parts = [tokenizer(sentence, **PLAIN)["input_ids"] for sentence in sentences]
    return list(chain.from_iterable(parts)), [len(ids) for ids in parts if ids]


def _tokenize_windows(
    sentences: list[str], tokenizer: PreTrainedTokenizerBase, cuts: re.Pattern[str] | None
) -> _Tokens:
    """Tokenize a long document in windows: the offsets of all tokens would take ten times the memory of the tokens."""
    ids = [np.empty(0, dtype=np.int32)]
    ends = [np.empty(0, dtype=np.int64)]
    start = 0
    for window in windows("".join(sentences), cuts):
        encoding = tokenizer(window, return_offsets_mapping=True, **PLAIN)
        ids.append(np.array(encoding["input_ids"], dtype=np.int32))
        ends.append(np.array(encoding["offset_mapping"]).reshape(-1, 2)[:, 1] + start)
        start += len(window)
    return np.concatenate(ids).tolist(), tokens_per_sentence(sentences, np.concatenate(ends))


def _log_counts(counts: Counter, replaced: int) -> None:
    """Log how many documents were segmented, kept and dropped."""
    message = f"Segmented {counts.total()} documents, kept {counts[KEPT]}."
    dropped = counts.total() - counts[KEPT]
    if dropped:
        message += f" Dropped {dropped}: {describe_dropped(counts)}."
    if replaced:
        message += f" Lone surrogates were replaced in {replaced} documents."
    logger.log(logging.WARNING if dropped or replaced else logging.INFO, message)


class _KeptAndCounted:
    """Whether a document of a stream is kept; logs the counts each time the number of documents has doubled.

    Counts are logged while the stream is read, because its end is unknown. Each data loader worker logs its own.
    """

    def __init__(self) -> None:
        self.counts: Counter = Counter()
        self.replaced = 0
        self.log_at = FIRST_LOG

    def __reduce__(self) -> tuple[type[_KeptAndCounted], tuple]:
        """Pickle without the counts, so that each process counts from zero."""
        return _KeptAndCounted, ()

    def __call__(self, outcome: str, replaced: int) -> bool:
        self.counts[outcome] += 1
        self.replaced += replaced
        if self.counts.total() >= self.log_at:
            _log_counts(self.counts, self.replaced)
            self.log_at *= 2
        return outcome == KEPT
