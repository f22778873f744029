"""The arguments of run_evaluation.py, beside those of EvaluationSettings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from transformers.hf_argparser import HfArg

from docsplit_hf.experiments.protocols.registry import PROTOCOLS
from docsplit_hf.experiments.protocols.settings import PAPERS, EvaluationSettings
from docsplit_hf.models.checkpoints.shipped_checkpoint import DEFAULT_CHECKPOINT
from docsplit_hf.models.inference.long_documents.strategies import SEVERAL_VECTORS, SINGLE_VECTOR

MAIN_OPTIONS = (
    "models", "tasks", "text_column", "label_column", "protocol", "preset", "task_folders", "max_length",
    "long_documents", "shots", "repeats", "probe", "bf16", "seed", "output_dir",
)  # fmt: skip
PROTOCOL_HELP = "; ".join(f"{name}: {protocol.description}" for name, protocol in PROTOCOLS.items())


def as_options(values: Mapping[str, Any]) -> str:
    """Values of options as on the command line; those that are None are left out."""
    given = {name: value if isinstance(value, list) else [value] for name, value in values.items() if value is not None}
    return " ".join(f"--{name} {' '.join(map(str, parts))}" for name, parts in given.items())


PAPERS_DID = "what DocSplit, SimDE and SimLTE did"
PAPERS_SHOTS = "and 10 examples per class for FakeNews and arXiv, 5 for the others"


@dataclass
class EvaluationArguments:
    """What to measure, and where the results go."""

    models: list[str] = HfArg(
        default_factory=list,
        help=f"What to compare, encoders and word counts. Must be given. It is tfidf, bm25, {DEFAULT_CHECKPOINT}, "
        "which ships, folders with a checkpoint, models on the Hub, https://HOST/v1#MODEL for an endpoint. "
        "'...#name=NAME' names one in the tables; '#pooling=mean' and '#instruction=TEXT' are options of it.",
    )
    tasks: list[str] = HfArg(
        default_factory=list,
        help="Files and folders of your own, or names of the papers' tasks. Must be given. Files are .jsonl, .csv or "
        ".parquet, with --text_column and, if there are labels, --label_column. 'documentation', that of installed "
        "packages, by package, is there to try it on.",
    )
    preset: str | None = HfArg(
        default=None,
        help=f"'papers' is {PAPERS_DID}: {as_options(PAPERS)}, {PAPERS_SHOTS}. An option that you give goes before it.",
        metadata={"choices": ["papers"]},
    )
    text_column: str = HfArg(default="text", help="The column with the texts, in files of your own.")
    label_column: str = HfArg(default="label", help="The column with the labels, in files of your own.")
    csv_separator: str | None = HfArg(default=None, help="What separates the columns of .csv files, if no comma.")
    encoding: str | None = HfArg(default=None, help="Encoding of files, if not UTF-8, such as cp1252.")
    task_folders: list[str] = HfArg(
        default_factory=list, help="Where named tasks are on this machine: NYT=/data/nyt 20News=/data/20news."
    )
    protocol: list[str] = HfArg(default_factory=lambda: ["full", "few_shot"], help=f"The experiments. {PROTOCOL_HELP}.")
    output_dir: str = HfArg(
        default="output/evaluation", help="Where results.json, results.md and the figures go. What is there is kept."
    )
    cache_dir: str | None = HfArg(
        default=None, help="Where embeddings are kept. Default: embeddings/ in the output folder."
    )
    bf16: bool = HfArg(default=False, help="Encoders compute in bfloat16.")
    long_documents: list[str] = HfArg(
        default_factory=lambda: ["first"],
        help="How encoders read what is longer than --max_length, one way or several to compare. 'first', the "
        "beginning; 'head_tail', beginning and end; 'average', all, in passages whose embeddings are averaged; "
        "'passages', an embedding for each; 'late', the same after reading all that fits into --max_length together.",
        metadata={"choices": [*SINGLE_VECTOR, *SEVERAL_VECTORS]},
    )
    figures: bool = HfArg(default=True, help="Draw the figures, with matplotlib.")

    def folder_of(self, task: str) -> str | None:
        """The folder that --task_folders gives for a task."""
        folders = {}
        for pair in self.task_folders:
            name, equals, folder = pair.partition("=")
            if not equals:
                raise ValueError(f"--task_folders takes TASK=FOLDER, got {pair!r}.")
            folders[name.casefold()] = folder
        unknown = set(folders) - {name.casefold() for name in self.tasks}
        if unknown:
            raise ValueError(f"--task_folders has {sorted(unknown)}, which --tasks has not: {self.tasks}.")
        return folders.get(task.casefold())

    def preset_line(self, settings: EvaluationSettings) -> str:
        """For the report: what the preset is, and what the command line overrides of it."""
        if self.preset is None:
            return ""
        chosen = vars(self) | vars(settings)
        changed = {name: chosen[name] for name, value in PAPERS.items() if chosen[name] != value}
        changes = f" Overridden here: `{as_options(changed)}`." if changed else ""
        return f"Preset `{self.preset}`, {PAPERS_DID}: `{as_options(PAPERS)}`, {PAPERS_SHOTS}.{changes}"
