"""Make a classifier from a few labels per class, and from documents without labels, on a frozen encoder.

    docsplit fit --dataset_name labeled.csv --unlabeled_name documents/ --output_dir output/classification

Experts learn from the embeddings and the words of all texts. The result is a folder for pipeline("docsplit-knn") with
the model, the examples, what was fitted, and the card. To try it without a network, on the documentation of installed
packages:

    docsplit fit --dataset_name documentation

Folders of PDF, Word and other files take the place of tables; sub-folders are labels:

    docsplit fit --dataset_name kinds/ --unlabeled_name inbox/ --output_dir output/kinds
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...reading.files.failure_lists import list_of_failures
from ...reading.load_documents import load_unlabeled_texts
from ...training.checkpoint_folders import check_output_dir
from .fit_arguments import MAIN_OPTIONS, FitArguments
from .labeled_arguments import LabeledArguments, load_splits, report_classifier
from .options import read_options, refuse_processes
from .run_command import script, show_log

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict


def fit_classifier(data: LabeledArguments, arguments: FitArguments) -> dict[str, Any]:
    """Fit a classifier, and save it; return the figures for ``--json``."""
    folder = arguments.output_dir
    check_output_dir(folder, None, arguments.overwrite_output_dir, arguments.model_name_or_path)
    with list_of_failures(folder):
        splits = load_splits(data, arguments.seed)
        documents = load_unlabeled(data, arguments.unlabeled_name, splits)
    from .new_classifier import save_new_classifier  # only now, as it imports torch

    metrics = save_new_classifier(arguments, splits, documents)
    report_classifier(folder, data, splits, metrics)
    return {"output_dir": folder, "metrics": metrics}


def load_unlabeled(data: LabeledArguments, name: str | None, splits: DatasetDict) -> Dataset | None:
    """Load unlabeled documents, without those held out with a label; None without a name."""
    if name is None:
        return None
    return load_unlabeled_texts(
        name,
        text_column=data.text_column,
        text_pair_column=data.text_pair_column,
        csv_separator=data.csv_separator,
        encoding=data.encoding,
        held_out=[splits[split] for split in splits if split != "train"],
    )


def main() -> dict[str, Any]:
    """Fit a classifier; return the figures for ``--json``."""
    data, arguments = read_options((LabeledArguments, FitArguments), __doc__, main=MAIN_OPTIONS)
    refuse_processes("fit")
    show_log()
    return fit_classifier(data, arguments)


run = script(main, "Nothing was saved: run the same command again to start over.")
