"""Arguments of runs: those of docsplit evaluate, the experiments, and where embeddings are kept."""

from dataclasses import dataclass

from transformers.hf_argparser import HfArg

from docsplit_hf.apps.cli import evaluate

from .runner import PROTOCOLS

PROTOCOL_HELP = "; ".join(f"{name}: {protocol.description}" for name, protocol in PROTOCOLS.items())


@dataclass
class EvaluationArguments(evaluate.EvaluationArguments):
    """Systems, tasks, experiments and output; existing results are kept."""

    protocol: list[str] = HfArg(default_factory=lambda: ["full", "few_shot"], help=f"The protocols. {PROTOCOL_HELP}.")
    cache_dir: str | None = HfArg(
        default=None, help="Folder for embeddings. Default: embeddings/ in the output folder."
    )

    def file_options(self) -> dict[str, str | None]:
        """Return the options for reading the user's files."""
        return {name: getattr(self, name) for name in ("text_column", "label_column", "csv_separator", "encoding")}
