import csv
import functools
import json

import numpy as np
import pytest
import torch

from docsplit_hf import KNNClassifier, KNNDatastore

from .conftest import ROOT
from .forked import finish_script, kill_script, start_script

SCRIPT = ROOT / "examples" / "run_classification.py"
TWO_PROCESSES = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


@pytest.fixture(scope="session")
def labeled(workshop, texts):
    """A folder with training and test examples, as a user has them."""
    folder = workshop / "labeled"
    folder.mkdir()
    rows = [{"body": text, "topic": "river" if "river" in text else "other"} for text in texts]
    for name, part in (("train", rows[:40]), ("test", rows[40:])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    return folder


@pytest.fixture(scope="session")
def classify(workshop, labeled, run_python, run_script):
    """Run the example script on the labeled examples; gives its output folder and what it printed."""

    def classify(name, *options, launcher=(), code=0):
        arguments = [
            f"--output_dir={workshop / name}", f"--model_name_or_path={workshop / 'tiny'}",
            f"--dataset_name={labeled}", "--text_column=body", "--label_column=topic", "--validation_size=8",
            "--num_train_epochs=2", "--learning_rate=1e-3", "--logging_steps=2", "--use_cpu",
            "--triplet_choice=hardest", *options,
        ]  # fmt: skip
        run = functools.partial(run_python, *launcher) if launcher else run_script
        return workshop / name, run(SCRIPT, *arguments, code=code)

    return classify


@pytest.fixture(scope="session")
def classified(classify, workshop, labeled):
    options = (f"--predict={labeled / 'test.jsonl'}", f"--predict_output={workshop / 'answers.csv'}")
    return classify("classified", "--per_device_train_batch_size=8", "--report_to=tensorboard", *options)


def test_it_ends_with_a_classifier_its_datastore_and_its_figures(classified):
    folder, printed = classified
    for part in ("classifier ", "neighbors ", "mixture "):
        assert part in printed.split("On 8 test examples:")[1]
    metrics = json.loads((folder / "metrics.json").read_text())
    assert set(metrics) == {"validation", "test"} and 0 <= metrics["test"]["test_mixture_accuracy"] <= 1
    assert "Calibrated on held-out examples (8)." in printed and "--test_size" not in printed
    assert len(KNNDatastore.from_pretrained(folder)) == 32  # 8 of the 40 were held out
    assert KNNClassifier.from_pretrained(folder).config.knn_calibration["examples"] == 8
    assert list(folder.rglob("events.out.tfevents*")) and not list(folder.rglob("*.bin"))
    card = (folder / "README.md").read_text()
    assert "On the test examples" in card and str(folder.parent) not in card.replace(str(folder), "")


def test_two_processes_are_one_with_the_whole_batch(classified, classify):
    folder, _ = classified
    other, _ = classify(
        "classified_by_two", "--per_device_train_batch_size=4", "--report_to=none", launcher=TWO_PROCESSES
    )
    weights = [KNNClassifier.from_pretrained(path).state_dict() for path in (folder, other)]
    for name, value in weights[0].items():
        torch.testing.assert_close(value, weights[1][name], atol=1e-4, rtol=1e-4)
    stores = [KNNDatastore.from_pretrained(path) for path in (folder, other)]
    assert stores[0].texts == stores[1].texts and stores[0].ids == stores[1].ids
    np.testing.assert_array_equal(stores[0].labels, stores[1].labels)
    np.testing.assert_allclose(stores[0].keys, stores[1].keys, atol=1e-3)


def test_a_mistyped_task_is_named_before_anything_is_loaded(run_script):
    options = ["--model_name_or_path=./missing", "--task_name=MRPK", "--output_dir=unused", "--use_cpu"]
    assert "Did you mean 'MRPC'" in run_script(SCRIPT, *options, code=2)


def test_after_training_the_texts_of_a_file_are_classified(classified, labeled, workshop):
    folder, printed = classified
    assert f"8 texts were classified: {workshop / 'answers.csv'}." in printed
    rows = [json.loads(line) for line in (labeled / "test.jsonl").open()]
    answers = list(csv.DictReader((workshop / "answers.csv").open(newline="")))
    assert [{name: row[name] for name in ("body", "topic")} for row in answers] == rows
    accuracy = json.loads((folder / "metrics.json").read_text())["test"]["test_mixture_accuracy"]
    assert np.mean([row["label"] == row["topic"] for row in answers]) == pytest.approx(accuracy)


def test_a_finished_classifier_answers_without_training_and_goes_on_after_a_kill(
    classified, server, texts, tmp_path, run_script
):
    folder, _ = classified
    bodies = [f"{texts[number % 48]} This is {number}." if number % 100 else " " for number in range(2_100)]
    with (tmp_path / "new.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("nr", "body"), *((f"{number:04}", body) for number, body in enumerate(bodies))])

    def command(name):
        options = ["--text_column=body", "--predict_neighbors=2", "--use_cpu", f"--predict_output={tmp_path / name}"]
        return [SCRIPT, f"--model_name_or_path={folder}", f"--predict={tmp_path / 'new.csv'}", *options]

    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
    assert "2,079 texts were classified" in run_script(*command("whole.jsonl"))
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*")} == before

    partial, log = tmp_path / "killed.jsonl.partial", tmp_path / "log"
    process = start_script(*command("killed.jsonl"), log=log)
    kill_script(process, lambda: partial.exists() and partial.read_bytes().count(b"\n") > 256, log)
    assert not (tmp_path / "killed.jsonl").exists()
    printed = finish_script(start_script(*command("killed.jsonl"), log=log), log)
    assert "rows before it was interrupted): " in printed and "21 rows have no text, and so no label." in printed
    assert (tmp_path / "killed.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert not partial.exists()

    answers = [json.loads(line) for line in (tmp_path / "killed.jsonl").open()]
    assert [(row["nr"], row["body"]) for row in answers] == [(f"{i:04}", body) for i, body in enumerate(bodies)]
    for row in answers:
        is_text = bool(row["body"].strip())
        assert (row["label"] in ("river", "other"), len(row["neighbors"] or [])) == (is_text, 2 * is_text)

    assert "killed.jsonl is there already" in run_script(*command("killed.jsonl"), code=2)
    encoder = [f"--model_name_or_path={folder.parent / 'tiny'}", *command("other.csv")[2:]]
    assert "nothing is trained without --dataset_name" in run_script(SCRIPT, *encoder, code=2)


def test_killed_in_the_answers_after_training_the_second_command_goes_on(
    labeled, workshop, server, texts, tmp_path, run_script
):
    bodies = [{"body": f"{texts[number % 48]} This is {number}."} for number in range(2_100)]
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in bodies))
    predict = [f"--predict={tmp_path / 'new.jsonl'}", f"--predict_output={tmp_path / 'a.jsonl'}"]
    options = [*predict, f"--output_dir={tmp_path / 'out'}", "--text_column=body", "--max_length=48", "--use_cpu"]
    train = [f"--model_name_or_path={workshop / 'tiny'}", f"--dataset_name={labeled}", "--label_column=topic"]
    partial, log = tmp_path / "a.jsonl.partial", tmp_path / "log"
    process = start_script(SCRIPT, *train, *options, "--num_train_epochs=1", log=log)
    kill_script(process, lambda: partial.exists() and partial.read_bytes().count(b"\n") > 256, log)

    advice = f"with --model_name_or_path {tmp_path / 'out'}, without --dataset_name and --task_name, goes on from there"
    assert advice in run_script(SCRIPT, *train, *options, code=2)
    printed = run_script(SCRIPT, f"--model_name_or_path={tmp_path / 'out'}", *options)
    assert "rows before it was interrupted): " in printed
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == len(bodies)


@pytest.mark.parametrize("options, sets", [
    (["--test_size=0.2"], {"validation": 4, "test": 8}),
    ([], {"validation": 4}),
    (["--validation_size=0"], {}),
])  # fmt: skip
def test_examples_to_report_on_are_held_out_or_it_says_how(labeled, workshop, run_script, tmp_path, options, sets):
    arguments = [f"--dataset_name={labeled / 'train.jsonl'}", "--text_column=body", "--label_column=topic"]
    arguments += [f"--model_name_or_path={workshop / 'tiny'}"] if sets else []
    arguments += [f"--output_dir={tmp_path}", "--use_cpu", "--validation_size=4", "--num_train_epochs=1"]
    printed = run_script(SCRIPT, *arguments, *options)
    for name, number in sets.items():
        assert f"On {number} {name} examples:" in printed
    assert ("To report on examples that nothing was chosen by" in printed) == (list(sets) == ["validation"])
    assert ("each left out in turn (40)" in printed) == (not sets)
    assert set(json.loads((tmp_path / "metrics.json").read_text())) == set(sets)
    rate = json.loads((tmp_path / "training_args.json").read_text())["learning_rate"]
    assert rate == (2e-5 if sets else 1e-3)  # of the checkpoint that ships, which is small


def test_what_cannot_be_classified_is_found_before_the_training(labeled, workshop, run_script):
    options = [f"--dataset_name={labeled}", "--text_column=body", "--label_column=topic", "--use_cpu"]
    options += [f"--output_dir={workshop / 'unused'}", f"--predict={workshop / 'documents.jsonl'}"]
    assert "There is no column 'body' in" in run_script(SCRIPT, *options, code=2)
    assert not (workshop / "unused").exists()
