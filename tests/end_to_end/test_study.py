"""The study's scripts: every command is one that the project's scripts take, and the tables say what was measured."""

import shlex
import sys

import numpy as np
import pytest
from transformers import HfArgumentParser

from docsplit_hf.experiments.results import ResultStore

from .conftest import ROOT


@pytest.fixture(scope="module")
def scripts():
    """The modules of the study and the arguments of run_pretrain.py."""
    folders = [str(ROOT / "benchmarks" / "study"), str(ROOT / "examples")]
    sys.path[:0] = folders
    import pretrain_arguments
    import report
    import runs

    yield runs, report, pretrain_arguments
    for folder in folders:
        sys.path.remove(folder)


def test_every_run_is_a_command_that_run_pretrain_takes(scripts):
    runs, _, arguments = scripts
    every = [runs.start_run(), *runs.tuning_runs("out", "docsplit"), runs.adaptation_run("out", "20News", "docsplit")]
    every += [runs.method_run("out", method, 1e-3, 1) for method in runs.METHODS]
    every += [runs.ablation_run("out", ablation, 1e-3, 0) for ablation in runs.ABLATIONS]
    parser = HfArgumentParser((arguments.ModelArguments, arguments.DataArguments, arguments.RunArguments))
    for run in every:
        command = run.command("out")
        model, data, training = parser.parse_args_into_dataclasses(
            command[command.index("examples/run_pretrain.py") + 1 :]
        )
        assert training.output_dir == f"out/{run.name}"
        for name, value in run.options.items():
            parsed = next(getattr(part, name) for part in (model, data, training) if hasattr(part, name))
            assert name == "report_to" or parsed == (None if value == {} else value), (run.name, name)


def test_the_card_of_what_ships_has_the_commands_of_the_study(scripts, monkeypatch):
    runs, _, arguments = scripts
    monkeypatch.syspath_prepend(str(ROOT / "model_cards"))
    from checkpoints import CHECKPOINTS

    parser = HfArgumentParser((arguments.ModelArguments, arguments.DataArguments, arguments.RunArguments))
    [checkpoint] = CHECKPOINTS
    assert checkpoint.name == runs.SHIPPED
    for stage, run in zip(checkpoint.stages, (runs.start_run(), runs.shipped_run("output/study")), strict=True):
        parsed = []
        for command in (shlex.split(stage.command.replace("\\\n", " ")), run.command("output/study")):
            script = command.index("examples/run_pretrain.py")
            assert tuple(command[:script]) == run.launcher
            parsed.append(parser.parse_args_into_dataclasses(command[script + 1 :]))
        (*stated, stated_training), (*ran, training) = parsed
        assert stated == ran and stated_training.to_dict() == training.to_dict()


def test_methods_differ_by_nothing_but_views_and_objective(scripts):
    runs, _, _ = scripts
    method_options = {name for options in runs.METHODS.values() for name in options}
    assert method_options == {"views", "views_kwargs", "objective", "mlm_weight"}
    shared = [
        {
            name: value
            for name, value in runs.method_run("out", method, 1e-3, 0).options.items()
            if name not in method_options
        }
        for method in runs.METHODS
    ]
    assert all(options == shared[0] for options in shared)


def few_shot(store, system, values):
    """Macro F1 of two draws on each of the four tasks."""
    for task, scores in zip(("20News", "BBCNews", "arXiv", "FakeNews"), values, strict=True):
        for draw, score in enumerate(scores):
            store.add({
                "system": system, "system_fingerprint": system, "task": task, "task_fingerprint": task,
                "protocol": "few_shot", "settings": {}, "seed": draw, "metrics": {"macro_f1": score}, "seconds": 1.0,
            })  # fmt: skip


def test_the_mean_is_over_tasks_and_draws_and_the_spread_over_training_seeds(scripts, tmp_path):
    _, report, _ = scripts
    store = ResultStore(tmp_path)
    few_shot(store, "methods/docsplit/seed0", [(0.5, 0.7), (0.9, 0.9), (0.2, 0.4), (0.4, 0.4)])
    few_shot(store, "methods/docsplit/seed1", [(0.7, 0.9), (0.9, 0.9), (0.4, 0.6), (0.4, 0.4)])
    few_shot(store, "methods/docsplit_other/seed0", [(1.0, 1.0)] * 4)
    values = report.by_seed_and_draw(store.records, "methods/docsplit", "few_shot")
    np.testing.assert_allclose(values, [[50, 60], [60, 70]])
    assert report.spread(values.mean(1)) == "60.0 ± 7.1"
    assert report.few_shot_of_task(store.records, "methods/docsplit", "20News") == pytest.approx(70)


def test_an_ablation_is_compared_over_the_seeds_that_it_shares_with_its_base(scripts):
    _, report, _ = scripts
    scores = {"without_mlm": np.array([50.0, 40.0]), "pooling_cls": np.array([53.0]), "batch_1024": np.array([1.0])}
    assert report.change(scores, "pooling_cls") == 3
    assert report.change(scores, "batch_1024") is None


def test_tables_go_between_their_marks_and_a_missing_place_is_told(scripts, tmp_path):
    _, report, _ = scripts
    page = tmp_path / "study.md"
    page.write_text("Before.\n<!-- table: methods -->\nold\n<!-- end -->\nAfter.\n")
    for _ in range(2):
        report.fill(page, {"methods": r"| \1 |"})
        assert page.read_text() == "Before.\n<!-- table: methods -->\n| \\1 |\n<!-- end -->\nAfter.\n"
    with pytest.raises(ValueError, match="has 0 places for the table 'tuning'"):
        report.fill(page, {"tuning": ""})
