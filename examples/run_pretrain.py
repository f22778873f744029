"""Pretrain a document encoder on unlabelled documents with DocSplit.

Without arguments: a small BERT from random weights, on the documentation of installed packages; needs no network.

    python examples/run_pretrain.py

Any encoder, your documents (.jsonl, .csv, .parquet, .txt, or a folder of .txt files):

    accelerate launch examples/run_pretrain.py --model_name_or_path answerdotai/ModernBERT-base \
        --dataset_name documents.jsonl --text_column text --output_dir output/documents

Wikipedia, streamed, on several GPUs:

    accelerate launch --config_file examples/accelerate_configs/ddp.yaml examples/run_pretrain.py \
        --model_name_or_path answerdotai/ModernBERT-base --dataset_name wikimedia/wikipedia \
        --dataset_config_name 20231101.en --streaming --max_steps 100000 --output_dir output/wikipedia
"""

import logging
import os
from dataclasses import dataclass

from transformers import AutoTokenizer, HfArgumentParser, set_seed
from transformers.hf_argparser import HfArg
from transformers.trainer_utils import IntervalStrategy

import docsplit_hf
from docsplit_hf.evaluation.half_retrieval import describe_progress
from docsplit_hf.models.small_bert import SMALL_BERT_RECIPE, cached_small_bert_tokenizer, small_bert_config
from docsplit_hf.training.checkpoints import check_output_dir


@dataclass
class ModelArguments:
    """What to train."""

    model_name_or_path: str | None = HfArg(
        default=None, help="An encoder on the Hub or a folder. Default: a small BERT."
    )
    pooling: str | None = HfArg(default=None, help="cls, mean, max or last. Default: the model's own, or cls.")
    use_peft: bool = HfArg(default=False, help="Train a LoRA adapter instead of all parameters.")
    lora_r: int = HfArg(default=16, help="Rank of the LoRA adapter.")
    merge_peft: bool = HfArg(default=False, help="Also save the model with the adapter merged, in output_dir/merged.")


@dataclass
class DataArguments:
    """What to train on."""

    dataset_name: str | None = HfArg(
        default=None, help="A data set on the Hub, a file or a folder. Default: documentation of installed packages."
    )
    dataset_config_name: str | None = HfArg(default=None, help="Configuration of a data set on the Hub.")
    dataset_split: str = HfArg(default="train", help="Split of a data set on the Hub.")
    streaming: bool = HfArg(default=False, help="Read while training. Needs --max_steps.")
    text_column: str = HfArg(default="text", help="The column with the texts.")
    test_size: int = HfArg(default=500, help="Documents to hold out for evaluation; 0 for none.")
    max_length: int = HfArg(default=512, help="Longest half in tokens; what is longer is cut.")
    mlm_probability: float = HfArg(default=0.15, help="Share of the tokens to mask for MLM.")
    views: str = HfArg(default="docsplit", help="How positive pairs are made.")
    segmenter: str = HfArg(default="pysbd", help="Sentence splitter: pysbd, or newline for a sentence a line.")
    language: str = HfArg(default="en", help="Two-letter language code for pysbd.")
    num_proc: int = HfArg(default=os.cpu_count(), help="Processes to prepare the documents with.")


@dataclass
class RunArguments(docsplit_hf.ContrastiveTrainingArguments):
    """How to train: the papers' recipe, evaluated and saved as it goes."""

    output_dir: str = HfArg(default="output/pretrain", help="Where checkpoints and the model are saved.")
    overwrite_output_dir: bool = HfArg(default=False, help="Write to output_dir even if it is not empty.")
    per_device_eval_batch_size: int = HfArg(default=36, help="Documents per process in evaluation.")
    logging_steps: float = HfArg(default=10, help="Log every so many steps.")
    eval_strategy: str = HfArg(default="steps", help="When to evaluate: no, steps or epoch.")
    eval_steps: float | None = HfArg(default=100, help="Evaluate every so many steps.")
    save_steps: float = HfArg(default=100, help="Save a checkpoint every so many steps.")
    save_total_limit: int | None = HfArg(default=2, help="Checkpoints to keep, the best among them.")
    load_best_model_at_end: bool = HfArg(default=True, help="End with the checkpoint that finds most halves.")


def load(model_arguments: ModelArguments, data_arguments: DataArguments, arguments: RunArguments):
    """The model, its tokenizer, and the segmented documents."""
    data, head = data_arguments, arguments.mlm_weight > 0
    if data.dataset_name is None:
        splits = docsplit_hf.load_package_documentation(test_size=data.test_size, num_proc=data.num_proc)
    else:
        splits = docsplit_hf.load_documents(
            data.dataset_name, data.dataset_config_name, data.dataset_split, data.streaming, data.test_size
        )
    name, auto_model = model_arguments.model_name_or_path, docsplit_hf.AutoModelForDocSplit
    if name is None:
        tokenizer = cached_small_bert_tokenizer([row[data.text_column] for row in splits["train"].take(10_000)])
        model = auto_model.from_config(small_bert_config(tokenizer), pooling=model_arguments.pooling, mlm_head=head)
    else:
        model = auto_model.from_pretrained(name, pooling=model_arguments.pooling, mlm_head=head)
        tokenizer = AutoTokenizer.from_pretrained(name)
    if model_arguments.use_peft:
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(r=model_arguments.lora_r, target_modules="all-linear"))
    choices = (data.text_column, data.segmenter, data.language)
    documents = {
        name: docsplit_hf.segment_documents(split, tokenizer, *choices, num_proc=data.num_proc)
        for name, split in splits.items()
    }
    return model, tokenizer, documents


def main() -> None:
    parser = HfArgumentParser((ModelArguments, DataArguments, RunArguments), description=__doc__.split("\n")[0])
    model_arguments, data_arguments, arguments = parser.parse_args_into_dataclasses()
    if model_arguments.model_name_or_path is None:
        parser.set_defaults(**SMALL_BERT_RECIPE)
        model_arguments, data_arguments, arguments = parser.parse_args_into_dataclasses()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("docsplit_hf").setLevel(logging.INFO)
    check_output_dir(arguments.output_dir, arguments.resume_from_checkpoint, arguments.overwrite_output_dir)
    set_seed(arguments.seed)
    if data_arguments.test_size == 0:
        arguments.eval_strategy, arguments.load_best_model_at_end = IntervalStrategy.NO, False
    source = data_arguments.dataset_name or "documentation of installed Python packages"
    arguments.data_description = arguments.data_description or source
    # How good the model is before training stands in the logs, in the model card and on the last screen.
    arguments.eval_on_start = arguments.eval_strategy != IntervalStrategy.NO and not arguments.resume_from_checkpoint

    with arguments.main_process_first(desc="preparing documents"):  # the other processes read its cache
        model, tokenizer, documents = load(model_arguments, data_arguments, arguments)
    collator = docsplit_hf.DataCollatorForDocSplit(
        tokenizer,
        max_length=data_arguments.max_length,
        mlm_probability=data_arguments.mlm_probability if arguments.mlm_weight > 0 else 0,
        views=data_arguments.views,
        seed=arguments.seed,
    )
    trainer = docsplit_hf.ContrastiveTrainer(
        model, arguments, documents["train"], documents.get("test"), collator, processing_class=tokenizer
    )
    trainer.train(arguments.resume_from_checkpoint)
    if "test" in documents:
        trainer.evaluate()
    trainer.save_model()  # with --push_to_hub to the Hub too
    if model_arguments.use_peft and model_arguments.merge_peft:
        trainer.save_merged(os.path.join(arguments.output_dir, "merged"))
    if trainer.is_world_process_zero():
        print(describe_progress(trainer.state.log_history, arguments.output_dir))


if __name__ == "__main__":
    main()
