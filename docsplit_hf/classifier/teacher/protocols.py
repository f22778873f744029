"""Requests and answers of the two protocols for decisions: ``/v1/systemone`` and OpenAI's ``/v1/decisions``.

A choice question is asked about one text, whose options are the labels. Field names are those of the sources listed in
docs/replace_a_decision_model.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

QUESTION = "label"  # name of the question in requests and answers
INSTRUCTIONS = "Which of these labels fits the text best?"
MAX_OPTIONS = 255  # of a choice question
SUM_TOLERANCE = 0.05  # probabilities may be rounded to two decimals


class Option(NamedTuple):
    """One label to choose from."""

    name: str
    description: str | None


class Protocol(NamedTuple):
    """How a question is asked and answered."""

    path: str  # after the address that ends in /v1
    request: Callable[[str, str, Sequence[Option]], dict[str, Any]]  # of the model, the text and the options
    probabilities: Callable[[Any, Sequence[Option]], np.ndarray | None]  # of an answer in JSON; None: it was refused


def systemone_request(model: str, text: str, options: Sequence[Option]) -> dict[str, Any]:
    """Body of a request to ``/v1/systemone``."""
    question = {
        "type": "choice",
        "instructions": INSTRUCTIONS,
        "criteria": {option.name: option.description for option in options},
    }
    return {"model": model, "state": text, "questions": {QUESTION: question}}


def systemone_probabilities(answer: Any, options: Sequence[Option]) -> np.ndarray | None:
    """Probability of each option, float32 ``(C,)``; None if the model abstained."""
    found = _mapping(_mapping(answer, "answer").get("answers"), "answers").get(QUESTION)
    if found is None:
        return None
    found = _mapping(found, QUESTION)
    if found.get("abstain") or found.get("choice") is None:
        return None
    return _distribution(_mapping(found.get("probabilities"), "probabilities"), options)


def decisions_request(model: str, text: str, options: Sequence[Option]) -> dict[str, Any]:
    """Body of a request to ``/v1/decisions``."""
    choices = []
    for option in options:
        choice = {"value": option.name}
        if option.description is not None:
            choice["description"] = option.description
        choices.append(choice)
    question = {"type": "choice", "name": QUESTION, "instructions": INSTRUCTIONS, "choices": choices}
    return {"model": model, "input": text, "questions": [question]}


def decisions_probabilities(answer: Any, options: Sequence[Option]) -> np.ndarray | None:
    """Probability of each option, float32 ``(C,)``; None if the model refused."""
    answers = _mapping(answer, "answer").get("answers")
    if not isinstance(answers, list) or len(answers) != 1:
        raise ValueError(f"one answer was expected, got {answers!r}")
    found = _mapping(answers[0], "the first of answers")
    if found.get("type") == "refusal" or found.get("choice") is None:
        return None
    listed = found.get("probabilities")
    if not isinstance(listed, list):
        raise ValueError(f"probabilities is {listed!r}, not a list")
    entries = [_mapping(entry, "an entry of probabilities") for entry in listed]
    return _distribution({entry.get("value"): entry.get("probability") for entry in entries}, options)


PROTOCOLS = {
    "systemone": Protocol("/systemone", systemone_request, systemone_probabilities),
    "decisions": Protocol("/decisions", decisions_request, decisions_probabilities),
}


def _mapping(value: Any, name: str) -> Mapping[Any, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} is {value!r}, not an object")
    return value


def _distribution(probabilities: Mapping[Any, Any], options: Sequence[Option]) -> np.ndarray:
    """Normalize probabilities by name, in the order of the options."""
    names = [option.name for option in options]
    for name, value in probabilities.items():
        if name not in names:
            raise ValueError(f"{name!r} is none of the options")
        if type(value) not in (int, float) or not 0 <= value <= 1:  # false for NaN
            raise ValueError(f"the probability of {name!r} is {value!r}")
    values = [float(probabilities.get(name, 0.0)) for name in names]
    total = math.fsum(values)
    if abs(total - 1) > SUM_TOLERANCE:
        raise ValueError(f"the probabilities add up to {total:.3f}, not to 1")
    return np.array(values, np.float32) / np.float32(total)
