"""Data sets of the paper on nearest-neighbor classification."""

import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value
from hypothesis import given
from hypothesis import strategies as st

from experiments.tasks.paper_tasks import TASKS, load_task, mark_spans

SPANS = {f"span{i}_{name}": Value(dtype) for i in (1, 2) for name, dtype in (("text", "string"), ("index", "int32"))}


def hub_columns(task):
    """The text columns of a task as they are on the Hub."""
    if task.name == "WSC":
        return {"text": Value("string"), "target": SPANS}
    if task.name == "CSL":
        return {"corpus_id": Value("int32"), "abst": Value("string"), "keyword": List(Value("string"))}
    return {name: Value("string") for name in (task.text_column, task.text_pair_column) if name}


def hub_value(feature, name, number):
    if feature == SPANS:
        return {"span1_text": "Row", "span1_index": 0, "span2_text": "it", "span2_index": 9}
    if isinstance(feature, List):
        return ["heat", f"film {number}"]
    return number if feature.dtype == "int32" else f"Row {number:>3}, it is in {name}."


def hub_splits(task):
    """A data set laid out as on the Hub: 40 rows to train on, 6 in each other split."""
    columns = hub_columns(task)
    features = Features({**columns, "label": ClassLabel(names=["no", "yes"]), "idx": Value("int32")})
    splits = DatasetDict()
    for split, rows in {"train": 40, **dict.fromkeys(task.test_split.split("+"), 6), "test": 6}.items():
        values = {column: [hub_value(columns[column], column, i) for i in range(rows)] for column in columns}
        if split == "test" and task.prepare is mark_spans:
            values["target"] = [dict.fromkeys(SPANS) for _ in range(rows)]
        labels = [-1 if split == "test" else i % 2 for i in range(rows)]
        splits[split] = Dataset.from_dict({**values, "label": labels, "idx": list(range(rows))}, features)
    return splits


@pytest.fixture
def hub(monkeypatch):
    """These, instead of the Hub; gives what is asked for."""
    asked = []

    def load(name, config_name):
        asked.append((name, config_name))
        (task,) = [task for task in TASKS.values() if (task.dataset, task.config_name) == (name, config_name)]
        return hub_splits(task)

    monkeypatch.setattr("datasets.load_dataset", load)
    return asked


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_tested_on_the_official_development_set(hub, name):
    task = TASKS[name]
    examples = load_task(name)
    assert hub == [(task.dataset, task.config_name)]
    expected = {"train": 36, "validation": 4, "test": 12 if name == "MNLI" else 6}
    assert {split: len(rows) for split, rows in examples.items()} == expected
    columns = ["text", "text_pair", "label"] if task.text_pair_column else ["text", "label"]
    assert examples["train"].column_names == columns
    assert examples["train"].features["label"].names == ["no", "yes"]
    assert sorted(examples["test"]["label"][:]) == [0] * (expected["test"] // 2) + [1] * (expected["test"] // 2)


def test_the_texts_of_a_task_are_its_columns(hub):
    first = {name: load_task(name)["test"][0] for name in ("QQP", "WSC", "CSL")}
    assert first["QQP"]["text"] == "Row   0, it is in question1."
    assert first["QQP"]["text_pair"] == "Row   0, it is in question2."
    assert first["WSC"]["text"] == "_Row_   0, [it] is in text."
    assert (first["CSL"]["text"], first["CSL"]["text_pair"]) == ("Row   0, it is in abst.", "heat；film 0")


# The rows of CLUEWSC 2020 and CSL


@given(st.text(), st.text(min_size=1), st.text(), st.text(min_size=1), st.text(), st.booleans())
def test_spans_are_marked_wherever_they_are(before, first, between, second, after, noun_first):
    text = before + first + between + second + after
    spans = [(first, len(before)), (second, len(before + first + between))]
    (noun, noun_index), (pronoun, pronoun_index) = spans if noun_first else spans[::-1]
    target = dict(zip(SPANS, (noun, noun_index, pronoun, pronoun_index), strict=True))
    marked = (f"_{first}_", f"[{second}]") if noun_first else (f"[{first}]", f"_{second}_")
    expected = before + marked[0] + between + marked[1] + after
    assert mark_spans({"text": text, "target": target}) == {"text": expected}


@pytest.mark.parametrize(("index", "message"), [(5, "does not fit the text"), (1, "overlap")])
def test_spans_missing_in_the_text_are_refused(index, message):
    target = {"span1_text": "aaa", "span1_index": 0, "span2_text": "aa", "span2_index": index}
    with pytest.raises(ValueError, match=message):
        mark_spans({"text": "aaa saw aa", "target": target})


# Folders


@pytest.mark.parametrize(
    ("columns", "ending"), [(("text",), "jsonl.gz"), (("text", "text_pair"), "csv"), (("text_a", "text_b"), "jsonl")]
)
def test_the_columns_of_a_folder_are_found(tmp_path, columns, ending):
    rows = [{**{column: f"{column} {i}" for column in columns}, "label": "ab"[i % 2], "source": "x"} for i in range(20)]
    for split in ("train", "test"):
        if ending == "csv":
            Dataset.from_list(rows).to_csv(tmp_path / f"{split}.csv")
        else:
            Dataset.from_list(rows).to_json(tmp_path / f"{split}.{ending}", compression="infer")
    examples = load_task(tmp_path, seed=1, validation_size=4)
    assert {split: len(rows) for split, rows in examples.items()} == {"train": 16, "validation": 4, "test": 20}
    assert examples["test"].column_names == [*("text", "text_pair")[: len(columns)], "label"]
    assert examples["test"]["text"][:] == [f"{columns[0]} {i}" for i in range(20)]
    assert load_task(tmp_path, seed=2, validation_size=4)["train"]["text"][:] != examples["train"]["text"][:]


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("colo", ValueError, "no task 'colo'. Did you mean 'CoLA'"),
        ("SST2", ValueError, "Did you mean 'SST-2'"),
        ("sentiment", ValueError, r"no task 'sentiment'. Give a folder, or one of \['AFQMC', 'CSL'"),
        ("./nowhere", FileNotFoundError, "no file or folder './nowhere'"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(name, error, message):
    with pytest.raises(error, match=message):
        load_task(name)


def test_folders_that_cannot_be_tasks_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no training set: name a file train.jsonl"):
        load_task(tmp_path)
    (tmp_path / "train.jsonl").write_text('{"id_a": "x", "label": 1}\n')
    with pytest.raises(ValueError, match=r"columns \['id_a', 'label'\], but neither text nor"):
        load_task(tmp_path)


# As it is printed; of MNLI the name.
TABLE_3 = """
config OCNLI TNEWS AFQMC IFLYTEK WSC CSL
Best Lambda 0.2 0.8 0.0 0.1 0.1 0.2
Batch Size 64 64 64 64 64 64
Learning Rate 2E-05 2E-05 2E-05 2E-05 2E-05 2E-05
Init Model MacBERT MacBERT MacBERT MacBERT MacBERT MacBERT
Warmup Steps 100 300 100 100 300 300
Training Epochs 3 5 3 3 3 3
Max Len 150 200 128 512 200 512

config CoLA SST-2 MRPC QQP MNLI QNLI
Best Lambda 0.3 0.0 0.0 0.5 0.0 0.2
Batch Size 32 32 32 32 32 32
Learning Rate 1E-5 1E-5 1E-5 1E-5 1E-5 1E-5
Init Model RoBERTa RoBERTa RoBERTa RoBERTa RoBERTa RoBERTa
Warmup Steps 100 100 100 100 100 100
Training Epochs 3 3 3 3 3 3
Max Len 128 128 128 128 128 128
"""
PAPER = {}
for half in TABLE_3.strip().split("\n\n"):
    rows = [line.split() for line in half.splitlines()]
    for column in range(1, 7):
        PAPER[rows[0][column]] = {" ".join(row[:-6]): row[column - 7] for row in rows[1:]}


def test_the_table_has_all_tasks():
    assert set(PAPER) == set(TASKS)


@pytest.mark.parametrize("name", PAPER)
def test_the_settings_of_a_task_are_those_of_the_paper(name):
    paper = PAPER[name]
    task = TASKS[name]
    encoders = {"MacBERT": "hfl/chinese-macbert-large", "RoBERTa": "FacebookAI/roberta-large"}
    assert task.encoder == encoders[paper["Init Model"]]
    assert task.training_arguments() == {
        "per_device_train_batch_size": int(paper["Batch Size"]),
        "learning_rate": float(paper["Learning Rate"]),
        "num_train_epochs": int(paper["Training Epochs"]),
        "warmup_steps": int(paper["Warmup Steps"]),
    }
    assert (task.max_length, task.knn_weight) == (int(paper["Max Len"]), float(paper["Best Lambda"]))
    assert task.metric == ("matthews_correlation" if name == "CoLA" else "accuracy")
