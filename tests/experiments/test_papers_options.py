import pytest

from experiments.papers_options import PaperSettings


def test_shots_are_the_papers_unless_given():
    settings = PaperSettings()
    shots = {name: settings.shots_of(name) for name in ("FakeNews", "arXiv", "20News", "NYT", "BBCNews", "my.csv")}
    assert shots == {"FakeNews": 10, "arXiv": 10, "20News": 5, "NYT": 5, "BBCNews": 5, "my.csv": 5}
    assert PaperSettings(shots=3).shots_of("FakeNews") == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"probe": "svm"}, "probe must be one of mlp, logistic, got 'svm'"),
        ({"few_shot_probe": ""}, "few_shot_probe must be one of"),
        ({"repeats": 0}, "repeats must be at least 1, got 0"),
        ({"neighbors_protocol": ["oracel"]}, "neighbors_protocol must be of calibrated, fixed, oracle, got 'oracel'"),
        ({"knn_weight": 1.5}, "knn_weight must be from 0 to 1, got 1.5"),
        ({"fine_tuning": "{lr: 1}"}, "--fine_tuning is JSON such as"),
        ({"fine_tuning": {"learning_rat": 1}}, "no training argument 'learning_rat'. Did you mean 'learning_rate'"),
        ({"fine_tuning": {"seed": 1}}, "no training argument 'seed'"),
    ],
)
def test_what_is_out_of_range_is_named(options, said):
    with pytest.raises(ValueError, match=said):
        PaperSettings(**options)
