"""Audit: what was found among examples, as a table and as a JSON file that a person can edit."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from ...encoders.checkpoints.inside_folder import write_file
from ...text.characters import on_one_line

Labels = str | list[str]
SHOWN = 10  # rows of a printed table


@dataclass(frozen=True)
class LabelIssue:
    """An example whose label the experts contradict.

    ``apply``: whether ``apply_audit`` gives it the suggested label; a person may change it. At first it is true where
    that label is right with a probability of at least 70 %. ``probability``: that the given label is right.
    ``near_given``, ``near_suggested``: how many of the 10 nearest examples have the one and the other. Where a text may
    have several labels, the three are of the label of most doubt: whether the text has it.
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
    """Examples that are copies, ``similarity`` being the share of their words in threes that two have in common.

    Of examples whose texts are not kept it is the cosine. ``remove`` are those to remove: of exact copies with equal
    labels all but the first; on all others a person decides.
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
    """An example that is near no other; ``closeness`` is the mean cosine of the nearest ones."""

    id: str
    label: Labels
    closeness: float
    remove: bool
    text: str


@dataclass(frozen=True)
class ConfusedLabels:
    """Two labels that the experts take for one another: how many examples, and their share."""

    first: str
    second: str
    first_as_second: int
    second_as_first: int
    share: float


@dataclass(frozen=True)
class Audit:
    """What ``pipe.audit()`` found; printed, it is a table.

    Edit the file that ``to_json`` writes: ``apply`` and ``remove`` in it are what ``new_labels`` and ``to_remove`` say.

    Attributes:
        examples: The number of labeled examples.
        checked: How many of their labels were checked: those that ``fit`` held out.
        not_checked: How many were not, by the reason.
        wrong_labels: About how many of these are wrong: the sum of the probabilities.
        label_issues: Labels that are wrong with a probability of 10 % or more, the least probable ones first.
        duplicates: Groups of copies and near-copies, exact ones first.
        outliers: Examples that are near no others, the farthest first.
        confused_labels: Pairs of labels that the experts cannot tell apart, the most confused first. Empty where a
            text may have several labels.
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
        """The suggested labels that are to be applied by id, as ``pipe.relabel`` takes them."""
        return {issue.id: issue.suggested for issue in self.label_issues if issue.apply}

    @property
    def to_remove(self) -> list[str]:
        """The ids of copies, and of outliers that are marked, as ``pipe.remove_examples`` takes them."""
        ids = [row_id for group in self.duplicates for row_id in group.remove]
        return list(dict.fromkeys([*ids, *(outlier.id for outlier in self.outliers if outlier.remove)]))

    def to_json(self, path: str | Path) -> None:
        """Write it to a file.

        Args:
            path: The file, which is replaced.
        """
        write_file(path, json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def from_json(cls, path: str | Path) -> Audit:
        """Read it from a file, which may have been edited.

        Args:
            path: The file.

        Raises:
            ValueError: If it is not JSON, or an entry lacks a field, has another one, or one of another type.
        """
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8-sig"))  # some editors begin it with a mark
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is no audit, as it is not JSON: {error}. audit().to_json writes one.") from error
        audit = _read(cls, content, str(path))
        if len({issue.id for issue in audit.label_issues}) < len(audit.label_issues):
            raise ValueError(f"{path} has two label_issues of one id: leave one of them.")
        return audit

    def __str__(self) -> str:
        left_out = ", ".join(f"{count:,} {reason}" for reason, count in self.not_checked.items())
        copies = sum(len(group.ids) for group in self.duplicates)
        differ = sum(group.labels_differ for group in self.duplicates)
        lines = [
            f"{self.examples:,} examples, {self.checked:,} labels checked"
            + (f"; not checked: {left_out}." if left_out else "."),
            f"Wrong labels: about {self.wrong_labels:,.0f}. Worth a look: {len(self.label_issues):,}, marked to be "
            f"changed: {len(self.new_labels):,}. {copies:,} examples are copies, in {len(self.duplicates):,} groups, "
            f"{differ:,} of them with different labels. {len(self.outliers):,} are near no others. "
            f"{len(self.confused_labels):,} pairs of labels are hard to tell apart.",
        ]
        for name, entries in (
            ("Labels that the others contradict", self.label_issues),
            ("Copies", self.duplicates),
            ("Near no others", self.outliers),
            ("Hard to tell apart", self.confused_labels),
        ):
            if entries:
                lines.append(f"\n{name}:\n{_table(entries)}")
        return "\n".join(lines)


def _table(entries: list[Any]) -> str:
    import pandas as pd

    rows = [{name: _shown(value) for name, value in asdict(entry).items()} for entry in entries[:SHOWN]]
    more = f"\n... and {len(entries) - SHOWN:,} more" if len(entries) > SHOWN else ""
    return pd.DataFrame(rows).to_string(index=False) + more


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    text = on_one_line(" | ".join(map(str, value)) if isinstance(value, list) else str(value))
    return f"{text[:37]}..." if len(text) > 40 else text


def _read(kind: type, content: Any, where: str) -> Any:
    """A dataclass from what JSON gave, checked."""
    names = [field.name for field in fields(kind)]
    if not isinstance(content, dict):
        raise ValueError(f"{where} is {str(content)[:60]!r}, and no audit or part of one: audit().to_json writes one.")
    missing, unknown = [name for name in names if name not in content], sorted(content.keys() - set(names))
    if missing or unknown:
        what = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has {', '.join(unknown)}"] * bool(unknown)
        raise ValueError(f"{where} {' and '.join(what)}: its fields are {', '.join(names)}.")
    hints = get_type_hints(kind)
    return kind(**{name: _checked(hints[name], content[name], f"{where}: {name}") for name in names})


def _checked(hint: Any, value: Any, where: str) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is list and isinstance(value, list):
        return [_checked(parts[0], entry, f"{where}[{i}]") for i, entry in enumerate(value)]
    if origin is dict and isinstance(value, dict):
        return {name: _checked(parts[1], entry, f"{where}[{name!r}]") for name, entry in value.items()}
    if hint == Labels:
        return _checked(list[str] if isinstance(value, list) else str, value, where)
    if hasattr(hint, "__dataclass_fields__"):
        return _read(hint, value, where)
    expected = (int, float) if hint is float else hint
    if origin is not None or not isinstance(value, expected) or (isinstance(value, bool) and hint is not bool):
        raise ValueError(f"{where} is {value!r}, not {getattr(hint, '__name__', hint)}: correct it.")
    return value
