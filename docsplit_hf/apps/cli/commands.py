"""Table of the commands of ``docsplit``, and their help. Imports neither torch nor transformers."""

from __future__ import annotations

import argparse
import difflib
import itertools
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple


class Command(NamedTuple):
    """A command: the module in docsplit_hf that defines ``run()``, and one line of help."""

    module: str
    summary: str
    needs_torch: bool = True  # the others check it when they come to need it


COMMANDS = {
    "pretrain": Command("apps.cli.pretrain", "train an encoder on your unlabeled documents"),
    "fit": Command("apps.cli.fit", "make a classifier from a few labels per class"),
    "train": Command("apps.cli.train", "fine-tune a classifier on many labels per class"),
    "classify": Command("apps.cli.fit_and_classify", "classify the texts of a file", needs_torch=False),
    "audit": Command("apps.cli.audit", "find wrong labels and duplicates among the examples of a classifier"),
    "evaluate": Command("apps.cli.evaluate", "compare encoders and word counts on labeled texts"),
    "embed": Command("apps.cli.embed", "turn the texts of a file into embeddings"),
    "suggest": Command("apps.cli.suggest", "write a file of the documents to label next"),
    "export": Command("apps.cli.export", "export a classifier, so that it answers without torch"),
    "watch": Command("apps.cli.watch", "sort new files of a folder as they come, and learn from what you move"),
    "undo": Command("apps.cli.undo", "remove the files that classify or watch has sorted", needs_torch=False),
    "demo": Command("apps.cli.demo", "try it on a page in the browser"),
    "serve": Command("apps.cli.serve", "serve classifiers to other programs by HTTP", needs_torch=False),
}
WRONG_INPUT = 2  # exit code, the same as argparse's
NEAR = 0.7  # the least similarity of a suggested option or command
# Commands of earlier versions, and what to use instead.
REMOVED = {
    "embed-corpus": "docsplit embed-corpus was removed: examples/embed_corpus.py does the same, and docs/corpus.md has "
    "its blocks of datatrove for other sources and for clusters.",
    "label": "docsplit label was removed: docsplit suggest writes a file of the documents to label next, and docsplit "
    "demo shows them on a page.",
}
# Options of earlier versions of fit, train and classify, or of the command that is named, and what to use instead.
_HEADS = "KNNClassifier.from_encoder takes it in Python"
_INDEX = "KNNDatastore.reindex builds another index in Python"
_PAPER = "python -m experiments runs the tasks and protocols of the papers"
REMOVED_OPTIONS = {
    "task_name": _PAPER,
    "neighbors_protocol": _PAPER,
    "knn_weight": _PAPER,
    "retrieval_pooling": _HEADS,
    "retrieval_dimension": _HEADS,
    "normalize": _HEADS,
    "classifier_activation": _HEADS,
    "lora_r": "lora_around takes the rank in Python",
    "keys_dtype": "KNNDatastore.build takes dtype in Python",
    "index": _INDEX,
    "nprobe": _INDEX,
    "rerank": _INDEX,
    "max_train_examples": "give a smaller file",
    "max_test_examples": "give a smaller file",
    "teacher": "fit of the pipeline takes the answers of a decision model in Python: docs/teacher.md",
    "teacher_texts": "fit of the pipeline takes the answers of a decision model in Python: docs/teacher.md",
    "triplet_choice": "triplets are drawn at random",
    "merge_labels": "give such labels one name in the file",
    "train --unlabeled_name": "docsplit fit learns from documents; in Python, add_documents and fit of the pipeline do",
    "train --hierarchy": "docsplit fit takes it; in Python, fit of the pipeline",
    "datastore": "KNNDatastore.from_pretrained(folder, memory_map=True) opens a folder that is larger than the memory",
    "classify --no_training": "docsplit fit makes a classifier, and so does docsplit classify with --dataset_name",
    "classify --link": "the files are copied",
    "classify --audit": "docsplit audit FOLDER --output writes the file",
    "classify --apply_audit": "docsplit audit FOLDER --apply applies the file",
    "classify --predict_top_k": "it is --top_k",
    "classify --predict_neighbors": "it is --return_neighbors",
    "classify --predict_explain": "it is --explain",
    "classify --predict_reject": "it is --reject",
    "classify --predict_novelty": "it is --novelty",
    "classify --predict_reject_each_label": "it is --each_label",
    "classify --reject_each_label": "it is --each_label, as in Python and over HTTP",
    "demo --max_disk_megabytes": "--max_sessions limits how much is stored",
    "serve --log_texts": "no part of a text is logged",
    "evaluate --max_train_examples": "give a smaller file",
    "evaluate --max_test_examples": "give a smaller file",
    "serve --max_label_characters": "the name of a label has at most 200 characters",
    "serve --wait_ms": "the server waits for no further requests",
    "audit --ocr": "docsplit audit reads no files",
    "suggest --ocr": "docsplit suggest reads no files",
    "export --ocr": "docsplit export reads no files",
    "undo --ocr": "docsplit undo reads no files",
}
# Options that were renamed, and their names today; beside --dataset_name, the encoder of docsplit fit keeps its name.
RENAMED_OPTIONS = {
    "classify --model_name_or_path": "--model",
    "classify --model-name-or-path": "--model",
    "audit --model_name_or_path": "--model",
    "audit --model-name-or-path": "--model",
    "suggest --model_name_or_path": "--model",
    "suggest --model-name-or-path": "--model",
    "export --folder": "--model",
    "undo --folder": "--sorted",
}
# Help of all commands, written by docs/command_line.py: the parsers of train and pretrain import torch.
HELP_PAGE = Path(__file__).with_name("command_line.md")


def with_options(names: Sequence[str], words: list[str]) -> list[str]:
    """Write the first words without the names of their options with them."""
    given = list(itertools.takewhile(lambda word: not word.startswith("-"), words[: len(names)]))
    named = [part for name, word in zip(names, given, strict=False) for part in (f"--{name}", word)]
    return named + words[len(given) :]


def did_you_mean(typed: str, names: Collection[str]) -> str:
    """Suggest the name that is most similar to a mistyped or shortened one; empty if none is similar."""
    options = {name[: len(typed)]: name for name in names} | {name: name for name in names}
    nearest = difflib.get_close_matches(typed, options, n=1, cutoff=NEAR)
    return f" (did you mean {options[nearest[0]]}?)" if nearest else ""


def help_of(command: str) -> str:
    """Return the output of ``docsplit COMMAND --help``."""
    page = HELP_PAGE.read_text(encoding="utf-8")
    return page.partition(f"## docsplit {command}\n\n```text\n")[2].partition("```")[0]


def positive_count(text: str) -> int:
    """Parse a whole number from 1, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return number
