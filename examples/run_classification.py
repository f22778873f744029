"""Make a classifier that keeps its examples as a datastore: fine-tuned, or by experts on an encoder as it is.

To try it: the documentation of installed packages, by package; needs no network.

    docsplit classify --dataset_name documentation

Your labeled examples (.jsonl, .csv, .tsv, .parquet: a column of texts, a column of labels), and any encoder, best one
that docsplit pretrain has trained on your unlabeled documents:

    docsplit classify --model_name_or_path output/pretrain --dataset_name labeled.jsonl \
        --output_dir output/classification

A task of the paper with its settings, on several GPUs:

    accelerate launch --config_file examples/accelerate_configs/ddp.yaml -m docsplit_hf classify \
        --task_name MRPC --output_dir output/mrpc

A few labels for each class, and many documents without any: nothing is trained, and all of them are learned from.

    docsplit classify --no_training --model_name_or_path sentence-transformers/all-MiniLM-L6-v2 \
        --dataset_name labeled.csv --unlabeled_name documents/ --output_dir output/classification

It ends with a folder for pipeline("docsplit-knn"): the model, the datastore, the calibration, the card; and with
--predict it goes on to classify the texts of a file. Later, without training again:

    docsplit classify --model_name_or_path output/classification \
        --predict new.csv --predict_output answers.csv

Which labels are wrong, which examples are copies: a file to read and edit, then to apply.

    docsplit classify --model_name_or_path output/classification --audit report.json
    docsplit classify --model_name_or_path output/classification --apply_audit report.json
"""

import json
import shlex
from dataclasses import asdict, fields
from itertools import chain
from pathlib import Path
from typing import Any

from classification_arguments import (
    MAIN_OPTIONS,
    AuditArguments,
    DataArguments,
    DatastoreArguments,
    ModelArguments,
    PredictionArguments,
    RunArguments,
    check_options,
)
from paper_settings import describe_settings, paper_settings
from transformers import HfArgumentParser, pipeline
from transformers.trainer_utils import IntervalStrategy

import docsplit_hf
from docsplit_hf.classification.evaluation import describe_parts, evaluate_parts
from docsplit_hf.classification.knn_classifier_trainer import lora_around
from docsplit_hf.models.checkpoints.checkpoint import load_tokenizer, open_checkpoint
from docsplit_hf.models.checkpoints.inside_folder import write_file
from docsplit_hf.models.inference.embedders import make_embedder
from docsplit_hf.neighbors.audit.report import Audit
from docsplit_hf.neighbors.card import save_classifier_card
from docsplit_hf.neighbors.classify_file import PredictionFiles, check_files, classify_file
from docsplit_hf.text.copies import without_copies
from docsplit_hf.text.labels import is_multi_label, label_names_of, labels_by_name
from docsplit_hf.text.load_documents import load_unlabeled_texts
from docsplit_hf.text.package_documentation import DOCUMENTATION
from docsplit_hf.text.paper_tasks import find_task, load_task
from docsplit_hf.training.command_line import GO_ON, options_given, parse_arguments, run_script, show_log, start_run
from docsplit_hf.training.distributed import end_run
from docsplit_hf.training.markdown import public_name

LABELED_OPTIONS = (
    "text_column", "text_pair_column", "label_column", "id_column", "train_split", "validation_split", "test_split",
    "validation_size", "test_size", "label_separator", "csv_separator", "encoding", "merge_labels",
)  # fmt: skip
OF_FILES = ("text_column", "text_pair_column", "csv_separator", "encoding")  # what a file to classify is read by


def load_splits(data: DataArguments, seed: int):
    """Training, validation and test examples."""
    if data.task_name is not None:
        splits = load_task(data.task_name, seed=seed, validation_size=data.validation_size)
    else:
        source = docsplit_hf.load_package_documentation() if data.dataset_name == DOCUMENTATION else data.dataset_name
        options = {name: getattr(data, name) for name in LABELED_OPTIONS}
        splits = docsplit_hf.load_labeled_examples(source, data.dataset_config_name, seed=seed, **options)
        for name in ("train", "validation"):
            if name in splits:
                splits[name] = without_copies(splits[name], name)
    for name, most in (("train", data.max_train_examples), ("test", data.max_test_examples)):
        if most is not None and name in splits and len(splits[name]) > most:
            splits[name] = splits[name].shuffle(seed=seed).select(range(most))
    return splits


def load_unlabeled(data: DataArguments, splits, no_training: bool):
    """Documents without labels, or None; but for those that are held out with a label."""
    if data.unlabeled_name is None:
        return None
    if not no_training and "validation" not in splits:
        raise ValueError(
            f"--validation_size {data.validation_size:g}: with --unlabeled_name, held-out examples choose what each "
            "expert counts. Hold some out, or take the encoder as it is (--no_training), where folds choose."
        )
    columns = (data.text_column, data.text_pair_column, data.csv_separator, data.encoding)
    return load_unlabeled_texts(data.unlabeled_name, *columns, [splits[name] for name in splits if name != "train"])


ENCODER_OPTIONS = ("pooling", "max_length", "long_documents", "passage_length")


def new_classifier(arguments: ModelArguments, examples, use_peft: bool):
    """A classifier for these examples, and its tokenizer."""
    options = {
        name: getattr(arguments, name)
        for name in (*ENCODER_OPTIONS, "retrieval_pooling", "retrieval_dimension", "classifier_activation")
        if getattr(arguments, name) is not None
    }
    if arguments.neighbors_protocol == "fixed":
        options["knn_weight"] = arguments.knn_weight  # the paper's k and T are the defaults
    name = open_checkpoint(arguments.model_name_or_path, with_projection=True).path
    model = docsplit_hf.KNNClassifier.from_encoder(
        name,
        id2label=dict(enumerate(label_names_of(examples))),
        problem_type="multi_label_classification" if is_multi_label(examples) else "single_label_classification",
        decouple=arguments.decouple,
        normalize=arguments.normalize,
        **options,
    )
    tokenizer = load_tokenizer(name)
    return (lora_around(model, arguments.lora_r) if use_peft else model), tokenizer


def train(arguments: RunArguments, model_arguments: ModelArguments, options, splits, documents, resume: str | None):
    """Fine-tune, and save; gives the trainer, the metrics of each split, and what was chosen of experts, if any."""
    if "validation" not in splits:
        arguments.eval_strategy, arguments.load_best_model_at_end = IntervalStrategy.NO, False
    model, tokenizer = new_classifier(model_arguments, splits["train"], model_arguments.use_peft)
    kept = {name: value for name, value in options.items() if name != "store_texts"}
    docsplit_hf.KNNDatastore.empty(model.config.retrieval_size, **kept)  # wrong ones show before the training
    trainer = docsplit_hf.KNNClassifierTrainer(model, arguments, splits["train"], splits.get("validation"), tokenizer)
    trainer.train(resume)
    trainer.build_datastore(**options)
    if model_arguments.neighbors_protocol == "calibrated":
        trainer.calibrate()
    report = None if documents is None else trainer.fit_experts(documents)
    metrics = {}
    for name in ("validation", "test"):
        if name in splits:
            metrics[name] = trainer.evaluate_with_neighbors(splits[name], name)
    trainer.save_model()  # with --push_to_hub to the Hub too
    if trainer.is_world_process_zero():
        config = trainer.classifier.config
        if config.knn_calibration is None:
            print(f"Not calibrated: k {config.k}, T {config.knn_temperature:g}, lambda {config.knn_weight:g}.")
        else:
            print(f"Calibrated on {config.knn_calibration['source']} ({config.knn_calibration['examples']:,}).")
        if report is not None:
            print(report)
    return trainer, metrics, report


def fit_without_training(
    arguments: RunArguments, model_arguments: ModelArguments, options, splits, documents, by_folds: bool
):
    """Fit experts on an encoder as it is, and save them; gives the pipeline, metrics, and what was chosen."""
    name = open_checkpoint(model_arguments.model_name_or_path).path
    given = {option: value for option in ENCODER_OPTIONS if (value := getattr(model_arguments, option)) is not None}
    as_it_is = {"num_labels": 0, "decouple": False, "normalize": True, "knn_weight": 1.0, "long_documents": "whole"}
    model = docsplit_hf.KNNClassifier.from_encoder(name, **(as_it_is | given)).to(arguments.device)
    tokenizer = load_tokenizer(name)
    datastore = docsplit_hf.KNNDatastore.build(model, tokenizer, splits["train"], bf16=arguments.bf16, **options)
    pipe = docsplit_hf.KNNClassifierPipeline(model, tokenizer, datastore, device=arguments.device)
    if documents is not None:
        pipe.add_documents(documents, show_progress=True, bf16=arguments.bf16)
    held_out = None if by_folds else splits.get("validation")
    report = pipe.fit() if held_out is None else pipe.fit(held_out, labels_by_name(held_out))
    print(report)
    metrics = {
        name: evaluate_parts(make_embedder(model, tokenizer, show_progress=True), datastore, splits[name], name)
        for name in ("validation", "test")
        if name in splits
    }
    pipe.save_pretrained(arguments.output_dir)
    facts = arguments.output_dir, model.config, datastore
    save_classifier_card(arguments.output_dir, *facts, log_history=list(metrics.values()))
    return pipe, metrics, report


def last_screen(folder: str, metrics, report, splits, metric: str, data: DataArguments) -> None:
    """How good the classifier is, and how to go on."""
    for name, values in metrics.items():
        print(describe_parts(values, name, len(splits[name]), metric))
    if "test" not in metrics and (metrics or report is not None):
        print("To report on examples that nothing was chosen by: --test_size.")
    print(f"The classifier is in {folder}. In Python:\n  import docsplit_hf, transformers")
    print(f'  pipe = transformers.pipeline("docsplit-knn", model="{folder}")')
    if report is not None:
        print('  pipe("A text to classify.", explain=True)')
        print(f"For a file: {prediction_command(folder, data)}")


def prediction_command(folder: str, data: DataArguments) -> str:
    """The command that classifies another file with the same columns."""
    options = {"model_name_or_path": folder, "predict": "new.csv", "predict_output": "answers.csv"}
    for field in fields(data):
        value = getattr(data, field.name)
        if field.name in OF_FILES and value != field.default:
            options[field.name] = value
    return shlex.join(["docsplit", "classify", *chain(*((f"--{name}", value) for name, value in options.items()))])


def go_on_answering(classifier: str) -> str:
    """How to go on with answers that were interrupted."""
    options = f"--model_name_or_path {classifier}, without --dataset_name and --task_name"
    return f"the same command with {options}, goes on from there."


def upload(datastore, remote: DatastoreArguments) -> None:
    """Put what was built into a collection of Milvus, too; what is there already stays."""
    new = {"label_names": datastore.label_names, "multi_label": datastore.multi_label, "probe": datastore.probe}
    collection = remote.connect(dimension=datastore.dimension, **new)
    collection.merge(datastore)
    print(f"The examples are in {remote.datastore}, too: {len(collection):,} in all.")


def open_classifier(classifier: str, arguments: RunArguments, datastore=None):
    """A classifier that is there, with its own examples or those of another datastore."""
    folder = open_checkpoint(classifier).path  # whose error says what is wrong with a mistyped name
    pipe = pipeline("docsplit-knn", model=folder, device=arguments.device, datastore=datastore)
    if pipe.datastore is None:
        raise ValueError(
            f"{classifier} holds no classifier with its examples, and nothing is trained without --dataset_name: give "
            "labeled examples by --dataset_name, or a finished classifier by --model_name_or_path."
        )
    return pipe


def write_audit(pipe, file: str, classifier: str) -> None:
    """Audit the examples of a classifier, and say how to go on."""
    audit = pipe.audit()
    audit.to_json(file)
    print(f"{audit}\n\nAll of it is in {file}. Set apply and remove in it as you see fit, then:")
    print(f"  --model_name_or_path {classifier} --apply_audit {file}")


def apply_audit(pipe, audit: Audit, classifier: str) -> None:
    """Correct the examples of a classifier as an audit says, fit again, and save."""
    labels, removed = pipe.apply_audit(audit)
    print(pipe.fit())
    pipe.save_pretrained(classifier)
    print(
        f"{len(labels):,} examples have other labels, {len(removed):,} are removed. The classifier is in {classifier}."
    )


def audit_classifier(classifier: str, audit: AuditArguments, arguments: RunArguments) -> None:
    """Correct a classifier that is there, audit it, or one after the other."""
    if audit.apply_audit and not Path(audit.apply_audit).is_file():
        raise ValueError(f"There is no file {audit.apply_audit}: --audit writes one.")
    corrections = Audit.from_json(audit.apply_audit) if audit.apply_audit else None
    if corrections and not Path(classifier).is_dir():
        raise ValueError(f"--apply_audit saves the classifier, and {classifier} is no folder: download it first.")
    pipe = open_classifier(classifier, arguments)
    if corrections:
        apply_audit(pipe, corrections, classifier)
    if audit.audit:
        write_audit(pipe, audit.audit, classifier)


def predict(
    classifier: str,
    texts: PredictionFiles,
    prediction: PredictionArguments,
    arguments: RunArguments,
    datastore=None,
    **options,
) -> dict[str, Any]:
    """Classify texts by a classifier that is there; how many, for ``--json``."""
    pipe = open_classifier(classifier, arguments, datastore)
    options |= {"bf16": arguments.bf16, "overwrite": arguments.overwrite_output_dir}
    options |= {"explain": True} if prediction.predict_explain else {}
    options |= {"max_passages": prediction.max_passages}
    if prediction.predict_reject is not None:
        options |= {"reject": prediction.predict_reject, "return_novelty": True}
    if prediction.predict_novelty is not None:
        options["novelty"] = prediction.predict_novelty
    try:
        outcome = classify_file(pipe, texts, prediction.predict_top_k, prediction.predict_neighbors, **options)
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(f"Stopped. The answers so far are kept: {go_on_answering(classifier)}") from interrupt
    resumed = f" ({outcome.resumed:,} rows before it was interrupted)" if outcome.resumed else ""
    without_text = (
        f" Rows without a text, and so without a label: {outcome.without_text:,}." if outcome.without_text else ""
    )
    rejected = (
        f" {outcome.rejected:,} texts are too unsure, too novel or without content, and got no label."
        if outcome.rejected
        else ""
    )
    answered = outcome.rows - outcome.without_text - outcome.rejected
    print(f"{answered:,} texts were classified{resumed}: {texts.target}.{without_text}{rejected}")
    return {"predict_output": str(texts.target), **outcome._asdict()}


def main() -> dict[str, Any] | None:
    parser = HfArgumentParser(
        (ModelArguments, DataArguments, DatastoreArguments, PredictionArguments, AuditArguments, RunArguments),
        description=__doc__.split("\n")[0],
    )
    model_arguments, data, datastore, prediction, audit, arguments = parse_arguments(parser, main=MAIN_OPTIONS)
    task = None if data.task_name is None or model_arguments.no_training else find_task(data.task_name)
    batches_per_step = arguments.world_size * arguments.gradient_accumulation_steps
    defaults = {}
    if task is not None:
        defaults = paper_settings(task, batches_per_step)
    elif model_arguments.model_name_or_path is None:
        defaults = {"learning_rate": 1e-3}  # a small encoder learns next to nothing by the paper's 2e-5
    if defaults:
        parser.set_defaults(**defaults)
        model_arguments, data, datastore, prediction, audit, arguments = parser.parse_args_into_dataclasses()
    given = options_given(parser)
    check_options(given, model_arguments, data, datastore, arguments)
    if model_arguments.no_training and "validation_size" not in given:
        data.validation_size = 0
    audit.check_target(arguments.overwrite_output_dir)
    if audit.is_alone(model_arguments, data):
        show_log(arguments.process_index)
        if arguments.process_index == 0:
            audit_classifier(model_arguments.model_name_or_path or arguments.output_dir, audit, arguments)
        if not prediction.predict:
            return {"audited": model_arguments.model_name_or_path or arguments.output_dir}
    if prediction.predict:
        source, target = Path(prediction.predict), Path(prediction.predict_output)
        reading = (data.text_column, data.text_pair_column, data.csv_separator, data.encoding)
        texts = PredictionFiles(source, target, *reading, safe_csv=prediction.safe_csv)
        check_files(texts, arguments.overwrite_output_dir)  # refuse unusable files before the training
        if not (data.dataset_name or data.task_name):
            show_log(arguments.process_index)
            classifier = model_arguments.model_name_or_path or arguments.output_dir
            if arguments.process_index == 0:
                options = {"datastore": datastore.connect()} if datastore.datastore else {}
                options["max_length"] = model_arguments.max_length
                return {"predicted": predict(classifier, texts, prediction, arguments, **options)}
            return None
        is_new = not arguments.overwrite_output_dir and not arguments.resume_from_checkpoint
        if is_new and texts.partial.exists() and Path(arguments.output_dir, "metrics.json").exists():
            go_on = go_on_answering(arguments.output_dir)
            raise ValueError(f"{arguments.output_dir} is trained, and {texts.partial} holds answers: {go_on}")
    resume = start_run(arguments, arguments.overwrite_output_dir, model_arguments.model_name_or_path)
    if task is not None and arguments.process_index == 0:
        print(describe_settings(task, batches_per_step, given, vars(model_arguments) | vars(arguments)))

    with arguments.main_process_first(desc="preparing examples"):  # the other processes read its cache
        splits = load_splits(data, arguments.seed)
        documents = load_unlabeled(data, splits, model_arguments.no_training)
    if prediction.predict_reject is not None and is_multi_label(splits["train"]):
        raise ValueError(
            "--predict_reject is for one label per text, and these examples may have several: leave it out."
        )
    source = data.task_name or data.dataset_name
    if source == DOCUMENTATION:
        source = "documentation of installed Python packages, by package"
    arguments.data_description = arguments.data_description or public_name(source)
    what = (arguments, model_arguments, datastore.options(), splits, documents)
    if model_arguments.no_training:
        trainer = None
        try:
            pipe, metrics, report = fit_without_training(*what, by_folds=audit.audit is not None)
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt("Stopped. Nothing was saved: the same command begins anew.") from interrupt
    else:
        trainer, metrics, report = train(*what, resume)
    written = metrics if report is None else metrics | {"fit": asdict(report)}
    if arguments.process_index == 0:
        write_file(Path(arguments.output_dir, "metrics.json"), json.dumps(written, indent=2) + "\n")
        last_screen(arguments.output_dir, metrics, report, splits, "accuracy" if task is None else task.metric, data)
        if datastore.datastore:
            upload((pipe if trainer is None else trainer).datastore, datastore)
    if trainer is not None:
        end_run(trainer)
    if audit.audit:
        write_audit(pipe, audit.audit, arguments.output_dir)
    figures = {"output_dir": arguments.output_dir, "metrics": written}
    if prediction.predict and arguments.process_index == 0:
        figures["predicted"] = predict(arguments.output_dir, texts, prediction, arguments)
    return figures


if __name__ == "__main__":
    run_script(main, GO_ON)
