"""Clients that others wrote, unchanged but for the address; and a validator of System One that others wrote."""

import importlib
import json

import pytest
import systemone
import typesafe_sdk
from jevcompat.client import Response, parse_json
from jevcompat.validate import validate_success

TEXT = "The river feeds the valley of number 3."
NO_CONTENT = "?! ..."  # without letters, such a text has no label
OPTIONS = {"river": "about water", "engine": None, "garden": None}


@pytest.fixture(scope="module")
def openai():
    """The library, which takes seconds to import, in each process that collects the tests."""
    return importlib.import_module("openai")


@pytest.fixture(scope="module")
def probabilities(loaded):
    return {one["label"]: one["score"] for one in loaded([TEXT], top_k=None)[0]}


def test_systemone_client(shared_server, probabilities):
    with systemone.Client(shared_server.address) as client:
        response = client.system_one(
            {"message": TEXT},
            {"kind": systemone.Choice("Which kind?", OPTIONS), "river": systemone.Noul("Is it about a river?")},
        )
    assert response.model == "subjects"
    assert response.choices["kind"].choice == max(probabilities, key=probabilities.get)
    assert response.choices["kind"].probabilities == pytest.approx(probabilities, abs=1e-6)
    assert response.nouls["river"].noul == pytest.approx(probabilities["river"], abs=1e-6)
    assert response.usage.input_tokens > 0


def test_systemone_client_is_told_why_a_question_is_refused(shared_server):
    with systemone.Client(shared_server.address) as client:
        with pytest.raises(systemone.SystemOneError, match="labels of a classifier have none") as refused:
            client.system_one(TEXT, {"tone": systemone.Score("How loud?", ["quiet", "loud"])})
        assert refused.value.status == 422
        with pytest.raises(systemone.SystemOneError, match="'rivers' is no label .* Did you mean 'river'"):
            client.system_one(TEXT, {"kind": systemone.Choice("?", {"rivers": None, "engine": None})})


def test_openai_decisions(openai, shared_server, probabilities):
    client = openai.OpenAI(base_url=f"{shared_server.address}/v1", api_key="none")
    questions = [
        {"type": "choice", "name": "kind", "instructions": "?", "choices": [{"value": name} for name in OPTIONS]},
        {"type": "predicate", "instructions": "The text is about a garden."},
    ]
    message = {"role": "user", "content": [{"type": "input_text", "text": TEXT}]}
    decision = client.decisions.create(model="subjects", input=[message], questions=questions)
    choice, predicate = decision.answers
    assert {one.value: one.probability for one in choice.probabilities} == pytest.approx(probabilities, abs=1e-6)
    assert choice.name == "kind"
    assert predicate.probability == pytest.approx(probabilities["garden"], abs=1e-6)
    assert decision.usage.total_tokens == decision.usage.input_tokens


def test_openai_decisions_abstain_by_refusals(openai, shared_server):
    client = openai.OpenAI(base_url=f"{shared_server.address}/v1", api_key="none")
    question = {"type": "choice", "name": "a", "instructions": "?", "choices": [{"value": name} for name in OPTIONS]}
    decision = client.decisions.create(
        model="subjects", input=NO_CONTENT, questions=[question], extra_body={"x_reject": 0.5}
    )
    assert [(answer.type, answer.name) for answer in decision.answers] == [("refusal", "a")]


def test_openai_lists_models(openai, shared_server):
    client = openai.OpenAI(base_url=f"{shared_server.address}/v1", api_key="none")
    assert [model.id for model in client.models.list()] == ["subjects", "second"]


def test_typesafe_sdk(shared_server, probabilities):
    with typesafe_sdk.TypeSafeClient(api_key="unused", base_url=shared_server.address) as client:
        questions = {
            "kind": typesafe_sdk.Choice(instructions="Which kind?", criteria=OPTIONS),
            "x": typesafe_sdk.Noul(instructions="Is it about a RIVER?"),
        }
        response = client.system_one(state=TEXT, questions=questions)
        assert response.answers["kind"].probabilities == pytest.approx(probabilities, abs=1e-6)
        assert response.answers["x"].noul == pytest.approx(probabilities["river"], abs=1e-6)
        assert [model.name for model in client.models.list().models] == ["subjects", "second"]
        with pytest.raises(typesafe_sdk.TypeSafeUnprocessableEntityError, match="must name one label"):
            client.system_one(state=TEXT, questions={"x": typesafe_sdk.Noul(instructions="Is it urgent?")})


def test_typesafe_sdk_takes_no_null(shared_server):
    with typesafe_sdk.TypeSafeClient(api_key="unused", base_url=shared_server.address) as client:
        question = typesafe_sdk.Choice(instructions="Which kind?", criteria=OPTIONS)
        with pytest.raises(typesafe_sdk.TypeSafeAPIResponseValidationError, match="answers.kind.choice"):
            client.system_one(state=NO_CONTENT, questions={"kind": question}, extra_body={"x_reject": 0.5})


@pytest.mark.parametrize("criteria", [OPTIONS, {"garden": None, "engine": "motors"}])
def test_answers_pass_the_validator_of_system_one(shared_server, criteria):
    questions = {
        "die Art": {"type": "choice", "instructions": {"ask": "which?"}, "criteria": criteria},
        "n": {"type": "noul", "instructions": "Is it about a river?", "criteria": {"true": "water"}},
    }
    request = {"model": "jev-latest", "state": [TEXT, {"more": 4}], "questions": questions, "x_nonce": "1"}
    status, content, headers = shared_server.send_raw(
        "POST", "/v1/systemone", json.dumps(request).encode(), Authorization="Bearer any"
    )
    lowered = {name.lower(): value for name, value in headers.items()}
    data, error, nonfinite = parse_json(content)
    found = validate_success(request, Response(status, lowered, content, 0.0, data, error, nonfinite))
    assert found == []
