"""Make a classifier from a few labels per class, and from documents without labels, on a frozen encoder.

    docsplit fit --dataset_name labeled.csv --unlabeled_name documents/ --output_dir output/classification

Experts learn from the embeddings and the words of all texts. The result is a folder for pipeline("docsplit-knn") with
the model, the examples, what was fitted, and the card. To try it without a network, on the documentation of installed
packages:

    docsplit fit --dataset_name documentation

Folders of PDF, Word and other files take the place of tables; sub-folders are labels:

    docsplit fit --dataset_name kinds/ --unlabeled_name inbox/ --output_dir output/kinds
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, DatasetDict
from transformers import HfArgumentParser, set_seed
from transformers.hf_argparser import HfArg

from ...classifier.knn_datastore import KNNDatastore
from ...classifier.model_card import save_classifier_card
from ...classifier.pipeline import KNNClassifierPipeline
from ...encoding.checkpoints.checkpoint import DEFAULT_CHECKPOINT, load_tokenizer, open_checkpoint
from ...encoding.classifier_embedder import ClassifierEmbedder, make_embedder
from ...encoding.portable.configuration_knn_classifier import LONG_DOCUMENTS
from ...encoding.portable.modeling_knn_classifier import KNNClassifier
from ...encoding.reading_time import ReadingTime
from ...finetuning.metrics_of_parts import evaluate_parts
from ...fitting.label_tree import Hierarchy, is_hierarchy_setting
from ...reading.files.failure_lists import list_of_failures
from ...reading.labels import labels_by_name
from ...reading.load_documents import load_unlabeled_texts
from ...training.resuming import check_output_dir
from .labeled_arguments import LabeledArguments, load_splits, report_classifier
from .run_command import parse_arguments, script, show_log
from .shared_options import OUTPUT_DIR, refuse_processes

UNLABELED_HELP = (
    "Unlabeled documents, from which experts also learn. A file as for --dataset_name, with the same --text_column; a "
    ".txt file with one document per line; a folder, or a pattern such as 'inbox/**/*.pdf', of .txt files or "
    "documents; or a data set on the Hub."
)
MAIN_OPTIONS = (
    "dataset_name", "text_column", "label_column", "test_size", "unlabeled_name", "model_name_or_path", "max_length",
    "long_documents", "hierarchy", "output_dir", "overwrite_output_dir",
)  # fmt: skip


def read_hierarchy(hierarchy: str | None) -> Hierarchy | None:
    """Tree of labels, as ``label_paths`` takes it: a separator, or the parents in a .json file."""
    if hierarchy is None or not hierarchy.endswith(".json"):
        return hierarchy
    file = Path(hierarchy)
    if not file.is_file():
        raise ValueError(f"--hierarchy {hierarchy}: there is no such file.")
    try:
        parents = json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"--hierarchy {hierarchy} is no JSON in UTF-8: {error}") from error
    if not isinstance(parents, dict) or not is_hierarchy_setting(parents):
        raise ValueError(f'--hierarchy {hierarchy} must have the parent of each label: {{"lease": "contracts"}}.')
    return parents


@dataclass
class FitArguments:
    """Encoder, documents, and the folder of the classifier."""

    _argument_group_name = "classifier"

    model_name_or_path: str | None = HfArg(
        default=None, help=f"An encoder on the Hub or a folder. Default: {DEFAULT_CHECKPOINT}, which is included."
    )
    pooling: str | None = HfArg(default=None, help="cls, mean, max or last. Default: the encoder's own, or cls.")
    max_length: int | None = HfArg(default=None, help="Longest text in tokens. Default: the encoder's own.")
    long_documents: str | None = HfArg(
        default=None,
        help="Part of texts longer than --max_length to read: the beginning ('first'), the beginning, and all of it "
        "('whole'), beginning and end ('head_tail'), or all of it in passages, with one embedding in total "
        "('average') or one per passage ('passages'), so that answers name the decisive passage. Default: "
        "'whole' if that takes at most 10 minutes, otherwise 'first'; the minutes are estimated and printed before.",
        metadata={"choices": list(LONG_DOCUMENTS)},
    )
    passage_length: int | None = HfArg(default=None, help="Longest passage in tokens. Default: --max_length.")
    unlabeled_name: str | None = HfArg(default=None, help=UNLABELED_HELP)
    hierarchy: str | None = HfArg(
        default=None,
        help="Tree of the labels, so that a text gets a parent where its label is too uncertain: the separator in "
        "their names, such as '/', or a .json file with the parent of each label, as in "
        '{"lease": "contracts", "contracts": "law"}. Default: names such as "law > contracts > lease" are a tree.',
    )
    output_dir: str = HfArg(default=OUTPUT_DIR, help="Folder for the classifier.")
    overwrite_output_dir: bool = HfArg(default=False, help="Write to output_dir even if it is not empty.")
    seed: int = HfArg(default=42, help="Random seed.")
    use_cpu: bool = HfArg(default=False, help="Do not use a GPU.")
    bf16: bool = HfArg(default=False, help="Compute embeddings in bfloat16.")

    def __post_init__(self) -> None:
        """Find mistakes before any text is embedded."""
        read_hierarchy(self.hierarchy)


def fit_classifier(data: LabeledArguments, arguments: FitArguments) -> dict[str, Any]:
    """Fit experts on a frozen encoder, and save the classifier; return the figures for ``--json``."""
    check_output_dir(arguments.output_dir, None, arguments.overwrite_output_dir, arguments.model_name_or_path)
    set_seed(arguments.seed)
    with list_of_failures(arguments.output_dir):
        splits = load_splits(data, arguments.seed)
        documents = load_unlabeled(data, arguments.unlabeled_name, splits)
    pipe = new_pipeline(arguments, splits["train"], documents)
    held_out = splits.get("validation")
    report = pipe.fit(
        held_out,
        None if held_out is None else labels_by_name(held_out),
        hierarchy=read_hierarchy(arguments.hierarchy),
    )
    print(report)
    embedder = pipe.embedder.with_options(show_progress=True)
    metrics = {
        name: evaluate_parts(embedder, pipe.datastore, splits[name], name)
        for name in ("validation", "test")
        if name in splits
    }
    folder = arguments.output_dir
    pipe.save_pretrained(folder)
    save_classifier_card(folder, folder, pipe.model.config, pipe.datastore, log_history=list(metrics.values()))
    metrics["fit"] = asdict(report)
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


def new_pipeline(arguments: FitArguments, examples: Dataset, documents: Dataset | None) -> KNNClassifierPipeline:
    """Embed examples and documents, for a classifier without a head."""
    name = open_checkpoint(arguments.model_name_or_path, with_projection=True).path
    settings = {"long_documents": "whole"}
    for option in ("pooling", "max_length", "long_documents", "passage_length"):
        if getattr(arguments, option) is not None:
            settings[option] = getattr(arguments, option)
    model = KNNClassifier.from_encoder(name, 0, decouple=False, normalize=True, knn_weight=1.0, **settings)
    accelerator = None if arguments.use_cpu else torch.accelerator.current_accelerator(check_available=True)
    model = model.to(accelerator or "cpu")
    tokenizer = load_tokenizer(name)
    embedder = make_embedder(model, tokenizer, bf16=arguments.bf16)
    choose_reading(embedder, [examples, documents], is_open=arguments.long_documents is None)
    datastore = KNNDatastore.build(model, tokenizer, examples, bf16=arguments.bf16)
    pipe = KNNClassifierPipeline(model, tokenizer, datastore, device=model.device)
    if documents is not None:
        pipe.add_documents(documents, show_progress=True, bf16=arguments.bf16)
    return pipe


def choose_reading(embedder: ClassifierEmbedder, tables: list[Dataset | None], is_open: bool) -> None:
    """Print how long it takes to embed the texts, and read only their beginnings if that takes too long."""
    given = [table for table in tables if table is not None]
    if any("text_pair" in table.column_names for table in given):
        return  # of pairs, the beginnings are read
    reading = ReadingTime.measure(embedder, (text for table in given for text in table["text"]))
    if is_open:
        embedder.model.config.long_documents = reading.choice
    print(reading.describe(embedder.long_documents, is_chosen=is_open), flush=True)


def main() -> dict[str, Any]:
    """Fit a classifier; return the figures for ``--json``."""
    parser = HfArgumentParser((LabeledArguments, FitArguments), description=__doc__.split("\n")[0])
    data, arguments = parse_arguments(parser, main=MAIN_OPTIONS)
    refuse_processes("fit")
    show_log()
    return fit_classifier(data, arguments)


run = script(main, "Nothing was saved: run the same command again to start over.")
