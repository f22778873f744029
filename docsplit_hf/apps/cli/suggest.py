"""Write a file of the documents to label next, of those of docsplit fit --unlabeled_name, with a column for labels.

    docsplit suggest output/few --output labels/suggestions.csv --count 10

Fill in the column, then make a classifier of all labels: the earlier ones are in labels/labeled.csv, with the same
columns. Rows without a label are left out.

    docsplit fit --dataset_name labels/ --train_split labeled+suggestions \
        --unlabeled_name documents/ --output_dir output/more
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...classifier.active_learning import Suggestion
from ...classifier.row_files import Row, check_output, write_rows
from .classify import open_classifier
from .options import SavedClassifier, option, read_options
from .run_command import script, show_log

COLUMNS = ("id", "file", "text", "text_pair", "predicted_label", "score", "label")
OPTIONAL_COLUMNS = ("file", "text_pair")  # left out if no document has one


@dataclass
class SuggestionArguments(SavedClassifier):
    """Classifier and output."""

    output: str = option(
        default="suggestions.csv",
        help="The .csv, .jsonl or .parquet file for the documents, the most useful first. An existing file is not "
        "replaced.",
    )
    count: int = option(default=10, help="The number of documents.")
    safe_csv: bool = option(
        default=False,
        help="Make a .csv file safe to open in a spreadsheet, as docsplit classify does.",
    )


def row_of(suggestion: Suggestion) -> Row:
    """Return the row of a document to label."""
    row: Row = {name: suggestion[name] for name in ("id", "file", "text", "text_pair", "score")}
    row["predicted_label"] = suggestion.get("labels", suggestion["label"])
    row["label"] = None
    return row


def main() -> dict[str, Any]:
    """Write the documents to label next; return the figures for ``--json``."""
    (arguments,) = read_options((SuggestionArguments,), __doc__, first=("model",))
    output = Path(arguments.output)
    check_output(output, arguments.safe_csv)
    if output.exists():
        raise ValueError(f"{output} is there already, and may have labels: choose another --output.")
    show_log()
    pipe = open_classifier(arguments.model)
    rows = [row_of(suggestion) for suggestion in pipe.suggest(arguments.count)]
    columns = [name for name in COLUMNS if name not in OPTIONAL_COLUMNS or any(row[name] is not None for row in rows)]
    output.parent.mkdir(parents=True, exist_ok=True)
    write_rows(output, lambda: rows, columns, arguments.safe_csv)
    print(f"{len(rows):,} documents to label are in {output}, the most useful first: fill in the column 'label'.")
    return {"output": str(output), "documents": len(rows)}


run = script(main, "Run the same command again.")
