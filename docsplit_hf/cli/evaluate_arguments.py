"""Arguments of ``docsplit evaluate``, in addition to those of EvaluationSettings."""

from dataclasses import dataclass

from transformers.hf_argparser import HfArg

from ..encoders.checkpoints.checkpoint import DEFAULT_CHECKPOINT
from ..encoders.chunking import SINGLE_VECTOR
from ..evaluation.runner import PROTOCOLS

MAIN_OPTIONS = (
    "models", "tasks", "text_column", "label_column", "protocol", "max_length", "long_documents", "shots", "repeats",
    "bf16", "seed", "output_dir",
)  # fmt: skip
PROTOCOL_HELP = "; ".join(f"{name}: {protocol.description}" for name, protocol in PROTOCOLS.items())


@dataclass
class EvaluationArguments:
    """What to measure, and where the results go."""

    models: list[str] = HfArg(
        default_factory=list,
        help=f"What to compare, encoders and word counts. Must be given. It is tfidf, {DEFAULT_CHECKPOINT}, which "
        "ships, folders with a checkpoint, models on the Hub, https://HOST/v1#MODEL for an endpoint. '...#name=NAME' "
        "names one in the tables; '#pooling=mean' and '#instruction=TEXT' are options of it.",
    )
    tasks: list[str] = HfArg(
        default_factory=list,
        help="Files and folders of your own. Must be given. Files are .jsonl, .csv or .parquet, with --text_column "
        "and, if there are labels, --label_column. 'documentation', that of installed packages, by package, is there "
        "to try it on.",
    )
    text_column: str = HfArg(default="text", help="The column with the texts, in files of your own.")
    label_column: str = HfArg(default="label", help="The column with the labels, in files of your own.")
    csv_separator: str | None = HfArg(default=None, help="What separates the columns of .csv files, if no comma.")
    encoding: str | None = HfArg(default=None, help="Encoding of files, if not UTF-8, such as cp1252.")
    protocol: list[str] = HfArg(default_factory=lambda: ["full", "few_shot"], help=f"The protocols. {PROTOCOL_HELP}.")
    output_dir: str = HfArg(
        default="output/evaluation", help="Where results.json, results.md and the figures go. What is there is kept."
    )
    cache_dir: str | None = HfArg(
        default=None, help="Where embeddings are kept. Default: embeddings/ in the output folder."
    )
    bf16: bool = HfArg(default=False, help="Encoders compute in bfloat16.")
    long_documents: list[str] = HfArg(
        default_factory=lambda: ["first"],
        help="How encoders read texts longer than --max_length, one way or several to compare. 'first', the "
        "beginning; 'head_tail', beginning and end; 'average', all, by averaging the embeddings of passages; "
        "'whole', the beginning and all together.",
        metadata={"choices": list(SINGLE_VECTOR)},
    )
    figures: bool = HfArg(default=True, help="Draw the figures. Needs matplotlib: pip install -e '.[evaluation]'.")

    def file_options(self) -> dict[str, str | None]:
        """Return the options for reading the user's files."""
        return {name: getattr(self, name) for name in ("text_column", "label_column", "csv_separator", "encoding")}
