"""What the model cards are written with: tables, code, and names that say nothing of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def public_name(name: str) -> str:
    """What a card may say of a name: of a path, which tells others how this machine is laid out, the last part.

    Args:
        name: A name on the Hub, a path, or words.

    Returns:
        The name, or the last part of the path.

    Example:

        >>> public_name("google-bert/bert-base-uncased")
        'google-bert/bert-base-uncased'
    """
    return Path(name).resolve().name if Path(name).exists() else name


def table(header: tuple[str, ...], rows: Any) -> str:
    """A table in Markdown.

    Args:
        header: The names of the columns.
        rows: Tuples of strings.

    Returns:
        The table.

    Example:

        >>> print(table(("label", "examples"), [("fruit", "3")]))
        | label | examples |
        | --- | --- |
        | fruit | 3 |
    """
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code_block(text: str) -> str:
    """Python code in Markdown.

    Args:
        text: The code.

    Returns:
        The block.

    Example:

        >>> code_block("import docsplit_hf").splitlines()[1]
        'import docsplit_hf'
    """
    return f"```python\n{text}\n```"
