"""The one generator of model cards: a room's template, filled in with metadata for the Hub and what the room says."""

from __future__ import annotations

import string
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

PACKAGES = ("docsplit_hf", "transformers", "accelerate", "datasets", "torch")


def save_model_card(
    folder: str | Path, room: str, location: str, metadata: dict[str, Any], *packages: str, **fields: Any
) -> None:
    """Write ``README.md`` from the ``card.md`` of a room. What no file can hold, a lone surrogate, becomes a ``?``.

    ``location``: what the model is loaded from. ``metadata``: of ``ModelCardData``. ``packages``: those whose
    versions are told beside ``PACKAGES``. ``fields``: what else the template asks for.
    """
    from huggingface_hub import ModelCardData

    template = string.Template(files(room).joinpath("card.md").read_text(encoding="utf-8"))
    card = template.substitute(
        fields,
        metadata=ModelCardData(**metadata).to_yaml(),
        title=Path(location).resolve().name,
        versions=", ".join(f"{package} {_version(package)}" for package in (*PACKAGES, *packages)),
    )
    Path(folder, "README.md").write_text(card, encoding="utf-8", errors="replace")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # docsplit_hf in a repository that has it along
        return "of unknown version"
