"""Pretrain a document encoder on unlabelled documents with DocSplit.

Without arguments it trains a small BERT from scratch on the documentation of installed Python packages, which needs no
network:

    python examples/run_pretrain.py

On your own documents (a .jsonl, .csv, .parquet or .txt file, or a folder of .txt files), starting from any encoder:

    accelerate launch examples/run_pretrain.py --model_name_or_path answerdotai/ModernBERT-base \
        --dataset_name documents.jsonl --text_column text --max_length 512 --output_dir output/documents

On Wikipedia, streamed, with several GPUs:

    accelerate launch --config_file examples/accelerate_configs/ddp.yaml examples/run_pretrain.py \
        --model_name_or_path answerdotai/ModernBERT-base --dataset_name wikimedia/wikipedia \
        --dataset_config_name 20231101.en --streaming --max_steps 100000 --bf16 --output_dir output/wikipedia
"""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass, field

from transformers import AutoTokenizer, HfArgumentParser, set_seed
from transformers.trainer_utils import IntervalStrategy

from docsplit_hf import (
    AutoModelForDocSplit,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DataCollatorForDocSplit,
    load_documents,
    load_package_documentation,
    segment_documents,
)
from docsplit_hf.models.small_bert import small_bert_config, train_small_bert_tokenizer
from docsplit_hf.training.checkpoints import check_output_dir

logger = logging.getLogger("run_pretrain")

# What a small BERT wants that starts from random weights, and what two CPU cores do in minutes.
EMBEDDED_DEFAULTS = {
    "pooling": "mean",  # the first token's state is worth nothing yet: with "cls" the loss does not move for an epoch
    "max_length": 128,
    "learning_rate": 2e-3,
    "num_train_epochs": 2,
    "warmup_steps": 30,
}


@dataclass
class ModelArguments:
    """What to train."""

    model_name_or_path: str | None = field(
        default=None, metadata={"help": "An encoder on the Hub or a folder. Default: a new small BERT."}
    )
    pooling: str | None = field(
        default=None, metadata={"help": "cls (the papers' choice), mean, max or last. Default: the model's own, or cls."}
    )
    use_peft: bool = field(default=False, metadata={"help": "Train a LoRA adapter instead of all parameters."})
    lora_r: int = field(default=16, metadata={"help": "Rank of the LoRA adapter."})
    merge_peft: bool = field(
        default=False, metadata={"help": "Also save the model with the adapter merged into it, in output_dir/merged."}
    )


@dataclass
class DataArguments:
    """What to train on."""

    dataset_name: str | None = field(
        default=None,
        metadata={
            "help": "A data set on the Hub, a .jsonl/.json/.csv/.parquet/.txt file or a folder of .txt files. Default: "
            "the documentation of installed Python packages."
        },
    )
    dataset_config_name: str | None = field(default=None, metadata={"help": "Configuration of a data set on the Hub."})
    dataset_split: str = field(default="train", metadata={"help": "Split of a data set on the Hub."})
    streaming: bool = field(default=False, metadata={"help": "Read while training. Needs --max_steps."})
    text_column: str = field(default="text", metadata={"help": "The column with the texts."})
    test_size: int = field(default=500, metadata={"help": "Documents to hold out for evaluation; 0 for none."})
    max_length: int = field(default=512, metadata={"help": "Longest half in tokens; what is longer is cut."})
    mlm_probability: float = field(default=0.15, metadata={"help": "Share of the tokens to mask for MLM."})
    views: str = field(default="docsplit", metadata={"help": "How positive pairs are made."})
    segmenter: str = field(default="pysbd", metadata={"help": "Sentence splitter: pysbd, or newline for a line each."})
    language: str = field(default="en", metadata={"help": "Language code for pysbd."})
    preprocessing_num_workers: int | None = field(
        default=None, metadata={"help": "Processes to prepare the documents with. Default: as many as there are cores."}
    )


@dataclass
class RunArguments(ContrastiveTrainingArguments):
    """How to train. Defaults to the papers' recipe."""

    output_dir: str = field(default="output/pretrain", metadata={"help": "Where checkpoints and the model are saved."})
    overwrite_output_dir: bool = field(default=False, metadata={"help": "Write to output_dir even if it is not empty."})
    per_device_eval_batch_size: int = field(default=36, metadata={"help": "Documents per process in evaluation."})
    logging_steps: float = field(default=10, metadata={"help": "Log every so many steps."})
    eval_strategy: str = field(default="steps", metadata={"help": "When to evaluate: no, steps or epoch."})
    eval_steps: float | None = field(default=100, metadata={"help": "Evaluate every so many steps."})
    save_steps: float = field(default=100, metadata={"help": "Save a checkpoint every so many steps."})
    save_total_limit: int | None = field(default=2, metadata={"help": "Checkpoints to keep, beside the best."})
    load_best_model_at_end: bool = field(default=True, metadata={"help": "End with the checkpoint of the best metric."})


def main() -> None:
    parser = HfArgumentParser((ModelArguments, DataArguments, RunArguments), description=__doc__.split("\n\n")[0])
    if not any(argument.startswith("--model_name_or_path") for argument in sys.argv):
        parser.set_defaults(**EMBEDDED_DEFAULTS)
    model_arguments, data_arguments, arguments = parser.parse_args_into_dataclasses()
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.INFO)
    resume = arguments.resume_from_checkpoint
    check_output_dir(arguments.output_dir, resume=bool(resume), overwrite=arguments.overwrite_output_dir)
    set_seed(arguments.seed)
    if data_arguments.test_size == 0:
        arguments.eval_strategy, arguments.load_best_model_at_end = IntervalStrategy.NO, False
    # How good the model is before training stands in the logs, the model card and the last screen.
    arguments.eval_on_start = arguments.eval_strategy != IntervalStrategy.NO and not resume

    with arguments.main_process_first(desc="preparing documents"):  # the others read its cache
        documents = load(data_arguments, arguments)
        model, tokenizer = load_model(model_arguments, data_arguments, arguments, documents)
        documents = {name: segment(split, tokenizer, data_arguments) for name, split in documents.items()}
    collator = DataCollatorForDocSplit(
        tokenizer,
        max_length=data_arguments.max_length,
        mlm_probability=data_arguments.mlm_probability if arguments.mlm_weight > 0 else 0,
        views=data_arguments.views,
        seed=arguments.seed,
    )
    trainer = ContrastiveTrainer(
        model, arguments, documents["train"], documents.get("test"), collator, processing_class=tokenizer
    )
    trainer.train(resume_from_checkpoint=resume)
    if "test" in documents:
        trainer.evaluate()
    trainer.save_model()
    if model_arguments.use_peft and model_arguments.merge_peft:
        save_merged(trainer, os.path.join(arguments.output_dir, "merged"))
    if trainer.is_world_process_zero():
        print(summary(trainer.state.log_history, arguments.output_dir))
    if arguments.push_to_hub:
        trainer.push_to_hub()


def load(data_arguments: DataArguments, arguments: RunArguments):
    if data_arguments.dataset_name is None:
        return load_package_documentation(seed=arguments.seed, num_proc=workers(data_arguments))
    return load_documents(
        data_arguments.dataset_name,
        data_arguments.dataset_config_name,
        split=data_arguments.dataset_split,
        streaming=data_arguments.streaming,
        test_size=data_arguments.test_size,
        seed=arguments.seed,
    )


def load_model(model_arguments: ModelArguments, data_arguments: DataArguments, arguments: RunArguments, documents):
    mlm_head = arguments.mlm_weight > 0
    if model_arguments.model_name_or_path is None:
        tokenizer = train_small_bert_tokenizer(row[data_arguments.text_column] for row in documents["train"])
        config = small_bert_config(tokenizer)
        model = AutoModelForDocSplit.from_config(config, pooling=model_arguments.pooling, mlm_head=mlm_head)
    else:
        name = model_arguments.model_name_or_path
        tokenizer = AutoTokenizer.from_pretrained(name)
        model = AutoModelForDocSplit.from_pretrained(name, pooling=model_arguments.pooling, mlm_head=mlm_head)
    if model_arguments.use_peft:
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(model, LoraConfig(r=model_arguments.lora_r, target_modules="all-linear"))
        model.print_trainable_parameters()
    return model, tokenizer


def segment(split, tokenizer, data_arguments: DataArguments):
    return segment_documents(
        split,
        tokenizer,
        text_column=data_arguments.text_column,
        segmenter=data_arguments.segmenter,
        language=data_arguments.language,
        num_proc=workers(data_arguments),
    )


def workers(data_arguments: DataArguments) -> int:
    return data_arguments.preprocessing_num_workers or len(os.sched_getaffinity(0))


def summary(log_history: list[dict[str, float]], output_dir: str) -> str:
    lines = ["", f"The encoder is in {output_dir}."]
    evaluations = [logs for logs in log_history if "eval_recall@1" in logs]
    if evaluations:
        before, after = evaluations[0], evaluations[-1]
        lines.append("Given one half of a held-out document, it finds the other half among all:")
        for name in ("recall@1", "recall@10", "mrr"):
            start, end = 100 * before[f"eval_{name}"], 100 * after[f"eval_{name}"]
            lines.append(f"  {name:<10} before {start:5.1f} %   after {end:5.1f} %   {end - start:+.1f} points")
        lines.append(f"  (guessing gives {100 * after['eval_chance_recall@1']:.1f} %)")
    return "\n".join([*lines, f'Load it: DocumentEncoder.from_pretrained("{output_dir}")'])


if __name__ == "__main__":
    main()
