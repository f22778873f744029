"""Classify the texts of a file, or the documents of a folder, with a saved classifier.

    docsplit classify --model output/classification --predict new.csv --predict_output answers.csv

With labeled examples, docsplit fit makes a classifier first, and saves it in --output_dir:

    docsplit classify --dataset_name labeled.csv --unlabeled_name documents/ --predict new.csv

The files of a folder are copied into folders by label, which docsplit undo removes again:

    docsplit classify --model output/kinds --predict inbox/ --predict_output sorted/
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...classifier.exported_classifier import ExportedClassifier, open_exported
from ...classifier.predict_file import Outcome, PredictionFiles, check_files, classify_file
from ...classifier.row_files import write_rows
from ...classifier.sorting.sorted_files import ANSWERS, SortedFile, count_by_folder
from ...classifier.sorting.sorted_folder import Sorted
from ...extras import check_full_installation
from ...fitting.rejection import RejectionLimits
from ...reading.characters import replace_lone_surrogates
from ...reading.files.failure_lists import FAILED_LIST
from ...reading.files.finding import refuse_mistyped_path
from ..pipelines import open_pipeline
from .options import OUTPUT_DIR, READING_OPTIONS, option, read_options, refuse_processes
from .run_command import show_log

if TYPE_CHECKING:
    from ...classifier.pipeline import KNNClassifierPipeline

SHOWN_FILES = 20
PLAN_COLUMNS = ("file", "label", "page", "reason", "confidence", "destination")
FIRST = ("model",)  # may be given without its name
MAIN_OPTIONS = (
    "model", "predict", "predict_output", "dry_run", "safe_csv", "text_column", "explain", "reject", "novelty",
    "labels_at", "return_neighbors", "max_length",
)  # fmt: skip


@dataclass
class PredictionArguments:
    """Classifier, texts to classify, and the file of the answers."""

    _argument_group_name = "texts"

    model: str = option(
        default=OUTPUT_DIR,
        help="A saved classifier, also as the first word without the name of the option: the --output_dir of docsplit "
        "fit or docsplit train. With --dataset_name and other options of docsplit fit, this makes one first.",
    )
    predict: str | None = option(
        default=None,
        help="The texts to classify (required): a .jsonl, .json, .csv, .tsv, .parquet or .txt file (also .gz); or a "
        "folder, or a pattern such as 'inbox/**/*.pdf', of .txt files or documents.",
    )
    predict_output: str = option(
        default="answers.csv",
        help="The .csv, .jsonl or .parquet file for the answers: the columns of --predict, label and score; of "
        "documents file, label, score, page and reason. A folder: the documents are also copied into sub-folders by "
        "label, those without a label into _unsure, those that cannot be read into _failed; docsplit undo removes "
        "them. To continue after an interruption, run the same command again. An existing file is refused.",
    )
    overwrite_output_dir: bool = option(default=False, help="Replace existing answers.")
    dry_run: bool = option(
        default=False,
        help="With a folder as --predict_output: copy nothing; print where each document would go, and write it into "
        "a file beside the folder, such as sorted-plan.csv. The command without it uses the same answers. With "
        "--explain, the plan names the words that decided.",
    )
    safe_csv: bool = option(
        default=False,
        help="Make a .csv file of answers safe to open in a spreadsheet, which runs cells that begin with =, +, -, @ "
        "or a tab as formulas; a formula in an untrusted text may leak your data. Texts, labels and column names are "
        "quoted, with an apostrophe before such a character; numbers stay unchanged. A last column marks the file, so "
        "that docsplit removes the apostrophes when it reads the file. Other programs show them, so this is not the "
        "default.",
    )
    text_column: str = option(default="text", help="The column with the texts.")
    text_pair_column: str | None = option(default=None, help="The column with the second texts, for pairs.")
    csv_separator: str | None = option(default=None, help="Column separator of a .csv file, if not a comma.")
    encoding: str | None = option(default=None, help="Encoding of files, if not UTF-8, such as cp1252.")
    use_cpu: bool = option(default=False, help="Do not use a GPU.")
    trust: bool = option(
        default=False, help="Answer with an exported model that somebody else exported: native code reads it."
    )

    def __post_init__(self) -> None:
        if self.predict is None:
            raise ValueError(
                "--predict must be given: the texts to classify. To make a classifier only: docsplit fit, or docsplit "
                "train."
            )

    def files(self) -> PredictionFiles:
        """Return the files, and check them before anything is computed."""
        target = Path(self.predict_output)
        is_folder = target.is_dir() or not target.suffix or self.predict_output.endswith(("/", os.sep))
        if self.dry_run and not is_folder:
            raise ValueError(
                f"--dry_run is for sorted files: give a folder by --predict_output, not the file {target}."
            )
        files = PredictionFiles(
            source=Path(self.predict),
            target=target / ANSWERS if is_folder else target,
            **{name: getattr(self, name) for name in READING_OPTIONS},
            safe_csv=self.safe_csv,
            sorted_folder=target if is_folder else None,
            dry_run=self.dry_run,
        )
        check_files(files, self.overwrite_output_dir)
        return files


@dataclass
class AnswerArguments:
    """Options of answers, those of a call of the pipeline."""

    _argument_group_name = "answers"

    top_k: int | None = option(default=None, help="Also write this many labels per text, with their scores.")
    return_neighbors: int = option(default=0, help="Also write this many of the nearest examples of each text.")
    explain: bool = option(default=False, help="Also write an explanation of each label. For a classifier of fit.")
    reject: float | None = option(
        default=None,
        help="Target error rate, such as 0.05: uncertain texts get no label, so that at most this fraction of the "
        "labels is wrong. For a classifier of fit. Also writes the novelty of each text, from 0 to 1.",
    )
    novelty: float | None = option(
        default=None,
        help="With --reject: give no label to out-of-scope texts, rejecting at most this fraction of the texts with "
        "known labels, such as 0.05; 0 rejects only the least familiar hundredth. Default: 0.05 if unlabeled "
        "documents seem to have other labels, which is printed after the fit, otherwise 0.",
    )
    each_label: bool = option(
        default=False,
        help="With --reject: the error rate holds among the answers with each label, not only among all answers "
        "together. Takes more examples of each label.",
    )
    labels_at: float | None = option(
        default=None,
        help="Also write a set of labels for each text, as small as possible, that holds the right label with this "
        "probability, such as 0.95. For a classifier of fit.",
    )
    max_length: int | None = option(default=None, help="Longest text in tokens. Default: as the classifier was made.")
    max_passages: int | None = option(
        default=None,
        help="Read at most this many passages per text, if long texts are read whole or in passages. The unread "
        "fraction is logged. Default: all.",
    )
    bf16: bool = option(default=False, help="Compute in bfloat16.")

    def call_options(self) -> dict[str, Any]:
        """Return the options of a call."""
        given = [field for field in fields(self) if getattr(self, field.name) != field.default]
        options = {field.name: getattr(self, field.name) for field in given}
        novelty = options.pop("novelty", None)
        each_label = options.pop("each_label", False)
        if self.reject is not None:
            options["reject"] = RejectionLimits(self.reject, novelty, each_label)
            options["return_novelty"] = True
        elif novelty is not None or each_label:
            raise ValueError("--novelty and --each_label limit what --reject leaves without a label: give it.")
        return options


def open_classifier(classifier: str, use_cpu: bool = False) -> KNNClassifierPipeline:
    """Open a saved classifier."""
    refuse_mistyped_path(classifier)  # before torch is imported
    check_full_installation(f"Opening {classifier} without an exported model (docsplit export)")
    from ...encoding.checkpoints.checkpoint import open_checkpoint
    from ...registration import register

    register()
    folder = open_checkpoint(classifier).path  # raises a helpful error if the name is mistyped
    pipe = open_pipeline(folder, device="cpu" if use_cpu else None)
    if pipe.datastore is None:
        raise ValueError(
            f"{classifier} contains no datastore: pass a classifier saved by docsplit fit or docsplit train."
        )
    return pipe


def open_to_answer(
    arguments: PredictionArguments, answers: AnswerArguments
) -> KNNClassifierPipeline | ExportedClassifier:
    """Open the exported model of a classifier, if it has one and the options allow it; otherwise the classifier."""
    name = arguments.model
    if not answers.bf16 and Path(name).is_dir():
        exported = open_exported(name, arguments.trust)
        if exported is not None:
            return exported
    return open_classifier(name, arguments.use_cpu)


def describe_outcome(outcome: Outcome, files: PredictionFiles) -> str:
    """Describe how many texts were classified, and which got no label."""
    answered = outcome.rows - outcome.without_text - outcome.failed - outcome.rejected
    resumed = f" ({outcome.resumed:,} rows before the interruption)" if outcome.resumed else ""
    message = f"{answered:,} texts were classified{resumed}: {files.target}."
    if outcome.without_text:
        message += f" Rows without a text got no label: {outcome.without_text:,}."
    if outcome.rejected:
        message += f" Texts that are uncertain, novel or without content got no label: {outcome.rejected:,}."
    if outcome.failed:
        listed = files.target.with_name(FAILED_LIST)
        message += f" Files that could not be read: {outcome.failed:,}, listed with their reasons in {listed}."
    if outcome.sorted_files is not None:
        message += f"\n{describe_sorted(outcome.sorted_files, files.sorted_folder)}"
    return message


def describe_sorted(sorted_files: Sorted, folder: Path) -> str:
    """Describe the files that were sorted into a folder, and how to undo it."""
    lines = [f"{sorted_files.files:,} files were sorted into {folder}:"]
    lines += [f"  {count:7,}  {name}" for name, count in sorted_files.by_folder.items()]
    if sorted_files.renamed:
        lines.append(f"Names that were changed, mostly by a number, as files had the same: {sorted_files.renamed:,}.")
    if sorted_files.known:
        lines.append(f"Files that were sorted there before, and stay where they are: {sorted_files.known:,}.")
    if sorted_files.missing:
        lines.append(f"Files that are gone or were changed meanwhile, and were not sorted: {sorted_files.missing:,}.")
    lines.append(f"To remove them again: {shlex.join(['docsplit', 'undo', str(folder)])}")
    return "\n".join(lines)


def show_plan(planned: list[SortedFile], source: Path, folder: Path) -> dict[str, Any]:
    """Print where files would be sorted, and write it beside the folder; return the figures for ``--json``."""
    path = folder.with_name(f"{folder.name}-plan.csv")
    names = [_shown_name(entry, source) for entry in planned]
    rows = [
        {
            "file": name,
            "label": entry.label,
            "page": entry.page,
            "reason": entry.reason,
            "confidence": entry.score,
            "destination": entry.target,
        }
        for name, entry in zip(names, planned, strict=True)
    ]
    write_rows(path, lambda: rows, PLAN_COLUMNS, safe_csv=True)
    for name, entry in zip(names[:SHOWN_FILES], planned, strict=False):
        print(f"{name} -> {entry.target}{entry.remark()}")
    if len(planned) > SHOWN_FILES:
        print("...")
    by_folder = count_by_folder(planned)
    print(f"Nothing was copied. {len(planned):,} files would be sorted into {folder}, as listed in {path}:")
    for name, count in by_folder.items():
        print(f"  {count:7,}  {name}")
    return {"plan": str(path), "files": len(planned), "by_folder": by_folder}


def _shown_name(entry: SortedFile, source: Path) -> str:
    """The name of a file below a folder, with its folders; elsewhere its whole path."""
    path = Path(entry.source or "")
    folder = source.resolve()
    name = path.relative_to(folder).as_posix() if path.is_relative_to(folder) and path != folder else path.as_posix()
    return replace_lone_surrogates(name)


def parse(words: list[str] | None = None) -> tuple[PredictionArguments, AnswerArguments, PredictionFiles]:
    """Parse a command line, and check its files before anything is computed; None: that of the process."""
    arguments, answers = read_options(
        (PredictionArguments, AnswerArguments), __doc__, first=FIRST, main=MAIN_OPTIONS, words=words
    )
    answers.call_options()  # raises if options contradict each other
    return arguments, answers, arguments.files()


def main() -> dict[str, Any]:
    """Classify a file; return the figures for ``--json``."""
    arguments, answers, files = parse()
    refuse_processes("classify")
    show_log()
    opened = open_to_answer(arguments, answers)
    try:
        outcome = classify_file(opened, files, overwrite=arguments.overwrite_output_dir, **answers.call_options())
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(
            f"Stopped. The answers so far are kept: run the same command with --model {arguments.model} to continue."
        ) from interrupt
    if outcome.planned is not None:
        return show_plan(outcome.planned, files.source, files.sorted_folder)
    print(describe_outcome(outcome, files))
    predicted: dict[str, Any] = {"predict_output": str(files.target), **outcome._asdict()}
    if outcome.sorted_files is not None:
        predicted["sorted_files"] = outcome.sorted_files._asdict()
    return {"predicted": predicted}
