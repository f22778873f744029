"""Example texts that are included in the package."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def load_example_texts() -> pd.DataFrame:
    """Load the example texts of the package, to try it without a file of your own.

    Returns:
        73 English texts in the columns ``text`` and ``label``. 40 have one of four labels (astronomy, cooking, music,
        sport); two of these labels are wrong, for ``audit`` to find. The other labels are None. The last text is long.

    Example:

        >>> examples = load_example_texts()
        >>> len(examples), examples["label"].nunique(), examples["label"].count().item()
        (73, 4, 40)
    """
    import pandas as pd

    with files(__package__).joinpath("example_texts.jsonl").open("rb") as file:
        table = pd.read_json(file, lines=True, dtype=False)
    return table.astype(object).where(table.notna(), None)
