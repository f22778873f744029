import csv
import json
import shlex

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, pipeline

from docsplit_hf import KNNClassifier, KNNDatastore, load_documents
from docsplit_hf.arrays.passages import take_passages
from docsplit_hf.classifier.row_files import read_rows
from docsplit_hf.encoding.classifier_embedder import make_embedder

from ..conftest import make_text
from .conftest import ROOT
from .forked import finish_script, kill_script, run_two_processes, start_script

SCRIPT = ROOT / "examples" / "run_classification.py"  # docsplit train
DOCSPLIT = ROOT / "tests" / "end_to_end" / "docsplit.py"
COLUMNS = ("--text_column=body", "--label_column=topic")


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
def train(workshop, labeled, run_script):
    """Run ``docsplit train`` on the labeled examples; returns its output folder and what it printed."""

    def train(name, *options, run=run_script, **more):
        arguments = [
            f"--output_dir={workshop / name}", f"--model_name_or_path={workshop / 'tiny'}",
            f"--dataset_name={labeled}", "--text_column=body", "--label_column=topic", "--validation_size=8",
            "--num_train_epochs=2", "--learning_rate=1e-3", "--logging_steps=2", "--use_cpu",
            *options,
        ]  # fmt: skip
        return workshop / name, run(SCRIPT, *arguments, **more)

    return train


@pytest.fixture(scope="session")
def classified(train):
    return train("classified", "--per_device_train_batch_size=8", "--report_to=tensorboard")


def test_training_saves_a_classifier_its_datastore_and_its_figures(classified):
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


def test_two_processes_equal_one_with_the_whole_batch(classified, train, tmp_path):
    folder, _ = classified
    options = ["--per_device_train_batch_size=4", "--report_to=none"]
    options += ["--long_documents=passages"]  # which training does not read
    other, _ = train("classified_by_two", *options, run=run_two_processes, log=tmp_path / "log")
    weights = [KNNClassifier.from_pretrained(path).state_dict() for path in (folder, other)]
    for name, value in weights[0].items():
        torch.testing.assert_close(value, weights[1][name], atol=1e-4, rtol=1e-4)
    states = [
        json.loads((max(path.glob("checkpoint-*")) / "trainer_state.json").read_text()) for path in (folder, other)
    ]
    logs, others = (state["log_history"] for state in states)
    assert [log.get("fraction_tokens_cut") for log in logs] == [log.get("fraction_tokens_cut") for log in others]
    stores = [KNNDatastore.from_pretrained(path) for path in (folder, other)]
    assert stores[0].texts == stores[1].texts and stores[0].ids == stores[1].ids
    np.testing.assert_array_equal(stores[0].labels, stores[1].labels)
    model = KNNClassifier.from_pretrained(other)
    tokenizer = AutoTokenizer.from_pretrained(other)
    for store, long_documents in zip(stores, ("first", "passages"), strict=True):
        expected = make_embedder(model, tokenizer, long_documents=long_documents).embed(store.texts)
        np.testing.assert_allclose(store.keys, expected.retrieval_embeddings, atol=1e-3)
    found = take_passages(stores[1].snapshot.passages, np.arange(len(stores[1])))
    np.testing.assert_allclose(found.embeddings, expected.passages.embeddings, atol=1e-3)
    np.testing.assert_array_equal(found.counts, expected.passages.counts)
    np.testing.assert_array_equal(found.spans, expected.passages.spans)


def test_a_file_is_classified_after_training(classified, labeled, workshop, run_script):
    folder, _ = classified
    options = [f"--model={folder}", f"--predict={labeled / 'test.jsonl'}", "--text_column=body"]
    printed = run_script(DOCSPLIT, "classify", *options, f"--predict_output={workshop / 'answers.csv'}", "--use_cpu")
    assert f"8 texts were classified: {workshop / 'answers.csv'}." in printed
    rows = [json.loads(line) for line in (labeled / "test.jsonl").open()]
    answers = list(csv.DictReader((workshop / "answers.csv").open(newline="")))
    assert [{name: row[name] for name in ("body", "topic")} for row in answers] == rows
    accuracy = json.loads((folder / "metrics.json").read_text())["test"]["test_mixture_accuracy"]
    assert np.mean([row["label"] == row["topic"] for row in answers]) == pytest.approx(accuracy)


def test_a_saved_classifier_classifies_a_file_and_continues_after_a_kill(
    classified, server, texts, tmp_path, run_script
):
    folder, _ = classified
    bodies = [f"{texts[number % 48]} This is {number}." if number % 100 else " " for number in range(1_400)]
    with (tmp_path / "new.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("nr", "body"), *((f"{number:04}", body) for number, body in enumerate(bodies))])

    def command(name):
        options = ["--text_column=body", "--return_neighbors=2", "--use_cpu", f"--predict_output={tmp_path / name}"]
        return [DOCSPLIT, "classify", f"--model={folder}", f"--predict={tmp_path / 'new.csv'}", *options]

    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
    assert "1,386 texts were classified" in run_script(*command("whole.jsonl"))
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*")} == before

    partial = tmp_path / "killed.jsonl.partial"
    log = tmp_path / "log"
    process = start_script(*command("killed.jsonl"), log=log)
    kill_script(process, lambda: partial.exists() and partial.read_bytes().count(b"\n") > 256, log)
    assert not (tmp_path / "killed.jsonl").exists()
    printed = finish_script(start_script(*command("killed.jsonl"), log=log), log)
    assert "rows before the interruption): " in printed and "Rows without a text got no label: 14." in printed
    assert (tmp_path / "killed.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert not partial.exists()

    answers = [json.loads(line) for line in (tmp_path / "killed.jsonl").open()]
    assert [(row["nr"], row["body"]) for row in answers] == [(f"{i:04}", body) for i, body in enumerate(bodies)]
    for row in answers:
        is_text = bool(row["body"].strip())
        assert (row["label"] in ("river", "other"), len(row["neighbors"] or [])) == (is_text, 2 * is_text)

    assert "killed.jsonl is there already" in run_script(*command("killed.jsonl"), code=2)
    encoder = [f"--model={folder.parent / 'tiny'}", *command("other.csv")[3:]]
    assert "contains no datastore: pass a classifier" in run_script(DOCSPLIT, "classify", *encoder, code=2)


def test_answers_are_safe_in_a_spreadsheet(classified, texts, tmp_path, run_script):
    rows = [(f"={number}+A1", f"- {text}") for number, text in enumerate(texts[:3])]
    with (tmp_path / "new.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("@nr", "body"), *rows])
    answers = tmp_path / "answers.csv"
    options = ["--text_column=body", "--safe_csv", "--use_cpu", f"--predict_output={answers}"]
    command = [DOCSPLIT, "classify", f"--model={classified[0]}", f"--predict={tmp_path / 'new.csv'}"]
    run_script(*command, *options)
    with answers.open(newline="") as file:
        first = next(csv.DictReader(file))
    assert (first["'@nr"], first["body"]) == ("'=0+A1", f"'{rows[0][1]}")
    assert [(row["@nr"], row["body"]) for row in read_rows(answers)] == rows


def test_answers_of_a_new_classifier_are_continued_without_making_it_again(
    labeled, workshop, server, texts, tmp_path, run_script
):
    bodies = [{"body": f"{texts[number % 48]} This is {number}."} for number in range(1_400)]
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in bodies))
    predict = [f"--predict={tmp_path / 'new.jsonl'}", f"--predict_output={tmp_path / 'a.jsonl'}"]
    options = [*predict, f"--output_dir={tmp_path / 'out'}", "--text_column=body", "--max_length=48", "--use_cpu"]
    make = [
        "classify",
        f"--model_name_or_path={workshop / 'tiny'}",
        f"--dataset_name={labeled}",
        "--label_column=topic",
    ]
    partial = tmp_path / "a.jsonl.partial"
    log = tmp_path / "log"
    process = start_script(DOCSPLIT, *make, *options, log=log)
    kill_script(process, lambda: partial.exists() and partial.read_bytes().count(b"\n") > 256, log)

    refused = run_script(DOCSPLIT, *make, *options, code=2)
    assert f"{tmp_path / 'out'} is already made" in refused
    command = refused.partition("To continue: docsplit ")[2].splitlines()[0]
    printed = run_script(DOCSPLIT, *shlex.split(command))
    assert "rows before the interruption): " in printed
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == len(bodies)


@pytest.mark.parametrize("options, sets", [
    (["--test_size=0.2"], {"validation": 4, "test": 8}),
    ([], {"validation": 4}),
    (["--validation_size=0"], {}),
])  # fmt: skip
def test_test_examples_are_held_out_or_the_output_explains_how(labeled, workshop, run_script, tmp_path, options, sets):
    arguments = [f"--dataset_name={labeled / 'train.jsonl'}", "--text_column=body", "--label_column=topic"]
    arguments += [f"--model_name_or_path={workshop / 'tiny'}"] if sets else []
    arguments += [f"--output_dir={tmp_path}", "--use_cpu", "--validation_size=4", "--num_train_epochs=1"]
    arguments += ["--max_length=24"]
    printed = run_script(SCRIPT, *arguments, *options)
    for name, number in sets.items():
        assert f"On {number} {name} examples:" in printed
    assert ("To report metrics on examples that were not used for any choice" in printed) == (
        list(sets) == ["validation"]
    )
    assert ("each left out in turn (40)" in printed) == (not sets)
    assert set(json.loads((tmp_path / "metrics.json").read_text())) == set(sets)
    rate = json.loads((tmp_path / "training_args.json").read_text())["learning_rate"]
    assert rate == (2e-5 if sets else 1e-3)  # of the checkpoint that ships, which is small


@pytest.fixture(scope="session")
def few_labels(tmp_path_factory):
    """Five labeled texts per class, a test set, and a folder of .txt files, as a user has them."""
    folder = tmp_path_factory.mktemp("few")
    texts = {name: [make_text(n) for n in range(100, 400) if name in make_text(n)] for name in ("engine", "river")}
    for name, part in (("train", slice(5)), ("test", slice(5, 9))):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            rows = [(text, topic) for topic, found in texts.items() for text in found[part]]
            copies = rows[:1] if name == "train" else []  # of a row, which counts once
            csv.writer(file).writerows([("body", "topic"), *rows, *copies])
    (folder / "documents").mkdir()
    unlabeled = [texts["river"][0], texts["engine"][6], " ", *(make_text(number) for number in range(30))]
    for number, text in enumerate(unlabeled):  # an example, one to report on, and nothing at all are among them
        (folder / "documents" / f"{number}.txt").write_text(text)
    return folder


def columns(folder):
    return [f"--dataset_name={folder}", *COLUMNS, "--use_cpu"]


@pytest.fixture(scope="session")
def fitted(few_labels, workshop, run_script):
    """The simplest journey: one command makes a classifier, and classifies a file."""
    options = [f"--unlabeled_name={few_labels / 'documents'}", f"--output_dir={workshop / 'fitted'}"]
    options += [f"--model_name_or_path={workshop / 'tiny'}", f"--predict={few_labels / 'test.csv'}"]
    options += [f"--predict_output={workshop / 'fitted.jsonl'}", "--explain"]
    return workshop / "fitted", run_script(DOCSPLIT, "classify", *columns(few_labels), *options)


def test_fit_equals_the_pipeline(fitted, few_labels, workshop):
    folder, _ = fitted
    train, test = ([*csv.DictReader((few_labels / f"{name}.csv").open(newline=""))] for name in ("train", "test"))
    pipe = pipeline("docsplit-knn", model=str(workshop / "tiny"), device="cpu")
    pipe.add_examples([row["body"] for row in train], [row["topic"] for row in train])
    bodies = {row["body"] for row in test}
    documents = load_documents(few_labels / "documents", test_size=0)["train"]["text"]
    pipe.add_documents([text for text in documents if text not in bodies])
    report = pipe.fit()
    saved = pipeline("docsplit-knn", model=str(folder), device="cpu")
    assert len(saved.datastore) == 10 and len(saved.datastore.documents) == report.documents == 30
    assert saved.model.config.long_documents == pipe.model.config.long_documents == "whole"
    ours, theirs = (p([row["body"] for row in test], top_k=None) for p in (saved, pipe))
    for mine, other in zip(ours, theirs, strict=True):
        assert [a["label"] for a in mine] == [a["label"] for a in other]
        assert [a["score"] for a in mine] == pytest.approx([a["score"] for a in other], abs=1e-6)
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["test"]["test_experts_accuracy"] == np.mean(
        [answers[0]["label"] == row["topic"] for answers, row in zip(ours, test, strict=True)]
    )
    assert metrics["fit"]["shares"] == pytest.approx(report.shares)


def test_fit_prints_the_report_and_the_next_command(fitted, few_labels, workshop):
    folder, printed = fitted
    assert "Fitted on 10 examples of 2 labels and 30 documents without labels. Measured on folds" in printed
    assert "1 are held-out examples, and left out." in printed
    lines = printed.split("On 8 test examples:\n")[1].splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["neighbors", "ensemble"]
    options = "--predict new.csv --predict_output answers.csv --text_column body"
    assert f"docsplit classify --model {folder} {options}\n" in printed and "--test_size" not in printed
    card = (folder / "README.md").read_text()
    assert "30 documents without labels" in card and "On the test examples" in card and "| ensemble |" in card
    answers = [json.loads(line) for line in (workshop / "fitted.jsonl").open()]
    assert [row["topic"] for row in answers] == ["engine"] * 4 + ["river"] * 4
    assert all(
        {"naive_bayes", "neighbors", "word_regression", "label_names"} < set(row["explanation"]["experts"])
        for row in answers
    )


def test_a_saved_fitted_classifier_gives_the_same_answers(fitted, few_labels, workshop, run_script):
    folder, _ = fitted
    output = workshop / "later.jsonl"
    options = [f"--model={folder}", f"--predict={few_labels / 'test.csv'}", f"--predict_output={output}"]
    run_script(DOCSPLIT, "classify", *options, "--text_column=body", "--explain", "--use_cpu")
    assert output.read_text() == (workshop / "fitted.jsonl").read_text()


def test_reject_leaves_texts_without_a_label(fitted, few_labels, workshop, run_script):
    output = workshop / "sure.csv"
    options = [f"--model={fitted[0]}", f"--predict={few_labels / 'test.csv'}", "--text_column=body"]
    printed = run_script(DOCSPLIT, "classify", *options, f"--predict_output={output}", "--reject=0.01", "--use_cpu")
    assert (
        "0 texts were classified" in printed
        and "Texts that are uncertain, novel or without content got no label: 8." in printed
    )
    rows = [*csv.DictReader(output.open(newline=""))]
    assert all(row["label"] == "" and float(row["score"]) > 0 and 0 <= float(row["novelty"]) <= 1 for row in rows)


def test_a_file_of_answers_has_sets_of_labels(fitted, few_labels, workshop, run_script):
    output = workshop / "sets.csv"
    options = [f"--model={fitted[0]}", f"--predict={few_labels / 'test.csv'}", "--text_column=body"]
    run_script(DOCSPLIT, "classify", *options, f"--predict_output={output}", "--labels_at=0.99", "--use_cpu")
    for row in csv.DictReader(output.open(newline="")):
        labels = json.loads(row["labels"])  # all of them: the examples are too few for 0.99
        assert {label["label"] for label in labels} == {"engine", "river"} and row["labels_per_class"] == "false"
        assert labels[0]["label"] == row["label"] and labels[0]["score"] == pytest.approx(float(row["score"]))


def test_answers_to_long_documents_name_a_passage(few_labels, workshop, tmp_path, run_script):
    folder = tmp_path / "passages"
    answers = tmp_path / "answers.jsonl"
    options = [f"--model_name_or_path={workshop / 'tiny'}", "--long_documents=passages", "--passage_length=24"]
    options += [f"--predict={few_labels / 'test.csv'}", f"--predict_output={answers}", "--explain"]
    printed = run_script(DOCSPLIT, "classify", *columns(few_labels), *options, f"--output_dir={folder}")
    assert printed.count("This is two commands, which this line runs:\n  docsplit fit --") == 1
    pipe = pipeline("docsplit-knn", model=str(folder), device="cpu")
    assert (pipe.model.config.long_documents, pipe.model.config.passage_length) == ("passages", 24)
    assert take_passages(pipe.datastore.snapshot.passages, [0]).counts[0] > 1
    for answer in map(json.loads, answers.open()):
        passage = answer["explanation"]["passage"]
        assert passage["text"] == answer["body"][passage["start"] : passage["end"]] != answer["body"]


def test_fit_chooses_weights_on_a_given_validation_set(few_labels, tmp_path, run_script):
    data = tmp_path / "data"
    data.mkdir()
    (data / "train.csv").write_text((few_labels / "train.csv").read_text())
    (data / "validation.csv").write_text((few_labels / "test.csv").read_text())
    printed = run_script(DOCSPLIT, "fit", *columns(data), f"--output_dir={tmp_path / 'out'}")
    assert "10 examples of 2 labels and 0 documents without labels. Measured on held-out texts" in printed
    assert (
        "On 8 validation examples: (optimistic: the checkpoint was chosen on them)" in printed
        and "--test_size" in printed
    )
    assert list(json.loads((tmp_path / "out" / "metrics.json").read_text())) == ["validation", "fit"]
    assert "is not empty" in run_script(DOCSPLIT, "fit", *columns(data), f"--output_dir={tmp_path / 'out'}", code=2)


def test_an_audit_is_written_edited_and_applied(few_labels, workshop, tmp_path, run_script):
    data = tmp_path / "spoiled"
    folder = tmp_path / "classifier"
    data.mkdir()
    rows = [
        *csv.reader((few_labels / "train.csv").open(newline="")),
        *csv.reader((few_labels / "test.csv").open(newline="")),
    ]
    rows = [row for number, row in enumerate(rows) if row[0] != "body" and row not in rows[:number]]
    wrong = {"river": "engine", "engine": "river"}[rows[0][1]]
    with (data / "train.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("body", "topic"), (rows[0][0], wrong), *rows[1:], rows[3]])
    report = f"--output={tmp_path / 'found' / 'report.json'}"
    options = [f"--model_name_or_path={workshop / 'tiny'}", f"--output_dir={folder}"]
    printed = run_script(DOCSPLIT, "fit", *columns(data), *options)
    alone = ["audit", str(folder), "--use_cpu"]
    printed += run_script(DOCSPLIT, *alone, report)
    assert "train: 1 of 19 examples repeat the text and the label of another one, and are left out." in printed
    assert "18 examples, 18 labels checked." in printed and f"docsplit audit {folder} --apply" in printed
    content = json.loads((tmp_path / "found" / "report.json").read_text())
    assert content["duplicates"] == []
    assert "report.json exists already" in run_script(DOCSPLIT, *alone, report, code=2)
    ids = KNNDatastore.from_pretrained(folder).ids
    issue = {"id": ids[0], "given": wrong, "suggested": rows[0][1], "apply": True, "probability": 0.1, "near_given": 0}
    content["label_issues"] = [issue | {"near_suggested": 9, "text": ""}]
    (tmp_path / "edited.json").write_text(json.dumps(content))
    again = f"--output={tmp_path / 'again.json'}"
    printed = run_script(DOCSPLIT, *alone, f"--apply={tmp_path / 'edited.json'}", again)
    assert "1 examples were relabeled, 0 removed." in printed and "Fitted on 18 examples" in printed
    saved = KNNDatastore.from_pretrained(folder)
    assert len(saved) == 18 and saved.label_names[saved.labels[0]] == rows[0][1]
    assert json.loads((tmp_path / "again.json").read_text())["duplicates"] == []
    (tmp_path / "edited.json").write_text("{}")
    assert "its fields are" in run_script(DOCSPLIT, *alone, f"--apply={tmp_path / 'edited.json'}", code=2)
