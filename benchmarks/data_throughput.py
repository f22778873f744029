"""Measure what the data side of pretraining costs on one core.

The texts are a sample of the embedded corpus, the documentation of installed packages; the tokenizer is that of the
small BERT. Nothing is downloaded. Three things are measured:

1. Splitting into sentences: plain pysbd and docsplit_hf's guarded pysbd, each over all texts.
2. Collating: documents of exactly 20 sentences, batches of 36, max_length 512, with MLM, held against a target.
3. The data of a training epoch: every document read from the Arrow data set in random order and collated, and the same
   texts tokenized anew, which is what segmenting once saves in every epoch.

What is compared takes turns, a whole pass each; the table shows medians over the rounds.
"""

from __future__ import annotations

import argparse
import os
import platform
from importlib.metadata import version
from statistics import median
from typing import Any

import datasets
import torch
from plain_pysbd import GIVE_UP_SECONDS, is_segmented_in_time, plain_segmenter
from side_by_side import take_counted_turns
from torch.utils.data import DataLoader

from docsplit_hf import DataCollatorForDocSplit, load_package_documentation, segment_documents
from docsplit_hf.evaluation.results import processor
from docsplit_hf.models.small_bert import train_small_bert_tokenizer
from docsplit_hf.text.segmentation.sentences import get_segmenter
from docsplit_hf.training.markdown import table

SENTENCES, BATCH, MAX_LENGTH = 20, 36, 512
TARGET = 2_000  # documents per second that the collator is to reach: far above what any encoder reads
Row = tuple[str, str, str, str, str]  # the four cells of the table, and a note below it
PACKAGES = ("pysbd", "torch", "transformers", "tokenizers", "datasets", "numpy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=600, help="size of the sample (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="passes of each competitor (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="decides which documents are drawn (default: %(default)s)")
    arguments = parser.parse_args()

    datasets.disable_progress_bars()
    corpus, tokenizer = load(arguments.documents, arguments.seed)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    segmented = segment_documents(corpus, tokenizer).select_columns(["input_ids", "sentence_lengths"])

    print(f"Corpus: {len(corpus)} documents, {sum(map(len, corpus['text'])):,} characters. {arguments.rounds} rounds.")
    print(f"Run on: {machine()}; one process, one thread.\n")
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    for measure in (
        splitting(corpus["text"][:], arguments.rounds),
        collating(segmented, tokenizer, arguments.rounds),
        epoch(corpus["text"][:], segmented, tokenizer, arguments.rounds),
    ):
        *row, note = measure
        rows.append(tuple(row))
        notes.append(note)
    print(table(("", "compared with", "docsplit_hf", "result"), rows))
    print()
    for number, note in enumerate(notes, 1):
        print(f"{number}. {note}")


def load(documents: int, seed: int) -> tuple[datasets.Dataset, Any]:
    """The sample, and a tokenizer trained on the whole corpus."""
    corpus = load_package_documentation(seed=seed, num_proc=cores())
    tokenizer = train_small_bert_tokenizer(corpus["train"]["text"])
    everything = datasets.concatenate_datasets(list(corpus.values())).shuffle(seed=seed)
    return everything.select(range(min(documents, len(everything)))), tokenizer


def splitting(texts: list[str], rounds: int) -> Row:
    plain = plain_segmenter()
    guarded = get_segmenter("pysbd")
    kept = [text for text in texts if is_segmented_in_time(plain, [text])]

    def pass_of_plain() -> int:
        return sum(len(plain.segment(text)) for text in kept)

    def pass_of_guarded() -> int:
        return sum(len(guarded(text).sentences) for text in kept)

    turns = take_counted_turns(rounds, pass_of_plain, pass_of_guarded)
    (plain_seconds, plain_sentences), (seconds, sentences) = [(median(times), count) for times, count in turns]
    return (
        "1. split into sentences",
        f"plain pysbd {plain_sentences / plain_seconds:,.0f} sentences/s",
        f"{sentences / seconds:,.0f} sentences/s",
        f"{plain_seconds / seconds:.2f} times as fast",
        f"{plain_sentences:,} sentences from plain pysbd, {sentences:,} from docsplit_hf; the ratio is that of the "
        f"times. {len(texts) - len(kept)} documents left out, on which plain pysbd takes over {GIVE_UP_SECONDS:g} s "
        "or fails.",
    )


def collating(segmented: datasets.Dataset, tokenizer: Any, rounds: int) -> Row:
    documents = []
    for row in segmented:
        lengths = row["sentence_lengths"][:SENTENCES]
        if len(lengths) == SENTENCES:
            documents.append({"input_ids": row["input_ids"][: sum(lengths)], "sentence_lengths": lengths})
    if not documents:
        raise SystemExit(f"No document of the sample has {SENTENCES} sentences: raise --documents.")
    batches = [documents[start : start + BATCH] for start in range(0, len(documents), BATCH)]
    collator = DataCollatorForDocSplit(tokenizer, max_length=MAX_LENGTH)

    def collate() -> int:
        collator.set_epoch(collator.epoch + 1)  # no pass repeats the random choices of another
        return sum(len(collator(batch)["document_ids"]) for batch in batches)

    ((times, count),) = take_counted_turns(rounds, collate)
    rate = count / median(times)
    tokens = sum(len(document["input_ids"]) for document in documents) / count
    return (
        f"2. collate {SENTENCES} sentences each",
        f"target {TARGET:,} documents/s",
        f"{rate:,.0f} documents/s",
        "PASS" if rate >= TARGET else "FAIL",
        f"{count} documents cut to {SENTENCES} sentences, {tokens:.0f} tokens on average.",
    )


def epoch(texts: list[str], segmented: datasets.Dataset, tokenizer: Any, rounds: int) -> Row:
    collator = DataCollatorForDocSplit(tokenizer, max_length=MAX_LENGTH)
    loader = DataLoader(segmented, batch_size=BATCH, shuffle=True, collate_fn=collator)

    def collate() -> int:
        collator.set_epoch(collator.epoch + 1)
        return sum(len(batch["document_ids"]) for batch in loader)

    def tokenize() -> int:
        return len(tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"])

    (tokenize_times, _), (times, count) = take_counted_turns(rounds, tokenize, collate)
    tokenize_seconds, seconds = median(tokenize_times), median(times)
    return (
        "3. data of one epoch",
        f"tokenizing anew {tokenize_seconds:.3f} s",
        f"{seconds:.3f} s",
        f"{seconds / tokenize_seconds:.2f} of the time",
        f"{count} documents, {sum(map(sum, segmented['sentence_lengths'])):,} tokens: read from Arrow in random order "
        f"and collated with MLM, max_length {MAX_LENGTH}.",
    )


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> str:
    versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    return f"{processor()}, {cores()} cores, Python {platform.python_version()}, {versions}"


if __name__ == "__main__":
    main()
