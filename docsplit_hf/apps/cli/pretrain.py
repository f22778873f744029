"""Pretrain a document encoder on unlabeled documents with DocSplit.

To try it without a network, with the included checkpoint, on the documentation of installed packages:

    docsplit pretrain --dataset_name documentation

From random weights, for documents unlike the training data of other encoders:

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

import contextlib
import os
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase
from transformers.trainer_utils import IntervalStrategy, has_length

from ...cores import core_count
from ...encoding.checkpoints.checkpoint import DEFAULT_RECIPE, find_checkpoint, override_config
from ...encoding.portable.run_encoder import check_max_length
from ...encoding.pruning import keep_frequent_tokens, keep_layers, keep_tokens_alone
from ...encoding.small_bert import SMALL_BERT_RECIPE, cached_small_bert_tokenizer, small_bert_config
from ...pretraining.arguments import ContrastiveTrainingArguments
from ...pretraining.collator import DataCollatorForDocSplit, default_max_length
from ...pretraining.half_retrieval import describe_progress, evaluations_by_step
from ...pretraining.model import AutoModelForDocSplit
from ...pretraining.objectives import get_trainer_class
from ...reading.files.failure_lists import list_of_failures
from ...reading.load_documents import load_documents
from ...reading.package_documentation import DOCUMENTATION, load_package_documentation
from ...reading.segmentation.segment_documents import check_text_column, default_processes, segment_documents
from ...registration import register
from ...training.distributed import end_run
from ...training.markdown import public_name
from .pretrain_arguments import DataArguments, ModelArguments, parse_command_line
from .run_command import HOW_TO_RESUME, script, start_run

VOCABULARY_TEXTS = 10_000


def load_pretrained(model_arguments: ModelArguments, data: DataArguments, arguments: ContrastiveTrainingArguments):
    """Load a pretrained model and its tokenizer; called before the documents are read, to raise errors early."""
    name = find_checkpoint(model_arguments.model_name_or_path)
    model = AutoModelForDocSplit.from_pretrained(
        name,
        "mean" if model_arguments.static else model_arguments.pooling,
        mlm_head=arguments.mlm_weight > 0,
        config_overrides=model_arguments.config_overrides,
    )
    data.max_length = check_max_length(data.max_length or default_max_length(model), model)
    if model_arguments.keep_layers:
        keep_layers(model, model_arguments.keep_layers)
    if model_arguments.use_peft:
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(r=model_arguments.lora_r, target_modules="all-linear"))
    return model, AutoTokenizer.from_pretrained(name)


def new_small_bert(texts: list[str], model_arguments: ModelArguments, arguments: ContrastiveTrainingArguments):
    """Make a small BERT with random weights, and its tokenizer."""
    tokenizer = cached_small_bert_tokenizer(texts, model_arguments.vocab_size)
    config = small_bert_config(tokenizer, model_arguments.hidden_size, model_arguments.num_hidden_layers)
    config = override_config(config, model_arguments.config_overrides or {})
    model = AutoModelForDocSplit.from_config(config, pooling=model_arguments.pooling, mlm_head=arguments.mlm_weight > 0)
    return model, tokenizer


def load_splits(data: DataArguments):
    """Load training and test documents, as texts."""
    if data.dataset_name == DOCUMENTATION:
        return load_package_documentation(test_size=data.test_size, num_proc=data.num_proc or core_count())
    return load_documents(
        data.dataset_name,
        config_name=data.dataset_config_name,
        split=data.dataset_split,
        streaming=data.streaming,
        test_size=data.test_size,
        text_column=data.text_column,
        csv_separator=data.csv_separator,
        encoding=data.encoding,
    )


def first_texts(splits, data: DataArguments) -> list[str]:
    """Return the first training texts, for a vocabulary."""
    check_text_column(splits["train"], data.text_column)
    column = (row[data.text_column] for row in splits["train"].take(VOCABULARY_TEXTS))
    return [text for text in column if isinstance(text, str)]


def processes_for(split) -> int | None:
    """Return the default number of processes that segment a split; None for a stream, which is not divided so."""
    # They can be forked, even if the arguments have initialized CUDA: the model is on the CPU until the Trainer has it,
    # and segmenting does not use CUDA.
    return default_processes(len(split), core_count()) if has_length(split) else None


def make_collator(
    tokenizer: PreTrainedTokenizerBase, data: DataArguments, arguments: ContrastiveTrainingArguments
) -> DataCollatorForDocSplit:
    """Make the collator of a run."""
    return DataCollatorForDocSplit(
        tokenizer,
        max_length=data.max_length,
        mlm_probability=data.mlm_probability if arguments.mlm_weight > 0 else 0,
        views=data.views,
        views_kwargs=data.views_kwargs,
        seed=arguments.seed,
    )


def prepare(model_arguments: ModelArguments, data: DataArguments, arguments: ContrastiveTrainingArguments):
    """Return the model, the collator, and the segmented documents."""
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
    collator = make_collator(tokenizer, data, arguments)
    documents = {
        name: segment_documents(
            split,
            tokenizer,
            text_column=data.text_column,
            segmenter=data.segmenter,
            language=data.language,
            single_sentence=data.single_sentence,
            num_proc=data.num_proc or processes_for(split),
        )
        for name, split in splits.items()
    }
    return model, collator, documents


def main() -> dict[str, Any]:
    """Pretrain, save, and evaluate; return the figures for ``--json``."""
    register()
    parser, (model_arguments, data, arguments) = parse_command_line(__doc__.split("\n")[0])
    if model_arguments.model_name_or_path is None:
        parser.set_defaults(**(SMALL_BERT_RECIPE if model_arguments.from_scratch else DEFAULT_RECIPE))
        model_arguments, data, arguments = parser.parse_args_into_dataclasses()
    resume = start_run(arguments, arguments.overwrite_output_dir, model_arguments.model_name_or_path)
    if data.test_size == 0:
        arguments.eval_strategy = IntervalStrategy.NO
        arguments.load_best_model_at_end = False
    if not arguments.data_description:
        is_documentation = data.dataset_name == DOCUMENTATION
        arguments.data_description = (
            "documentation of installed Python packages" if is_documentation else public_name(data.dataset_name)
        )
    # Logs, model card and summary compare the model with its state before training.
    arguments.eval_on_start = arguments.eval_strategy != IntervalStrategy.NO and not resume

    listed = list_of_failures(arguments.output_dir) if arguments.process_index == 0 else contextlib.nullcontext()
    with listed, arguments.main_process_first(desc="preparing documents"):  # the other processes then read the cache
        model, collator, documents = prepare(model_arguments, data, arguments)
    trainer_class = get_trainer_class(arguments.objective)
    trainer = trainer_class(model, arguments, documents["train"], documents.get("test"), collator)
    trainer.train(resume)
    if "test" in documents:
        trainer.evaluate()
    trainer.save_model()  # also pushes to the Hub with --push_to_hub
    if model_arguments.merge_peft:
        trainer.save_merged(os.path.join(arguments.output_dir, "merged"))
    if trainer.is_world_process_zero():
        print(describe_progress(trainer.state.log_history, arguments.output_dir))
        if model_arguments.merge_peft:
            print(f"The model with the merged adapter, for other libraries: {arguments.output_dir}/merged")
    end_run(trainer)
    return {"output_dir": arguments.output_dir, "evaluations": evaluations_by_step(trainer.state.log_history)}


run = script(main, HOW_TO_RESUME)
