"""The encoder, the documents and the folder of ``docsplit fit``. Imports neither torch nor transformers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ...encoding.chunking import PASSAGES, SINGLE_VECTOR
from ...fitting.label_tree import Hierarchy, is_hierarchy_setting
from .options import ENCODER_HELP, OUTPUT_DIR, PASSAGES_HELP, option

UNLABELED_HELP = (
    "Unlabeled documents, from which experts also learn. A file as for --dataset_name, with the same --text_column; a "
    ".txt file with one document per line; a folder, or a pattern such as 'inbox/**/*.pdf', of .txt files or "
    "documents; or a data set on the Hub."
)
MAIN_OPTIONS = (
    "dataset_name", "text_column", "label_column", "test_size", "unlabeled_name", "model_name_or_path", "max_length",
    "long_documents", "hierarchy", "output_dir", "overwrite_output_dir",
)  # fmt: skip


def read_hierarchy(hierarchy: str | None) -> Hierarchy | None:
    """Tree of labels, as ``label_paths`` takes it: a separator, or the parents in a .json file."""
    if hierarchy is None or not hierarchy.endswith(".json"):
        return hierarchy
    file = Path(hierarchy)
    if not file.is_file():
        raise ValueError(f"--hierarchy {hierarchy}: there is no such file.")
    try:
        parents = json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"--hierarchy {hierarchy} is no JSON in UTF-8: {error}") from error
    if not isinstance(parents, dict) or not is_hierarchy_setting(parents):
        raise ValueError(f'--hierarchy {hierarchy} must have the parent of each label: {{"lease": "contracts"}}.')
    return parents


@dataclass
class FitArguments:
    """Encoder, documents, and the folder of the classifier."""

    _argument_group_name = "classifier"

    model_name_or_path: str | None = option(default=None, help=ENCODER_HELP)
    pooling: str | None = option(default=None, help="cls, mean, max or last. Default: the encoder's own, or cls.")
    max_length: int | None = option(default=None, help="Longest text in tokens. Default: the encoder's own.")
    long_documents: str | None = option(
        default=None,
        help=f"{PASSAGES_HELP} Default: 'whole' if that takes at most 10 minutes, otherwise 'first'; the minutes are "
        "estimated and printed before.",
        choices=[*SINGLE_VECTOR, PASSAGES],
    )
    passage_length: int | None = option(default=None, help="Longest passage in tokens. Default: --max_length.")
    unlabeled_name: str | None = option(default=None, help=UNLABELED_HELP)
    hierarchy: str | None = option(
        default=None,
        help="Tree of the labels, so that a text gets a parent where its label is too uncertain: the separator in "
        "their names, such as '/', or a .json file with the parent of each label, as in "
        '{"lease": "contracts", "contracts": "law"}. Default: names such as "law > contracts > lease" are a tree.',
    )
    output_dir: str = option(default=OUTPUT_DIR, help="Folder for the classifier.")
    overwrite_output_dir: bool = option(default=False, help="Write to output_dir even if it is not empty.")
    seed: int = option(default=42, help="Random seed.")
    use_cpu: bool = option(default=False, help="Do not use a GPU.")
    bf16: bool = option(default=False, help="Compute embeddings in bfloat16.")

    def __post_init__(self) -> None:
        """Find mistakes before any text is embedded."""
        read_hierarchy(self.hierarchy)
