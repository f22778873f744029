"""Markdown tables, code blocks and model cards; these reveal no paths of this machine."""

from __future__ import annotations

import functools
import string
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..encoders.checkpoints.inside_folder import write_file
from .distributed import process_count

if TYPE_CHECKING:
    from transformers import TrainerState

    from .arguments import ShareableTrainingArguments

PACKAGES = ("docsplit_hf", "transformers", "accelerate", "datasets", "torch")


def public_name(name: str) -> str:
    """A name for a card; only the last part of an existing path, since a path describes this machine."""
    return Path(name).resolve().name if Path(name).exists() else name


def table(header: tuple[str, ...], rows: Any) -> str:
    """A table in Markdown; ``rows`` are tuples of strings."""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code_block(text: str) -> str:
    """Python code in Markdown."""
    return f"```python\n{text}\n```"


def describe_training(
    args: ShareableTrainingArguments, state: TrainerState, best_is_loaded: bool, unit: str
) -> dict[str, str]:
    """Rows that the cards of all training runs share; ``unit``: name of the items of a batch."""
    batch = f"{args.per_device_train_batch_size} {unit} x {process_count()} processes"
    if args.gradient_accumulation_steps > 1:
        batch += f" x {args.gradient_accumulation_steps} accumulated"
    schedule = "piecewise constant" if getattr(args, "learning_rate_steps", None) else args.lr_scheduler_type.value
    return {
        "Data": public_name(args.data_description or "not described"),
        "Optimizer steps": f"{state.global_step:,}",
        "Weights": f"of step {state.best_global_step:,}, the best" if best_is_loaded else "of the last step",
        "Batch": batch,
        "Learning rate": f"{args.learning_rate:g} ({schedule}), {args.optim.value}",
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
    """Write ``README.md`` from a package's ``model_card.md``, the fields and the versions of ``packages``."""
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
    try:
        return version(package)
    except PackageNotFoundError:  # docsplit_hf as copied into a classifier's repository
        return "of unknown version"
