"""The option ``--hierarchy``: the tree of the labels, by a separator or by a file of parents."""

import json
from pathlib import Path

from ...fitting.label_tree import Hierarchy, is_hierarchy_setting


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
