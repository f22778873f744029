"""paperless-ngx that asks docsplit serve, and with its own classifier where that was measured."""

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
        "by document": [_by_document(run) for run in runs],
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


def _by_document(run: dict[str, Any]) -> Row:
    """What a person is spared, and what is wrong without being looked at."""
    batches = run["batches"]
    documents = sum(batch["documents"] for batch in batches)
    out = sum(batch["out_of_inbox"] for batch in batches)
    wrong = sum(batch["out_of_inbox_wrong"] for batch in batches)
    right = sum(batch["all_right"] for batch in batches)
    return _name(run), f"{right} of {documents}", str(documents - out), f"{out}", f"{wrong} ({_share(wrong, out)})"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "–"


def _versions(runs: list[dict[str, Any]]) -> str:
    known = runs[-1]["versions"]
    return (
        f"paperless-ngx {known['paperless']} with scikit-learn {known['scikit_learn_of_paperless']}, "
        f"docsplit_hf {known['docsplit_hf']}, {runs[-1]['when']}"
    )
