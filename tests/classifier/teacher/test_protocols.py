"""Requests and answers of both protocols, in JSON."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docsplit_hf.classifier.teacher.protocols import (
    PROTOCOLS,
    QUESTION,
    Option,
    decisions_request,
    systemone_probabilities,
    systemone_request,
)

OPTIONS = [Option("lease", "An agreement about rent."), Option("letter", None)]


def answer_with(protocol, probabilities, choice):
    """An answer of a server, with probabilities by name."""
    if protocol == "systemone":
        found = {"type": "choice", "choice": choice, "probabilities": probabilities, "confidence": 0.5}
        return {"model": "m", "answers": {QUESTION: found}}
    listed = [{"value": name, "probability": value} for name, value in probabilities.items()]
    return {"answers": [{"type": "choice", "name": QUESTION, "choice": choice, "probabilities": listed}]}


def test_requests_have_the_fields_that_strict_servers_allow():
    assert systemone_request("m", "A text.", OPTIONS) == {
        "model": "m",
        "state": "A text.",
        "questions": {
            QUESTION: {
                "type": "choice",
                "instructions": "Which of these labels fits the text best?",
                "criteria": {"lease": "An agreement about rent.", "letter": None},
            }
        },
    }
    (question,) = decisions_request("m", "A text.", OPTIONS)["questions"]
    assert question["choices"] == [
        {"value": "lease", "description": "An agreement about rent."},
        {"value": "letter"},
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=8), st.randoms())
def test_probabilities_come_in_the_order_of_the_options(protocol, values, random):
    values = [value / math.fsum(values) for value in values]
    names = [f"label {i}" for i in range(len(values))]
    pairs = list(zip(names, values, strict=True))
    random.shuffle(pairs)
    answer = answer_with(protocol, dict(pairs), names[0])
    found = PROTOCOLS[protocol].probabilities(answer, [Option(name, None) for name in names])
    np.testing.assert_allclose(found, values, rtol=1e-5)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_rounded_probabilities_are_normalized_and_options_without_one_get_0(protocol):
    options = [*OPTIONS, Option("memo", None)]
    found = PROTOCOLS[protocol].probabilities(answer_with(protocol, {"lease": 0.33, "letter": 0.66}, "letter"), options)
    np.testing.assert_allclose(found, [1 / 3, 2 / 3, 0], rtol=1e-6)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "probabilities, problem",
    [
        ({"lease": 0.5, "memo": 0.5}, "'memo' is none of the options"),
        ({"lease": 0.2, "letter": 0.3}, "add up to 0.500"),
        ({"lease": 2.0, "letter": -1.0}, "probability of 'lease' is 2.0"),
        ({"lease": math.nan, "letter": 1.0}, "probability of 'lease' is nan"),
        ({"lease": "1", "letter": 0.0}, "probability of 'lease' is '1'"),
    ],
)
def test_impossible_probabilities_are_refused(protocol, probabilities, problem):
    with pytest.raises(ValueError, match=problem):
        PROTOCOLS[protocol].probabilities(answer_with(protocol, probabilities, "lease"), OPTIONS)


def test_a_text_without_an_answer():
    assert systemone_probabilities({"answers": {}}, OPTIONS) is None
    abstained = answer_with("systemone", {"lease": 0.5, "letter": 0.5}, None)
    assert systemone_probabilities(abstained, OPTIONS) is None
    refused = {"answers": [{"type": "refusal", "name": QUESTION}]}
    assert PROTOCOLS["decisions"].probabilities(refused, OPTIONS) is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "answer", [None, [], "yes", {"answers": 3}, {"answers": [1]}, {"answers": {QUESTION: "lease"}}]
)
def test_other_json_is_refused(protocol, answer):
    with pytest.raises(ValueError):
        PROTOCOLS[protocol].probabilities(answer, OPTIONS)
