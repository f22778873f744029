import json
from collections import Counter

import numpy as np
import pytest

from experiments.tasks import wikipedia_tasks
from experiments.tasks.load_paper_task import load_paper_task
from experiments.tasks.wikipedia_tasks import INVERTED, PAIRED, TITLED, wikipedia_splits


def article(number, titles, words=300):
    """An article of about ``words`` words, with an individual beginning, and a section under each title."""
    start = f"Beginning {number} of an article that says what all of it is about."
    filler = " ".join(f"word{number}" for _ in range((words - len(start.split())) // len(titles) - 2))
    return "\n".join([start, *(f"{title}\n{filler}." for title in titles)])


FILMS = [article(number, ["Plot.", "History."]) for number in range(30)]
PLACES = [article(number, ["== Climate ==", "Name"], 600) for number in range(30, 40)]
SEVERAL = [article(number, ["Plot.", "Climate."]) for number in range(40, 45)]
NONE = [article(number, ["History."], 700) for number in range(50, 100)]
ARTICLES = [*FILMS, *PLACES, *SEVERAL, *NONE, "Too short.\nPlot.\nShort."]


def rows_of(name, seed=0):
    splits = wikipedia_splits(ARTICLES, name, seed)
    names = splits["train"].features["label"].names
    return {split: [(row["text"], names[row["label"]]) for row in splits[split]] for split in splits}


def test_section_titles_of_one_label_are_the_label_and_are_removed():
    rows = rows_of(TITLED)
    for split in ("train", "test"):
        assert Counter(label for _, label in rows[split]) == {"film and television": 10, "places": 5}
    found = dict([*rows["train"], *rows["test"]])
    assert len(found) == 30  # of each label and length at most 20, none twice
    films = {text.replace("Plot.\n", "") for text in FILMS}
    places = {text.replace("== Climate ==\n", "") for text in PLACES}
    assert {text for text, label in found.items() if label == "places"} == places
    assert {text for text, label in found.items() if label == "film and television"} < films


def test_inverted_has_the_beginning_and_then_the_sections_of_the_label_at_the_end():
    titled = rows_of(TITLED)
    inverted = rows_of(INVERTED)
    for (plain, label), (turned, same_label) in zip(titled["test"], inverted["test"], strict=True):
        beginning, labeled_section, title, other_section = plain.split("\n")
        assert turned.split("\n") == [title, other_section, beginning, labeled_section] and label == same_label


def test_paired_begins_with_an_unlabeled_article_that_is_used_once():
    titled = rows_of(TITLED)
    paired = rows_of(PAIRED)
    first = []
    for split in ("train", "test"):
        for (plain, label), (both, same_label) in zip(titled[split], paired[split], strict=True):
            assert both.endswith(f"\n{plain}") and label == same_label
            first.append(both[: -len(plain) - 1])
    assert len(set(first)) == len(first) == 30 and set(first) <= set(NONE)


def test_equally_many_articles_are_drawn_of_each_length(monkeypatch):
    monkeypatch.setattr(wikipedia_tasks, "PER_LABEL_AND_LENGTH", 4)
    lengths = [300, 700, 1_500, 3_000, 5_000]
    articles = [article(number, ["Plot."], lengths[number % 5]) for number in range(100)]
    splits = wikipedia_splits([*articles, *PLACES], TITLED, 0)
    films = splits["test"].features["label"].str2int("film and television")
    words = [len(row["text"].split()) for split in splits for row in splits[split] if row["label"] == films]
    assert np.bincount(np.searchsorted(wikipedia_tasks.LENGTHS, words)).tolist() == [4] * 5


def test_tasks_are_made_of_a_file_of_articles(tmp_path):
    with pytest.raises(ValueError, match="WikipediaPaired is made of Wikipedia's articles: give a file or folder"):
        load_paper_task("wikipedia_paired")
    file = tmp_path / "articles.jsonl"
    file.write_text("".join(json.dumps({"title": "A", "text": text}) + "\n" for text in ARTICLES))
    task = load_paper_task("WikipediaPaired", file, max_test_examples=9)
    assert (task.name, task.label_names) == ("WikipediaPaired", ["film and television", "places"])
    assert task.train_texts == [text for text, _ in rows_of(PAIRED)["train"]] and len(task.test_texts) == 9
