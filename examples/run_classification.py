"""Fine-tune a classifier that keeps its training set as a datastore, and mix it with its nearest neighbors.

Without a data set: the documentation of installed packages, by package; needs no network.

    python examples/run_classification.py

Your labeled examples (.jsonl, .csv, .tsv, .parquet: a column of texts, a column of labels), and any encoder, best one
that run_pretrain.py has trained on your unlabeled documents:

    python examples/run_classification.py --model_name_or_path output/pretrain --dataset_name labeled.jsonl \
        --output_dir output/classification

A task of the paper, on several GPUs:

    accelerate launch --config_file examples/accelerate_configs/ddp.yaml examples/run_classification.py \
        --model_name_or_path FacebookAI/roberta-large --task_name MRPC --output_dir output/mrpc

It ends with a folder for pipeline("docsplit-knn"): the model, the datastore, the calibration, the card; and with
--predict it goes on to classify the texts of a file. Later, without training again:

    python examples/run_classification.py --model_name_or_path output/classification \
        --predict new.csv --predict_output answers.csv
"""

import json
from pathlib import Path

from classification_arguments import (
    DataArguments,
    DatastoreArguments,
    ModelArguments,
    PredictionArguments,
    RunArguments,
)
from transformers import AutoTokenizer, HfArgumentParser, pipeline
from transformers.trainer_utils import IntervalStrategy

import docsplit_hf
from docsplit_hf.classification.evaluation import describe_parts
from docsplit_hf.classification.lora import lora_around
from docsplit_hf.models.checkpoints.checkpoint import open_checkpoint
from docsplit_hf.neighbors.classify_file import PredictionFiles, classify_file, look_through
from docsplit_hf.text.labels import is_multi_label, label_names_of
from docsplit_hf.text.paper_tasks import load_task
from docsplit_hf.training.command_line import GO_ON, parse_arguments, run_script
from docsplit_hf.training.end_run import end_run
from docsplit_hf.training.markdown import public_name
from docsplit_hf.training.start_run import show_log, start_run


def load_splits(data: DataArguments, seed: int):
    """Training, validation and test examples."""
    if data.task_name is not None:
        splits = load_task(data.task_name, seed=seed, validation_size=data.validation_size)
    else:
        splits = docsplit_hf.load_labeled_examples(
            data.dataset_name or docsplit_hf.load_package_documentation(),
            data.dataset_config_name,
            text_column=data.text_column,
            text_pair_column=data.text_pair_column,
            label_column=data.label_column,
            id_column=data.id_column,
            train_split=data.train_split,
            validation_split=data.validation_split,
            test_split=data.test_split,
            validation_size=data.validation_size,
            test_size=data.test_size,
            seed=seed,
            label_separator=data.label_separator,
            csv_separator=data.csv_separator,
            encoding=data.encoding,
        )
    for name, most in (("train", data.max_train_examples), ("test", data.max_test_examples)):
        if most is not None and name in splits and len(splits[name]) > most:
            splits[name] = splits[name].shuffle(seed=seed).select(range(most))
    return splits


def new_classifier(arguments: ModelArguments, examples, use_peft: bool):
    """A classifier for these examples, and its tokenizer."""
    options = {
        name: getattr(arguments, name)
        for name in ("pooling", "retrieval_pooling", "retrieval_dimension", "max_length")
        if getattr(arguments, name) is not None
    }
    name = open_checkpoint(arguments.model_name_or_path, with_projection=True).path
    model = docsplit_hf.KNNClassifier.from_encoder(
        name,
        id2label=dict(enumerate(label_names_of(examples))),
        problem_type="multi_label_classification" if is_multi_label(examples) else "single_label_classification",
        decouple=arguments.decouple,
        normalize=arguments.normalize,
        **options,
    )
    tokenizer = AutoTokenizer.from_pretrained(name)
    return (lora_around(model, arguments.lora_r) if use_peft else model), tokenizer


def go_on_answering(classifier: str) -> str:
    """How to go on with answers that were interrupted."""
    options = f"--model_name_or_path {classifier}, without --dataset_name and --task_name"
    return f"the same command with {options}, goes on from there."


def predict(
    classifier: str, texts: PredictionFiles, prediction: PredictionArguments, arguments: RunArguments, **options
) -> None:
    """Classify texts by a classifier that is there."""
    folder = open_checkpoint(classifier).path  # whose error says what is wrong with a mistyped name
    pipe = pipeline("docsplit-knn", model=folder, device=arguments.device)
    if pipe.datastore is None:
        raise ValueError(
            f"{classifier} holds no classifier with its examples, and nothing is trained without --dataset_name: give "
            "labeled examples by --dataset_name, or a finished classifier by --model_name_or_path."
        )
    options |= {"bf16": arguments.bf16, "overwrite": arguments.overwrite_output_dir}
    try:
        outcome = classify_file(pipe, texts, prediction.predict_top_k, prediction.predict_neighbors, **options)
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(f"Stopped. The answers so far are kept: {go_on_answering(classifier)}") from interrupt
    resumed = f" ({outcome.resumed:,} rows before it was interrupted)" if outcome.resumed else ""
    without_text = f" {outcome.without_text:,} rows have no text, and so no label." if outcome.without_text else ""
    print(f"{outcome.rows - outcome.without_text:,} texts were classified{resumed}: {texts.target}.{without_text}")


def main() -> None:
    parser = HfArgumentParser(
        (ModelArguments, DataArguments, DatastoreArguments, PredictionArguments, RunArguments),
        description=__doc__.split("\n")[0],
    )
    model_arguments, data, datastore, prediction, arguments = parse_arguments(parser)
    if model_arguments.model_name_or_path is None:
        parser.set_defaults(learning_rate=1e-3)  # a small encoder learns next to nothing by the paper's 2e-5
        model_arguments, data, datastore, prediction, arguments = parser.parse_args_into_dataclasses()
    if prediction.predict:
        source, target = Path(prediction.predict), Path(prediction.predict_output)
        texts = PredictionFiles(
            source, target, data.text_column, data.text_pair_column, data.csv_separator, data.encoding
        )
        look_through(texts, arguments.overwrite_output_dir)  # what is wrong with them shows before the training
        if not (data.dataset_name or data.task_name):
            show_log(arguments.process_index)
            classifier = model_arguments.model_name_or_path or arguments.output_dir
            if arguments.process_index == 0:
                predict(classifier, texts, prediction, arguments, max_length=model_arguments.max_length)
            return
        is_new = not arguments.overwrite_output_dir and not arguments.resume_from_checkpoint
        if is_new and texts.partial.exists() and Path(arguments.output_dir, "metrics.json").exists():
            go_on = go_on_answering(arguments.output_dir)
            raise ValueError(f"{arguments.output_dir} is trained, and {texts.partial} holds answers: {go_on}")
    resume = start_run(arguments, arguments.overwrite_output_dir, model_arguments.model_name_or_path)

    with arguments.main_process_first(desc="preparing examples"):  # the other processes read its cache
        splits = load_splits(data, arguments.seed)
    if "validation" not in splits:
        arguments.eval_strategy, arguments.load_best_model_at_end = IntervalStrategy.NO, False
    source = data.task_name or data.dataset_name or "documentation of installed Python packages, by package"
    arguments.data_description = arguments.data_description or public_name(source)
    model, tokenizer = new_classifier(model_arguments, splits["train"], model_arguments.use_peft)
    trainer = docsplit_hf.KNNClassifierTrainer(model, arguments, splits["train"], splits.get("validation"), tokenizer)
    trainer.train(resume)
    trainer.build_datastore(
        store_texts=datastore.store_texts,
        dtype=datastore.keys_dtype,
        index=datastore.index,
        nprobe=datastore.nprobe,
        rerank=datastore.rerank,
    )
    trainer.calibrate()
    metrics = {}
    for name in ("validation", "test"):
        if name in splits:
            metrics[name] = trainer.evaluate_with_neighbors(splits[name], name)
    trainer.save_model()  # with --push_to_hub to the Hub too
    if trainer.is_world_process_zero():
        Path(arguments.output_dir, "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
        calibration = trainer.classifier.config.knn_calibration
        print(f"Calibrated on {calibration['source']} ({calibration['examples']:,}).")
        for name, values in metrics.items():
            print(describe_parts(values, name, len(splits[name])))
        if list(metrics) == ["validation"]:
            print("To report on examples that nothing was chosen by: --test_size.")
        print(f"The classifier is in {arguments.output_dir}. In Python:\n  import docsplit_hf, transformers")
        print(f'  pipe = transformers.pipeline("docsplit-knn", model="{arguments.output_dir}")')
    end_run(trainer)
    if prediction.predict and arguments.process_index == 0:
        predict(arguments.output_dir, texts, prediction, arguments)


if __name__ == "__main__":
    run_script(main, GO_ON)
