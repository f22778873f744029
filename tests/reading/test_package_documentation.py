"""The corpus of docstrings."""

import pytest

from docsplit_hf.reading.package_documentation import MINIMUM_WORDS, load_package_documentation, unwrap_paragraphs


@pytest.fixture(scope="module")
def splits():
    return load_package_documentation(("accelerate", "datasets"), test_size=30)


@pytest.fixture(scope="module")
def small():
    return load_package_documentation(("dateutil",), test_size=9)


def test_long_texts_labeled_by_package_without_repeats(splits):
    rows = [row for split in splits.values() for row in split]
    texts = [row["text"] for row in rows]
    assert len(set(texts)) == len(texts) > 200
    assert min(len(text.split()) for text in texts) >= MINIMUM_WORDS
    names = splits["train"].features["label"].names
    assert all(row["name"].split(".")[0] == names[row["label"]] for row in rows)
    assert {row["label"] for row in splits["test"]} == {0, 1}


def test_the_split_is_seeded(small):
    again, other = (load_package_documentation(("dateutil",), test_size=9, seed=seed) for seed in (0, 1))
    assert again["test"]["name"][:] == small["test"]["name"][:] != other["test"]["name"][:]


def test_no_test_set_is_possible_and_a_too_large_one_is_refused(small):
    whole = load_package_documentation(("dateutil",), test_size=0)
    assert list(whole) == ["train"] and len(whole["train"]) == sum(map(len, small.values())) > 20
    with pytest.raises(ValueError, match="documents, too few to hold out 100000: lower test_size"):
        load_package_documentation(("dateutil",), test_size=100_000)


def test_packages_are_given_by_import_name():
    with pytest.raises(ModuleNotFoundError, match="'python-dateutil' is not installed"):
        load_package_documentation(("python-dateutil",))


def test_paragraphs_are_unwrapped_and_code_is_left():
    text = (
        "A title\n\nA sentence in\ntwo lines. Another.\n\n    code = 1\n    more()\n- item\n- item\n\nArgs:\n    x: y"
    )
    expected = (
        "A title\n\nA sentence in two lines. Another.\n\n    code = 1\n    more()\n- item\n- item\n\nArgs:\n    x: y"
    )
    assert unwrap_paragraphs(text) == expected
