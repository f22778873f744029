"""The study's scripts: their commands are valid, interrupted runs continue, and corpora and starts are as described."""

import json

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertForMaskedLM

from docsplit_hf.apps.cli.pretrain_arguments import parse_command_line
from experiments.baselines.objectives import register
from experiments.study import run_study as run
from experiments.study import study_runs as runs
from experiments.study.long_start import write_long_start


def test_every_run_is_a_command_that_experiments_pretrain_takes():
    register()
    every = [runs.start_run(), runs.tuning_run("out", "docsplit", "mean", 1e-3)]
    every += [runs.adaptation_run("out", "20News", recipe) for recipe in runs.ADAPTATION_RECIPES]
    every += [runs.method_run("out", method, runs.poolings_of(method)[-1], 1e-3, 1) for method in runs.METHODS]
    every += [runs.ablation_run("out", ablation, 1e-3, 0) for ablation in runs.ABLATIONS]
    every += [runs.longer_run("out", method, 0) for method in runs.LONGER_RATES]
    every += [runs.question_run("out", question, 0) for question in runs.QUESTIONS]
    every += [runs.first_token_run("out", method, 0) for method in runs.FIRST_TOKEN_RATES]
    every += [
        runs.long_run("out", kind, objective, 0) for kind in runs.LONG_KINDS for objective in runs.LONG_OBJECTIVES
    ]
    for one in every:
        command = one.command("out")
        _, parsed = parse_command_line("", command[command.index("experiments.pretrain") + 1 :])
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
def test_learning_rates_are_added_until_the_best_is_an_inner_one(tmp_path, monkeypatch, best, tried):
    seen = set()
    study = run.Study(str(tmp_path), "data", [0], 1)

    def score(method, pooling, rate):
        seen.add(rate)
        return -abs(rate - best)

    monkeypatch.setattr(study, "tuning_score", score)
    study.tune("docsplit", "mean")
    assert sorted(seen) == pytest.approx(sorted(tried))


def test_an_interrupted_run_resumes_from_its_last_checkpoint(tmp_path, monkeypatch):
    study = run.Study(str(tmp_path), "data", [0], 1)
    commands = []
    monkeypatch.setattr(study, "call", lambda command, name: commands.append(command))
    one = runs.longer_run(str(tmp_path), "simcse", 0)
    study.train(one)
    state = tmp_path / one.name / "checkpoint-50" / "trainer_state.json"
    state.parent.mkdir()
    state.write_text("{}")
    study.train(one)
    first, second = commands
    assert first[-1] == "--overwrite_output_dir"
    assert second[-2:] == ["--resume_from_checkpoint", "last"]


def test_the_processor_time_of_every_command_is_written_down(tmp_path):
    study = run.Study(str(tmp_path), "data", [0], 1)
    study.call(["python", "-c", "sum(range(3_000_000))"], "counts")
    with pytest.raises(RuntimeError, match="fails ended with 3"):
        study.call(["python", "-c", "import sys; sys.exit(3)"], "fails")
    rows = [json.loads(line) for line in (tmp_path / run.SPENT).read_text().splitlines()]
    assert [(row["name"], row["exit"]) for row in rows] == [("counts", 0), ("fails", 3)]
    assert rows[0]["cpu_seconds"] > 0


def test_checkpoints_are_measured_by_their_steps_and_the_others_deleted(tmp_path, monkeypatch):
    study = run.Study(str(tmp_path), "data", [0], 1)
    measured = {}
    monkeypatch.setattr(study, "measure_shots", lambda name, models: measured.update(models))
    one = runs.longer_run(str(tmp_path), "docsplit_sampled_parts", 0)  # of three parts: two thirds of the steps
    for step in (33, 66, 99, 165):
        (tmp_path / one.name / f"checkpoint-{step}").mkdir(parents=True)
        (tmp_path / one.name / f"checkpoint-{step}" / "trainer_state.json").write_text("{}")
    study.measure_curve(one)
    assert measured == {
        "longer/docsplit_sampled_parts/100/seed0": f"{one.name}/checkpoint-66",
        "longer/docsplit_sampled_parts/250/seed0": f"{one.name}/checkpoint-165",
    }
    assert sorted(path.name for path in (tmp_path / one.name).iterdir()) == ["checkpoint-165", "checkpoint-66"]


def test_the_corpora_have_the_first_documents_and_the_same_sentences_in_another_order(tmp_path, monkeypatch):
    texts = [" ".join(f"Sentence {number} of text {text}." for number in range(9)) for text in range(6)]
    (tmp_path / "all.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    monkeypatch.setattr(run, "CORPUS", str(tmp_path / "all.jsonl"))
    monkeypatch.setattr(run, "DOCUMENTS", (2,))
    monkeypatch.setattr(run, "HELD_OUT_DOCUMENTS", 1)
    run.Study(str(tmp_path), "data", [0], 1).write_corpora()

    def texts_of(name):
        return [json.loads(line)["text"] for line in (tmp_path / "corpora" / name).read_text().splitlines()]

    shuffled = texts_of("shuffled.jsonl")
    assert texts_of("first_2.jsonl") == texts[:3]
    assert shuffled != [text.replace(". ", ".\n") for text in texts]
    assert [sorted(text.split("\n")) for text in shuffled] == [
        sorted(text.replace(". ", ".\n").split("\n")) for text in texts
    ]


@pytest.mark.parametrize("kind", runs.LONG_KINDS)
def test_the_long_start_equals_the_start_on_short_texts_and_reads_long_ones(
    kind, tmp_path, make_tiny_config, tokenizer, texts
):
    torch.manual_seed(0)
    BertForMaskedLM(make_tiny_config()).save_pretrained(tmp_path / "start")
    tokenizer.save_pretrained(tmp_path / "start")
    write_long_start(tmp_path / "start", tmp_path / "long", kind, positions=512, trained_positions=16)
    old = AutoModelForMaskedLM.from_pretrained(tmp_path / "start").eval()
    new = AutoModelForMaskedLM.from_pretrained(tmp_path / "long").eval()
    old_positions = old.base_model.embeddings.position_embeddings.weight
    new_positions = new.base_model.embeddings.position_embeddings.weight
    torch.testing.assert_close(new_positions[-512:], old_positions[:16].repeat(32, 1))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "long")
    assert tokenizer.model_max_length == 512
    short = tokenizer(texts[0], truncation=True, max_length=16, return_tensors="pt")
    with torch.no_grad():
        torch.testing.assert_close(new(**short).logits, old(**short).logits, rtol=1e-4, atol=1e-4)
    # Loaded again, since BigBird has switched to full attention for the short text.
    new = AutoModelForMaskedLM.from_pretrained(tmp_path / "long").eval()
    tokens = tokenizer(" ".join(texts), truncation=True, return_tensors="pt")
    with torch.no_grad():
        assert tokens["input_ids"].shape[1] == 512 and torch.isfinite(new(**tokens).logits).all()
    assert getattr(new.base_model, "attention_type", "block_sparse") == "block_sparse"
