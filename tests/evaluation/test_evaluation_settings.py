import pytest

from docsplit_hf.evaluation.evaluation_settings import EvaluationSettings


def test_shots_of_the_curve_are_in_order_and_those_of_few_shot_are_for_all_tasks():
    assert EvaluationSettings(curve_shots=[10, 1, 10]).curve_shots == [1, 10]
    assert EvaluationSettings().shots_of("FakeNews") == 5 and EvaluationSettings(shots=3).shots_of("mine") == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"repeats": 0}, "repeats must be at least 1, got 0"),
        ({"max_test_examples": -1}, "max_test_examples must be at least 1"),
        ({"curve_shots": []}, "curve_shots must be numbers from 1"),
        ({"curve_shots": [5, 0]}, "curve_shots must be numbers from 1"),
        ({"seed": -1}, "seed must not be negative"),
    ],
)
def test_what_is_out_of_range_is_named(options, said):
    with pytest.raises(ValueError, match=said):
        EvaluationSettings(**options)
