"""Label documents by hand, those first that teach most: one key each, saved at once.

    python examples/label_by_hand.py --documents documents/ --labels politics business sport --output_dir output/labels

The same command goes on where it was, whatever ended it. output/labels/labels.jsonl is a file for
run_classification.py --dataset_name, and output/labels itself a classifier:

    python examples/run_classification.py --model_name_or_path output/labels --predict new.csv
"""

import logging
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from labeling_classifier import (
    Content,
    add_again,
    add_what_is_new,
    describe_progress,
    documents_left,
    fit_and_save,
    id_of,
    learn_labels,
    measured,
    next_documents,
    open_classifier,
)
from labeling_files import LABELS, PROGRESS, append_row, has_classifier, labeling_folder, read_rows, take_back
from labeling_keys import Action, Document, State, put_back
from transformers import HfArgumentParser
from transformers.hf_argparser import HfArg

from docsplit_hf import load_labeled_examples
from docsplit_hf.models.checkpoints.shipped_checkpoint import DEFAULT_CHECKPOINT
from docsplit_hf.neighbors.row_files import read_rows as read_texts
from docsplit_hf.text.labels import is_multi_label, labels_by_name
from docsplit_hf.text.unlabeled_texts import load_unlabeled_texts
from docsplit_hf.training.command_line import parse_arguments, run_script, show_log


@dataclass
class LabelingArguments:
    """What to label, and how."""

    _argument_group_name = "labeling"

    documents: str | None = HfArg(
        default=None,
        help="The documents: a .jsonl, .json, .csv, .tsv or .parquet file with a column of texts; a .txt file with one "
        "in each line; a folder of .txt files; or a data set on the Hub. Without it, those of the classifier in "
        "--output_dir.",
    )
    labels: list[str] = HfArg(
        default_factory=list,
        help="The labels, at least two: name, or 'name=what its texts say'. What is said of a label is its first "
        "example. Others may be added while labeling.",
    )
    output_dir: str = HfArg(
        default="output/labels",
        help=f"The folder for {LABELS} and the classifier. Labels that are there are kept, and gone on from.",
    )
    model_name_or_path: str | None = HfArg(
        default=None,
        help="An encoder on the Hub or a folder, or a classifier made with --no_training. Read at the first start. "
        f"Default: {DEFAULT_CHECKPOINT}, which ships.",
    )
    labeled: str | None = HfArg(
        default=None, help="Examples that have labels already, in a file as for --documents with a --label_column."
    )
    batch_size: int = HfArg(default=10, help="Documents to label until the classifier learns from them.")
    text_column: str = HfArg(default="text", help="The column with the texts.")
    text_pair_column: str | None = HfArg(default=None, help="The column with the second texts, for pairs.")
    label_column: str = HfArg(default="label", help="The column with the labels of --labeled.")
    csv_separator: str | None = HfArg(default=None, help="What separates the columns of a .csv file, if no comma.")
    encoding: str | None = HfArg(default=None, help="Encoding of files, if not UTF-8, such as cp1252.")

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"--batch_size must be a whole number from 1, got {self.batch_size}.")
        self.descriptions()

    def columns(self) -> dict[str, str | None]:
        """How files are read."""
        names = ("text_column", "text_pair_column", "csv_separator", "encoding")
        return {name: getattr(self, name) for name in names}

    def descriptions(self) -> dict[str, str | None]:
        """What is said of each label, or None."""
        found: dict[str, str | None] = {}
        for given in self.labels:
            name, _, description = (part.strip() for part in given.partition("="))
            if not name or not name.isprintable():
                raise ValueError(f"--labels: {given!r} has no name that can be shown: write name or name=description.")
            if name.casefold() in {other.casefold() for other in found}:
                raise ValueError(f"--labels: {name!r} is given twice, or differs by its case only: give it once.")
            found[name] = description or None
        return found


class Labeling:
    """One run in a folder: what its files say, and the classifier, which has learned all of it but the last batch."""

    def __init__(self, arguments: LabelingArguments) -> None:
        self.folder = Path(arguments.output_dir)
        self.rows = read_rows(self.folder / LABELS, "id", "text", "label")
        self.progress = read_rows(self.folder / PROGRESS, "labels")
        self.shown: dict[Content, Document] = {}
        documents, examples = load_documents(arguments), load_examples(arguments)
        self.pipe = open_classifier(self.folder, arguments.model_name_or_path)
        labels = arguments.descriptions()
        known = () if self.pipe.datastore is None else self.pipe.datastore.label_names
        labels |= {name: None for name in (*known, *examples[1], *self.labels()) if name not in labels}
        if len(labels) < 2:
            found = f"one label, {next(iter(labels))!r}" if labels else "no label"
            raise ValueError(f"There is {found}, and nothing to tell apart: give two or more by --labels.")
        skipped = {(row["text"], row.get("text_pair")) for row in self.rows if row["label"] is None}
        documents = {content: name for content, name in documents.items() if content not in skipped}
        self.is_new = add_what_is_new(self.pipe, documents, labels, examples)

    def labels(self) -> list[str]:
        """The labels that were given by hand, skipped documents left out."""
        return [row["label"] for row in self.rows if row["label"] is not None]

    def learn(self) -> None:
        """Have the classifier learn what is new, save it, and note how good it is."""
        self.is_new |= learn_labels(self.pipe, self.rows)
        if self.is_new or self.pipe.datastore.fitted is None:
            fit_and_save(self.pipe, self.folder)
            self.is_new = False
        row = measured(self.pipe, len(self.labels()))
        if not self.progress or row["labels"] != self.progress[-1]["labels"]:
            append_row(self.folder / PROGRESS, row)
            self.progress.append(row)

    def next_batch(self, size: int) -> State:
        """What to show next: no documents if all have a label."""
        documents = next_documents(self.pipe, size)
        self.shown |= {(document.text, document.text_pair): document for document in documents}
        counts = {"done": len(self.rows), "left": documents_left(self.pipe)}
        return State(
            tuple(documents), self.pipe.datastore.label_names, **counts, learned=describe_progress(self.progress)
        )

    def perform(self, state: State, action: Action) -> State:
        """Do what a key asks for; gives the state to show."""
        path = self.folder / LABELS
        if action.kind == "answer":
            document, pair = action.document, action.document.text_pair
            row = {"id": document.id, "text": document.text, **({} if pair is None else {"text_pair": pair})}
            row |= {"label": action.label, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
            append_row(path, row)
            self.rows.append(row)
        elif action.kind == "undo":
            if not self.rows:
                return replace(state, message="There is nothing to take back.")
            take_back(path)
            row = self.rows.pop()
            document = Document(row["id"], row["text"], row.get("text_pair"))
            content = document.text, document.text_pair
            if row["label"] is None:
                add_again(self.pipe, content, document.id)
                self.is_new = True
            return put_back(state, self.shown.get(content, document), row["label"])
        return state


def load_documents(arguments: LabelingArguments) -> dict[Content, str]:
    """The texts to label, with their pairs or None, and their ids: the path of a file in a folder, or a hash."""
    if arguments.documents is None:
        if not has_classifier(Path(arguments.output_dir)):
            raise ValueError("There are no documents to label: give a file or a folder by --documents.")
        return {}
    loaded = load_unlabeled_texts(arguments.documents, **arguments.columns())
    pairs = loaded["text_pair"][:] if "text_pair" in loaded.column_names else [None] * len(loaded)
    files = {}
    if Path(arguments.documents).is_dir():
        files = {row["text"]: row["id"] for row in read_texts(Path(arguments.documents), encoding=arguments.encoding)}
    return {one: files.get(one[0]) or id_of(one) for one in zip(loaded["text"][:], pairs, strict=True)}


def load_examples(arguments: LabelingArguments) -> tuple[Any, list[str]]:
    """The examples that have labels already, and these."""
    if arguments.labeled is None:
        return [], []
    options = {"label_column": arguments.label_column, "validation_size": 0}
    examples = load_labeled_examples(arguments.labeled, **arguments.columns(), **options)["train"]
    if is_multi_label(examples):
        raise ValueError(f"The texts of {arguments.labeled} have several labels each, and a key gives one.")
    return examples, labels_by_name(examples)


def label(arguments: LabelingArguments, label_on_screen: Any) -> None:
    """Show one batch after the other, and learn from each."""
    labeling = Labeling(arguments)
    kept = f"labels are kept in {labeling.folder / LABELS}: the same command goes on."
    try:
        while True:
            labeling.learn()
            batch = labeling.next_batch(arguments.batch_size)
            if not batch.documents:
                print("All documents are labeled, or skipped.")
                break
            if label_on_screen(batch, labeling.perform).documents:  # the user has quit
                labeling.learn()
                break
    except (KeyboardInterrupt, EOFError) as end:
        raise KeyboardInterrupt(f"Stopped. {len(labeling.labels())} {kept}") from end
    print(f"{describe_progress(labeling.progress)}\n{len(labeling.labels())} {kept}")
    print(f"The classifier is in {labeling.folder}. In Python:\n  import docsplit_hf, transformers")
    print(f'  pipe = transformers.pipeline("docsplit-knn", model="{labeling.folder}")')
    print(f"For a file: docsplit classify --model_name_or_path {labeling.folder} --predict new.csv")


def main() -> None:
    parser = HfArgumentParser(LabelingArguments, description=__doc__.split("\n")[0])
    (arguments,) = parse_arguments(parser)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ValueError("Labeling by hand needs a terminal for its screen and keys, and there is none: run it in one.")
    from labeling_screen import label_on_screen  # which says what to install

    show_log()
    logging.getLogger("docsplit_hf").setLevel(logging.WARNING)  # each batch would say again what was calibrated
    with labeling_folder(Path(arguments.output_dir)):
        label(arguments, label_on_screen)


if __name__ == "__main__":
    run_script(main, "The same command goes on.")
