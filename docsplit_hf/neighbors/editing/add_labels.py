"""Labels by name: their descriptions as first examples, until there are real ones."""

from __future__ import annotations

from collections.abc import Mapping

from ..experts.held_out_scores import LABEL_ID


def described_examples(descriptions: Mapping[str, str]) -> tuple[list[str], list[str], list[str]]:
    """The texts, labels and ids of the examples that descriptions of labels are."""
    if not isinstance(descriptions, Mapping):
        raise TypeError(f"Expected {{label: description, ...}}, got {descriptions!r}: say in a few words what each is.")
    for name, description in descriptions.items():
        if not isinstance(name, str) or not isinstance(description, str) or not (name.strip() and description.strip()):
            raise ValueError(
                f"The label {name!r} is described as {description!r}: give a name, and a few words on its texts."
            )
    if not descriptions:
        raise ValueError("There are no labels: give {label: description, ...}.")
    return list(descriptions.values()), list(descriptions), [f"{LABEL_ID}{name}" for name in descriptions]
