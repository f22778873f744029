"""The study's scripts: every command is one that the project's scripts take, and the tables say what was measured."""

import pytest
from pretrain_arguments import parse_command_line

from docsplit_hf.evaluation.results import ResultStore
from experiments.study import run_study as run
from experiments.study import study_report as report
from experiments.study import study_runs as runs

from ..commands import ROOT, commands_in


@pytest.fixture
def two_draws(monkeypatch):
    """Two draws of few-shot classification and one run on all data count as complete."""
    monkeypatch.setattr(report, "REPEATS", {"few_shot": 2, "full": 1})


def test_every_run_is_a_command_that_run_pretrain_takes():
    every = [runs.start_run(), runs.tuning_run("out", "docsplit", "mean", 1e-3)]
    every += [runs.adaptation_run("out", "20News", recipe) for recipe in runs.ADAPTATION_RECIPES]
    every += [runs.method_run("out", method, runs.poolings_of(method)[-1], 1e-3, 1) for method in runs.METHODS]
    every += [runs.ablation_run("out", ablation, 1e-3, 0) for ablation in runs.ABLATIONS]
    for one in every:
        command = one.command("out")
        parsed = parse_command_line("", command[command.index("examples/run_pretrain.py") + 1 :])[1]
        assert parsed[-1].output_dir == f"out/{one.name}"
        for name, value in one.options.items():
            found = next(getattr(part, name) for part in parsed if hasattr(part, name))
            assert name == "report_to" or found == (None if value == {} else value), (one.name, name)


def test_the_card_of_what_ships_has_the_commands_of_the_study():
    card = (ROOT / "model_cards" / runs.SHIPPED / "README.md").read_text(encoding="utf-8")
    stages = [command for command in commands_in(card) if "examples/run_pretrain.py" in command]
    for stage, made in zip(stages, (runs.start_run(), runs.shipped_run("output/study")), strict=True):
        parsed = []
        for command in (stage, made.command("output/study")):
            script = command.index("examples/run_pretrain.py")
            assert tuple(command[:script]) == made.launcher
            parsed.append(parse_command_line("", command[script + 1 :])[1])
        (*stated, stated_training), (*ran, training) = parsed
        assert stated == ran and stated_training.to_dict() == training.to_dict()


def test_methods_differ_by_nothing_but_views_and_objective():
    varied = {"views", "views_kwargs", "objective", "mlm_weight"}
    methods = [method for method in runs.METHODS if not method.startswith("docsplit_")]
    every = [runs.method_run("out", method, "mean", 1e-3, 0).options for method in methods]
    shared = [{name: value for name, value in options.items() if name not in varied} for options in every]
    assert all(options == shared[0] for options in shared)


def test_simcse_trains_through_its_head_where_it_takes_the_first_token():
    heads = {
        (method, pooling): "projection_head" in runs.method_run("out", method, pooling, 1e-3, 0).options
        for method in runs.METHODS
        for pooling in runs.poolings_of(method)
    }
    assert [key for key, has_head in heads.items() if has_head] == [("simcse_long", "cls"), ("simcse", "cls")]


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


def add_records(store, system, values, protocol="few_shot", fingerprint=""):
    """Macro F1 on the first of the four tasks, as many as there are values: a row of draws each."""
    for task, scores in zip(("20News", "BBCNews", "arXiv", "FakeNews")[: len(values)], values, strict=True):
        for draw, score in enumerate(scores):
            store.add({
                "system": system, "system_fingerprint": system + fingerprint, "task": task, "task_fingerprint": task,
                "protocol": protocol, "settings": {}, "seed": draw, "metrics": {"macro_f1": score}, "seconds": 1.0,
            })  # fmt: skip


def test_a_run_that_is_not_finished_is_left_out_and_none_at_all_loses_nothing(tmp_path, capsys, two_draws):
    output = tmp_path / "merged"
    add_records(ResultStore(output), "tfidf", [(0.5, 0.5)] * 4)
    with pytest.raises(ValueError, match="has no finished results"):
        report.merge(tmp_path, output)
    assert len(ResultStore(output).records) == 8
    runs_there = {
        "pooling_cls": [(0.1, 0.1)] * 4,
        "three_views": [(0.9, 0.9)] * 2,
        "no_dropout": [*[(0.9, 0.9)] * 3, (0.9,)],
    }
    stores = {name: ResultStore(tmp_path / "results" / "ablations" / name / "seed0") for name in runs_there}
    for name, values in runs_there.items():
        add_records(stores[name], f"ablations/{name}/seed0", values)
    assert {record["system"] for record in report.merge(tmp_path, output)} == {"ablations/pooling_cls/seed0"}
    printed = capsys.readouterr().out
    assert "three_views/seed0/results.json is left out: it has not all of FakeNews, arXiv yet." in printed
    assert "no_dropout/seed0/results.json is left out: it has not all of FakeNews yet." in printed
    add_records(stores["pooling_cls"], "ablations/pooling_cls/seed0", [(0.1, 0.1)] * 4, fingerprint="after")
    with pytest.raises(ValueError, match="different models called .'ablations/pooling_cls/seed0'.: delete"):
        report.merge(tmp_path, output)


def test_a_model_of_other_options_is_not_taken_for_the_run(tmp_path, monkeypatch):
    def train(command, name):
        (tmp_path / name / "model.safetensors").touch()
        trained.append(name)

    study, trained = run.Study(str(tmp_path), "data", [0], 1), []
    monkeypatch.setattr(study, "call", train)
    for _ in range(2):
        study.train(runs.method_run(str(tmp_path), "docsplit", "mean", 1e-3, 0))
    assert trained == ["methods/docsplit/seed0"]
    tuned = ResultStore(tmp_path / "results" / "tuning" / "docsplit")
    add_records(tuned, "0.001", [(0.5, 0.7)] * 4)
    assert study.mean_few_shot("tuning/docsplit", "0.001") == pytest.approx(0.6)
    add_records(tuned, "0.001", [(0.5, 0.7)] * 4, fingerprint="another")
    with pytest.raises(ValueError, match="results of different models called 0.001: delete it"):
        study.mean_few_shot("tuning/docsplit", "0.001")
    with pytest.raises(ValueError, match="with the options that study_runs.py has now, or .* Delete it"):
        study.train(runs.method_run(str(tmp_path), "docsplit", "mean", 2e-3, 0))
