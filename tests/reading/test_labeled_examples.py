"""Loading labeled texts: sources, labels, splits, held-out examples, errors."""

import gzip
import json
import logging
import re
from collections import Counter

import pandas as pd
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, List, Value
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docsplit_hf.reading.characters import replace_lone_surrogates
from docsplit_hf.reading.labeled_examples import load_labeled_examples

TEXTS = [f"Text {i}." for i in range(30)]
ANIMALS = ["cat", "ant", "bee"] * 10
ROWS = [{"text": text, "label": label} for text, label in zip(TEXTS, ANIMALS, strict=True)]


def labeled(labels):
    return [{"text": f"Text {i}.", "label": label} for i, label in enumerate(labels)]


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def in_memory(features=None, **splits):
    return DatasetDict(
        {name: Dataset.from_list(rows, Features(features) if features else None) for name, rows in splits.items()}
    )


def label_names(examples):
    label = examples["train"].features["label"]
    return getattr(label, "feature", label).names


def named(split):
    """(text, name of the label) of every row."""
    return sorted(
        (row["text"], split.features["label"].int2str(row["label"])) for row in split.select_columns(["text", "label"])
    )


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "json", "csv", "parquet"])
def test_a_file_of_any_format_is_the_training_set(tmp_path, ending):
    file = tmp_path / f"animals.{ending}"
    if ending == "csv":
        Dataset.from_list(ROWS).to_csv(file)
    elif ending == "parquet":
        Dataset.from_list(ROWS).to_parquet(file)
    elif ending == "json":
        file.write_text(json.dumps(ROWS, indent=1))
    else:
        write(file, ROWS)
    examples = load_labeled_examples(str(file), validation_size=0)
    assert set(examples) == {"train"}
    assert examples["train"].features == Features(text=Value("string"), label=ClassLabel(names=["ant", "bee", "cat"]))
    assert named(examples["train"]) == sorted(zip(TEXTS, ANIMALS, strict=True))


@pytest.mark.parametrize("validation", ["validation.jsonl", "valid.jsonl.gz", "dev.jsonl"])
def test_a_folder_has_a_file_a_split(tmp_path, validation):
    write(tmp_path / "train.jsonl", ROWS[:20])
    write(tmp_path / validation, ROWS[20:25])
    Dataset.from_list(ROWS[25:]).to_csv(tmp_path / "test.csv")
    (tmp_path / "README.md").write_text("About these files.")
    examples = load_labeled_examples(tmp_path)
    assert {name: split["text"][:] for name, split in examples.items()} == {
        "train": TEXTS[:20],
        "validation": TEXTS[20:25],
        "test": TEXTS[25:],
    }


def test_a_file_with_a_splits_name_that_is_not_read_is_logged(tmp_path, caplog):
    write(tmp_path / "train.jsonl", ROWS)
    (tmp_path / "test.xlsx").write_bytes(b"PK")
    assert set(load_labeled_examples(tmp_path)) == {"train", "validation"}
    assert "test.xlsx is not read" in caplog.text


def test_words_for_missing_values_are_texts_in_csv(tmp_path):
    (tmp_path / "train.csv").write_text("text,label\nnull,NA\nNA,None\nA text.,\n,NA\n")
    examples = load_labeled_examples(tmp_path, validation_size=0)
    assert named(examples["train"]) == [("NA", "None"), ("null", "NA")]


def test_dates_and_numbers_in_strings_stay_texts_in_json(tmp_path):
    texts = ["2024-01-01", "12", "true", "null"]
    file = write(tmp_path / "a.jsonl", [{"text": text, "label": i % 2} for i, text in enumerate(texts)])
    assert load_labeled_examples(file, validation_size=0)["train"]["text"][:] == texts


# Labels


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["b", "a", "b"], ["a", "b"]),
        ([10, 9, -1], ["-1", "9", "10"]),
        (["10", "9", "x"], ["9", "10", "x"]),
        ([True, False, True], ["false", "true"]),
        ([2.0, 1.0, None], ["1", "2"]),
        ([1, "one", None], ["1", "one"]),
    ],
)
def test_classes_are_sorted_numbers_by_size(tmp_path, labels, names):
    examples = load_labeled_examples(write(tmp_path / "a.jsonl", labeled(labels)), validation_size=0)
    assert label_names(examples) == names
    assert len(examples["train"]) == sum(label is not None for label in labels)
    first = int(labels[0]) if labels[0] == 2.0 else labels[0]
    assert label_names(examples)[examples["train"][0]["label"]] == (
        first if isinstance(first, str) else json.dumps(first)
    )


def test_a_class_has_one_number_in_all_splits_and_untrained_ones_are_logged(tmp_path, caplog):
    write(tmp_path / "train.jsonl", [{"text": "1.", "label": "b"}, {"text": "2.", "label": "d"}])
    write(tmp_path / "validation.jsonl", [{"text": "3.", "label": "d"}])
    write(tmp_path / "test.jsonl", [{"text": "4.", "label": "a"}, {"text": "5.", "label": "d"}])
    examples = load_labeled_examples(tmp_path)
    assert label_names(examples) == ["b", "d", "a"]
    assert [split["label"][:] for split in examples.values()] == [[0, 1], [1], [2, 1]]
    assert "test has classes that are never trained on: ['a']" in caplog.text
    assert "validation has classes" not in caplog.text


@pytest.mark.parametrize("names", [["x", "y", "z"], [7, 8, 10]])
def test_a_list_gives_a_text_several_labels(tmp_path, names):
    labels = [[names[2], names[0]], [], [names[1]], None]
    train = load_labeled_examples(write(tmp_path / "a.jsonl", labeled(labels)), validation_size=0)["train"]
    assert train.features["label"] == List(ClassLabel(names=[str(name) for name in names]))
    assert train["label"][:] == [[0, 2], [], [1]]


@pytest.mark.parametrize("several", [False, True])
def test_class_labels_keep_their_order(several):
    label = ClassLabel(names=["z", "a", "never seen"])
    features = {"text": Value("string"), "label": List(label) if several else label}
    given = labeled([[1], [0, 1], [-1]] if several else [1, 0, -1])
    train = load_labeled_examples(in_memory(features, train=given), validation_size=0)["train"]
    assert train.features["label"] == features["label"]
    assert train["label"][:] == ([[1], [0, 1]] if several else [1, 0])


@pytest.mark.parametrize(
    ("labels", "separator"),
    [
        (["a;b", "b", " ;a", None], ";"),
        (["['a', 'b']", "['b']", '["a"]', " "], ","),
        (['["a", "b"]', "b", "a", ""], "|"),
    ],
)
def test_several_labels_in_one_string(tmp_path, labels, separator):
    Dataset.from_list(labeled(labels)).to_csv(tmp_path / "train.csv")
    write(tmp_path / "train.jsonl", labeled(labels))
    for file in ("train.csv", "train.jsonl"):
        examples = load_labeled_examples(tmp_path / file, validation_size=0, label_separator=separator)
        assert examples["train"]["label"][:] == [[0, 1], [1], [0]]
        assert label_names(examples) == ["a", "b"]


@pytest.mark.parametrize(
    ("labels", "hint"),
    [
        (["a;b", "c", "a;c", "b"], "2 of 4 labels contain ';', such as 'a;b', .* label_separator=';'"),
        (["['a']", "['b', 'a']", "['b']", "c"], "3 of 4 labels look like lists, .* label_separator=','"),
        (["a;b", "c", "a", "b"], None),
        (["a, b", "c", "a, c", "b"], None),
    ],
)
def test_joined_labels_cause_a_warning(labels, hint, caplog):
    load_labeled_examples(in_memory(train=labeled(labels)), validation_size=0)
    assert re.search(hint, caplog.text) if hint else "label_separator" not in caplog.text


# Sources


@pytest.mark.parametrize("dtype", ["object", "str", "category", "int"])
def test_a_dataframe_and_a_data_set_are_sources(dtype):
    labels = [i % 3 for i in range(30)] if dtype == "int" else ANIMALS
    frame = pd.DataFrame({"text": TEXTS, "label": pd.Series(labels, dtype=dtype)}).set_index(pd.Index(range(5, 35)))
    expected = sorted(zip(TEXTS, map(str, labels), strict=True))
    for source in (frame, Dataset.from_pandas(frame, preserve_index=False), {"train": frame}):
        examples = load_labeled_examples(source)
        assert sorted(named(examples["train"]) + named(examples["validation"])) == expected
    assert set(load_labeled_examples({"train": frame, "test": frame})) == {"train", "validation", "test"}


def write_newsgroups(folder):
    for i, (text, animal) in enumerate(zip(TEXTS, ANIMALS, strict=True)):
        path = folder / f"sci.{animal}" / ("deep" if i % 2 else ".") / f"{i}.{'TXT' if i % 3 else 'txt'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return sorted(zip(TEXTS, (f"sci.{animal}" for animal in ANIMALS), strict=True))


def test_a_folder_of_class_folders(tmp_path, caplog):
    expected = write_newsgroups(tmp_path)
    (tmp_path / "README.txt").write_text("About these texts.")
    examples = load_labeled_examples(tmp_path, validation_size=0)
    assert named(examples["train"]) == expected
    assert "Dropped: 1 without a label" in caplog.text


def test_a_folder_of_class_folders_for_each_split(tmp_path):
    expected = {split: write_newsgroups(tmp_path / split) for split in ("train", "test")}
    examples = load_labeled_examples(tmp_path, validation_size=0)
    assert {split: named(rows) for split, rows in examples.items()} == expected
    write(tmp_path / "test.jsonl", ROWS)
    with pytest.raises(ValueError, match="are both 'test': keep one"):
        load_labeled_examples(tmp_path)


# Splits


def test_single_examples_stay_in_training_and_others_are_stratified(caplog):
    rows = [*ROWS, {"text": "Only one.", "label": "dog"}, {"text": "Only another.", "label": "elk"}]
    for seed in range(5):
        examples = load_labeled_examples(in_memory(train=rows), validation_size=6, seed=seed)
        assert Counter(label for _, label in named(examples["validation"])) == {"ant": 2, "bee": 2, "cat": 2}
        assert {"Only one.", "Only another."} < set(examples["train"]["text"])
    assert "Classes with one example only, which is kept to train on: 'dog', 'elk'." in caplog.text


@pytest.mark.parametrize("pairs", [False, True])
def test_equal_texts_are_not_on_both_sides(pairs, caplog):
    rows = [{"text": f"{i // 3}.", "pair": f"{i // 3} or {i % 2}", "label": "ab"[i // 3 % 2]} for i in range(180)]
    examples = load_labeled_examples(in_memory(train=rows), text_pair_column="pair" if pairs else None)
    columns = ["text", "text_pair"] if pairs else ["text"]
    sides = [set(zip(*(split[column] for column in columns), strict=True)) for split in examples.values()]
    assert not sides[0] & sides[1] and len(examples["validation"]) == 18
    assert Counter(examples["validation"]["label"]) == pytest.approx({0: 9, 1: 9}, abs=2)
    assert f"{60 if pairs else 120} repeat the text of another one" in caplog.text


@pytest.mark.parametrize("split", ["validation", "matched+mismatched"])
def test_the_test_set_is_never_used_for_validation_and_plus_joins_splits(split):
    parts = {"validation": ROWS[20:]} if split == "validation" else {"matched": ROWS[20:25], "mismatched": ROWS[25:]}
    examples = load_labeled_examples(in_memory(train=ROWS[:20], **parts), test_split=split)
    assert examples["test"]["text"][:] == TEXTS[20:]
    assert sorted(examples["train"]["text"][:] + examples["validation"]["text"][:]) == sorted(TEXTS[:20])


def test_versions_of_one_text_are_on_one_side(caplog):
    words = [[f"{number}{letter}{place}" for place in range(50)] for number in range(20) for letter in "xyz"]
    rows = [{"text": " ".join([*own, version]), "label": version} for own in words for version in ("draft", "final")]
    examples = load_labeled_examples(in_memory(train=rows), test_size=0.25, validation_size=0.2)
    sides = [{text.split()[0] for text in split["text"]} for split in examples.values()]
    assert sum(len(side) for side in sides) == len(set.union(*sides)) == 60
    assert len(examples["test"]) == 30
    assert "60 are versions of another one, such as drafts, and on the same side" in caplog.text


def test_examples_to_test_on_are_held_out_first_unless_there_are_some(tmp_path):
    examples = load_labeled_examples(write(tmp_path / "a.jsonl", ROWS), test_size=0.2, validation_size=3)
    assert {name: len(split) for name, split in examples.items()} == {"train": 21, "validation": 3, "test": 6}
    assert sorted(text for split in examples.values() for text in split["text"]) == sorted(TEXTS)
    assert len(set(examples["test"]["label"][:])) == 3  # stratified
    there = load_labeled_examples(in_memory(train=ROWS[:20], test=ROWS[20:]), test_size=0.5)
    assert there["test"]["text"][:] == TEXTS[20:]


def test_a_split_without_labels_is_left_out(caplog):
    features = {"text": Value("string"), "label": ClassLabel(names=["no", "yes"])}
    examples = load_labeled_examples(in_memory(features, train=labeled([0, 1] * 15), test=labeled([-1] * 30)))
    assert set(examples) == {"train", "validation"}
    assert "test: kept 0 of 30 examples. Dropped: 30 without a label. There are no labels" in caplog.text


# Rows


def test_dropped_and_replaced_examples_are_counted_for_each_split(tmp_path, caplog):
    odd = [
        {"text": "No label.", "label": None},
        {"text": "No label."},
        {"text": "Nor here.", "label": " "},
        {"text": None, "label": "cat"},
        {"text": 5, "label": "cat"},
        {"text": " \u3000\n", "label": "cat"},
        {"text": "Half a \ud83d face.", "label": "cat"},
    ]
    write(tmp_path / "train.jsonl", ROWS + odd)
    write(tmp_path / "test.jsonl", ROWS)
    caplog.set_level(logging.INFO)
    examples = load_labeled_examples(tmp_path, validation_size=0)
    assert len(examples["train"]) == 31
    assert examples["train"][30]["text"] == "Half a \ufffd face."
    lines = [record.getMessage() for record in caplog.records if "kept" in record.getMessage()]
    assert lines == [
        "train: kept 31 of 37 examples. Dropped: 3 without a label, 1 not a string, 2 empty. "
        "Lone surrogates were replaced in 1.",
        "test: kept 30 of 30 examples.",
    ]


def test_pairs_and_ids_in_columns_with_other_names(tmp_path):
    rows = [{"question": f"Q{i}?", "answer": f"A{i}." if i else "", "gold": i % 2, "number": i} for i in range(10)]
    file = write(tmp_path / "a.jsonl", rows)
    examples = load_labeled_examples(
        file,
        text_column="question",
        text_pair_column="answer",
        label_column="gold",
        id_column="number",
        validation_size=0,
    )
    assert examples["train"].features == Features(
        text=Value("string"), text_pair=Value("string"), label=ClassLabel(names=["0", "1"]), id=Value("string")
    )
    assert examples["train"][0] == {"text": "Q1?", "text_pair": "A1.", "label": 1, "id": "1"}
    assert len(examples["train"]) == 9


any_text = st.text(st.characters(codec=None), max_size=20)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(any_text, max_size=12), label=any_text)
def test_json_lines_preserve_any_text(tmp_path, texts, label):
    rows = [{"text": text, "label": [label, "other"]} for text in texts]
    rows += [{"text": "A text.", "label": []}, {"text": "Another text.", "label": ["other"]}]
    file = write(tmp_path / "any.jsonl", rows)
    if label == "other":
        with pytest.raises(ValueError, match="names a class twice"):
            load_labeled_examples(file, validation_size=0)
        return
    train = load_labeled_examples(file, validation_size=0)["train"]
    kept = [replace_lone_surrogates(text) for text in texts if text.strip() and label.strip()]
    assert train["text"][:] == [*kept, "A text.", "Another text."]
    assert not kept or replace_lone_surrogates(label) in train.features["label"].feature.names


# Errors

ERRORS = {
    "a size that is none": (ROWS, {"validation_size": 1.5}, "fraction below 1 or a whole number.* got 1.5"),
    "a negative size": (ROWS, {"validation_size": -1}, "got -1"),
    "a size that is not a number": (ROWS, {"validation_size": float("nan")}, "got nan"),
    "too many to hold out": (ROWS, {"validation_size": 30}, "Holding 30 of 30 .* lower validation_size"),
    "too many to test on": (ROWS, {"test_size": 30}, "Holding 30 of 30 .* for test .* lower test_size"),
    "one example": (ROWS[:1], {}, "Each of the 1 training examples"),
    "one class per example": (ROWS[:3], {}, "Held 0 of 3 .* last of a class. Give more"),
    "no column of texts": (ROWS, {"text_column": "body"}, r"'body' .*\['label', 'text'\]: choose text_column"),
    "no column of labels": (ROWS, {"label_column": "gold"}, "no column 'gold' .* choose label_column"),
    "no column of pairs": (ROWS, {"text_pair_column": "b"}, "no column 'b' .* choose text_pair_column"),
    "no column of ids": (ROWS, {"id_column": "key"}, "no column 'key' .* choose id_column"),
    "no such split": (ROWS, {"test_split": "exam"}, r"no split 'exam', only \['train'\]: choose test_split"),
    "a split twice": (ROWS, {"test_split": "train"}, "'train' is used 2 times"),
    "repeated ids": (ROWS, {"id_column": "label"}, "train: examples with the id 'cat': 10"),
    "a missing id": ([{**ROWS[0], "id": None}], {"id_column": "id"}, "train: examples without an id: 1"),
    "one class": (
        [ROWS[0]] * 5,
        {},
        r"Each of the 5 training examples has the label \['cat'\]: classification needs two labels",
    ),
    "nothing left": ([{"text": " ", "label": 1}], {}, "Nothing is left: train: kept 0 of 1 .* 1 empty"),
    "no rows": ([], {}, "a.jsonl cannot be used: it holds no rows"),
    "no separator": (ROWS, {"label_separator": ""}, "label_separator must not be empty"),
    "a list of numpy": ([{"text": "x", "label": "['a' 'b']"}], {"label_separator": ","}, "a list without commas"),
    "a fraction as a label": ([{"text": "x", "label": 0.5}], {}, "label 0.5 is not a class"),
    "an object as a label": ([{"text": "x", "label": {"a": 1}}], {}, "label {'a': 1} is not a class"),
    "zeros and ones": ([{"text": "x", "label": [0, 1, 0]}], {}, r"\[0, 1, 0\] names a class twice"),
    "lists and no lists": ([ROWS[0], {"text": "x", "label": ["a"]}], {}, "Some labels in column 'label' are lists"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_say_what_to_do(tmp_path, case):
    rows, options, message = ERRORS[case]
    file = write(tmp_path / "a.jsonl", rows)
    with pytest.raises(ValueError, match=message):
        load_labeled_examples(file, **options)


NO_ROWS = Dataset.from_dict({"text": [], "label": []}, Features(text=Value("string"), label=Value("string")))


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (in_memory(train=[{"text": 1, "label": 1}]), ValueError, r"'text' holds Value\('int64'\), not strings: choose"),
        (in_memory(train=ROWS, test=[{"text": "x"}]), ValueError, "no column 'label' in test"),
        (in_memory(train=ROWS, validation=ROWS, dev=ROWS), ValueError, r"Any of the splits \['validation', 'dev'\]"),
        (DatasetDict(train=NO_ROWS), ValueError, "The split 'train' is empty"),
        (Dataset.from_list(ROWS).to_iterable_dataset(), TypeError, "'train' is a stream, .* give Dataset.from_list"),
        ("./nowhere", FileNotFoundError, "There is no file"),
        ("nowhere.jsonl", FileNotFoundError, "There is no file"),
    ],
)
def test_unusable_sources_are_refused(source, error, message):
    with pytest.raises(error, match=message):
        load_labeled_examples(source)


def test_unusable_files_are_refused(tmp_path):
    for name in ("train.jsonl", "train.jsonl.gz"):
        write(tmp_path / name, ROWS)
    with pytest.raises(ValueError, match="are both 'train': keep one"):
        load_labeled_examples(tmp_path)
    (tmp_path / "train.xlsx").touch()
    with pytest.raises(ValueError, match="format of .*train.xlsx is unknown"):
        load_labeled_examples(tmp_path / "train.xlsx")


SPELLINGS = ["sport", "sport", "Sport", "sport ", "sport", "news", "news"]


def test_labels_with_different_spellings_are_named(caplog):
    rows = {"text": [f"text {i}" for i in range(7)], "label": SPELLINGS}
    examples = load_labeled_examples(Dataset.from_dict(rows), validation_size=0)
    assert examples["train"].features["label"].names == ["Sport", "news", "sport", "sport "]
    assert "'sport' and 'Sport' and 'sport '. If they are the same label, give them one name" in caplog.text
