"""Nothing of a removed text is left in a classifier's folder, in any byte."""

import copy

import pyarrow.parquet as pq
import pytest
from transformers import pipeline

from docsplit_hf.classifier.exported_classifier import load_snapshot
from docsplit_hf.content_hash import cache_folder
from docsplit_hf.reading.example_texts import load_example_texts

from ...documents import write_docx

WORDS = ("zyxomorph", "quibbleton", "frandelbrook")
TEXT = "The zyxomorph of quibbleton plays a match in frandelbrook stadium."


def traces(folder):
    """The files with a word of the removed texts, in their bytes or in the rows of a table."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            if content.startswith(b"PAR1"):
                content += str(pq.read_table(path).to_pydict()).encode()
            found += [path.name for word in WORDS if word.encode() in content.lower()]
    return found


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write_docx(tmp_path_factory.mktemp("files") / "frandelbrook.docx", [f"{TEXT} Again."])


@pytest.fixture(scope="module")
def pipe_of_module(file):
    """A classifier with the words in two examples, of a text and of a file, and in two documents."""
    texts = load_example_texts()
    labeled = texts[texts["label"].notna()][::2]
    pipe = pipeline("docsplit-knn", device="cpu")
    pipe.add_examples(labeled["text"].tolist(), labeled["label"].tolist())
    pipe.add_examples([TEXT], ["sport"], ids=["secret"])
    pipe.add_examples([file], ["sport"])
    pipe.add_documents([f"{TEXT} One.", f"{TEXT} Two."], ids=["d-one", "d-two"])
    pipe.fit(show_progress=False)
    return pipe


@pytest.fixture
def pipe(pipe_of_module):
    return copy.deepcopy(pipe_of_module)


def test_removed_texts_are_nowhere_after_the_next_save(pipe, file, tmp_path):
    folder = tmp_path / "model"
    pipe.save_pretrained(folder)
    assert {name.partition("-")[0] for name in traces(folder)} == {"rows", "document_rows", "vocabulary"}
    load_snapshot(folder, None, None, memory_map=True)  # copies the rows to the cache of this machine
    cached = set(cache_folder("rows").glob("*.arrow"))
    with_words = [path for path in cached if any(word.encode() in path.read_bytes().lower() for word in WORDS)]
    assert with_words
    pipe.remove_examples(["secret"], files=[file])
    pipe.remove_documents(["d-one"], texts=[f"{TEXT} Two."])
    pipe.save_pretrained(folder)
    assert traces(folder) == [] and not any(path.exists() for path in with_words)
    again = pipeline("docsplit-knn", model=str(folder), device="cpu")
    assert again("The players won the match.", explain=True)[0]["label"] == "sport"
    assert sum(term.startswith("(forgotten ") for term in again.datastore.fitted.vocabulary) >= len(WORDS)
    with pytest.raises(ValueError, match="No example has the text 'x'"):
        pipe.remove_examples(texts=["x"])
    with pytest.raises(ValueError, match="No document has the file 'x'"):
        pipe.remove_documents(files=["x"])
    with pytest.raises(TypeError, match="give a list"):
        pipe.remove_examples(files="x")
