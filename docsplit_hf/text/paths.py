"""Telling a mistyped path from a name on the Hub, before the Hub is asked."""

from __future__ import annotations

import difflib
from pathlib import Path


def refuse_mistyped_path(name: str) -> None:
    """Refuse what can only be a path, or is almost the name of a folder here, and does not exist.

    A name on the Hub has at most two parts. Asking the Hub for a path costs seconds of retries without a network.
    """
    path = Path(name)
    if path.exists():
        return
    siblings = [sibling.name for sibling in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, siblings, n=1, cutoff=0.85)
    if near or path.is_absolute() or name.startswith((".", "~")) or len(path.parts) > 2:
        hint = f" Did you mean {str(path.parent / near[0])!r}?" if near else ""
        raise FileNotFoundError(f"There is no file or folder {name!r}.{hint}")
