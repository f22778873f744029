"""The study's scripts: every command is one that the project's scripts take, and the tables say what was measured."""

import pytest
from pretrain_arguments import parse_command_line

from experiments.study import run_study as run
from experiments.study import study_runs as runs


def test_every_run_is_a_command_that_run_pretrain_takes():
    every = [runs.start_run(), runs.tuning_run("out", "docsplit", "mean", 1e-3)]
    every += [runs.adaptation_run("out", "20News", recipe) for recipe in runs.ADAPTATION_RECIPES]
    every += [runs.method_run("out", method, runs.poolings_of(method)[-1], 1e-3, 1) for method in runs.METHODS]
    every += [runs.ablation_run("out", ablation, 1e-3, 0) for ablation in runs.ABLATIONS]
    every += [runs.longer_run("out", method, 0) for method in runs.LONGER_RATES]
    every += [runs.question_run("out", question, 0) for question in runs.QUESTIONS]
    for one in every:
        command = one.command("out")
        parsed = parse_command_line("", command[command.index("examples/run_pretrain.py") + 1 :])[1]
        assert parsed[-1].output_dir == f"out/{one.name}"
        for name, value in one.options.items():
            found = next(getattr(part, name) for part in parsed if hasattr(part, name))
            assert name == "report_to" or found == (None if value == {} else value), (one.name, name)


@pytest.mark.parametrize(
    ("best", "tried"),
    [
        (1e-3, {2.5e-4, 1e-3, 4e-3}),
        (1.6e-2, {2.5e-4, 1e-3, 4e-3, 1.6e-2, 6.4e-2}),
        (6.25e-5, {1e-3, 2.5e-4, 6.25e-5, runs.LOWEST_RATE}),
        (0, {1e-3, 2.5e-4, 6.25e-5, runs.LOWEST_RATE}),  # the lower the better: it ends there
    ],
)
def test_learning_rates_go_on_until_the_best_is_not_at_an_end(tmp_path, monkeypatch, best, tried):
    seen = set()
    study = run.Study(str(tmp_path), "data", [0], 1)
    monkeypatch.setattr(study, "tuning_score", lambda method, pooling, rate: (seen.add(rate), -abs(rate - best))[1])
    study.tune("docsplit", "mean")
    assert sorted(seen) == pytest.approx(sorted(tried))
