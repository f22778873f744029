"""Answers to questions, by pure functions."""

import numpy as np
import pytest
from jevcompat.validate import choice_confidence

from docsplit_hf.apps.server.errors import Refused
from docsplit_hf.apps.server.questions import (
    Labels,
    LabelScores,
    answer_choice,
    chance_corrected,
    openai_answer,
    openai_question,
    system_one_answer,
    system_one_question,
    text_of_state,
)
from docsplit_hf.apps.server.schemas import DecisionQuestion, SystemOneQuestion

LABELS = Labels(("billing", "tech", "tech support", "true", "C++"), multi_label=False, reject_label="other")
SCORES = {"billing": 0.5, "tech": 0.3, "tech support": 0.1, "true": 0.06, "C++": 0.04}
ACCEPTED = LabelScores(SCORES, is_rejected=False, reason=None)
REJECTED = LabelScores(SCORES, is_rejected=True, reason="no content")


def ask(kind="choice", **fields):
    return SystemOneQuestion(type=kind, **fields)


def choice(*options, **fields):
    return system_one_question("q", ask(criteria=dict.fromkeys(options), **fields), LABELS)


@pytest.mark.parametrize("count", [2, 3, 150])
def test_confidence_is_that_of_the_specification(count):
    probabilities = np.random.default_rng(count).dirichlet(np.ones(count))
    assert chance_corrected(probabilities) == pytest.approx(choice_confidence(probabilities.tolist()))
    assert chance_corrected(np.full(count, 1 / count)) == pytest.approx(0)


def test_a_part_of_the_labels_is_renormalized_and_said_to_be():
    answer = system_one_answer(choice("tech", "billing"), ACCEPTED)
    assert answer["probabilities"] == pytest.approx({"tech": 3 / 8, "billing": 5 / 8})
    assert (answer["choice"], answer["x_renormalized"]) == ("billing", True)
    assert answer["x_mass"] == pytest.approx(0.8)
    whole = system_one_answer(choice(*SCORES), ACCEPTED)
    assert whole["probabilities"] == pytest.approx(SCORES)
    assert "x_renormalized" not in whole


def test_a_rejected_text_is_answered_in_the_ways_of_the_protocols():
    null = system_one_answer(choice("tech", "billing"), REJECTED)
    assert (null["choice"], null["x_abstained"], null["x_reason"]) == (None, True, "no content")
    assert sum(null["probabilities"].values()) == pytest.approx(1)
    option = system_one_answer(choice("tech", "other", "billing"), REJECTED)
    assert (option["choice"], option["probabilities"]["other"]) == ("other", 1)
    given = DecisionQuestion(type="choice", name="n", choices=[{"value": "tech"}, {"value": True}])
    question = openai_question(0, given, LABELS)
    assert openai_answer(given, question, REJECTED) == {"type": "refusal", "name": "n"}


def test_an_accepted_text_leaves_the_option_for_none_alone():
    answer = system_one_answer(choice("tech", "other", "billing"), ACCEPTED)
    assert (answer["choice"], answer["probabilities"]["other"]) == ("billing", 0)


def test_with_rejection_a_label_that_is_not_offered_is_not_replaced_by_another():
    answer = answer_choice(choice("tech", "true"), ACCEPTED)
    assert (answer.choice, answer.reason) == (None, "its label is not among the options")
    forced = answer_choice(choice("tech", "true"), ACCEPTED._replace(is_rejected=None))
    assert forced.choice == "tech"


def test_options_of_openai_keep_their_type():
    given = DecisionQuestion(type="choice", choices=[{"value": True}, {"value": "C++"}])
    answer = openai_answer(given, openai_question(0, given, LABELS), ACCEPTED._replace(is_rejected=None))
    assert answer["choice"] is True
    assert [one["value"] for one in answer["probabilities"]] == [True, "C++"]


@pytest.mark.parametrize(
    ("name", "fields", "label"),
    [
        ("billing", {}, "billing"),
        ("q", {"instructions": "Is it about Billing?"}, "billing"),
        ("q", {"instructions": "Does TECH SUPPORT help?"}, "tech support"),
        ("q", {"instructions": "Is this C++?"}, "C++"),
        ("q", {"instructions": "?", "criteria": {"true": "tech"}}, "tech"),
    ],
)
def test_the_label_of_a_yes_or_no_question(name, fields, label):
    question = system_one_question(name, ask("noul", **fields), LABELS)
    assert question.options == (label,)
    assert system_one_answer(question, ACCEPTED)["noul"] == SCORES[label]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (ask("noul", instructions="Is it urgent?"), "it names none"),
        (
            ask("noul", instructions="Is it billing or tech?"),
            "it names 'billing' and 'tech'",
        ),
        (ask("noul", criteria={"yes": "a"}), "may have true and false"),
        (ask("score", criteria=["a", "b"]), "a score needs labels in an order"),
        (ask("boolean"), "'boolean' is no type"),
        (ask("choice", criteria=["billing", "tech"]), "must map option names"),
        (ask("choice", criteria={}), "at least two options"),
        (ask("choice", criteria={"billing": None}), "at least two options"),
        (ask("choice", criteria={"billing": None, "other": None}), "at least two options"),
        (ask("choice", criteria={"billing": None, "biling": None}), "Did you mean 'billing'"),
        (ask("choice", criteria={str(number): None for number in range(256)}), "256 options"),
    ],
)
def test_other_questions_are_refused_with_a_sentence(given, sentence):
    with pytest.raises(Refused, match=sentence) as refused:
        system_one_question("q", given, LABELS)
    assert refused.value.status == 422
    assert refused.value.field == "questions.q"


def test_a_choice_among_labels_that_a_text_may_have_together_is_refused():
    with pytest.raises(Refused, match="several labels"):
        system_one_question("q", ask(criteria={"tech": None, "billing": None}), LABELS._replace(multi_label=True))


def test_text_of_a_state():
    assert text_of_state("a") == "a"
    assert text_of_state({"b": ["one", {"c": "two"}], "a": 3, "d": None, "e": True}) == "one\ntwo\n3"
    for state in (" ", {}, [None, ""]):
        with pytest.raises(Refused, match="has no text"):
            text_of_state(state)
    with pytest.raises(Refused, match="give text, an object or an array"):
        text_of_state(7)
    with pytest.raises(Refused, match="10,000 objects"):
        text_of_state([[] for _ in range(10_001)])
