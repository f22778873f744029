"""Arguments of ``docsplit pretrain``, in addition to those of TrainingArguments."""

import argparse
import dataclasses
import functools
import sys
from dataclasses import dataclass

from transformers import BertConfig, HfArgumentParser

from ...encoding.checkpoints.checkpoint import override_config
from ...pretraining.arguments import ContrastiveTrainingArguments
from ...pretraining.objectives import OBJECTIVES, get_arguments_class
from ...pretraining.views import get_views
from .options import ENCODER_HELP, option
from .run_command import parse_arguments, read_json_option

MAIN_OPTIONS = (
    "model_name_or_path", "from_scratch", "use_peft", "dataset_name", "text_column", "streaming", "max_length",
    "objective", "teacher", "keep_layers", "vocab_size", "forward_chunk_size", "num_train_epochs",
    "max_steps", "per_device_train_batch_size", "learning_rate", "bf16", "seed", "output_dir", "resume_from_checkpoint",
)  # fmt: skip
SCRATCH_OPTIONS = ("hidden_size", "num_hidden_layers")


@dataclass
class ModelArguments:
    """Model to train."""

    _argument_group_name = "model"

    model_name_or_path: str | None = option(default=None, help=ENCODER_HELP)
    from_scratch: bool = option(
        default=False, help="Train a small BERT with random weights and a vocabulary from your documents instead."
    )
    keep_layers: list[int] | None = option(
        default=None,
        help="Keep only these layers of the model, counted from 0, such as 0 2 5 of six; the last one matters most.",
    )
    static: bool = option(
        default=False,
        help="Keep no layers: an embedding is the mean of the token vectors, which is very fast to compute. Give a "
        "--teacher to learn better vectors.",
    )
    vocab_size: int | None = option(
        default=None,
        help="Size of the vocabulary. A pretrained model keeps only this many tokens, the most frequent in the "
        "documents. Default: 8192 with --from_scratch, otherwise all.",
    )
    hidden_size: int = option(default=128, help="With --from_scratch: dimensions, a multiple of 64.")
    num_hidden_layers: int = option(default=2, help="With --from_scratch: layers.")
    pooling: str | None = option(
        default=None, help="cls, mean, max or last. Default: the model's own, or cls; mean with --from_scratch."
    )
    use_peft: bool = option(default=False, help="Train a LoRA adapter instead of all parameters.")
    lora_r: int = option(default=16, help="Rank of the LoRA adapter.")
    merge_peft: bool = option(default=False, help="Also save the model with the adapter merged, in output_dir/merged.")
    config_overrides: dict | str | None = option(
        default=None,
        help='Overrides of the model configuration, as JSON, such as \'{"hidden_dropout_prob": 0.1, '
        '"attention_probs_dropout_prob": 0.1}\' for SimCSE on the small BERT, which has no dropout.',
    )

    def __post_init__(self) -> None:
        if self.from_scratch and self.model_name_or_path is not None:
            raise ValueError("Give either --from_scratch or --model_name_or_path, not both.")
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in SCRATCH_OPTIONS and value != field.default and not self.from_scratch:
                raise ValueError(f"--{field.name} {value} is for --from_scratch: a pretrained model has its own.")
        self.config_overrides = read_json_option("config_overrides", self.config_overrides, "hidden_dropout_prob")
        if self.config_overrides and self.model_name_or_path is None:
            override_config(BertConfig(), self.config_overrides)  # before anything is loaded
        if self.config_overrides and self.use_peft:
            raise ValueError("An adapter does not contain the settings of --config_overrides: leave out --use_peft.")
        if self.use_peft and (self.keep_layers or self.static or self.vocab_size):
            raise ValueError(
                "--keep_layers, --static and --vocab_size change the base model of an adapter: leave out --use_peft."
            )
        if self.static and self.keep_layers:
            raise ValueError("--static keeps no layers, but --keep_layers keeps some: give only one of them.")
        if self.static and self.pooling not in (None, "mean"):
            raise ValueError(f"--static always uses the mean of the token vectors: leave out --pooling {self.pooling}.")
        if self.from_scratch:
            self.vocab_size = self.vocab_size or 8192
            if self.keep_layers or self.static:
                raise ValueError("--keep_layers and --static need a pretrained model: leave out --from_scratch.")
        if self.merge_peft and not self.use_peft:
            raise ValueError("--merge_peft merges a LoRA adapter: it needs --use_peft.")


@dataclass
class DataArguments:
    """Training documents."""

    _argument_group_name = "data"

    dataset_name: str | None = option(
        default=None,
        help="The documents to learn from (required): a file, a folder or pattern of files, or a data set on the Hub. "
        "To try it: 'documentation', the documentation of installed packages.",
    )
    dataset_config_name: str | None = option(default=None, help="Configuration of a data set on the Hub.")
    dataset_split: str = option(default="train", help="Split of a data set on the Hub.")
    streaming: bool = option(default=False, help="Read the documents while training, not before. Needs --max_steps.")
    text_column: str = option(default="text", help="The column with the texts.")
    csv_separator: str | None = option(default=None, help="Column separator of a .csv file, if not a comma.")
    encoding: str | None = option(default=None, help="Encoding of files, if not UTF-8, such as cp1252.")
    test_size: int = option(default=500, help="Documents to hold out for evaluation; 0 for none.")
    max_length: int | None = option(
        default=None,
        help="Longest half of a document in tokens. Default: that of the checkpoint, or up to 512; 128 without "
        "--model_name_or_path.",
    )
    mlm_probability: float = option(default=0.15, help="Fraction of the tokens to mask for MLM.")
    views: str = option(default="docsplit", help="How to make positive pairs.")
    views_kwargs: dict | str | None = option(
        default=None, help="Options of the views, as JSON, such as '{\"parts\": 3}'."
    )
    single_sentence: str = option(
        default="drop",
        help="How to treat documents of one sentence: drop, or dropout_pair (pair them with themselves).",
    )
    segmenter: str = option(
        default="pysbd", help="Sentence splitter: pysbd; newline (a line is a sentence) or whitespace (a word is one)."
    )
    language: str = option(default="en", help="Two-letter language code for pysbd.")
    num_proc: int | None = option(
        default=None,
        help="Number of processes that prepare the documents. Default: up to the number of cores, fewer for few "
        "documents.",
    )

    def __post_init__(self) -> None:
        if self.dataset_name is None:
            raise ValueError(
                "--dataset_name must be given: a file, a folder, a data set on the Hub, or 'documentation' to try it "
                "on the documentation of installed packages."
            )
        self.views_kwargs = read_json_option("views_kwargs", self.views_kwargs, "parts")
        get_views(self.views, self.views_kwargs)  # before anything is loaded


@functools.cache
def run_arguments(name: str) -> type[ContrastiveTrainingArguments]:
    """Make the arguments class of an objective, with this command's defaults for evaluating and saving."""

    @dataclass
    class RunArguments(get_arguments_class(name)):
        _argument_group_name = "training"

        objective: str = option(
            default=name,
            help="Training objective: 'info_nce' as in the papers, or 'distillation' of the encoder given by "
            "--teacher. Its own options are listed by '--objective NAME --help_all'.",
            choices=list(OBJECTIVES),
        )
        output_dir: str = option(default="output/pretrain", help="Folder for checkpoints and the model.")
        overwrite_output_dir: bool = option(
            default=False,
            help="Write to output_dir even if it is not empty; its checkpoints are moved to _overwritten/.",
        )
        per_device_eval_batch_size: int = option(default=36, help="Documents per process and evaluation batch.")
        logging_steps: float = option(default=10, help="Steps between two logs.")
        eval_strategy: str = option(default="steps", help="When to evaluate: no, steps or epoch.")
        eval_steps: float | None = option(default=None, help="Steps between two evaluations. Default: --save_steps.")
        save_steps: float = option(default=100, help="Steps between two checkpoints.")
        save_total_limit: int | None = option(default=2, help="Number of checkpoints to keep, including the best.")
        load_best_model_at_end: bool | None = option(
            default=None,
            nargs="?",
            const=True,
            help="Load the checkpoint with the best half retrieval at the end. Default: if there are evaluations and "
            "checkpoints.",
        )
        resume_from_checkpoint: str | None = option(
            default=None, help="Checkpoint to continue from: 'last', or a folder checkpoint-<step>."
        )

        def __post_init__(self) -> None:
            self.eval_steps = self.eval_steps or self.save_steps
            if self.load_best_model_at_end is None:
                self.load_best_model_at_end = "no" not in (self.eval_strategy, self.save_strategy)
            super().__post_init__()

    RunArguments.__name__ = RunArguments.__qualname__ = f"RunArguments_{name}"
    globals()[RunArguments.__name__] = RunArguments  # the Trainer pickles it by this name
    return RunArguments


def parse_command_line(description: str, arguments: list[str] | None = None):
    """Return the parser for the chosen objective, and the arguments that it parsed: model, data, training."""
    arguments = sys.argv[1:] if arguments is None else arguments
    first = argparse.ArgumentParser(add_help=False)
    first.add_argument("--objective")
    first.add_argument("--teacher")
    chosen = first.parse_known_args(arguments)[0]
    objective = chosen.objective or ("info_nce" if chosen.teacher is None else "distillation")
    known_objectives = {name: run_arguments(name) for name in OBJECTIVES}
    kinds = (ModelArguments, DataArguments, known_objectives.get(objective, known_objectives["info_nce"]))
    parser = HfArgumentParser(kinds, description=description)
    known = {name for kind in kinds for name in options_of(kind)}
    options = (argument for argument in arguments if argument.startswith("--"))
    for word in options:
        name = word.partition("=")[0].removeprefix("--").replace("-", "_")
        owners = [owner for owner, kind in known_objectives.items() if name in options_of(kind)]
        if owners and name not in known:
            parser.usage = "%(prog)s [options]"
            parser.error(f"unknown argument --{name}: it is an option of --objective {' and '.join(owners)}.")
    return parser, parse_arguments(parser, arguments, MAIN_OPTIONS)


def options_of(kind: type) -> set[str]:
    """Return the names of the fields that a dataclass accepts."""
    return {field.name for field in dataclasses.fields(kind) if field.init}
