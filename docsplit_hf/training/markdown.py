"""Markdown tables, code blocks and model cards, without paths of this machine."""

from __future__ import annotations

import functools
import string
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..reading.source import is_pattern
from ..storage.inside_folder import write_file
from .distributed import process_count

if TYPE_CHECKING:
    from transformers import TrainerState

    from .arguments import ShareableTrainingArguments

PACKAGES = ("docsplit_hf", "transformers", "accelerate", "datasets", "torch")


def public_name(name: str) -> str:
    """A name to publish in a card: of a path on this machine, only its last part."""
    if is_pattern(name):
        return Path(name).name
    return Path(name).resolve().name if Path(name).exists() else name


def table(header: tuple[str, ...], rows: Any) -> str:
    """Format a table in Markdown; ``rows`` are tuples of strings."""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code_block(text: str) -> str:
    """Format Python code in Markdown."""
    return f"```python\n{text}\n```"


def describe_training(
    args: ShareableTrainingArguments, state: TrainerState, best_is_loaded: bool, unit: str
) -> dict[str, str]:
    """The rows about training that all cards share, by name; ``unit``: what a batch consists of, such as documents."""
    batch = f"{args.per_device_train_batch_size} {unit} x {process_count()} processes"
    if args.gradient_accumulation_steps > 1:
        batch += f" x {args.gradient_accumulation_steps} accumulated"
    return {
        "Data": public_name(args.data_description or "not described"),
        "Optimizer steps": f"{state.global_step:,}",
        "Weights": f"of step {state.best_global_step:,}, the best" if best_is_loaded else "of the last step",
        "Batch": batch,
        "Learning rate": f"{args.learning_rate:g} ({args.lr_scheduler_type.value}), {args.optim.value}",
        "Seed": f"{args.seed}",
    }


def save_model_card(
    folder: str | Path,
    template_package: str,
    location: str,
    metadata: Mapping[str, str | list[str] | None],
    *packages: str,
    **fields: Any,
) -> None:
    """Write a model card, ``README.md``, from a template.

    Args:
        folder: The folder to write to.
        template_package: The package with the template, ``model_card.md``.
        location: The final path of the folder; its name is the title.
        metadata: Arguments of ``ModelCardData``.
        *packages: Packages to list with their versions, in addition to ``PACKAGES``.
        **fields: Fields of the template.
    """
    from huggingface_hub import ModelCardData

    template = string.Template(files(template_package).joinpath("model_card.md").read_text(encoding="utf-8"))
    card = template.substitute(
        fields,
        metadata=ModelCardData(**metadata).to_yaml(),
        title=Path(location).resolve().name,
        versions=", ".join(f"{package} {_version(package)}" for package in (*PACKAGES, *packages)),
    )
    write_file(Path(folder, "README.md"), card, errors="replace")  # lone surrogates


@functools.cache
def _version(package: str) -> str:
    """The version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:  # docsplit_hf as copied into a classifier's repository
        return "of unknown version"
