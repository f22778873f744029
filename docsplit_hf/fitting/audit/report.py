"""Audit: findings about the examples, printed as tables, or saved as a JSON file for editing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from ...reading.characters import on_one_line
from ...storage.inside_folder import write_file
from ..experts.saved_types import is_possible

Labels = str | list[str]
MAX_TABLE_ROWS = 10  # of a printed table


@dataclass(frozen=True)
class LabelIssue:
    """An example with a label that is probably wrong.

    If a text may have several labels, ``probability``, ``near_given`` and ``near_suggested`` refer to the most suspect
    one, which is given or missing.

    Attributes:
        id: The id of the example.
        given: Its label, or list of labels.
        suggested: The label, or list of labels, to give it instead.
        apply: Whether ``apply_audit`` gives it the suggested label. Edit it as needed; at first it is true if that
            label is right with a probability of at least 70 %.
        probability: The probability that the given label is right.
        near_given, near_suggested: How many of the 10 nearest examples have the given and the suggested label.
        text: The beginning of its text.
    """

    id: str
    given: Labels
    suggested: Labels
    apply: bool
    probability: float
    near_given: int
    near_suggested: int
    text: str


@dataclass(frozen=True)
class Duplicates:
    """A group of examples that are copies or near-duplicates.

    Attributes:
        ids: The ids of the examples.
        labels: Their labels.
        labels_differ: Whether any two have different labels.
        exact: Whether the texts are equal.
        similarity: The lowest similarity of two matching texts: the fraction of word triples in common, from 0 to 1.
        remove: The ids that ``apply_audit`` removes. Edit it as needed; at first it has all but the first of exact
            copies with equal labels.
        text: The beginning of the first text.
    """

    ids: list[str]
    labels: list[Labels]
    labels_differ: bool
    exact: bool
    similarity: float
    remove: list[str]
    text: str


@dataclass(frozen=True)
class Outlier:
    """An example far from all others.

    Attributes:
        id: The id of the example.
        label: Its label, or list of labels.
        closeness: The mean cosine to its 10 nearest examples.
        remove: Whether ``apply_audit`` removes it. Edit it as needed; at first it is false.
        text: The beginning of its text.
    """

    id: str
    label: Labels
    closeness: float
    remove: bool
    text: str


@dataclass(frozen=True)
class ConfusedLabels:
    """Two labels that the experts confuse.

    Attributes:
        first, second: The labels.
        first_as_second, second_as_first: The number of examples of one label that were answered with the other.
        share: The fraction of the examples of the two labels that were confused.
    """

    first: str
    second: str
    first_as_second: int
    second_as_first: int
    share: float


@dataclass(frozen=True)
class Audit:
    """The findings of ``pipe.audit()``; printed, they are tables.

    To review them, edit ``apply`` and ``remove`` in the file that ``to_json`` writes.

    Attributes:
        examples: The number of labeled examples.
        checked: The number of examples with checked labels: those that ``fit`` held out.
        not_checked: The number of other examples, by reason.
        wrong_labels: The expected number of wrong labels among the checked ones: the sum of the probabilities that they
            are wrong.
        label_issues: Labels that are wrong with a probability of at least 10 %, the least probable labels first.
        duplicates: Groups of copies and near-duplicates, exact copies first.
        outliers: Examples far from all others, the farthest first.
        confused_labels: Pairs of labels that the experts confuse, the most confused first. Empty if a text may have
            several labels.
    """

    examples: int
    checked: int
    not_checked: dict[str, int]
    wrong_labels: float
    label_issues: list[LabelIssue]
    duplicates: list[Duplicates]
    outliers: list[Outlier]
    confused_labels: list[ConfusedLabels]

    @property
    def new_labels(self) -> dict[str, Labels]:
        """The suggested labels marked by ``apply``, by id, in the form that ``pipe.relabel`` takes."""
        return {issue.id: issue.suggested for issue in self.label_issues if issue.apply}

    @property
    def to_remove(self) -> list[str]:
        """The ids marked by ``remove``, in the form that ``pipe.remove_examples`` takes."""
        ids = [row_id for group in self.duplicates for row_id in group.remove]
        return list(dict.fromkeys([*ids, *(outlier.id for outlier in self.outliers if outlier.remove)]))

    def to_json(self, path: str | Path) -> None:
        """Write the audit as JSON.

        Args:
            path: The file; an existing one is replaced.
        """
        write_file(path, json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def from_json(cls, path: str | Path) -> Audit:
        """Read an audit from a file that may have been edited.

        Args:
            path: The file.

        Returns:
            The audit.

        Raises:
            ValueError: If the file is not JSON, or an entry lacks a field, has an unknown one, or one of another type.
        """
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8-sig"))  # some editors add a byte order mark
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is not JSON: {error}. audit().to_json writes an audit.") from error
        audit = _read(cls, content, str(path))
        if len({issue.id for issue in audit.label_issues}) < len(audit.label_issues):
            raise ValueError(f"{path} has two label_issues with the same id: remove one of them.")
        return audit

    def __str__(self) -> str:
        not_checked = ", ".join(f"{count:,} {reason}" for reason, count in self.not_checked.items())
        copies = sum(len(group.ids) for group in self.duplicates)
        differ = sum(group.labels_differ for group in self.duplicates)
        lines = [
            f"{self.examples:,} examples, {self.checked:,} labels checked"
            + (f"; not checked: {not_checked}." if not_checked else "."),
            f"Wrong labels: about {self.wrong_labels:,.0f}. Suspect labels: {len(self.label_issues):,}, marked to be "
            f"changed: {len(self.new_labels):,}. Duplicates: {copies:,} examples in {len(self.duplicates):,} groups, "
            f"{differ:,} of them with different labels. Outliers: {len(self.outliers):,}. "
            f"Confused pairs of labels: {len(self.confused_labels):,}.",
        ]
        for name, entries in (
            ("Suspect labels", self.label_issues),
            ("Duplicates", self.duplicates),
            ("Outliers", self.outliers),
            ("Confused labels", self.confused_labels),
        ):
            if entries:
                lines.append(f"\n{name}:\n{_table(entries)}")
        return "\n".join(lines)


def _table(entries: list[Any]) -> str:
    """Format the first entries, dataclasses of one type, as a table."""
    import pandas as pd

    rows = [{name: _shown(value) for name, value in asdict(entry).items()} for entry in entries[:MAX_TABLE_ROWS]]
    more = f"\n... and {len(entries) - MAX_TABLE_ROWS:,} more" if len(entries) > MAX_TABLE_ROWS else ""
    return pd.DataFrame(rows).to_string(index=False) + more


def _shown(value: Any) -> str:
    """Format one cell of a table."""
    if isinstance(value, float):
        return f"{value:.2f}"
    text = on_one_line(" | ".join(map(str, value)) if isinstance(value, list) else str(value))
    return f"{text[:37]}..." if len(text) > 40 else text


def _read(kind: type, content: Any, where: str) -> Any:
    """Make a dataclass from parsed JSON; ``where`` names the place in error messages."""
    hints = get_type_hints(kind)
    if not isinstance(content, dict):
        raise ValueError(f"{where} is {str(content)[:60]!r}, not an audit or part of one: audit().to_json writes one.")
    missing = [name for name in hints if name not in content]
    if missing:
        raise ValueError(f"{where} lacks {', '.join(missing)}: its fields are {', '.join(hints)}.")
    unknown = sorted(content.keys() - hints.keys())
    if unknown:
        raise ValueError(f"{where} has {', '.join(unknown)}: its fields are {', '.join(hints)}.")
    values = {}
    for name, hint in hints.items():
        value = content[name]
        entry = get_args(hint)[0] if get_origin(hint) is list else hint
        if is_dataclass(entry) and isinstance(value, list):
            value = [_read(entry, one, f"{where}: {name}[{number}]") for number, one in enumerate(value)]
        elif not is_possible(value, hint):
            raise ValueError(f"{where}: {name} is {value!r}, not {getattr(hint, '__name__', hint)}: correct it.")
        values[name] = value
    return kind(**values)
