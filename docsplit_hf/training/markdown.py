"""Markdown: tables, code, and names that say nothing of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def public_name(name: str) -> str:
    """A name as a card shows it: of a path the last part only, since a path describes this machine."""
    return Path(name).resolve().name if Path(name).exists() else name


def table(header: tuple[str, ...], rows: Any) -> str:
    """A table in Markdown; ``rows`` are tuples of strings."""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code_block(text: str) -> str:
    """Python code in Markdown."""
    return f"```python\n{text}\n```"
