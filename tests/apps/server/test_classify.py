"""Answers over HTTP equal those of the pipeline, whatever was read together."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from docsplit_hf import RejectionLimits

from ...conftest import make_text

TOLERANCE = 1e-6
OPTIONS = [
    {},
    {"top_k": 2},
    {"top_k": None},
    {"reject": 0.5},
    {"reject": 0.5, "return_novelty": True},
    {"reject": 0.5, "each_label": True},
    {"labels_at": 0.7},
    {"explain": True, "return_neighbors": 3, "return_documents": 1, "return_read": True},
    {"max_length": 20},
]


def assert_equal(found, expected):
    """Compare answers: numbers to 1e-6, all else exactly."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            assert_equal(found[name], expected[name])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_equal(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=TOLERANCE)
    else:
        assert found == expected


def expected_answers(loaded, texts, options):
    """The pipeline's answers."""
    given = dict(options)
    limits = {name: given.pop(name) for name in ("novelty", "each_label") if name in given}
    if limits:
        given["reject"] = RejectionLimits(given["reject"], **limits)
    return loaded(texts, **given)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_answers_equal_the_pipelines(shared_server, loaded, options):
    texts = [make_text(number, sentences=1 + number % 4) for number in range(100, 110)]
    status, answer = shared_server.send("POST", "/v1/classify", {"texts": texts, **options})
    assert status == 200
    assert_equal(answer["answers"], expected_answers(loaded, texts, options))


def test_answers_do_not_depend_on_what_is_read_together(shared_server, loaded):
    """64 requests of several lengths, options and classifiers at once, five times in other orders."""
    rng = np.random.default_rng(0)
    requests = []
    for number in range(64):
        texts = [make_text(1000 * number + row, sentences=1 + (number * row) % 9) for row in range(1 + number % 5)]
        options = {} if number % 3 else {"reject": 0.5}
        requests.append((texts, options, "second" if number % 2 else "subjects"))
    expected = [loaded(texts, **options) for texts, options, _ in requests]

    def ask(request):
        texts, options, model = request
        return shared_server.send("POST", "/v1/classify", {"texts": texts, "model": model, **options})

    with ThreadPoolExecutor(16) as pool:
        for _ in range(5):
            order = rng.permutation(len(requests))
            answers = list(pool.map(ask, [requests[number] for number in order]))
            for number, (status, answer) in zip(order, answers, strict=True):
                assert status == 200
                assert answer["model"] == requests[number][2]
                assert_equal(answer["answers"], expected[number])


def test_many_texts(shared_server, loaded):
    texts = [make_text(number, sentences=2) for number in range(300, 400)]
    _, answer = shared_server.send("POST", "/v1/classify", {"texts": texts})
    assert_equal(answer["answers"], loaded(texts))


def test_pairs_of_texts(shared_server, loaded):
    pair = {"text": "The river feeds the valley.", "text_pair": "The engine moves."}
    _, answer = shared_server.send("POST", "/v1/classify", {"texts": [pair, "The garden warms the crowd."]})
    assert_equal(answer["answers"], loaded([pair, {"text": "The garden warms the crowd."}]))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"texts": ["a"], "text": "a"}, "Give either text or texts."),
        ({}, "Give either text or texts."),
        ({"text": "a", "topk": 1}, "topk: no such field. The fields are "),
        ({"text": "a", "reject": 0}, "reject"),
        ({"text": "a", "reject": 0.1, "top_k": 2}, "leave out top_k=2"),
        ({"text": "a", "return_neighbors": 101}, "less than or equal to 100"),
        ({"text": "a", "model": "x"}, "There is no classifier 'x' here: subjects, second."),
        ({"text": 3}, "text should be a valid string, not 3."),
        ({"texts": []}, None),
    ],
)
def test_refusals_say_why(shared_server, body, sentence):
    status, answer = shared_server.send("POST", "/v1/classify", body)
    if sentence is None:
        assert (status, answer["answers"]) == (200, [])
    else:
        assert status in (404, 422)
        assert sentence in answer["error"]["message"]


def test_the_openapi_page_describes_all_addresses(shared_server):
    _, description = shared_server.send("GET", "/openapi.json")
    assert {"/v1/classify", "/v1/systemone", "/v1/decisions", "/v1/examples", "/v1/fit"} <= set(description["paths"])
    schema = description["paths"]["/v1/classify"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "labels_at" in schema["properties"]
    assert "$ref" not in json.dumps(schema)
