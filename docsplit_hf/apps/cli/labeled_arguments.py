"""What ``docsplit fit`` and ``docsplit train`` share: arguments for labeled examples, and what they report."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from ...reading.labeled_examples import load_labeled_examples
from ...reading.labels import without_copies
from ...reading.package_documentation import DOCUMENTATION, load_package_documentation
from ...reading.source import kind_of
from ...storage.inside_folder import write_file
from .options import DATASET_HELP, READING_OPTIONS, option

if TYPE_CHECKING:
    from datasets import DatasetDict


@dataclass
class LabeledArguments:
    """Labeled examples."""

    _argument_group_name = "labeled examples"

    dataset_name: str | None = option(default=None, help=DATASET_HELP)
    dataset_config_name: str | None = option(default=None, help="Configuration of a data set on the Hub.")
    text_column: str = option(default="text", help="The column with the texts.")
    text_pair_column: str | None = option(default=None, help="The column with the second texts, for pairs.")
    label_column: str = option(default="label", help="The column with the labels: names or numbers, or lists of them.")
    label_separator: str | None = option(default=None, help="Separator of the labels of a text in one string.")
    id_column: str | None = option(
        default=None,
        help="The column with the ids of the examples, by which they are changed later. Default: the row number.",
    )
    csv_separator: str | None = option(default=None, help="Column separator of a .csv file, if not a comma.")
    encoding: str | None = option(default=None, help="Encoding of files, if not UTF-8, such as cp1252.")
    train_split: str = option(default="train", help="Split of the data set, or file of the folder, to learn from.")
    validation_split: str | None = option(
        default=None, help="Split to choose weights, or an epoch, and to calibrate on. Default: 'validation', if any."
    )
    test_split: str | None = option(default=None, help="Split to report metrics on. Default: 'test', if any.")
    test_size: float = option(
        default=0, help="Without a test split: the fraction or number of examples to report metrics on."
    )

    def __post_init__(self) -> None:
        if self.dataset_name is None:
            raise ValueError(
                "--dataset_name must be given: a file, a folder, a data set on the Hub, or 'documentation' to try it "
                "on the documentation of installed packages."
            )


def load_splits(data: LabeledArguments, seed: int) -> DatasetDict:
    """Load training, validation and test examples."""
    options = {"validation_size": 0} | asdict(data)
    source = options.pop("dataset_name")
    splits = load_labeled_examples(
        load_package_documentation() if source == DOCUMENTATION else source,
        options.pop("dataset_config_name"),
        seed=seed,
        **options,
    )
    for name in ("train", "validation"):
        if name in splits:
            splits[name] = without_copies(splits[name], name)
    return splits


def report_classifier(folder: str, data: LabeledArguments, splits: DatasetDict, metrics: dict[str, dict]) -> None:
    """Write ``metrics.json``; print the metrics by split, and the next commands."""
    from ...finetuning.metrics_of_parts import describe_parts  # here, as it imports torch

    write_file(Path(folder, "metrics.json"), json.dumps(metrics, indent=2) + "\n")
    for name, values in metrics.items():
        if name in splits:
            print(describe_parts(values, name, len(splits[name])))
    if "test" not in metrics and metrics:
        print("To report metrics on examples that were not used for any choice, add --test_size.")
    print(f"The classifier is in {folder}. In Python:\n  import docsplit_hf, transformers")
    print(f'  pipe = transformers.pipeline("docsplit-knn", model="{folder}")')
    print(f"For other texts: {prediction_command(folder, data)}")


def prediction_command(folder: str, data: LabeledArguments) -> str:
    """Return the command that classifies another file with the same columns, or other documents."""
    words = ["docsplit", "classify", "--model", folder]
    if kind_of(data.dataset_name) == "documents":
        return shlex.join([*words, "--predict", "new/", "--predict_output", "sorted-new/"])  # sorted/ may have files
    words += ["--predict", "new.csv", "--predict_output", "answers.csv"]
    for field in fields(data):
        value = getattr(data, field.name)
        if field.name in READING_OPTIONS and value != field.default:
            words += [f"--{field.name}", value]
    return shlex.join(words)
