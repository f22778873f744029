"""The description of an exported model, beside its graph."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

GRAPH = "model.onnx"
DESCRIPTION = "exported.json"
VERSION = 2
PRECISIONS = ("float32", "int8")
TRUSTED = "trusted_exports"  # a folder with a file for each graph that this user exported, named by its checksum


@dataclass(frozen=True)
class ExportedModel:
    """What reading texts with an exported model takes, and the checksum of its graph.

    Args:
        sha256: Of the graph.
        precision: ``"float32"`` or ``"int8"``.
        inputs: The names of the graph's inputs, among those that tokenizers make.
        dimension: Of the embeddings.
        num_labels: Of the classification head; 0 without one.
        max_length: The longest input in tokens.
        long_documents: The part of long texts to read.
        passage_length: The longest passage in tokens, or None.
        prompt: The text before each text.
        include_prompt: Whether the tokens of the prompt are pooled.
        pad_token_id: The token that fills shorter rows.
        unk_token_id: The token of unknown words, or None.
        saved_with: The SHA-256 by name of the files of weights and tokenizer that were exported.
        texts_sha256: Of the file with ids, texts and labels of the datastore.
        texts_of: The SHA-256 by role of the files of the datastore whose content this is.
    """

    sha256: str
    precision: str
    inputs: tuple[str, ...]
    dimension: int
    num_labels: int
    max_length: int
    long_documents: str
    passage_length: int | None
    prompt: str
    include_prompt: bool
    pad_token_id: int
    unk_token_id: int | None
    saved_with: dict[str, str]
    texts_sha256: str
    texts_of: dict[str, str]
    version: int = VERSION

    def write(self, folder: Path) -> None:
        """Write the description into a folder."""
        (folder / DESCRIPTION).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> ExportedModel:
        """Read the description in a folder.

        Raises:
            ValueError: If the file is damaged, or of another version.
        """
        path = folder / DESCRIPTION
        remedy = f"Run docsplit export {folder.parent} again."
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            names = {field.name for field in fields(cls)}
            if found.get("version") != VERSION or found.keys() != names:
                raise ValueError(f"it is of version {found.get('version')!r}, not {VERSION}")
            return cls(**found | {"inputs": tuple(found["inputs"])})
        except (ValueError, AttributeError, TypeError) as error:
            raise ValueError(f"{path} cannot be read ({error}). {remedy}") from error
