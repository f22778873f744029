"""Options of requests, and those that the server adds."""

from types import SimpleNamespace

import pytest

from docsplit_hf.serving.bodies import options_of
from docsplit_hf.serving.errors import Refused
from docsplit_hf.serving.schemas import ClassifyRequest
from docsplit_hf.serving.settings import AnswerSettings, ServerSettings

OFF = {"explain": False, "return_novelty": False, "return_read": False}


def options(given, **answers):
    server = SimpleNamespace(settings=ServerSettings(answers=AnswerSettings(**answers)))
    return options_of(ClassifyRequest(text="a", **given), server)


@pytest.mark.parametrize(
    ("given", "answers", "expected"),
    [
        ({}, {}, {}),
        ({"top_k": 0, "return_neighbors": 2}, {}, {"top_k": None, "return_neighbors": 2}),
        ({}, {"reject": 0.1, "novelty": 0.05}, {"reject": 0.1, "novelty": 0.05}),
        ({"novelty": False}, {"reject": 0.1, "novelty": 0.05}, {"reject": 0.1, "novelty": False}),
        ({"reject": 0.2}, {"reject": 0.1, "novelty": 0.05}, {"reject": 0.2}),
        ({"top_k": 3}, {"reject": 0.1}, {"top_k": 3}),
        ({"labels_at": 0.9}, {"reject": 0.1}, {"labels_at": 0.9, "reject": 0.1}),
    ],
)
def test_rejection_is_the_servers_where_a_request_does_not_mention_it(given, answers, expected):
    assert options(given, **answers) == OFF | expected


@pytest.mark.parametrize("given", [{"labels_at": 0}, {"reject": 0}, {"reject": 1}, {"novelty": 0.1, "reject": 0}])
def test_values_that_mean_nothing_are_refused(given):
    with pytest.raises(Refused):
        options(given)
