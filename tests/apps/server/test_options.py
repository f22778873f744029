"""Options of requests, and those that the server adds."""

import json
from types import SimpleNamespace

import pytest

from docsplit_hf.apps.server.bodies import call_options_of, parsed_json
from docsplit_hf.apps.server.errors import Refused
from docsplit_hf.apps.server.schemas import ClassifyRequest, ExamplesRequest, ExampleToAdd
from docsplit_hf.apps.server.settings import ServerSettings
from docsplit_hf.fitting.rejection import RejectionLimits


def options(given, **answers):
    server = SimpleNamespace(settings=ServerSettings(**answers))
    return call_options_of(ClassifyRequest(text="a", **given), server)


@pytest.mark.parametrize(
    ("given", "answers", "expected"),
    [
        ({}, {}, {}),
        ({"top_k": None, "return_neighbors": 2}, {}, {"top_k": None, "return_neighbors": 2}),
        ({}, {"reject": 0.1, "novelty": 0.05}, {"reject": RejectionLimits(0.1, 0.05)}),
        ({"novelty": False}, {"reject": 0.1, "novelty": 0.05}, {"reject": RejectionLimits(0.1, False)}),
        ({"reject": 0.2}, {"reject": 0.1, "novelty": 0.05}, {"reject": RejectionLimits(0.2)}),
        ({"each_label": True}, {"reject": 0.1}, {"reject": RejectionLimits(0.1, each_label=True)}),
        ({"top_k": 3}, {"reject": 0.1}, {"top_k": 3}),
        ({"labels_at": 0.9}, {"reject": 0.1}, {"labels_at": 0.9, "reject": RejectionLimits(0.1)}),
    ],
)
def test_rejection_is_the_servers_where_a_request_does_not_mention_it(given, answers, expected):
    assert options(given, **answers) == expected


REFUSED = [
    {"labels_at": 0},
    {"reject": 0},
    {"reject": 1},
    {"novelty": 0.1, "reject": 0},
    {"novelty": 0.1},
    {"each_label": True},
    {"top_k": 0},
]


@pytest.mark.parametrize("given", REFUSED)
def test_values_that_mean_nothing_are_refused(given):
    with pytest.raises(Refused):
        options(given)


@pytest.mark.parametrize("name", ["reject", "novelty", "labels_at"])
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-1", "2"])
def test_numbers_that_are_no_fraction_are_refused_in_our_words(name, number):
    others = {"reject": 0.1} if name == "novelty" else {}
    body = json.dumps({"text": "a", **others})[:-1] + f', "{name}": {number}}}'
    server = SimpleNamespace(settings=ServerSettings())
    with pytest.raises(Refused, match=f"{name} must be .* got {float(number)}"):
        call_options_of(parsed_json(body.encode(), ClassifyRequest), server)


@pytest.mark.parametrize(
    ("model", "body", "field", "sentence"),
    [
        (ExampleToAdd, {"txt": "x"}, "txt", "txt: no such field. The fields are text, text_pair, label, id."),
        (
            ClassifyRequest,
            {"texts": ["a", {"txt": "x"}]},
            "texts.1.txt",
            "texts.1.txt: no such field. The fields are text, text_pair.",
        ),
        (
            ExamplesRequest,
            {"add": [{"text": "x", "lable": "a"}]},
            "add.0.lable",
            "add.0.lable: no such field. The fields are text, text_pair, label, id.",
        ),
        (ClassifyRequest, {"texts": [3]}, "texts.0", "texts.0 should be a valid string, not 3."),
        (ClassifyRequest, {"text": "a", "top_k": float("nan")}, "top_k", "top_k should be a valid integer, not nan."),
        (ExampleToAdd, {"label": "a"}, "text", "text is missing."),
        (ExampleToAdd, [], None, "The body should be an object."),
    ],
    ids=str,
)
def test_refusals_name_the_field_and_what_it_may_be(model, body, field, sentence):
    with pytest.raises(Refused) as refused:
        parsed_json(json.dumps(body).encode(), model)
    assert (refused.value.field, refused.value.message) == (field, sentence)
