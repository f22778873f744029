"""paperless-ngx with its own classifier and with docsplit serve: examples/paperless/README.md."""

from __future__ import annotations

from typing import Any

from .pages import Figures, Row
from .records import content

FIELDS = {"document_type": "document type", "correspondent": "correspondent", "tags": "tag"}
SYSTEMS = {"its own classifier": "its own", "docsplit serve": "docsplit"}


def paperless() -> Figures:
    runs = content("paperless.jsonl")
    return {
        "by property": [_by_property(run, field) for field in FIELDS for run in runs],
        "by batch": [_by_batch(run, number) for number in range(len(runs[0]["batches"])) for run in runs],
        "versions": _versions(runs),
    }


def _name(run: dict[str, Any]) -> str:
    name = SYSTEMS[run["system"]]
    return name if run["reject"] is None else f"{name}, at {run['reject']:.0%}"


def _by_property(run: dict[str, Any], field: str) -> Row:
    """What became of a property in all batches."""
    counts = [batch["fields"][field] for batch in run["batches"]]
    total = {name: sum(one[name] for one in counts) for name in counts[0]}
    answered = total["right"] + total["wrong"]
    return (
        FIELDS[field],
        _name(run),
        f"{answered} of {total['with_value']}",
        f"{total['wrong']} ({_share(total['wrong'], answered)})",
        str(total["left"]),
        f"{total['given']} of {total['without_value']}",
    )


def _by_batch(run: dict[str, Any], number: int) -> Row:
    """What became of the documents of a batch."""
    batch = run["batches"][number]
    answers = [counts["right"] + counts["wrong"] + counts["given"] for counts in batch["fields"].values()]
    wrong = [counts["wrong"] + counts["given"] for counts in batch["fields"].values()]
    return (
        str(number + 1),
        _name(run),
        f"{sum(answers)}, {sum(wrong)} wrong ({_share(sum(wrong), sum(answers))})",
        f"{batch['out_of_inbox']}, {batch['out_of_inbox_wrong']} wrong",
        f"{batch['documents'] - batch['out_of_inbox']}",
    )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"


def _versions(runs: list[dict[str, Any]]) -> str:
    known = runs[-1]["versions"]
    return (
        f"paperless-ngx {known['paperless']} with scikit-learn {known['scikit_learn_of_paperless']}, "
        f"docsplit_hf {known['docsplit_hf']}, {runs[-1]['when']}"
    )
