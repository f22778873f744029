"""docs/encoders.md: quality, size and speed of encoders side by side."""

import pandas as pd

from .page import Page
from .records import content

SYSTEMS = ("ours", "ours_without_documents", "probe", "two_way")


def rows():
    """The lines of both tables."""
    quality = pd.DataFrame(content("encoders/few_labels.jsonl"))
    draws = quality.groupby(["encoder", "per_label", "system", "task"])["macro_f1"].mean()
    means = 100 * draws.groupby(["encoder", "per_label", "system"]).mean()
    for encoder in quality["encoder"].unique():
        yield encoder, *(f"{means[encoder, count, system]:.1f}" for count in ("5", "20") for system in SYSTEMS)
    for record in content("encoders/speed.jsonl"):
        size = (record["megabytes"], record["million_parameters"]) if record["precision"] == "float32" else None
        yield (
            record["model"],
            *(("–", "–") if size is None else (f"{size[0]:.0f}", f"{size[1]:.1f}")),
            record["precision"],
            f"{record['tokens_per_second'] / 1000:.1f}",
            f"{record['documents_per_second']:.0f}",
            f"{record['cosine']:.4f}",
        )


def test_figures():
    page = Page("docs/encoders.md")
    page.has_rows(rows())
    page.without_record("69.3", "70.3")  # of others, as they say
    page.check(at_least=40)
