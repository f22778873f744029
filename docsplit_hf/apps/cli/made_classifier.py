"""What ``docsplit fit`` and ``docsplit train`` write and print about the classifier that they made."""

import json
import shlex
from dataclasses import fields
from pathlib import Path

from datasets import DatasetDict

from ...finetuning.evaluation import describe_parts
from ...reading.source import kind_of
from ...storage.inside_folder import write_file
from .labeled_arguments import LabeledArguments
from .shared_options import READING_OPTIONS


def report_classifier(folder: str, data: LabeledArguments, splits: DatasetDict, metrics: dict[str, dict]) -> None:
    """Write ``metrics.json``; print the metrics by split, and the next commands."""
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
    words = ["docsplit", "classify", "--model_name_or_path", folder]
    if kind_of(data.dataset_name) == "documents":
        return shlex.join([*words, "--predict", "new/", "--predict_output", "sorted-new/"])  # sorted/ may have files
    words += ["--predict", "new.csv", "--predict_output", "answers.csv"]
    for field in fields(data):
        value = getattr(data, field.name)
        if field.name in READING_OPTIONS and value != field.default:
            words += [f"--{field.name}", value]
    return shlex.join(words)
