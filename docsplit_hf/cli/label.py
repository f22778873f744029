"""Label documents by hand, the most useful ones first, with one key per label.

    docsplit label --documents documents/ --labels politics business sport --output_dir output/labels

Each label is saved at once: to continue after an interruption, run the same command again. The file
output/labels/labels.jsonl can be the --dataset_name of docsplit classify, and output/labels is a classifier:

    docsplit classify --model_name_or_path output/labels --predict new.csv
"""

import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import HfArgumentParser
from transformers.hf_argparser import HfArg

from ..classification.row_files import read_rows as read_texts
from ..encoders.checkpoints.checkpoint import DEFAULT_CHECKPOINT
from ..text.labeled_examples import load_labeled_examples
from ..text.labels import is_multi_label, labels_by_name
from ..text.load_documents import load_unlabeled_texts
from ..text.origins import FILE_COLUMN
from ..training.command_line import parse_arguments, run_script, show_log
from .labeling.files import (
    LABELS,
    PROGRESS,
    LabelRow,
    append_row,
    has_classifier,
    labeling_folder,
    read_rows,
    remove_last_row,
)
from .labeling.learning import (
    Content,
    add_again,
    add_new,
    content_of,
    describe_progress,
    documents_left,
    id_of,
    learn_labels,
    measure,
    next_documents,
    open_classifier,
)
from .labeling.screen import label_on_screen
from .labeling.state import Action, Document, State, put_back


@dataclass
class LabelingArguments:
    """Documents and labels."""

    _argument_group_name = "labeling"

    documents: str | None = HfArg(
        default=None,
        help="Documents to label: a .jsonl, .json, .csv, .tsv or .parquet file with a column of texts; a .txt file "
        "with one document per line; a folder, or a pattern of files, of .txt files or PDF and Word documents; or "
        "a data set on the Hub. Default: the documents of the classifier in --output_dir.",
    )
    labels: list[str] = HfArg(
        default_factory=list,
        help="At least two labels: name, or 'name=description of its texts'. The description is the first example of "
        "the label. More labels can be added while labeling.",
    )
    output_dir: str = HfArg(
        default="output/labels",
        help=f"The folder for {LABELS} and the classifier. Existing labels are kept.",
    )
    model_name_or_path: str | None = HfArg(
        default=None,
        help="An encoder on the Hub or a folder, or a classifier made with --no_training, used at the first start. "
        f"Default: {DEFAULT_CHECKPOINT}, which is included.",
    )
    labeled: str | None = HfArg(
        default=None, help="Labeled examples: a file as for --documents, with a --label_column."
    )
    batch_size: int = HfArg(default=10, help="Number of labels after which the classifier is updated.")
    text_column: str = HfArg(default="text", help="The column with the texts.")
    text_pair_column: str | None = HfArg(default=None, help="The column with the second texts, for pairs.")
    label_column: str = HfArg(default="label", help="The column with the labels of --labeled.")
    csv_separator: str | None = HfArg(default=None, help="Column separator of a .csv file, if not a comma.")
    encoding: str | None = HfArg(default=None, help="Encoding of files, if not UTF-8, such as cp1252.")

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"--batch_size must be at least 1, got {self.batch_size}.")
        self.descriptions()

    def columns(self) -> dict[str, str | None]:
        """Return the options for reading files."""
        names = ("text_column", "text_pair_column", "csv_separator", "encoding")
        return {name: getattr(self, name) for name in names}

    def descriptions(self) -> dict[str, str | None]:
        """Return each label with its description, or None."""
        descriptions: dict[str, str | None] = {}
        for text in self.labels:
            name, _, description = (part.strip() for part in text.partition("="))
            if not name or not name.isprintable():
                raise ValueError(f"--labels: {text!r} has no printable name: write name or name=description.")
            if name.casefold() in {other.casefold() for other in descriptions}:
                raise ValueError(f"--labels: {name!r} is given twice, maybe in another case: give it once.")
            descriptions[name] = description or None
        return descriptions


class Labeling:
    """Labeling session in a folder: its files, and the classifier, which learns after each batch."""

    def __init__(self, arguments: LabelingArguments) -> None:
        self.folder = Path(arguments.output_dir)
        self.rows = read_rows(self.folder / LABELS, "id", "text", "label")
        self.progress = read_rows(self.folder / PROGRESS, "labels")
        self.shown: dict[Content, Document] = {}
        documents = load_documents(arguments)
        examples = load_examples(arguments)
        self.pipe = open_classifier(self.folder, arguments.model_name_or_path)
        labels = arguments.descriptions()
        known = () if self.pipe.datastore is None else self.pipe.datastore.label_names
        example_labels = [] if examples is None else labels_by_name(examples)
        for name in (*known, *example_labels, *self.labels()):
            labels.setdefault(name, None)
        if len(labels) < 2:
            found = f"only one label, {next(iter(labels))!r}" if labels else "no label"
            raise ValueError(f"There is {found}: give two or more by --labels.")
        skipped = {content_of(row) for row in self.rows if row["label"] is None}
        documents = {content: name for content, name in documents.items() if content not in skipped}
        self.is_new = add_new(self.pipe, documents, labels, examples)

    def labels(self) -> list[str]:
        """Return the labels given by hand, without skipped documents."""
        return [row["label"] for row in self.rows if row["label"] is not None]

    def learn(self) -> None:
        """Learn from new labels, save the classifier, and record its metrics."""
        self.is_new |= learn_labels(self.pipe, self.rows)
        if self.is_new or self.pipe.datastore.fitted is None:
            self.pipe.fit()
            self.pipe.save_pretrained(self.folder)
            self.is_new = False
        row = measure(self.pipe, len(self.labels()))
        if not self.progress or row["labels"] != self.progress[-1]["labels"]:
            append_row(self.folder / PROGRESS, row)
            self.progress.append(row)

    def next_batch(self, size: int) -> State:
        """Return the state with the next documents; no documents if all are labeled."""
        documents = next_documents(self.pipe, size)
        self.shown |= {(document.text, document.text_pair): document for document in documents}
        return State(
            tuple(documents),
            self.pipe.datastore.label_names,
            done=len(self.rows),
            left=documents_left(self.pipe),
            learned=describe_progress(self.progress),
        )

    def perform(self, state: State, action: Action) -> State:
        """Perform an action; return the state to show."""
        if action.kind == "answer":
            self._write_answer(action.document, action.label)
        elif action.kind == "undo":
            return self._undo(state)
        return state

    def _write_answer(self, document: Document, label: str | None) -> None:
        row: LabelRow = {"id": document.id, "text": document.text}
        if document.text_pair is not None:
            row["text_pair"] = document.text_pair
        row["label"] = label
        row["time"] = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        append_row(self.folder / LABELS, row)
        self.rows.append(row)

    def _undo(self, state: State) -> State:
        if not self.rows:
            return replace(state, message="There is no label to undo.")
        remove_last_row(self.folder / LABELS)
        row = self.rows.pop()
        content = content_of(row)
        if row["label"] is None:
            add_again(self.pipe, content, row["id"])
            self.is_new = True
        document = self.shown.get(content, Document(row["id"], row["text"], row.get("text_pair")))
        return put_back(state, document, row["label"])


def load_documents(arguments: LabelingArguments) -> dict[Content, str]:
    """Load the ids of the documents to label, by content. An id is the path in a folder, or a hash."""
    if arguments.documents is None:
        if not has_classifier(Path(arguments.output_dir)):
            raise ValueError("There are no documents to label: give a file or a folder by --documents.")
        return {}
    loaded = load_unlabeled_texts(arguments.documents, **arguments.columns())
    pairs = loaded["text_pair"][:] if "text_pair" in loaded.column_names else [None] * len(loaded)
    files = {}
    if FILE_COLUMN in loaded.column_names:
        files = dict(zip(loaded["text"], loaded[FILE_COLUMN], strict=True))
    elif Path(arguments.documents).is_dir():
        files = {row["text"]: row["id"] for row in read_texts(Path(arguments.documents), encoding=arguments.encoding)}
    contents = zip(loaded["text"][:], pairs, strict=True)
    return {content: files.get(content[0]) or id_of(content) for content in contents}


def load_examples(arguments: LabelingArguments) -> Dataset | None:
    """Load the labeled examples; None without --labeled."""
    if arguments.labeled is None:
        return None
    examples = load_labeled_examples(
        arguments.labeled, label_column=arguments.label_column, validation_size=0, **arguments.columns()
    )["train"]
    if is_multi_label(examples):
        raise ValueError(
            f"The texts of {arguments.labeled} have several labels each, but labeling by hand needs one: give other "
            "examples."
        )
    return examples


def label(arguments: LabelingArguments, show: Callable[[State, Callable[[State, Action], State]], State]) -> None:
    """Show batches of documents by ``show``, such as ``label_on_screen``, and learn from each."""
    labeling = Labeling(arguments)
    advice = f"labels are in {labeling.folder / LABELS}: run the same command again to continue."
    try:
        while True:
            labeling.learn()
            batch = labeling.next_batch(arguments.batch_size)
            if not batch.documents:
                print("All documents are labeled or skipped.")
                break
            if show(batch, labeling.perform).documents:  # the user has quit
                labeling.learn()
                break
    except (KeyboardInterrupt, EOFError) as end:
        raise KeyboardInterrupt(f"Stopped. {len(labeling.labels())} {advice}") from end
    print(f"{describe_progress(labeling.progress)}\n{len(labeling.labels())} {advice}")
    print(f"The classifier is in {labeling.folder}. In Python:\n  import docsplit_hf, transformers")
    print(f'  pipe = transformers.pipeline("docsplit-knn", model="{labeling.folder}")')
    print(f"For a file: docsplit classify --model_name_or_path {labeling.folder} --predict new.csv")


def main() -> dict[str, Any]:
    """Label in a terminal; return the figures for ``--json``."""
    parser = HfArgumentParser(LabelingArguments, description=__doc__.split("\n")[0])
    (arguments,) = parse_arguments(parser)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ValueError("Labeling by hand needs a terminal for its screen and keys: run it in one.")
    show_log()
    logging.getLogger("docsplit_hf").setLevel(logging.WARNING)  # each batch would log its calibration
    with labeling_folder(Path(arguments.output_dir)):
        label(arguments, label_on_screen)
    with open(Path(arguments.output_dir, LABELS), encoding="utf-8") as labels:
        return {"output_dir": arguments.output_dir, "labeled": sum(1 for _ in labels)}


def run() -> None:
    """Run the command."""
    run_script(main, "Labels are kept: run the same command again to continue.")
