"""Fine-tune a classifier on many labels per class, and build its datastore of the examples.

    docsplit train --model_name_or_path output/pretrain --dataset_name labeled.jsonl \
        --output_dir output/classification

On several GPUs:

    accelerate launch --config_file examples/accelerate_configs/ddp.yaml -m docsplit_hf train \
        --dataset_name labeled.jsonl --output_dir output/classification

The result is a folder for pipeline("docsplit-knn") with the model, the datastore, the calibration and the card.
"""

import contextlib
import logging
from dataclasses import dataclass
from typing import Any

from datasets import DatasetDict
from transformers import HfArgumentParser
from transformers.trainer_utils import IntervalStrategy

from ...classifier.calibration import KnownExamplesError
from ...classifier.pipeline import KNNClassifierPipeline
from ...encoding.checkpoints.checkpoint import load_tokenizer, open_checkpoint
from ...encoding.portable.configuration_knn_classifier import LONG_DOCUMENTS
from ...encoding.portable.modeling_knn_classifier import KNNClassifier
from ...finetuning.arguments import KNNClassifierTrainingArguments
from ...finetuning.knn_classifier_trainer import KNNClassifierTrainer, lora_around
from ...finetuning.metrics_of_parts import evaluate_parts
from ...reading.files.failure_lists import list_of_failures
from ...reading.labels import has_several_labels, label_names_of, labels_by_name
from ...reading.package_documentation import DOCUMENTATION
from ...registration import register
from ...training.distributed import end_run
from ...training.markdown import public_name
from .labeled_arguments import LabeledArguments, load_splits, report_classifier
from .options import OUTPUT_DIR, PASSAGES_HELP, SHIPPED, option
from .run_command import HOW_TO_RESUME, parse_arguments, script, start_run

logger = logging.getLogger(__name__)

SMALL_ENCODER_LEARNING_RATE = 1e-3  # a small encoder hardly learns with the 2e-5 of the paper
MAIN_OPTIONS = (
    "dataset_name", "text_column", "label_column", "test_size", "model_name_or_path", "max_length", "long_documents",
    "use_peft", "num_train_epochs", "learning_rate", "bf16", "seed", "output_dir", "resume_from_checkpoint",
)  # fmt: skip


@dataclass
class DataArguments(LabeledArguments):
    """Labeled examples."""

    validation_size: float = option(
        default=0.1, help="Without a validation split: the fraction or number of examples to hold out."
    )

    @property
    def description(self) -> str:
        """The source of the examples, for the model card."""
        if self.dataset_name == DOCUMENTATION:
            return "documentation of installed Python packages, by package"
        return public_name(self.dataset_name)


@dataclass
class ModelArguments:
    """Model to train."""

    _argument_group_name = "model"

    model_name_or_path: str | None = option(
        default=None,
        help=f"An encoder on the Hub or a folder, ideally a DocSplit checkpoint. Default: {SHIPPED}, which "
        "is included.",
    )
    max_length: int | None = option(default=None, help="Longest text in tokens. Default: the encoder's own.")
    long_documents: str | None = option(
        default=None,
        help=f"{PASSAGES_HELP} Training reads the beginning. Default: 'first'.",
        choices=list(LONG_DOCUMENTS),
    )
    decouple: bool = option(default=True, help="Use a separate representation for the neighbor search.")
    use_peft: bool = option(default=False, help="Train LoRA adapters in the encoder, and merge them at the end.")
    store_texts: bool = option(default=True, help="Store the texts of the examples, to show them as neighbors.")


@dataclass
class RunArguments(KNNClassifierTrainingArguments):
    """Training options: the recipe of the paper, with evaluation and a checkpoint after each epoch."""

    _argument_group_name = "training"

    output_dir: str = option(default=OUTPUT_DIR, help="Folder for checkpoints and the classifier.")
    overwrite_output_dir: bool = option(
        default=False,
        help="Write to output_dir even if it is not empty; its checkpoints are moved to _overwritten/.",
    )
    per_device_eval_batch_size: int = option(default=64, help="Texts per process and evaluation batch.")
    logging_steps: float = option(default=10, help="Steps between two logs.")
    eval_strategy: str = option(default="epoch", help="When to evaluate: no, steps or epoch.")
    save_strategy: str = option(default="epoch", help="When to save a checkpoint: no, steps, epoch or best.")
    save_total_limit: int | None = option(default=1, help="Number of checkpoints to keep besides the best.")
    load_best_model_at_end: bool = option(
        default=True, help="Load the checkpoint that is best on held-out data at the end."
    )
    resume_from_checkpoint: str | None = option(
        default=None, help="Checkpoint to continue from: 'last', or a folder checkpoint-<step>."
    )


def new_trainer(model_arguments: ModelArguments, arguments: RunArguments, splits: DatasetDict) -> KNNClassifierTrainer:
    """Make a classifier for the labels of the examples, and its trainer."""
    if "validation" not in splits:
        arguments.eval_strategy = IntervalStrategy.NO
        arguments.load_best_model_at_end = False
    examples = splits["train"]
    name = open_checkpoint(model_arguments.model_name_or_path, with_projection=True).path
    settings = {
        option: getattr(model_arguments, option)
        for option in ("max_length", "long_documents")
        if getattr(model_arguments, option) is not None
    }
    model = KNNClassifier.from_encoder(
        name,
        id2label=dict(enumerate(label_names_of(examples))),
        problem_type="multi_label_classification" if has_several_labels(examples) else "single_label_classification",
        decouple=model_arguments.decouple,
        **settings,
    )
    if model_arguments.use_peft:
        model = lora_around(model)
    return KNNClassifierTrainer(model, arguments, examples, splits.get("validation"), load_tokenizer(name))


def calibrate(trainer: KNNClassifierTrainer, pipe: KNNClassifierPipeline) -> None:
    """Calibrate on held-out examples; if there are none, on those of the datastore, as an error would lose the run."""
    held_out = trainer.eval_dataset
    labels = None if held_out is None else labels_by_name(held_out)
    try:
        pipe.calibrate(held_out_texts=held_out, held_out_labels=labels)
    except KnownExamplesError as error:
        logger.warning("%s No held-out examples are used.", error)
        pipe.calibrate()


def main() -> dict[str, Any]:
    """Train a classifier; return the figures for ``--json``."""
    register()
    parser = HfArgumentParser((DataArguments, ModelArguments, RunArguments), description=__doc__.split("\n")[0])
    data, model_arguments, arguments = parse_arguments(parser, main=MAIN_OPTIONS)
    if model_arguments.model_name_or_path is None:
        parser.set_defaults(learning_rate=SMALL_ENCODER_LEARNING_RATE)
        data, model_arguments, arguments = parser.parse_args_into_dataclasses()
    arguments.data_description = arguments.data_description or data.description
    resume = start_run(arguments, arguments.overwrite_output_dir, model_arguments.model_name_or_path)
    is_first_process = arguments.process_index == 0
    listed = list_of_failures(arguments.output_dir) if is_first_process else contextlib.nullcontext()
    with listed, arguments.main_process_first(desc="preparing examples"):
        splits = load_splits(data, arguments.seed)
    trainer = new_trainer(model_arguments, arguments, splits)
    trainer.train(resume)
    datastore = trainer.build_datastore(store_texts=model_arguments.store_texts)
    model = trainer.classifier
    pipe = KNNClassifierPipeline(model, trainer.processing_class, datastore, device=arguments.device)
    calibrate(trainer, pipe)
    metrics = {}
    for name in ("validation", "test"):
        if name in splits:
            metrics[name] = evaluate_parts(pipe.embedder, datastore, splits[name], name)
            trainer.log(dict(metrics[name]))
    trainer.save_model()  # also pushes to the Hub with --push_to_hub
    if is_first_process:
        calibration = model.config.knn_calibration
        print(f"Calibrated on {calibration['source']} ({calibration['examples']:,}).")
        report_classifier(arguments.output_dir, data, splits, metrics)
    end_run(trainer)
    return {"output_dir": arguments.output_dir, "metrics": metrics}


run = script(main, HOW_TO_RESUME)
