"""Arguments of runs: systems, tasks, and where the results go."""

from dataclasses import dataclass

from transformers.hf_argparser import HfArg

from docsplit_hf.encoding.checkpoints.checkpoint import DEFAULT_CHECKPOINT
from docsplit_hf.encoding.chunking import SINGLE_VECTOR

from .runner import PROTOCOLS

PROTOCOL_HELP = "; ".join(f"{name}: {protocol.description}" for name, protocol in PROTOCOLS.items())


@dataclass
class EvaluationArguments:
    """Systems, tasks and output."""

    models: list[str] = HfArg(
        default_factory=list,
        help=f"Required. Systems to compare: tfidf (word counts), {DEFAULT_CHECKPOINT} (included), folders with a "
        "checkpoint, models on the Hub, or https://HOST/v1#MODEL for an endpoint. '...#name=NAME' sets its name in the "
        "tables; '#pooling=mean' and '#instruction=TEXT' are further options.",
    )
    tasks: list[str] = HfArg(
        default_factory=list,
        help="Required. Your files and folders, or patterns of documents such as 'inbox/**/*.pdf', which have no "
        "labels. Tables are .jsonl, .csv or .parquet, with --text_column and, if there are labels, --label_column. To "
        "try it: 'documentation', the documentation of installed packages, by package.",
    )
    text_column: str = HfArg(default="text", help="The column with the texts.")
    label_column: str = HfArg(default="label", help="The column with the labels.")
    csv_separator: str | None = HfArg(default=None, help="Column separator of .csv files, if not a comma.")
    encoding: str | None = HfArg(default=None, help="Encoding of files, if not UTF-8, such as cp1252.")
    protocol: list[str] = HfArg(default_factory=lambda: ["full", "few_shot"], help=f"The protocols. {PROTOCOL_HELP}.")
    output_dir: str = HfArg(
        default="output/evaluation",
        help="Folder for results.json and results.md. Existing results are kept.",
    )
    cache_dir: str | None = HfArg(
        default=None, help="Folder for embeddings. Default: embeddings/ in the output folder."
    )
    bf16: bool = HfArg(default=False, help="Compute embeddings in bfloat16.")
    long_documents: list[str] = HfArg(
        default_factory=lambda: ["first"],
        help="Part of texts longer than --max_length that encoders read; several values are compared. 'first', the "
        "beginning; 'head_tail', beginning and end; 'average', all, by averaging the embeddings of passages; 'whole', "
        "the beginning, and all of it.",
        metadata={"choices": list(SINGLE_VECTOR)},
    )

    def file_options(self) -> dict[str, str | None]:
        """Return the options for reading the user's files."""
        return {name: getattr(self, name) for name in ("text_column", "label_column", "csv_separator", "encoding")}
