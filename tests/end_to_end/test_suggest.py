"""``docsplit suggest``: the documents to label go into a file, and come back with labels."""

import csv
import json

import pytest
from transformers import pipeline

from docsplit_hf import KNNDatastore, load_documents

from ..conftest import make_text
from .conftest import ROOT

DOCSPLIT = ROOT / "tests" / "end_to_end" / "docsplit.py"
FORMULA = '=HYPERLINK("http://a.example"), said the river.\r\nThe "second" line; 007.'


@pytest.fixture(scope="module")
def place(workshop, tmp_path_factory, run_script):
    """A folder with labels/labeled.csv, documents.jsonl and a classifier made of them, as a user has them."""
    folder = tmp_path_factory.mktemp("suggest")
    (folder / "labels").mkdir()
    texts = {name: [make_text(n) for n in range(100, 400) if name in make_text(n)][:5] for name in ("engine", "river")}
    rows = [(text, name) for name, found in texts.items() for text in found]
    write_csv(folder / "labels" / "labeled.csv", [("text", "label"), *rows])
    with (folder / "documents.jsonl").open("w") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in [FORMULA, *(make_text(n) for n in range(11))])
    options = fitting(workshop, folder / "labels" / "labeled.csv", "documents.jsonl", "few")
    run_script(DOCSPLIT, "fit", *options, folder=folder)
    return folder


def fitting(workshop, dataset, documents, output, *options):
    model = [f"--model_name_or_path={workshop / 'tiny'}", f"--dataset_name={dataset}", *options]
    return [*model, f"--unlabeled_name={documents}", f"--output_dir={output}", "--use_cpu"]


def write_csv(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def read_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_suggestions_are_labeled_in_a_file_and_come_back(place, workshop, run_script):
    before = {path: path.read_bytes() for path in (place / "few").rglob("*") if path.is_file()}
    output = place / "labels" / "suggestions.csv"
    asked = ["few", "--output=labels/suggestions.csv", "--count=12", "--safe_csv"]
    printed = run_script(DOCSPLIT, "suggest", *asked, "--json", folder=place)
    assert json.loads(printed.splitlines()[-1]) == {"output": "labels/suggestions.csv", "documents": 12}
    assert {path: path.read_bytes() for path in before} == before
    rows = read_csv(output)
    assert list(rows[0])[:5] == ["id", "text", "predicted_label", "score", "label"]
    assert {row["text"] for row in rows} >= {f"'{FORMULA}"} and {row["label"] for row in rows} == {""}
    assert all(row["predicted_label"] in ("engine", "river") and 0.5 <= float(row["score"]) <= 1 for row in rows)

    for row in rows[::3]:
        row["label"] = "bridge"  # a new label, the same for all
    formula = next(row for row in rows if row["text"] == f"'{FORMULA}")
    formula["label"] = "bridge"
    labeled = [row for row in rows if row["label"]]
    write_csv(output, [rows[0].keys(), *(row.values() for row in rows)])
    assert "may have labels: choose another --output" in run_script(DOCSPLIT, "suggest", *asked, code=2, folder=place)

    joined = fitting(workshop, "labels", "documents.jsonl", "more", "--train_split=labeled+suggestions")
    printed = run_script(DOCSPLIT, "fit", *joined, folder=place)
    count = 10 + len(labeled)
    left = 12 - len(labeled)
    assert f"train: kept {count} of 22 examples. Dropped: {left} without a label." in printed
    assert f"Fitted on {count} examples of 3 labels and {left} documents without labels" in printed

    pipe = pipeline("docsplit-knn", model=str(place / "few"), device="cpu")
    table = load_documents(output, test_size=0)["train"].filter(lambda row: row["label"])
    pipe.add_examples(table["text"], table["label"])
    stores = [KNNDatastore.from_pretrained(place / "more"), pipe.datastore]
    for store in stores:
        assert FORMULA in store.texts and len(store) == count and len(store.documents) == left
    names = [{text: s.label_names[label] for text, label in zip(s.texts, s.labels, strict=True)} for s in stores]
    assert names[0] == names[1]


def test_suggested_files_are_named(place, workshop, run_script, tmp_path):
    (tmp_path / "documents").mkdir()
    for number in range(6):
        (tmp_path / "documents" / f"{number}.html").write_text(f"<p>{make_text(number)}</p>")
    options = fitting(workshop, place / "labels" / "labeled.csv", "documents", "few")
    run_script(DOCSPLIT, "fit", *options, folder=tmp_path)
    run_script(DOCSPLIT, "suggest", "few", "--output=next.jsonl", "--count=3", folder=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "next.jsonl").open()]
    assert list(rows[0]) == ["id", "file", "text", "predicted_label", "score", "label"]
    assert len({row["file"] for row in rows} & {f"{number}.html" for number in range(6)}) == 3
    assert {row["label"] for row in rows} == {None}


@pytest.mark.parametrize(
    "options, message",
    [
        (["--output=a.csv"], "a classifier must be given: the --output_dir of docsplit fit"),
        (["few", "--output=a.jsonl", "--safe_csv"], "safe_csv is for .csv files"),
        (["few", "--count=13"], "n is 13, and there are 12 documents without labels"),
    ],
)
def test_impossible_suggestions_are_refused(options, message, place, run_script):
    assert message in run_script(DOCSPLIT, "suggest", *options, code=2, folder=place)


def test_the_removed_command_names_its_successors(run_script):
    printed = run_script(DOCSPLIT, "label", "--documents=documents", code=2)
    assert printed == (
        "docsplit: error: docsplit label was removed: docsplit suggest writes a file of the documents to label next, "
        "and docsplit demo shows them on a page.\n"
    )
