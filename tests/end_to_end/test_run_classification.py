import json

import numpy as np
import pytest
import torch

from docsplit_hf import KNNClassifier, KNNDatastore

from .conftest import ROOT

SCRIPT = ROOT / "examples" / "run_classification.py"
TWO_PROCESSES = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


@pytest.fixture(scope="session")
def labelled(workshop, texts):
    """A folder with training and test examples, as a user has them."""
    folder = workshop / "labelled"
    folder.mkdir()
    rows = [{"body": text, "topic": "river" if "river" in text else "other"} for text in texts]
    for name, part in (("train", rows[:40]), ("test", rows[40:])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    return folder


@pytest.fixture(scope="session")
def classify(workshop, labelled, run_python):
    """Run the example script on the labelled examples; gives its output folder and what it printed."""

    def classify(name, *options, launcher=(), code=0):
        arguments = [
            f"--output_dir={workshop / name}", f"--model_name_or_path={workshop / 'tiny'}",
            f"--dataset_name={labelled}", "--text_column=body", "--label_column=topic", "--validation_size=8",
            "--num_train_epochs=2", "--learning_rate=1e-3", "--logging_steps=2", "--use_cpu",
            "--triplet_choice=hardest", *options,
        ]  # fmt: skip
        return workshop / name, run_python(*launcher, SCRIPT, *arguments, code=code)

    return classify


@pytest.fixture(scope="session")
def classified(classify):
    return classify("classified", "--per_device_train_batch_size=8", "--report_to=tensorboard")


def test_it_ends_with_a_classifier_its_datastore_and_its_figures(classified):
    folder, printed = classified
    for part in ("classifier ", "neighbors ", "mixture "):
        assert part in printed.split("On 8 test examples:")[1]
    metrics = json.loads((folder / "metrics.json").read_text())
    assert set(metrics) == {"validation", "test"} and 0 <= metrics["test"]["test_mixture_accuracy"] <= 1
    assert len(KNNDatastore.from_pretrained(folder)) == 32  # 8 of the 40 were held out
    assert KNNClassifier.from_pretrained(folder).config.knn_calibration["examples"] == 8
    assert list(folder.rglob("events.out.tfevents*")) and not list(folder.rglob("*.bin"))
    card = (folder / "README.md").read_text()
    assert "On the test examples" in card and str(folder.parent) not in card.replace(str(folder), "")


def test_the_pipeline_answers_as_the_run_says(classified, labelled, run_python):
    folder, _ = classified
    code = """
import sys, docsplit_hf
from datasets import load_dataset
from transformers import pipeline
test = load_dataset("json", data_files=sys.argv[2], split="train")
answers = pipeline("docsplit-knn", model=sys.argv[1], device="cpu")(test["body"][:])
print("accuracy", sum(a["label"] == t for a, t in zip(answers, test["topic"][:])) / len(test))
"""
    printed = run_python("-c", code, folder, labelled / "test.jsonl")
    accuracy = json.loads((folder / "metrics.json").read_text())["test"]["test_mixture_accuracy"]
    assert float(printed.rpartition("accuracy")[2]) == pytest.approx(accuracy)


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
