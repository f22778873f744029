"""The arguments of ``python -m experiments``: those of docsplit evaluate, the papers' tasks and their preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from transformers.hf_argparser import HfArg

from docsplit_hf.encoding.chunking import PASSAGES, SINGLE_VECTOR

from .evaluation.arguments import EvaluationArguments
from .papers import PROTOCOLS
from .papers_options import PAPERS, PaperSettings

MAIN_OPTIONS = (
    "models", "tasks", "text_column", "label_column", "protocol", "preset", "task_folders", "max_length",
    "long_documents", "shots", "repeats", "probe", "bf16", "seed", "output_dir",
)  # fmt: skip
PROTOCOL_HELP = "; ".join(f"{name}: {protocol.description}" for name, protocol in PROTOCOLS.items())
PAPERS_DID = "what DocSplit, SimDE and SimLTE did"
PAPERS_SHOTS = "and 10 examples per class for FakeNews and arXiv, 5 for the others"


def as_options(values: Mapping[str, Any]) -> str:
    """Values of options as on the command line; those that are None are left out."""
    options = []
    for name, value in values.items():
        if value is not None:
            parts = value if isinstance(value, list) else [value]
            options.append(f"--{name} {' '.join(map(str, parts))}")
    return " ".join(options)


@dataclass
class PaperArguments(EvaluationArguments):
    """Which of the papers' experiments to run, and where the results go."""

    tasks: list[str] = HfArg(
        default_factory=lambda: ["documentation"],
        help="Names of the papers' tasks, or files and folders of your own. Default: documentation of installed "
        "packages, by package.",
    )
    task_folders: list[str] = HfArg(
        default_factory=list, help="Where named tasks are on this machine: NYT=/data/nyt 20News=/data/20news."
    )
    preset: str | None = HfArg(
        default=None,
        help=f"'papers' is {PAPERS_DID}: {as_options(PAPERS)}, {PAPERS_SHOTS}. An option that you give goes before it.",
        metadata={"choices": ["papers"]},
    )
    protocol: list[str] = HfArg(default_factory=lambda: ["full", "few_shot"], help=f"The experiments. {PROTOCOL_HELP}.")
    long_documents: list[str] = HfArg(
        default_factory=lambda: ["first"],
        help="As of docsplit evaluate; also 'passages', an embedding for each passage.",
        metadata={"choices": [*SINGLE_VECTOR, PASSAGES]},
    )
    figures: bool = HfArg(default=True, help="Draw the figures. Needs matplotlib.")

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

    def preset_line(self, settings: PaperSettings) -> str:
        """For the report: the preset, and the options of it that the command line overrides."""
        if self.preset is None:
            return ""
        chosen = vars(self) | vars(settings)
        changed = {name: chosen[name] for name, value in PAPERS.items() if chosen[name] != value}
        changes = f" Overridden here: `{as_options(changed)}`." if changed else ""
        return f"Preset `{self.preset}`, {PAPERS_DID}: `{as_options(PAPERS)}`, {PAPERS_SHOTS}.{changes}"
