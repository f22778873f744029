"""Questions of System One and of OpenAI's Decisions, answered by the probabilities of a classifier's labels.

A classifier answers two types: a choice among its labels, or some of them; and whether a text has one label. What it
was not fitted for is refused, not guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from .errors import unprocessable
from .schemas import DecisionQuestion, DecisionsRequest, SystemOneQuestion

FEWEST_OPTIONS = 2
MOST_OPTIONS = 255  # of a choice, in both protocols
SHOWN_LABELS = 20  # in messages
MOST_CONTAINERS = 10_000  # lists and objects in a state
MOST_INSTRUCTIONS = 10_000  # characters in which a label is looked for


class Labels(NamedTuple):
    """The labels of a classifier, and the option that means none of them."""

    names: tuple[str, ...]
    multi_label: bool
    reject_label: str | None


class Question(NamedTuple):
    """A question that a classifier can answer."""

    name: str
    options: tuple[str, ...]  # of a choice, the labels in its order; of a yes-or-no question, the label
    is_choice: bool
    reject_option: str | None = None  # the option of a choice that is taken for a rejected text


class LabelScores(NamedTuple):
    """What a classifier says of a text."""

    probabilities: dict[str, float]
    is_rejected: bool | None  # None: rejection was not asked for
    reason: str | None


class ChoiceAnswer(NamedTuple):
    """The answer to a choice."""

    choice: str | None  # None: the text was rejected
    probabilities: dict[str, float]
    confidence: float
    mass: float  # the probability of all offered labels before they were made to sum to 1
    is_abstention: bool
    reason: str | None


def text_of_state(state: Any, field: str = "state") -> str:
    """The text that a state holds: all strings and numbers of JSON, in order, a line each."""
    if isinstance(state, str):
        text = state
    elif isinstance(state, (dict, list)):
        text = "\n".join(_leaves(state, field))
    else:
        raise unprocessable(f"{field} is {json.dumps(state)[:60]}: give text, an object or an array.", field)
    if not text.strip():
        raise unprocessable(f"{field} has no text.", field, "empty")
    return text


def _leaves(state: Any, field: str) -> Iterator[str]:
    """Strings and numbers in JSON, in order, without recursion."""
    waiting = [state]
    containers = 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, (dict, list)):
            containers += 1
            if containers > MOST_CONTAINERS:
                raise unprocessable(f"{field} has more than {MOST_CONTAINERS:,} objects and arrays.", field)
            waiting += reversed(list(value.values()) if isinstance(value, dict) else value)
        elif isinstance(value, str):
            yield value
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield str(value)


def system_one_question(name: str, given: SystemOneQuestion, labels: Labels) -> Question:
    """Check a question of System One.

    Raises:
        Refused: With a sentence, if the classifier cannot answer it.
    """
    field = f"questions.{name}"
    if given.type == "choice":
        if not isinstance(given.criteria, dict):
            raise unprocessable(f"{field}: criteria must map option names to a description or null.", field)
        return _choice(name, list(given.criteria), labels, field)
    if given.type == "noul":
        criteria = given.criteria
        if criteria is not None and not (isinstance(criteria, dict) and criteria.keys() <= {"true", "false"}):
            raise unprocessable(f"{field}: criteria of noul may have true and false.", field)
        described = (criteria or {}).get("true")
        label = _label_asked_for(name, given.instructions, described, labels, field)
        return Question(name, (label,), is_choice=False)
    raise _unknown_type(given.type, field, "choice or noul")


def openai_question(number: int, given: DecisionQuestion, labels: Labels) -> Question:
    """Check a question of OpenAI's Decisions.

    Raises:
        Refused: With a sentence, if the classifier cannot answer it.
    """
    field = f"questions.{number}"
    if given.type == "choice":
        if given.choices is None:
            raise unprocessable(f"{field}: choices are missing.", field, "missing")
        return _choice(str(number), [option_name(choice.value) for choice in given.choices], labels, field)
    if given.type == "predicate":
        label = _label_asked_for(given.name, given.instructions, None, labels, field)
        return Question(str(number), (label,), is_choice=False)
    raise _unknown_type(given.type, field, "choice or predicate")


def option_name(value: str | bool) -> str:
    """The name of an option; true and false are those of JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def _choice(name: str, options: list[str], labels: Labels, field: str) -> Question:
    """Check a choice: its options are labels, and at most one means none of them."""
    if labels.multi_label:
        raise unprocessable(
            f"{field}: texts may have several labels here, so a choice has no answer: ask a yes-or-no question for "
            "each label.",
            field,
            "several_labels",
        )
    if len(options) > MOST_OPTIONS:
        raise unprocessable(f"{field} has {len(options):,} options: give at most {MOST_OPTIONS}.", field, "too_many")
    if len(set(options)) < len(options):
        raise unprocessable(f"{field} has an option twice.", field, "repeated")
    known = set(labels.names)
    for option in options:
        if option not in known and option != labels.reject_label:
            raise unprocessable(_unknown_label(option, labels, field), field, "unknown_option")
    offered = tuple(option for option in options if option in known)
    if len(offered) < FEWEST_OPTIONS:
        raise unprocessable(f"{field} needs at least two options that are labels.", field, "too_few")
    reject_option = labels.reject_label if labels.reject_label in options else None
    return Question(name, offered, is_choice=True, reject_option=reject_option)


def _unknown_label(option: str, labels: Labels, field: str) -> str:
    near = get_close_matches(option, labels.names, n=1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    shown = ", ".join(labels.names[:SHOWN_LABELS])
    more = ", ..." if len(labels.names) > SHOWN_LABELS else ""
    return (
        f"{field}: {option[:100]!r} is no label of this classifier, which was fitted on examples and does not guess "
        f"others.{meant} Its labels: {shown}{more}."
    )


def _label_asked_for(name: str | None, instructions: Any, described: Any, labels: Labels, field: str) -> str:
    """The label that a yes-or-no question is about: by its description, its name, or the one that it mentions."""
    for exact in (described, name):
        if isinstance(exact, str) and exact in labels.names:
            return exact
    mentioned: list[str] = []
    if isinstance(instructions, str):
        mentioned = _mentioned(instructions[:MOST_INSTRUCTIONS], labels.names)
    if len(mentioned) == 1:
        return mentioned[0]
    found = "it names " + " and ".join(map(repr, mentioned)) if mentioned else "it names none"
    shown = ", ".join(labels.names[:SHOWN_LABELS])
    raise unprocessable(
        f'{field}: a yes-or-no question must name one label of this classifier, as in "Is it {labels.names[0]}?"; '
        f"{found}. Labels: {shown}.",
        field,
        "unknown_question",
    )


def _mentioned(text: str, names: Sequence[str]) -> list[str]:
    """Labels that a text has as whole words, longest first, without those inside longer ones; case is ignored."""
    rest = text
    found = []
    for label in sorted(names, key=len, reverse=True):
        pattern = re.compile(rf"(?<!\w){re.escape(label)}(?!\w)", re.IGNORECASE)
        if label and pattern.search(rest):
            found.append(label)
            rest = pattern.sub("\0", rest)
    return found


def _unknown_type(kind: str, field: str, known: str) -> Exception:
    if kind == "score":
        message = (
            f"{field}: a score needs labels in an order, and the labels of a classifier have none: ask a choice among "
            "them."
        )
        return unprocessable(message, field, "score_unsupported")
    message = f"{field}: {kind[:40]!r} is no type that this server answers: ask {known}."
    return unprocessable(message, field, "unknown_type")


def answer_choice(question: Question, scores: LabelScores) -> ChoiceAnswer:
    """Answer a choice: the probabilities of the offered labels, made to sum to 1."""
    own = np.array([scores.probabilities[option] for option in question.options])
    mass = float(own.sum())
    shares = own / mass if mass > 0 else np.full(len(own), 1 / len(own))
    best = int(shares.argmax())
    choice: str | None = question.options[best]
    reason = scores.reason
    is_abstention = bool(scores.is_rejected)
    if scores.is_rejected is False and max(scores.probabilities, key=scores.probabilities.get) not in question.options:
        is_abstention = True
        reason = "its label is not among the options"
    probabilities = dict(zip(question.options, shares.tolist(), strict=True))
    confidence = chance_corrected(shares)
    if question.reject_option is not None:
        # The rule of rejection is yes or no, and an option must be the most probable one to be chosen.
        taken = float(is_abstention)
        probabilities = {option: share * (1 - taken) for option, share in probabilities.items()}
        probabilities[question.reject_option] = taken
        if is_abstention:
            choice = question.reject_option
        confidence = chance_corrected(np.array(list(probabilities.values())))
    elif is_abstention:
        choice = None
    return ChoiceAnswer(choice, probabilities, confidence, mass, is_abstention, reason)


def chance_corrected(probabilities: np.ndarray) -> float:
    """Confidence as TypeSafe defines it: 0 if all n options are equal, 1 if one has everything."""
    count = len(probabilities)
    return float(max(0.0, (count * probabilities.max() - 1) / (count - 1)))


def system_one_answer(question: Question, scores: LabelScores) -> dict[str, Any]:
    """The answer to a question in System One's form; fields that it does not define begin with ``x_``."""
    if not question.is_choice:
        answer: dict[str, Any] = {"type": "noul", "noul": scores.probabilities[question.options[0]]}
        is_abstention = bool(scores.is_rejected)
        reason = scores.reason
    else:
        chosen = answer_choice(question, scores)
        answer = {
            "type": "choice",
            "choice": chosen.choice,
            "probabilities": chosen.probabilities,
            "confidence": chosen.confidence,
        }
        answer |= _about_the_others(question, scores, chosen)
        is_abstention = chosen.is_abstention
        reason = chosen.reason
    if is_abstention:
        answer["x_abstained"] = True
        if reason is not None:
            answer["x_reason"] = reason
    return answer


def openai_answer(given: DecisionQuestion, question: Question, scores: LabelScores) -> dict[str, Any]:
    """The answer to a question in the form of OpenAI's Decisions, whose way not to answer is a refusal."""
    if not question.is_choice:
        if scores.is_rejected:
            return {"type": "refusal", "name": given.name}
        return {"type": "predicate", "name": given.name, "probability": scores.probabilities[question.options[0]]}
    chosen = answer_choice(question, scores)
    if chosen.choice is None:
        return {"type": "refusal", "name": given.name}
    values = {option_name(choice.value): choice.value for choice in given.choices}
    answer: dict[str, Any] = {
        "type": "choice",
        "name": given.name,
        "choice": values[chosen.choice],
        "confidence": chosen.confidence,
        "probabilities": [
            {"value": value, "probability": chosen.probabilities[option]} for option, value in values.items()
        ],
    }
    return answer | _about_the_others(question, scores, chosen)


def _about_the_others(question: Question, scores: LabelScores, chosen: ChoiceAnswer) -> dict[str, Any]:
    """What an answer says if not all labels were offered; in no protocol."""
    if len(question.options) == len(scores.probabilities):
        return {}
    return {"x_renormalized": True, "x_mass": chosen.mass}


def text_of_input(request: DecisionsRequest) -> str:
    """The text in the input of OpenAI's Decisions: a string, or the texts of messages."""
    given = request.input
    if isinstance(given, str):
        return text_of_state(given, "input")
    if not isinstance(given, list):
        raise unprocessable("input must be text, or a list of messages.", "input")
    parts: list[str] = []
    for number, item in enumerate(given):
        field = f"input.{number}"
        if not isinstance(item, dict):
            raise unprocessable(f"{field} is no message.", field)
        content = item.get("content", item.get("output", item.get("arguments", item.get("input"))))
        if isinstance(content, str):
            parts.append(content)
        elif isinstance(content, list):
            parts += [_text_of_part(part, f"{field}.content.{row}") for row, part in enumerate(content)]
        else:
            raise unprocessable(f"{field} has no content.", field, "missing")
    return text_of_state("\n\n".join(parts), "input")


def _text_of_part(part: Any, field: str) -> str:
    """The text of a part of a message; images are refused."""
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("input_text", "output_text") and isinstance(part.get("text"), str):
        return part["text"]
    if kind == "input_json":
        return text_of_state(part.get("data"), field)
    raise unprocessable(f"{field}: this classifier reads text, not {str(kind)[:40]!r}.", field, "unsupported_part")
