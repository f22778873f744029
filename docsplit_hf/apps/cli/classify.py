"""Make a classifier with a datastore of its examples: fine-tuned, or from experts on a frozen encoder.

To try it without a network, on the documentation of installed packages:

    docsplit classify --dataset_name documentation

Your labeled examples (.jsonl, .csv, .tsv or .parquet, with a column of texts and a column of labels), and any encoder,
ideally one that docsplit pretrain trained on your unlabeled documents:

    docsplit classify --model_name_or_path output/pretrain --dataset_name labeled.jsonl \
        --output_dir output/classification

A task of the paper with its settings, on several GPUs:

    accelerate launch --config_file examples/accelerate_configs/ddp.yaml -m docsplit_hf classify \
        --task_name MRPC --output_dir output/mrpc

A few labels per class and many unlabeled documents. The encoder stays frozen, and experts learn from all texts:

    docsplit classify --no_training --model_name_or_path sentence-transformers/all-MiniLM-L6-v2 \
        --dataset_name labeled.csv --unlabeled_name documents/ --output_dir output/classification

The result is a folder for pipeline("docsplit-knn") with the model, the datastore, the calibration and the card. With
--predict, it also classifies the texts of a file. Later, without training again:

    docsplit classify --model_name_or_path output/classification \
        --predict new.csv --predict_output answers.csv

Folders of PDF, Word and other files take the place of tables; sub-folders are labels, and the files of another folder
are copied into folders by label, which docsplit undo removes again:

    docsplit classify --no_training --dataset_name kinds/ --unlabeled_name inbox/ --output_dir output/kinds \
        --predict inbox/ --predict_output sorted/

Find wrong labels and duplicate examples, in a file to read, edit and apply:

    docsplit classify --model_name_or_path output/classification --audit report.json
    docsplit classify --model_name_or_path output/classification --apply_audit report.json
"""

import contextlib
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

from datasets import Dataset, DatasetDict
from transformers import HfArgumentParser, PreTrainedTokenizerBase, pipeline
from transformers.trainer_utils import IntervalStrategy

from ...arrays.store import Store
from ...classifier.knn_datastore import KNNDatastore
from ...classifier.model_card import save_classifier_card
from ...classifier.pipeline import KNNClassifierPipeline
from ...classifier.predict_file import PredictionFiles, check_files, classify_file
from ...classifier.sorted_files import ANSWERS, Sorted
from ...encoding.checkpoints.checkpoint import load_tokenizer, open_checkpoint
from ...encoding.classifier_embedder import ClassifierEmbedder
from ...encoding.embedders import make_embedder
from ...encoding.portable.modeling_knn_classifier import KNNClassifier
from ...encoding.reading_time import ReadingTime
from ...finetuning.evaluation import describe_parts, evaluate_parts
from ...finetuning.knn_classifier_trainer import KNNClassifierTrainer, lora_around
from ...fitting.audit.report import Audit
from ...fitting.ensemble.report import FitReport
from ...reading.copies import without_copies
from ...reading.files.failure_lists import FAILED, list_of_failures
from ...reading.labeled_examples import load_labeled_examples
from ...reading.labels import is_multi_label, label_names_of, labels_by_name
from ...reading.load_documents import load_unlabeled_texts
from ...reading.package_documentation import DOCUMENTATION, load_package_documentation
from ...reading.paper_tasks import Task, find_task, load_task
from ...reading.source import kind_of
from ...storage.inside_folder import write_file
from ...training.command_line import HOW_TO_RESUME, options_given, parse_arguments, run_script, show_log, start_run
from ...training.distributed import end_run
from ...training.markdown import public_name
from .classify_arguments import (
    MAIN_OPTIONS,
    AuditArguments,
    DataArguments,
    DatastoreArguments,
    ModelArguments,
    PredictionArguments,
    RunArguments,
    check_options,
)
from .hierarchy_option import read_hierarchy
from .paper_settings import describe_settings, paper_settings

LABELED_OPTIONS = (
    "text_column", "text_pair_column", "label_column", "id_column", "train_split", "validation_split", "test_split",
    "validation_size", "test_size", "label_separator", "csv_separator", "encoding", "merge_labels",
)  # fmt: skip
FILE_OPTIONS = ("text_column", "text_pair_column", "csv_separator", "encoding")  # for reading a file to classify
ENCODER_OPTIONS = ("pooling", "max_length", "long_documents", "passage_length")
NEW_CLASSIFIER_OPTIONS = (
    *ENCODER_OPTIONS, "retrieval_pooling", "retrieval_dimension", "classifier_activation",
)  # fmt: skip
SMALL_ENCODER_LEARNING_RATE = 1e-3  # a small encoder hardly learns with the 2e-5 of the paper


class Options(NamedTuple):
    """The arguments of the command line, a dataclass for each group."""

    model: ModelArguments
    data: DataArguments
    datastore: DatastoreArguments
    prediction: PredictionArguments
    audit: AuditArguments
    run: RunArguments

    @property
    def has_examples(self) -> bool:
        """Whether there are labeled examples to learn from."""
        return bool(self.data.dataset_name or self.data.task_name)

    @property
    def batches_per_step(self) -> int:
        """Number of batches per optimizer step, over all processes."""
        return self.run.world_size * self.run.gradient_accumulation_steps

    @property
    def existing_classifier(self) -> str:
        """Name of the saved classifier, for commands that make none."""
        return self.model.model_name_or_path or self.run.output_dir


class Texts(NamedTuple):
    """The labeled examples by split, and the documents without labels, if any."""

    splits: DatasetDict
    documents: Dataset | None


class Fitted(NamedTuple):
    """A classifier that was trained or fitted, and saved."""

    trainer_or_pipeline: KNNClassifierTrainer | KNNClassifierPipeline
    metrics: dict[str, dict[str, float]]  # by split
    report: FitReport | None  # None without experts


def load_splits(data: DataArguments, seed: int) -> DatasetDict:
    """Load training, validation and test examples."""
    if data.task_name is not None:
        splits = load_task(data.task_name, seed=seed, validation_size=data.validation_size)
    else:
        source = load_package_documentation() if data.dataset_name == DOCUMENTATION else data.dataset_name
        splits = load_labeled_examples(
            source, data.dataset_config_name, seed=seed, **{name: getattr(data, name) for name in LABELED_OPTIONS}
        )
        for name in ("train", "validation"):
            if name in splits:
                splits[name] = without_copies(splits[name], name)
    for name, limit in (("train", data.max_train_examples), ("test", data.max_test_examples)):
        if limit is not None and name in splits and len(splits[name]) > limit:
            splits[name] = splits[name].shuffle(seed=seed).select(range(limit))
    return splits


def load_unlabeled(data: DataArguments, splits: DatasetDict, no_training: bool) -> Dataset | None:
    """Load unlabeled documents, without those held out with a label; None without --unlabeled_name."""
    if data.unlabeled_name is None:
        return None
    if not no_training and "validation" not in splits:
        raise ValueError(
            f"--validation_size {data.validation_size:g}: with --unlabeled_name, the weights of the experts are chosen "
            "on held-out examples. Hold some out, or use --no_training, which chooses the weights by cross-validation."
        )
    return load_unlabeled_texts(
        data.unlabeled_name,
        text_column=data.text_column,
        text_pair_column=data.text_pair_column,
        csv_separator=data.csv_separator,
        encoding=data.encoding,
        held_out=[splits[name] for name in splits if name != "train"],
    )


def config_options(arguments: ModelArguments, names: Sequence[str]) -> dict[str, str | int]:
    """Return the named arguments that are not None, for ``KNNClassifierConfig``."""
    options: dict[str, str | int] = {}
    for name in names:
        value = getattr(arguments, name)
        if value is not None:
            options[name] = value
    return options


def new_classifier(arguments: ModelArguments, examples: Dataset) -> tuple[KNNClassifier, PreTrainedTokenizerBase]:
    """Make a classifier for the labels of these examples; return it with its tokenizer."""
    name = open_checkpoint(arguments.model_name_or_path, with_projection=True).path
    settings = config_options(arguments, NEW_CLASSIFIER_OPTIONS)
    if arguments.neighbors_protocol == "fixed":
        settings["knn_weight"] = arguments.knn_weight  # the paper's k and T are the defaults
    model = KNNClassifier.from_encoder(
        name,
        id2label=dict(enumerate(label_names_of(examples))),
        problem_type="multi_label_classification" if is_multi_label(examples) else "single_label_classification",
        decouple=arguments.decouple,
        normalize=arguments.normalize,
        **settings,
    )
    if arguments.use_peft:
        model = lora_around(model, arguments.lora_r)
    return model, load_tokenizer(name)


def train(options: Options, texts: Texts, resume: str | None) -> Fitted:
    """Fine-tune a classifier, build its datastore, fit experts if there are unlabeled documents, and save."""
    arguments = options.run
    splits = texts.splits
    if "validation" not in splits:
        arguments.eval_strategy = IntervalStrategy.NO
        arguments.load_best_model_at_end = False
    model, tokenizer = new_classifier(options.model, splits["train"])
    # An empty datastore checks the options before the training.
    KNNDatastore.empty(model.config.retrieval_size, **options.datastore.index_options())
    trainer = KNNClassifierTrainer(model, arguments, splits["train"], splits.get("validation"), tokenizer)
    trainer.train(resume)
    trainer.build_datastore(store_texts=options.datastore.store_texts, **options.datastore.index_options())
    if options.model.neighbors_protocol == "calibrated":
        trainer.calibrate()
    report = (
        None
        if texts.documents is None
        else trainer.fit_experts(texts.documents, hierarchy=read_hierarchy(options.data.hierarchy))
    )
    metrics = {}
    for name in ("validation", "test"):
        if name in splits:
            metrics[name] = trainer.evaluate_with_neighbors(splits[name], name)
    trainer.save_model()  # also pushes to the Hub with --push_to_hub
    if trainer.is_world_process_zero():
        config = trainer.classifier.config
        if config.knn_calibration is None:
            print(f"Not calibrated: k {config.k}, T {config.knn_temperature:g}, lambda {config.knn_weight:g}.")
        else:
            print(f"Calibrated on {config.knn_calibration['source']} ({config.knn_calibration['examples']:,}).")
        if report is not None:
            print(report)
    return Fitted(trainer, metrics, report)


def fit_without_training(options: Options, texts: Texts) -> Fitted:
    """Fit experts on a frozen encoder, and save the classifier."""
    arguments = options.run
    splits = texts.splits
    name = open_checkpoint(options.model.model_name_or_path, with_projection=True).path
    frozen = {"num_labels": 0, "decouple": False, "normalize": True, "knn_weight": 1.0, "long_documents": "whole"}
    model = KNNClassifier.from_encoder(name, **(frozen | config_options(options.model, ENCODER_OPTIONS)))
    model = model.to(arguments.device)
    tokenizer = load_tokenizer(name)
    choose_reading(options, texts, make_embedder(model, tokenizer, bf16=arguments.bf16))
    datastore = KNNDatastore.build(
        model,
        tokenizer,
        splits["train"],
        store_texts=options.datastore.store_texts,
        bf16=arguments.bf16,
        **options.datastore.index_options(),
    )
    pipe = KNNClassifierPipeline(model, tokenizer, datastore, device=arguments.device)
    if texts.documents is not None:
        pipe.add_documents(texts.documents, show_progress=True, bf16=arguments.bf16)
    # An audit needs out-of-fold predictions, so do not use the validation split.
    is_audited = options.audit.audit is not None
    held_out = None if is_audited else splits.get("validation")
    report = pipe.fit(
        held_out,
        None if held_out is None else labels_by_name(held_out),
        teacher=options.data.teacher,
        teacher_texts=options.data.teacher_texts,
        hierarchy=read_hierarchy(options.data.hierarchy),
    )
    print(report)
    metrics = {
        name: evaluate_parts(make_embedder(model, tokenizer, show_progress=True), datastore, splits[name], name)
        for name in ("validation", "test")
        if name in splits
    }
    pipe.save_pretrained(arguments.output_dir)
    save_classifier_card(
        arguments.output_dir,
        location=arguments.output_dir,
        config=model.config,
        datastore=datastore,
        log_history=list(metrics.values()),
    )
    return Fitted(pipe, metrics, report)


def choose_reading(options: Options, texts: Texts, embedder: ClassifierEmbedder) -> None:
    """Print how long it takes to embed the texts, and read only their beginnings if that takes too long."""
    tables = [texts.splits["train"]] + ([] if texts.documents is None else [texts.documents])
    if any("text_pair" in table.column_names for table in tables):
        return  # of pairs, the beginnings are read
    is_open = options.model.long_documents is None
    reading = ReadingTime.measure(embedder, (text for table in tables for text in table["text"]))
    if is_open:
        embedder.model.config.long_documents = reading.choice
    print(reading.describe(embedder.long_documents, is_chosen=is_open), flush=True)


def print_summary(options: Options, fitted: Fitted, splits: DatasetDict, task_metric: str) -> None:
    """Print the metrics of the classifier and the next commands."""
    folder = options.run.output_dir
    for name, values in fitted.metrics.items():
        print(describe_parts(values, name, len(splits[name]), task_metric))
    if "test" not in fitted.metrics and (fitted.metrics or fitted.report is not None):
        print("To report metrics on examples that were not used for any choice, add --test_size.")
    print(f"The classifier is in {folder}. In Python:\n  import docsplit_hf, transformers")
    print(f'  pipe = transformers.pipeline("docsplit-knn", model="{folder}")')
    if fitted.report is not None:
        print('  pipe("A text to classify.", explain=True)')
        print(f"For other texts: {prediction_command(folder, options.data)}")


def prediction_command(folder: str, data: DataArguments) -> str:
    """Return the command that classifies another file with the same columns, or other documents."""
    options = {"model_name_or_path": folder, "predict": "new.csv", "predict_output": "answers.csv"}
    if kind_of(data.dataset_name) == "documents":
        options |= {"predict": "new/", "predict_output": "sorted-new/"}  # sorted/ may have files now
        return shlex.join(["docsplit", "classify", *_words(options)])
    for field in fields(data):
        value = getattr(data, field.name)
        if field.name in FILE_OPTIONS and value != field.default:
            options[field.name] = value
    return shlex.join(["docsplit", "classify", *_words(options)])


def _words(options: Mapping[str, str]) -> list[str]:
    """Return the words of a command line for options by name."""
    words: list[str] = []
    for name, value in options.items():
        words += [f"--{name}", value]
    return words


def how_to_continue(classifier: str) -> str:
    """Explain how to continue an interrupted --predict."""
    options = f"--model_name_or_path {classifier}, without --dataset_name and --task_name"
    return f"run the same command with {options}, to continue."


def upload(datastore: Store, remote: DatastoreArguments) -> None:
    """Add the examples to a collection of Milvus; its existing rows stay."""
    collection = remote.connect(
        dimension=datastore.dimension,
        label_names=datastore.label_names,
        multi_label=datastore.multi_label,
        probe=datastore.probe,
    )
    collection.merge(datastore)
    print(f"The examples were also added to {remote.datastore}, which has {len(collection):,} now.")


def open_classifier(classifier: str, arguments: RunArguments, datastore: Store | None = None) -> KNNClassifierPipeline:
    """Open a saved classifier, with its own examples or those of another datastore."""
    folder = open_checkpoint(classifier).path  # raises a helpful error if the name is mistyped
    pipe = pipeline("docsplit-knn", model=folder, device=arguments.device, datastore=datastore)
    if pipe.datastore is None:
        raise ValueError(
            f"{classifier} contains no datastore: pass a classifier saved by docsplit classify with "
            "--model_name_or_path, or make one from labeled examples with --dataset_name."
        )
    return pipe


def write_audit(pipe: KNNClassifierPipeline, file: str, classifier: str) -> None:
    """Audit the examples of a classifier, and print how to apply the findings."""
    audit = pipe.audit()
    audit.to_json(file)
    command = shlex.join(["docsplit", "classify", "--model_name_or_path", classifier, "--apply_audit", file])
    print(f'{audit}\n\nAll findings are in {file}. Edit the fields "apply" and "remove" in the file, then run:')
    print(f"  {command}")


def apply_audit(pipe: KNNClassifierPipeline, audit: Audit, classifier: str) -> None:
    """Correct the examples of a classifier as marked in an audit, fit again, and save."""
    labels, removed = pipe.apply_audit(audit)
    print(pipe.fit())
    pipe.save_pretrained(classifier)
    print(f"{len(labels):,} examples were relabeled, {len(removed):,} removed. The classifier is in {classifier}.")


def audit_classifier(classifier: str, audit: AuditArguments, arguments: RunArguments) -> None:
    """Apply an audit to a saved classifier, make a new audit, or both in this order."""
    if audit.apply_audit and not Path(audit.apply_audit).is_file():
        raise ValueError(f"There is no file {audit.apply_audit}: write one by --audit.")
    corrections = Audit.from_json(audit.apply_audit) if audit.apply_audit else None
    if corrections and not Path(classifier).is_dir():
        raise ValueError(
            f"--apply_audit needs a local folder to save the classifier, not {classifier}: download it first."
        )
    pipe = open_classifier(classifier, arguments)
    if corrections:
        apply_audit(pipe, corrections, classifier)
    if audit.audit:
        write_audit(pipe, audit.audit, classifier)


def answer_options(prediction: PredictionArguments) -> dict[str, bool | int | float | None]:
    """Return the call options of ``KNNClassifierPipeline``, which refuses some of them without experts."""
    options: dict[str, bool | int | float | None] = {"max_passages": prediction.max_passages}
    if prediction.predict_explain:
        options["explain"] = True
    if prediction.predict_reject is not None:
        options["reject"] = prediction.predict_reject
        options["return_novelty"] = True
    if prediction.predict_novelty is not None:
        options["novelty"] = prediction.predict_novelty
    if prediction.predict_reject_each_label:
        options["reject_each_label"] = True
    if prediction.labels_at is not None:
        options["labels_at"] = prediction.labels_at
    return options


def predict(
    pipe: KNNClassifierPipeline,
    files: PredictionFiles,
    options: Options,
    classifier: str,
    call_options: Mapping[str, Any],
) -> dict[str, Any]:
    """Classify the texts of a file; return the counts of rows for ``--json``."""
    try:
        outcome = classify_file(
            pipe,
            files,
            top_k=options.prediction.predict_top_k,
            return_neighbors=options.prediction.predict_neighbors,
            overwrite=options.run.overwrite_output_dir,
            bf16=options.run.bf16,
            **call_options,
        )
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(f"Stopped. The answers so far are kept: {how_to_continue(classifier)}") from interrupt
    answered = outcome.rows - outcome.without_text - outcome.failed - outcome.rejected
    resumed = f" ({outcome.resumed:,} rows before the interruption)" if outcome.resumed else ""
    message = f"{answered:,} texts were classified{resumed}: {files.target}."
    if outcome.without_text:
        message += f" Rows without a text got no label: {outcome.without_text:,}."
    if outcome.rejected:
        message += f" Texts that are uncertain, novel or without content got no label: {outcome.rejected:,}."
    if outcome.failed:
        listed = files.target.with_name(FAILED)
        message += f" Files that could not be read: {outcome.failed:,}, listed with their reasons in {listed}."
    print(message)
    figures: dict[str, Any] = {"predict_output": str(files.target), **outcome._asdict()}
    if outcome.sorted_files is not None:
        print(describe_sorted(outcome.sorted_files, files.sorted_folder))
        figures["sorted_files"] = outcome.sorted_files._asdict()
    return figures


def describe_sorted(sorted_files: Sorted, folder: Path) -> str:
    """Describe the files that were sorted into a folder, and how to undo it."""
    lines = [f"{sorted_files.files:,} files were sorted into {folder}:"]
    lines += [f"  {count:7,}  {name}" for name, count in sorted_files.by_folder.items()]
    if sorted_files.renamed:
        lines.append(f"Names that were changed, mostly by a number, as files had the same: {sorted_files.renamed:,}.")
    if sorted_files.missing:
        lines.append(f"Files that are gone or no regular files, and were not sorted: {sorted_files.missing:,}.")
    lines.append(f"To remove them again: {shlex.join(['docsplit', 'undo', str(folder)])}")
    return "\n".join(lines)


def predict_with_existing(options: Options, files: PredictionFiles) -> dict[str, Any] | None:
    """Classify a file with a saved classifier, in the first process; return the figures for ``--json``."""
    show_log(options.run.process_index)
    if options.run.process_index != 0:
        return None
    classifier = options.existing_classifier
    datastore = options.datastore.connect() if options.datastore.datastore else None
    pipe = open_classifier(classifier, options.run, datastore)
    call_options = answer_options(options.prediction) | {"max_length": options.model.max_length}
    return {"predicted": predict(pipe, files, options, classifier, call_options)}


def default_settings(options: Options, task: Task | None) -> dict[str, str | float | None]:
    """Return defaults that depend on other options, by option name."""
    if task is not None:
        return paper_settings(task, options.batches_per_step)
    if options.model.model_name_or_path is None:
        return {"learning_rate": SMALL_ENCODER_LEARNING_RATE}
    return {}


def prediction_files(options: Options) -> PredictionFiles:
    """Return the files of --predict, and check them, before any training."""
    target = Path(options.prediction.predict_output)
    is_folder = target.is_dir() or not target.suffix or options.prediction.predict_output.endswith(("/", os.sep))
    sorted_folder = target if is_folder else None
    if options.prediction.link is not None and sorted_folder is None:
        raise ValueError(f"--link is for sorted files: give a folder by --predict_output, not the file {target}.")
    files = PredictionFiles(
        source=Path(options.prediction.predict),
        target=target if sorted_folder is None else target / ANSWERS,
        text_column=options.data.text_column,
        text_pair_column=options.data.text_pair_column,
        csv_separator=options.data.csv_separator,
        encoding=options.data.encoding,
        safe_csv=options.prediction.safe_csv,
        sorted_folder=sorted_folder,
        link=options.prediction.link,
    )
    check_files(files, options.run.overwrite_output_dir)
    return files


def refuse_second_training(options: Options, files: PredictionFiles) -> None:
    """Raise if an earlier run trained this classifier, but was interrupted while it classified the file."""
    output_dir = options.run.output_dir
    is_new = not options.run.overwrite_output_dir and not options.run.resume_from_checkpoint
    if is_new and files.partial.exists() and Path(output_dir, "metrics.json").exists():
        raise ValueError(
            f"{output_dir} is already trained, and {files.partial} has answers: {how_to_continue(output_dir)}"
        )


def load_texts(options: Options) -> Texts:
    """Load the examples and the documents; the first process prepares the cache for the others."""
    is_first_process = options.run.process_index == 0
    listed = list_of_failures(options.run.output_dir) if is_first_process else contextlib.nullcontext()
    with listed, options.run.main_process_first(desc="preparing examples"):
        splits = load_splits(options.data, options.run.seed)
        documents = load_unlabeled(options.data, splits, options.model.no_training)
    if options.prediction.predict_reject is not None and is_multi_label(splits["train"]):
        raise ValueError(
            "--predict_reject needs one label per text, but these examples may have several: remove --predict_reject."
        )
    return Texts(splits, documents)


def fit(options: Options, texts: Texts, resume: str | None) -> Fitted:
    """Train a classifier, or fit experts on a frozen encoder (--no_training)."""
    if not options.model.no_training:
        return train(options, texts, resume)
    try:
        return fit_without_training(options, texts)
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt("Stopped. Nothing was saved: run the same command again to start over.") from interrupt


def main() -> dict[str, Any] | None:
    """Make a classifier, or use a saved one; return the figures for ``--json``."""
    parser = HfArgumentParser(
        (ModelArguments, DataArguments, DatastoreArguments, PredictionArguments, AuditArguments, RunArguments),
        description=__doc__.split("\n")[0],
    )
    options = Options(*parse_arguments(parser, main=MAIN_OPTIONS))
    is_task = options.data.task_name is not None and not options.model.no_training
    task = find_task(options.data.task_name) if is_task else None
    defaults = default_settings(options, task)
    if defaults:
        parser.set_defaults(**defaults)
        options = Options(*parser.parse_args_into_dataclasses())
    given = options_given(parser)
    check_options(given, options.model, options.data, options.datastore, options.run)
    if options.model.no_training and "validation_size" not in given:
        options.data.validation_size = 0
    options.audit.check_target(options.run.overwrite_output_dir)
    is_first_process = options.run.process_index == 0

    files = prediction_files(options) if options.prediction.predict else None
    if options.audit.audits_saved_classifier(options.model, options.data):
        show_log(options.run.process_index)
        if is_first_process:
            audit_classifier(options.existing_classifier, options.audit, options.run)
        if files is None:
            return {"audited": options.existing_classifier}
    if files is not None:
        if not options.has_examples:
            return predict_with_existing(options, files)
        refuse_second_training(options, files)

    resume = start_run(options.run, options.run.overwrite_output_dir, options.model.model_name_or_path)
    if task is not None and is_first_process:
        used = vars(options.model) | vars(options.run)
        print(describe_settings(task, options.batches_per_step, given, used))
    texts = load_texts(options)
    if not options.run.data_description:
        source = options.data.task_name or options.data.dataset_name
        if source == DOCUMENTATION:
            source = "documentation of installed Python packages, by package"
        options.run.data_description = public_name(source)
    fitted = fit(options, texts, resume)
    metrics = fitted.metrics if fitted.report is None else fitted.metrics | {"fit": asdict(fitted.report)}
    if is_first_process:
        write_file(Path(options.run.output_dir, "metrics.json"), json.dumps(metrics, indent=2) + "\n")
        print_summary(options, fitted, texts.splits, "accuracy" if task is None else task.metric)
        if options.datastore.datastore:
            upload(fitted.trainer_or_pipeline.datastore, options.datastore)
    if isinstance(fitted.trainer_or_pipeline, KNNClassifierTrainer):
        end_run(fitted.trainer_or_pipeline)
    if options.audit.audit:
        write_audit(fitted.trainer_or_pipeline, options.audit.audit, options.run.output_dir)
    figures = {"output_dir": options.run.output_dir, "metrics": metrics}
    if files is not None and is_first_process:
        pipe = open_classifier(options.run.output_dir, options.run)
        call_options = answer_options(options.prediction)
        figures["predicted"] = predict(pipe, files, options, options.run.output_dir, call_options)
    return figures


def run() -> None:
    """Run the command."""
    run_script(main, HOW_TO_RESUME)
