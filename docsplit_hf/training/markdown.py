"""Markdown: tables, code, and names that say nothing of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def public_name(name: str) -> str:
    """What a card may say of a name: of a path, which tells others how this machine is laid out, the last part."""
    return Path(name).resolve().name if Path(name).exists() else name


def table(header: tuple[str, ...], rows: Any) -> str:
    """A table in Markdown; ``rows`` are tuples of strings."""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code_block(text: str) -> str:
    """Python code in Markdown."""
    return f"```python\n{text}\n```"
