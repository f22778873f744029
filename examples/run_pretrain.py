"""Pretrain a document encoder on unlabeled documents with DocSplit.

To try it: the checkpoint that ships, on the documentation of installed packages; needs no network.

    docsplit pretrain --dataset_name documentation

From random weights, for documents that no encoder knows:

    docsplit pretrain --from_scratch --dataset_name documents.jsonl

Any encoder, your documents (.jsonl, .csv, .tsv, .parquet, .txt, or a folder of .txt files):

    docsplit pretrain --model_name_or_path answerdotai/ModernBERT-base \
        --dataset_name documents.jsonl --text_column text --output_dir output/documents

A small, fast student of a larger encoder, on your documents:

    docsplit pretrain --model_name_or_path sentence-transformers/all-MiniLM-L6-v2 --keep_layers 0 2 5 \
        --vocab_size 16384 --teacher sentence-transformers/all-MiniLM-L6-v2 --dataset_name documents.jsonl \
        --views_kwargs '{"parts": 1}' --learning_rate 5e-4 --output_dir output/student

Wikipedia, streamed, on several GPUs:

    accelerate launch --config_file examples/accelerate_configs/ddp.yaml -m docsplit_hf pretrain \
        --model_name_or_path answerdotai/ModernBERT-base --dataset_name wikimedia/wikipedia \
        --dataset_config_name 20231101.en --streaming --max_steps 100000 --output_dir output/wikipedia
"""

import os
from typing import Any

from pretrain_arguments import DataArguments, ModelArguments, parse_command_line
from transformers import AutoTokenizer
from transformers.trainer_utils import IntervalStrategy

import docsplit_hf
from docsplit_hf.encoders.checkpoints.checkpoint import DEFAULT_RECIPE, find_checkpoint, override_config
from docsplit_hf.encoders.portable.run_encoder import check_max_length
from docsplit_hf.encoders.pruning import keep_frequent_tokens, keep_layers, keep_tokens_alone
from docsplit_hf.encoders.small_bert import SMALL_BERT_RECIPE, cached_small_bert_tokenizer, small_bert_config
from docsplit_hf.extras import check_extra
from docsplit_hf.pretraining.collator import default_max_length
from docsplit_hf.pretraining.half_retrieval import describe_progress, evaluations_by_step
from docsplit_hf.pretraining.trainers import get_trainer_class
from docsplit_hf.text.package_documentation import DOCUMENTATION
from docsplit_hf.text.segmentation.segment_documents import check_text_column
from docsplit_hf.training.command_line import GO_ON, run_script, start_run
from docsplit_hf.training.distributed import end_run
from docsplit_hf.training.markdown import public_name


def load_pretrained(
    model_arguments: ModelArguments, data: DataArguments, arguments: docsplit_hf.ContrastiveTrainingArguments
):
    """A pretrained model and its tokenizer, before the documents: what is wrong with it shows at once."""
    name, head = find_checkpoint(model_arguments.model_name_or_path), arguments.mlm_weight > 0
    model = docsplit_hf.AutoModelForDocSplit.from_pretrained(
        name,
        "mean" if model_arguments.static else model_arguments.pooling,
        mlm_head=head,
        config_overrides=model_arguments.config_overrides,
    )
    data.max_length = check_max_length(data.max_length or default_max_length(model), model)
    if model_arguments.keep_layers:
        keep_layers(model, model_arguments.keep_layers)
    if model_arguments.use_peft:
        check_extra("peft", "use_peft")
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(r=model_arguments.lora_r, target_modules="all-linear"))
    return model, AutoTokenizer.from_pretrained(name)


def new_small_bert(
    texts: list[str], model_arguments: ModelArguments, arguments: docsplit_hf.ContrastiveTrainingArguments
):
    """A small BERT with random weights, and its tokenizer."""
    tokenizer = cached_small_bert_tokenizer(texts, model_arguments.vocab_size)
    config = small_bert_config(tokenizer, model_arguments.hidden_size, model_arguments.num_hidden_layers)
    config = override_config(config, model_arguments.config_overrides or {})
    model = docsplit_hf.AutoModelForDocSplit.from_config(
        config, pooling=model_arguments.pooling, mlm_head=arguments.mlm_weight > 0
    )
    return model, tokenizer


def load_splits(data: DataArguments):
    """Training and test documents, as texts."""
    if data.dataset_name == DOCUMENTATION:
        return docsplit_hf.load_package_documentation(test_size=data.test_size, num_proc=data.num_proc)
    return docsplit_hf.load_documents(
        data.dataset_name,
        data.dataset_config_name,
        data.dataset_split,
        data.streaming,
        data.test_size,
        text_column=data.text_column,
        csv_separator=data.csv_separator,
        encoding=data.encoding,
    )


def first_texts(splits, data: DataArguments) -> list[str]:
    """The first 10,000 training texts, of which a vocabulary is made."""
    check_text_column(splits["train"], data.text_column)
    column = (row[data.text_column] for row in splits["train"].take(10_000))
    return [text for text in column if isinstance(text, str)]


def prepare(model_arguments: ModelArguments, data: DataArguments, arguments: docsplit_hf.ContrastiveTrainingArguments):
    """The model, the collator, and the segmented documents."""
    if not model_arguments.from_scratch:
        model, tokenizer = load_pretrained(model_arguments, data, arguments)
        splits = load_splits(data)
        if model_arguments.vocab_size:
            tokenizer = keep_frequent_tokens(model, tokenizer, model_arguments.vocab_size, first_texts(splits, data))
        if model_arguments.static:
            keep_tokens_alone(model, tokenizer, first_texts(splits, data))
    else:
        splits = load_splits(data)
        model, tokenizer = new_small_bert(first_texts(splits, data), model_arguments, arguments)
    collator = docsplit_hf.DataCollatorForDocSplit(
        tokenizer,
        max_length=data.max_length,
        mlm_probability=data.mlm_probability if arguments.mlm_weight > 0 else 0,
        views=data.views,
        views_kwargs=data.views_kwargs,
        seed=arguments.seed,
    )
    choices = (data.text_column, data.segmenter, data.language, data.single_sentence)
    processes = data.num_proc if data.num_proc > 1 else None  # 1 would start one beside this
    documents = {
        name: docsplit_hf.segment_documents(split, tokenizer, *choices, num_proc=processes)
        for name, split in splits.items()
    }
    return model, collator, documents


def main() -> dict[str, Any]:
    parser, (model_arguments, data, arguments) = parse_command_line(__doc__.split("\n")[0])
    if model_arguments.model_name_or_path is None:
        parser.set_defaults(**(SMALL_BERT_RECIPE if model_arguments.from_scratch else DEFAULT_RECIPE))
        model_arguments, data, arguments = parser.parse_args_into_dataclasses()
    resume = start_run(arguments, arguments.overwrite_output_dir, model_arguments.model_name_or_path)
    if data.test_size == 0:
        arguments.eval_strategy, arguments.load_best_model_at_end = IntervalStrategy.NO, False
    source = "documentation of installed Python packages"
    source = source if data.dataset_name == DOCUMENTATION else public_name(data.dataset_name)
    arguments.data_description = arguments.data_description or source
    # How good the model is before training stands in the logs, in the model card and on the last screen.
    arguments.eval_on_start = arguments.eval_strategy != IntervalStrategy.NO and not resume

    with arguments.main_process_first(desc="preparing documents"):  # the other processes read its cache
        model, collator, documents = prepare(model_arguments, data, arguments)
    trainer_class = get_trainer_class(arguments.objective)
    trainer = trainer_class(model, arguments, documents["train"], documents.get("test"), collator)
    trainer.train(resume)
    if "test" in documents:
        trainer.evaluate()
    trainer.save_model()  # with --push_to_hub to the Hub too
    if model_arguments.merge_peft:
        trainer.save_merged(os.path.join(arguments.output_dir, "merged"))
    if trainer.is_world_process_zero():
        print(describe_progress(trainer.state.log_history, arguments.output_dir))
        if model_arguments.merge_peft:
            print(f"With the adapter merged into it, for every library: {arguments.output_dir}/merged")
    end_run(trainer)
    return {"output_dir": arguments.output_dir, "evaluations": evaluations_by_step(trainer.state.log_history)}


if __name__ == "__main__":
    run_script(main, GO_ON)
