import logging
import shutil
from typing import Any, NamedTuple

import pytest
from datasets import Dataset, DatasetDict

from experiments.tasks.citation_pairs import PairTask
from experiments.tasks.known_tasks import LONG_DOCUMENT_TASKS
from experiments.tasks.load_paper_task import load_paper_task
from experiments.tasks.paper_tasks import TASKS
from tests.experiments.evaluation.test_tasks import write_rows


def test_documents_with_pairs_are_a_pair_task(tmp_path):
    write_rows(tmp_path / "docs.jsonl", [{"id": f"d{i}", "text": f"Document {i}."} for i in range(9)])
    pairs = [{"id_a": f"d{i}", "id_b": f"d{i + 1}", "label": i % 2} for i in range(8)]
    write_rows(tmp_path / "train.jsonl", pairs[:4])
    write_rows(tmp_path / "test.jsonl", pairs[4:6])
    for task, name in ((load_paper_task(tmp_path), tmp_path.name), (load_paper_task("aan", tmp_path), "AAN")):
        assert isinstance(task, PairTask) and task.name == name
        assert task.train[1] == ("d1", "d2", 1)
        assert task.texts == [f"Document {i}." for i in range(7)]
    few = load_paper_task("AAN", tmp_path, max_train_examples=1)
    assert (len(few.train), len(few.test)) == (1, 2)
    assert set(few.documents_by_id) == {document for a, b, _ in few.train + few.test for document in (a, b)}


def test_newsgroups_from_a_folder_are_stripped_and_empty_ones_dropped(tmp_path, caplog):
    header = "From: ann@example.org\nSubject: Re: comets\n\n"
    rows = [{"text": f"{header}Bob writes:\n> {i}?\nYes, {i}.", "label": f"sci.{'ab'[i % 2]}"} for i in range(8)]
    write_rows(tmp_path / "train.jsonl", [*rows, {"text": f"{header}> Quoted only.", "label": "sci.a"}])
    write_rows(tmp_path / "test.jsonl", rows[:2])
    with caplog.at_level(logging.WARNING, "docsplit_hf"):
        task = load_paper_task("20news", folder=tmp_path)
    assert (task.name, task.train_texts) == ("20News", [f"Yes, {i}." for i in range(8)])
    assert "20News: 1 of 9 texts of train are empty: dropped." in caplog.text
    named = shutil.copytree(tmp_path, tmp_path / "20_news")
    assert load_paper_task(named).train_texts == task.train_texts
    assert load_paper_task(tmp_path).train_texts[0].startswith("From: ann")


class HubDataset(NamedTuple):
    """A data set on the Hub: one of its rows, its columns, another label, and the task that it becomes."""

    row: dict[str, Any]
    text_column: str
    label_column: str
    other_label: Any
    has_test: bool
    label_names: list[str]
    first_text: str


HUB_DATASETS = {
    "FakeNews": HubDataset(
        row={"id": 1, "type": "satire", "content": "Fake."},
        text_column="content",
        label_column="type",
        other_label="other",
        has_test=False,
        label_names=["other", "satire"],
        first_text="Fake. 0",
    ),
    "20News": HubDataset(
        row={"text": "Post.", "label": 1, "label_text": "x"},
        text_column="text",
        label_column="label_text",
        other_label="other",
        has_test=True,
        label_names=["other", "x"],
        first_text="Post. 0",
    ),
    "arXiv": HubDataset(
        row={"title": "A title", "abstract": "We count.", "categories": ["math.CO cs.DM"]},
        text_column="abstract",
        label_column="categories",
        other_label=["hep-ph"],
        has_test=False,
        label_names=["hep-ph", "math"],
        first_text="A title\nWe count. 0",
    ),
    "BBCNews": HubDataset(
        row={"text": "News.", "label": 1, "label_text": "sport"},
        text_column="text",
        label_column="label_text",
        other_label="other",
        has_test=True,
        label_names=["other", "sport"],
        first_text="News. 0",
    ),
}


@pytest.mark.parametrize("name", HUB_DATASETS)
def test_tasks_on_the_hub_have_their_columns(monkeypatch, name):
    source = HUB_DATASETS[name]
    text = source.row[source.text_column]
    labels = [source.row[source.label_column], source.other_label]
    rows = Dataset.from_list(
        [
            source.row | {source.text_column: f"{text} {number}", source.label_column: labels[number % 2]}
            for number in range(40)
        ]
    )

    def load(dataset):
        assert dataset == LONG_DOCUMENT_TASKS[name].dataset
        return DatasetDict({"train": rows, "test": rows} if source.has_test else {"train": rows})

    monkeypatch.setattr("datasets.load_dataset", load)
    task = load_paper_task(name.lower())
    assert len(task.test_texts) == (40 if source.has_test else 8)
    assert task.label_names == source.label_names
    if source.has_test:
        assert task.train_texts[0] == source.first_text
    else:  # the test set is drawn at random
        assert source.first_text in [*task.train_texts, *task.test_texts]


def test_unknown_tasks_are_refused_with_the_nearest_and_all_that_are_known(tmp_path):
    with pytest.raises(ValueError, match="no task '20nwes'. Did you mean '20News'") as error:
        load_paper_task("20nwes")
    assert all(name in str(error.value) for name in (*LONG_DOCUMENT_TASKS, *TASKS, "documentation"))
    with pytest.raises(ValueError, match="no task 'xyzzy'. Known tasks: FakeNews, 20News"):
        load_paper_task("xyzzy")
    with pytest.raises(ValueError, match="no task 'mine'.* A folder of your own is a task itself"):
        load_paper_task("mine", folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "folder", "error", "said"),
    [
        ("/no/such/folder", None, FileNotFoundError, "no file or folder '/no/such/folder'"),
        ("reviews.csv", None, FileNotFoundError, "no file 'reviews.csv'"),
        ("bbc", "./nowhere", FileNotFoundError, "nowhere"),
        ("aan", "./nowhere", FileNotFoundError, "nowhere"),
        ("cola", "./nowhere", FileNotFoundError, "nowhere"),
        ("nyt", None, ValueError, "NYT is not on the Hub.*LDC2008T19"),
        ("AAN", None, ValueError, "AAN is not on the Hub.*lra_release.gz"),
    ],
)
def test_missing_files_are_named_and_errors_of_licensed_tasks_tell_how_to_get_them(name, folder, error, said):
    with pytest.raises(error, match=said):
        load_paper_task(name, folder=folder)
