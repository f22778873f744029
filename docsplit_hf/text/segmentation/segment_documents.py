"""From texts to token ids and sentence lengths, once, cached and in parallel."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable
from itertools import chain, compress
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..characters import replace_lone_surrogates
from ..sources import EMPTY, KEPT, NOT_A_STRING, SINGLE_SENTENCE, describe_dropped, keep_usable, refuse_other_types
from ..tokenization import PLAIN, WINDOW, certain_cuts, tokens_per_sentence, windows
from .sentences import Segmentation, get_segmenter

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

CHOICES = ("drop", "dropout_pair", "error")  # what becomes of documents of one sentence
_REMARKS = _OUTCOME, _FALLBACKS, _REPLACED = "_docsplit_outcome", "_docsplit_fallbacks", "_docsplit_replaced"


def check_single_sentence(choice: str) -> None:
    """Refuse what is none of the choices."""
    if choice not in CHOICES:
        raise ValueError(f"single_sentence must be one of {CHOICES}, got {choice!r}.")


def segment_documents(
    dataset: Dataset | IterableDataset,
    tokenizer: PreTrainedTokenizerBase,
    text_column: str = "text",
    segmenter: str | Callable[[str], list[str]] = "pysbd",
    language: str = "en",
    single_sentence: Literal["drop", "dropout_pair", "error"] = "drop",
    num_proc: int | None = None,
) -> Dataset | IterableDataset:
    """Split every document into sentences and tokenize it, so that views are cut from integers from then on.

    A document is tokenized once, as a whole; each token belongs to the sentence that holds its last character. What
    cannot be used is dropped and counted in the log: documents that are not strings, that are empty or white space,
    and, by default, those of one sentence, which have no halves.

    Args:
        dataset: Documents with a column of texts. A ``Dataset`` is processed now, in ``num_proc`` processes, with a
            progress bar, and cached by ``datasets``; an ``IterableDataset`` as it is read.
        tokenizer: The tokenizer of the model that is to be trained.
        text_column: The column that holds the texts.
        segmenter: ``"pysbd"``; ``"newline"``, for which a line is a sentence; ``"whitespace"``, for which a word is
            one; or any function from a text to the list of its sentences, whose joining gives the text back.
        language: The two-letter code of the language, for pysbd.
        single_sentence: What becomes of documents of one sentence: ``"drop"``; ``"dropout_pair"`` keeps them, to be
            paired with themselves; ``"error"``.
        num_proc: Number of processes. None is one, in this process. Not used for an ``IterableDataset``.

    Returns:
        The documents that are left, with ``input_ids`` (the document's tokens, no special tokens) and
        ``sentence_lengths`` (tokens per sentence, summing to ``len(input_ids)``) in place of the text. Other columns
        are kept.

    Raises:
        ValueError: If the column does not exist or does not hold strings, if no document is left, or if a document has
            one sentence and ``single_sentence="error"``.

    Example:

        >>> from datasets import Dataset
        >>> from docsplit_hf.models.small_bert import train_small_bert_tokenizer
        >>> texts = ["One sentence. And another one.", "Only one sentence."]
        >>> tokenizer = train_small_bert_tokenizer(texts, vocab_size=60)
        >>> documents = segment_documents(Dataset.from_dict({"text": texts, "label": [0, 1]}), tokenizer)
        >>> len(documents), sorted(documents.column_names), len(documents[0]["sentence_lengths"])
        (1, ['input_ids', 'label', 'sentence_lengths'], 2)
    """
    import datasets

    check_single_sentence(single_sentence)
    check_text_column(dataset, text_column)
    arguments = {"tokenizer": tokenizer, "text_column": text_column, "single_sentence": single_sentence}
    arguments["segmenter"] = get_segmenter(segmenter, language)
    options = {"batched": True, "batch_size": 100, "remove_columns": [text_column]}
    if isinstance(dataset, datasets.IterableDataset):
        return dataset.map(SegmentAndDrop(**arguments), **options)
    shown = "Segmenting and tokenizing documents"
    segmented = dataset.map(_segment_batch, fn_kwargs=arguments, num_proc=num_proc, desc=shown, **options)
    outcomes = segmented[_OUTCOME][:]
    counts = Counter(outcomes)
    _log_counts(counts, sum(segmented[_FALLBACKS]), sum(segmented[_REPLACED]))
    if counts[KEPT] == 0:
        raise ValueError(
            f"None of the {len(dataset)} documents can be used: {describe_dropped(counts)}. Check that column "
            f"{text_column!r} is the one with the texts; single_sentence='dropout_pair' keeps those of one sentence."
        )
    return keep_usable(segmented.remove_columns(list(_REMARKS)), outcomes)


def check_text_column(dataset: Dataset | IterableDataset, text_column: str) -> None:
    """Refuse a data set without strings in a column, reading no more than its first row."""
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
    segmenter: Callable[[str], Segmentation],
    single_sentence: str,
) -> dict[str, list[Any]]:
    """A row for every row, dropped ones too, so that the counts are cached together with the documents."""
    texts = batch[text_column]
    clean = [replace_lone_surrogates(text) if isinstance(text, str) else "" for text in texts]
    segmentations = [segmenter(text) if text.strip() else Segmentation([], 0) for text in clean]
    tokenized = _tokenize([sentences for sentences, _ in segmentations], tokenizer)
    outcomes = []
    for text, (_, lengths) in zip(texts, tokenized, strict=True):
        if not isinstance(text, str):
            outcomes.append(NOT_A_STRING)
        elif len(lengths) > 1 or (len(lengths) == 1 and single_sentence == "dropout_pair"):
            outcomes.append(KEPT)
        elif len(lengths) == 1 and single_sentence == "error":
            raise ValueError(f"The document {text[:80]!r} has one sentence: single_sentence='drop' leaves it out.")
        else:
            outcomes.append(SINGLE_SENTENCE if lengths else EMPTY)
    return {
        "input_ids": [tokens for tokens, _ in tokenized],
        "sentence_lengths": [lengths for _, lengths in tokenized],
        _OUTCOME: outcomes,
        _FALLBACKS: [fallbacks for _, fallbacks in segmentations],
        _REPLACED: [int(isinstance(text, str) and text != valid) for text, valid in zip(texts, clean, strict=True)],
    }


def _tokenize(documents: list[list[str]], tokenizer: PreTrainedTokenizerBase) -> list[tuple[list[int], list[int]]]:
    """For each document its token ids and the number of them in each sentence that has any."""
    if not tokenizer.is_fast:
        parts = [[tokenizer(sentence, **PLAIN)["input_ids"] for sentence in document] for document in documents]
        return [(list(chain.from_iterable(part)), [len(ids) for ids in part if ids]) for part in parts]
    if any(sum(map(len, document)) > WINDOW for document in documents):
        cuts = certain_cuts(tokenizer)
        return [_tokenize_windows(document, tokenizer, cuts) for document in documents]
    encoding = tokenizer(["".join(document) for document in documents], return_offsets_mapping=True, **PLAIN)
    return [
        (ids, tokens_per_sentence(sentences, np.array(offsets).reshape(-1, 2)[:, 1]))
        for ids, sentences, offsets in zip(encoding["input_ids"], documents, encoding["offset_mapping"], strict=True)
    ]


def _tokenize_windows(
    sentences: list[str], tokenizer: PreTrainedTokenizerBase, cuts: re.Pattern[str] | None
) -> tuple[list[int], list[int]]:
    """The same of a long document, in the memory of its tokens: with their offsets they take ten times as much."""
    ids, ends, start = [np.empty(0, dtype=np.int32)], [np.empty(0, dtype=np.int64)], 0
    for window in windows("".join(sentences), cuts):
        encoding = tokenizer(window, return_offsets_mapping=True, **PLAIN)
        ids.append(np.array(encoding["input_ids"], dtype=np.int32))
        ends.append(np.array(encoding["offset_mapping"]).reshape(-1, 2)[:, 1] + start)
        start += len(window)
    return np.concatenate(ids).tolist(), tokens_per_sentence(sentences, np.concatenate(ends))


def _log_counts(counts: Counter, fallbacks: int, replaced: int) -> None:
    message, dropped = f"Segmented {counts.total()} documents, kept {counts[KEPT]}.", counts.total() - counts[KEPT]
    if dropped:
        message += f" Dropped {dropped}: {describe_dropped(counts)}."
    if fallbacks:
        message += f" {fallbacks} pieces of text were split by the plain rule instead of pysbd."
    if replaced:
        message += f" Lone surrogates were replaced in {replaced} documents."
    logger.log(logging.WARNING if dropped or replaced else logging.INFO, message)


class SegmentAndDrop:
    """Segments batches of a stream, drops what cannot be used, and logs the counts at each doubling of the documents.

    A stream has no end at which to log. Each data loader worker counts what it has read itself.
    """

    def __init__(self, **function_arguments: Any) -> None:
        self.function_arguments = function_arguments

    def __getstate__(self) -> dict[str, Any]:
        return {"function_arguments": self.function_arguments}  # each process counts from zero

    def __call__(self, batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        if not hasattr(self, "counts"):
            self.counts, self.fallbacks, self.replaced, self.log_at = Counter(), 0, 0, 100
        rows = _segment_batch(batch, **self.function_arguments)
        self.counts.update(rows[_OUTCOME])
        self.fallbacks += sum(rows.pop(_FALLBACKS))
        self.replaced += sum(rows.pop(_REPLACED))
        if self.counts.total() >= self.log_at:
            _log_counts(self.counts, self.fallbacks, self.replaced)
            self.log_at = 2 * self.counts.total()
        kept = [outcome == KEPT for outcome in rows.pop(_OUTCOME)]
        others = {name: column for name, column in batch.items() if name != self.function_arguments["text_column"]}
        return {name: list(compress(column, kept)) for name, column in (others | rows).items()}
