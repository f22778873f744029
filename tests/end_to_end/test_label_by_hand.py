"""``docsplit label`` in a real terminal: no label is lost wherever it is killed."""

import json
import re
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth
from transformers import pipeline

from docsplit_hf import load_labeled_examples
from docsplit_hf.cli.label import Labeling, LabelingArguments, label
from docsplit_hf.cli.labeling.files import LABELS, labeling_folder
from docsplit_hf.cli.labeling.screen import screen_lines
from docsplit_hf.cli.labeling.state import COMMANDS, LABEL_KEYS, Action, Document, State, press, put_back
from docsplit_hf.encoders.checkpoints.atomic_replacement import STAGING

from ..conftest import make_text
from .conftest import ROOT
from .terminal import STOPPED, Terminal

SCRIPT = ROOT / "examples" / "label_by_hand.py"
HOSTILE = "\x1b]0;owned\x07\x1b[2J [red]The river[/red] feeds the valley.\u202e\x9b31m\r"
FITTING = "docsplit_hf.classification.ensemble.fitting:fit_all"
SAVING = "docsplit_hf.datastore.knn_datastore:KNNDatastore.save_pretrained"


@pytest.fixture(scope="session")
def to_label(workshop):
    path = workshop / "to_label.jsonl"
    texts = [make_text(number) for number in range(100, 124)]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


@pytest.fixture
def start(server, workshop, to_label, tmp_path):
    """Start to label in a terminal."""

    def start(*options, **terminal):
        given = [f"--documents={to_label}", f"--model_name_or_path={workshop / 'tiny'}", "--batch_size=3"]
        labels = ["--labels", "river=The river.", "engine", "garden"]
        return Terminal(SCRIPT, *given, *labels, f"--output_dir={tmp_path / 'out'}", *options, **terminal)

    return start


def rows_in(folder):
    return [json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines()]


def type_keys(terminal, folder, *keys):
    """Press keys, each after the former one has changed the file of labels."""
    for key in keys:
        before = (folder / "labels.jsonl").stat().st_size
        terminal.press(key)
        terminal.wait_until(lambda before=before: (folder / "labels.jsonl").stat().st_size != before)


def number_shown(output):
    return int(re.findall(r"Document (\d+),", output)[-1])


def test_a_killed_session_loses_no_label_and_the_next_start_continues(start, tmp_path):
    folder = tmp_path / "out"
    kept = []

    def begin(**options):
        terminal = start(**options)
        terminal.wait_for("Document ")
        assert number_shown(terminal.output) == len(kept) + 1
        assert ("Embedding:" in terminal.output) == (not kept)
        return terminal

    def kill(terminal):
        terminal.kill()
        rows = rows_in(folder)
        assert rows[: len(kept)] == kept and len({row["text"] for row in rows}) == len(rows)
        kept[:] = rows

    terminal = begin()
    type_keys(terminal, folder, "1")
    kill(terminal)
    with open(folder / "labels.jsonl", "ab") as file:
        file.write(b'{"id": "1", "text": "The ri')
    terminal = begin()
    assert "is incomplete, because its process was killed, and is removed" in terminal.output
    type_keys(terminal, folder, "2", "3", "u", "s")
    terminal.press("1")  # which is written or not, and never by half
    kill(terminal)
    assert [row["label"] for row in kept][:3] == ["river", "engine", None]

    terminal = begin()
    terminal.press("q")
    terminal.finish()  # all is learned, so the next start has nothing to fit
    terminal = begin(stop_in=FITTING)
    type_keys(terminal, folder, "1", "2")
    terminal.press("+forest\r")
    terminal.wait_for(STOPPED)
    kill(terminal)
    assert kept[-1]["label"] == "forest"
    terminal = start(stop_in=SAVING)
    terminal.wait_for(STOPPED)
    assert (folder / STAGING).is_dir()
    kill(terminal)

    terminal = begin()
    assert "4 forest" in terminal.output and f"{len(kept) - 1} labels" in terminal.output
    terminal.press("q")
    assert "The classifier is in" in terminal.finish()
    labeled = {row["text"]: row["label"] for row in kept if row["label"] is not None}
    store = pipeline("docsplit-knn", model=str(folder), device="cpu").datastore
    names = zip(store.texts, store.ids, (store.label_names[label] for label in store.labels), strict=True)
    assert {text: name for text, row_id, name in names if row_id.startswith("hand:")} == labeled
    assert len(store.documents) == 24 - len(kept)
    assert len(load_labeled_examples(folder / "labels.jsonl", validation_size=0)["train"]) == len(labeled)
    progress = [json.loads(line)["labels"] for line in (folder / "progress.jsonl").read_text().splitlines()]
    assert progress[0] == 0 and progress[-1] == len(labeled)


def test_documents_keep_their_file_names_when_a_file_changes(workshop, tmp_path):
    documents = tmp_path / "documents"
    folder = tmp_path / "out"
    (documents / "old").mkdir(parents=True)
    names = ["a.txt", "b.txt", "old/c.txt"]
    for number, name in enumerate(names):
        (documents / name).write_text(make_text(number))
    arguments = LabelingArguments(
        documents=str(documents),
        labels=["river", "engine"],
        output_dir=str(folder),
        model_name_or_path=str(workshop / "tiny"),
    )

    def answer(label):
        labeling = Labeling(arguments)
        labeling.learn()
        batch = labeling.next_batch(9)
        labeling.perform(batch, Action("answer", label, min(batch.documents, key=lambda document: document.id)))
        labeling.learn()
        return labeling, [document.id for document in batch.documents], batch

    with labeling_folder(folder):
        labeling, shown, batch = answer("river")
        assert sorted(shown) == names and rows_in(folder)[0]["id"] == "a.txt"
        assert "hand:a.txt" in labeling.pipe.datastore.ids
        assert {line.partition(". ")[2] for _, line in screen_lines(batch, 80, 24)[:1]} <= set(names)
        (documents / "a.txt").write_text(make_text(7))
        labeling, shown, _ = answer("engine")
        assert sorted(shown)[1:] == names[1:] and re.fullmatch(r"a.txt [0-9a-f]{16}", sorted(shown)[0])
        assert rows_in(folder)[1]["text"] == make_text(7)
        for _ in range(2):
            labeling.perform(batch, Action("undo"))
        labeling.learn()
        left = labeling.pipe.datastore.documents
        assert len(left) == 4 and {*names} < {*left.ids}
        assert left.texts[left.ids.index("a.txt")] == make_text(0)


def test_a_document_is_asked_again_after_its_learned_label_is_taken_back(start, tmp_path):
    folder = tmp_path / "out"
    terminal = start()
    terminal.wait_for("Document 1,")
    type_keys(terminal, folder, "1", "s")
    terminal.press("3")
    terminal.wait_for("Document 4,")
    first = rows_in(folder)[0]["text"]
    type_keys(terminal, folder, "u", "u", "u")
    terminal.press("q")
    terminal.finish()
    assert rows_in(folder) == []
    store = pipeline("docsplit-knn", model=str(folder), device="cpu").datastore
    assert first in store.documents.texts and all(row_id.startswith("label:") for row_id in store.ids)
    assert len(store.documents) == 24  # what was skipped, too


def test_ctrl_c_ctrl_d_and_a_closed_terminal_end_the_session_cleanly(start, tmp_path):
    folder = tmp_path / "out"
    terminal = start()
    terminal.wait_for("Document 1,")
    other = start()
    assert "Another process labels in" in other.finish(2)
    type_keys(terminal, folder, "1")
    terminal.resize(40, 20)
    terminal.wait_for("s skip  u undo  ? help")  # the short form, for a small window
    terminal.press("\x03")
    assert "Stopped. 1 labels are in" in terminal.finish(130)
    terminal = start(stop_in=FITTING)
    terminal.wait_for(STOPPED)
    terminal.press("\x03")
    terminal.finish(130)
    terminal = start()
    terminal.wait_for("Document 2,")
    type_keys(terminal, folder, "2")
    terminal.press("\x04")
    assert "2 labels are in" in terminal.finish()
    terminal = start()
    terminal.wait_for("Document 3,")
    type_keys(terminal, folder, "3")
    terminal.hang_up()
    assert [row["label"] for row in rows_in(folder)] == ["river", "engine", "garden"]


def test_pairs_and_labeled_examples_then_the_saved_classifier_alone(workshop, tmp_path):
    folder = tmp_path / "out"
    rows = [
        {"body": make_text(number), "more": make_text(number + 50), "topic": "ab"[number % 2]} for number in range(9)
    ]
    for name, part in (("labeled", rows[:4]), ("documents", rows[2:])):  # two documents have a label already
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    batches = []

    def accept(state, perform):
        batches.append([(document.text, document.text_pair) for document in state.documents])
        while state.documents and len(batches[-1]) > 1:  # quits the batch of one
            state, action = press(state, "enter")
            state = perform(state, action)
        return state

    arguments = LabelingArguments(
        documents=str(tmp_path / "documents.jsonl"),
        labeled=str(tmp_path / "labeled.jsonl"),
        text_column="body",
        text_pair_column="more",
        label_column="topic",
        output_dir=str(folder),
        model_name_or_path=str(workshop / "tiny"),
        batch_size=2,
    )
    label(arguments, accept)
    assert [len(batch) for batch in batches] == [2, 2, 1]
    given = [content for batch in batches for content in batch]
    assert set(given) == {(row["body"], row["more"]) for row in rows[4:]}
    assert [(row["text"], row["text_pair"]) for row in rows_in(folder)] == given[:4]
    label(LabelingArguments(output_dir=str(folder), batch_size=1), accept)  # its documents and labels
    assert batches[-1] == given[4:]


def bad_line(folder):
    (folder / LABELS).write_text('{"text": "The river."}\n')


def other_files(folder):
    (folder / "notes.txt").write_text("mine")


ERRORS = {
    "no documents": ({"documents": None}, None, "no documents to label: give a file or a folder by --documents"),
    "a file without usable texts": ({"documents": "empty.jsonl"}, None, "There is nothing to learn from"),
    "one label": ({"labels": ["river"]}, None, "There is only one label, 'river': give two or more"),
    "no label": ({"labels": []}, None, "There is no label: give two or more"),
    "a label twice": ({"labels": ["river", "River=wide"]}, None, "'River' is given twice, maybe in another case"),
    "a label without a name": ({"labels": ["=wide", "engine"]}, None, "'=wide' has no printable name"),
    "a label that commands": ({"labels": ["\x1b[2J", "engine"]}, None, "has no printable name"),
    "no batch": ({"batch_size": 0}, None, "--batch_size must be at least 1, got 0"),
    "a folder of something else": ({}, other_files, "is not empty, but has neither labels.jsonl nor a classifier"),
    "a line of something else": ({}, bad_line, "Line 1 of .* is not JSON with id, text, label: correct it"),
    "several labels each": (
        {"labeled": "several.jsonl"},
        None,
        "have several labels each, but labeling by hand needs one",
    ),
}


@pytest.mark.parametrize("given, make, message", ERRORS.values(), ids=ERRORS)
def test_bad_input(given, make, message, workshop, to_label, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.jsonl").write_text('{"text": " "}\n')
    several = [{"text": "The river.", "label": ["river", "engine"]}, {"text": "An engine.", "label": ["engine"]}]
    (tmp_path / "several.jsonl").write_text("".join(json.dumps(row) + "\n" for row in several))
    folder = tmp_path / "out"
    if make is not None:
        folder.mkdir()
        make(folder)
    files = {"documents": str(to_label), "output_dir": str(folder), "model_name_or_path": str(workshop / "tiny")}
    with pytest.raises(ValueError, match=message), labeling_folder(folder):
        label(LabelingArguments(**({"labels": ["river", "engine"]} | files | given)), show=None)


def test_a_trained_classifier_and_a_script_without_a_terminal_are_refused(run_script, workshop, to_label, tmp_path):
    from docsplit_hf import KNNClassifier

    arguments = [f"--documents={to_label}", "--labels", "river", "engine"]
    printed = run_script(SCRIPT, *arguments, f"--output_dir={tmp_path / 'out'}", code=2)
    assert "needs a terminal for its screen and keys" in printed and not (tmp_path / "out").exists()
    model = KNNClassifier.from_encoder(str(workshop / "tiny"), id2label={0: "river", 1: "engine"})
    model.save_pretrained(tmp_path / "trained")
    for file in (workshop / "tiny").glob("*token*"):
        (tmp_path / "trained" / file.name).write_bytes(file.read_bytes())
    arguments = LabelingArguments(
        documents=str(to_label), output_dir=str(tmp_path / "out"), model_name_or_path=str(tmp_path / "trained")
    )
    with (
        pytest.raises(ValueError, match="was trained, so new labels cannot be added to it"),
        labeling_folder(tmp_path / "out"),
    ):
        Labeling(arguments)


DOCUMENTS = (Document("a", "The river.", label="river", score=0.6), Document("b", "The engine."))
STATE = State(DOCUMENTS, ("river", "engine", "garden"), left=2)


def press_all(state, *keys):
    """Return the state after some keys, and the action of the last one."""
    for key in keys:
        state, action = press(state, key)
    return state, action


@pytest.mark.parametrize(
    "keys, label",
    [
        (["2"], "engine"),
        (["enter"], "river"),
        (["s"], None),
        ([*"/g", "enter"], "garden"),
        ([*"/ENGINE", "enter"], "engine"),
        ([*"+forest", "enter"], "forest"),
        ([*"+River", "enter"], "river"),
        ([*"+forests", "backspace", "enter"], "forest"),
        (["/", "x", "escape", "1"], "river"),
        (["/", "backspace", "1"], "river"),
        (["m", "?", "2", "2"], "engine"),  # any key leaves the help, and does no more
        ([*"/x", "enter", "3"], "garden"),
    ],
)
def test_keys_that_give_a_label(keys, label):
    state, action = press_all(STATE, *keys)
    assert action == ("answer", label, DOCUMENTS[0])
    assert (state.documents, state.done, state.left, state.page, state.typed) == (DOCUMENTS[1:], 1, 1, 0, None)
    assert put_back(state, DOCUMENTS[0], label).documents == DOCUMENTS
    assert state.labels == (*STATE.labels, *(["forest"] if label == "forest" else []))


@pytest.mark.parametrize("key", ["4", "a", "z", "x1", "escape", "backspace", "é", " "])
def test_other_keys_do_nothing(key):
    state, action = press(STATE, key)
    assert action is None and state == replace(STATE, message=state.message) and "does nothing" in state.message


def test_labels_have_distinct_keys_and_further_labels_are_found_by_name():
    assert not set(LABEL_KEYS) & set(COMMANDS) and len(set(LABEL_KEYS)) == len(LABEL_KEYS)
    labels = tuple(f"label {number:02}" for number in range(40))
    state = replace(STATE, labels=labels)
    assert [press(state, key)[1].label for key in LABEL_KEYS] == list(labels[: len(LABEL_KEYS)])
    ambiguous, action = press_all(state, *"/label 3", "enter")
    assert action is None and "10 labels begin with this" in ambiguous.message
    assert press_all(ambiguous, "9", "enter")[1].label == "label 39"


ANY_TEXT = st.text(max_size=300)


@example(HOSTILE, HOSTILE, [HOSTILE] * 2, 80, 24)
@given(ANY_TEXT, ANY_TEXT, st.lists(ANY_TEXT, min_size=2, max_size=40), st.integers(1, 120), st.integers(1, 50))
def test_the_screen_fits_any_window_and_has_no_control_characters(text, reason, labels, columns, rows):
    document = Document("1", text, label=labels[0], score=0.5, words=(text,), reason=reason)
    state = State((document,), tuple(labels), left=1, learned=reason, message=text, page=3)
    for shown in (state, replace(state, help=True), replace(state, typed="/e")):
        lines = screen_lines(shown, columns, rows)
        assert len(lines) <= rows
        for _, line in lines:
            assert all(unicodedata.category(character)[0] != "C" for character in line)
            assert columns < 2 or get_cwidth(line) <= columns


def test_paging_shows_each_line_of_a_long_text_once():
    text = "\n".join(f"Line {number} of a long text." for number in range(100))
    state = State((Document("1", text),), ("river", "engine"))
    shown = []
    for page in range(30):
        lines = [line for _, line in screen_lines(replace(state, page=page), 60, 24) if line.startswith("Line")]
        if page and lines[0] == shown[0]:
            break
        shown += lines
    assert shown == text.split("\n")
