"""New files that are sorted when they rest, and files that a person moves, which teach the classifier."""

import os
import shutil

import pytest
from transformers import pipeline

from docsplit_hf import KNNClassifierPipeline
from docsplit_hf.classifier.sorting.sorted_files import MANIFEST, read_sorted
from docsplit_hf.classifier.sorting.sorted_folder import SortedFolder
from docsplit_hf.classifier.sorting.watching import MOVED, PATIENCE, Watcher
from docsplit_hf.reading.example_texts import load_example_texts

from ...documents import write_damaged, write_docx

GARDEN = "Every gardener should {} the roses and the hedges in the garden."


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a classifier that was fitted on the example texts."""
    texts = load_example_texts()
    labeled = texts[texts["label"].notna()]
    pipe = pipeline("docsplit-knn", device="cpu")
    pipe.add_examples(labeled["text"].tolist(), labeled["label"].tolist())
    pipe.fit(show_progress=False)
    folder = tmp_path_factory.mktemp("saved") / "model"
    pipe.save_pretrained(folder)
    return folder


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""
    now = [0.0]
    monkeypatch.setattr("docsplit_hf.classifier.sorting.watching.time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def folders(saved, tmp_path):
    shutil.copytree(saved, tmp_path / "model")
    (tmp_path / "inbox" / "below").mkdir(parents=True)
    return tmp_path


def watcher_of(folders, sorted_folder, **options):
    return Watcher(
        open_classifier=lambda: pipeline("docsplit-knn", model=str(folders / "model"), device="cpu"),
        folder=folders / "model",
        inbox=folders / "inbox",
        sorted_folder=sorted_folder,
        options=options,
        rest=3.0,
    )


def sorted_in(folders):
    out = folders / "sorted"
    return sorted(path.relative_to(out).as_posix() for path in out.rglob("*.*") if path.name != MANIFEST)


def test_files_are_sorted_when_they_rest_and_what_cannot_be_read_waits_longer(folders, clock, caplog):
    caplog.set_level("INFO")
    texts = load_example_texts()["text"]
    inbox = folders / "inbox"
    write_docx(inbox / "below" / "a.docx", [texts[0]])
    growing = inbox / "b.txt"
    growing.write_text("The team ")
    write_damaged(inbox / "bad.pdf")
    (inbox / "c.txt.part").write_text("not yet")
    with SortedFolder.opened(folders / "sorted") as sorted_folder:
        watcher = watcher_of(folders, sorted_folder, explain=True)
        watcher.step()
        assert sorted_in(folders) == [] and watcher.next_step() == 3
        clock[0] = 2.0
        growing.write_text("The team scored a goal in the final match.")
        watcher.step()
        clock[0] = 3.0
        watcher.step()
        assert sorted_in(folders) == ["sport/a.docx"]
        clock[0] = 5.0
        watcher.step()
        assert sorted_in(folders) == ["sport/a.docx", "sport/b.txt"]
        clock[0] = 3.0 + 3.0 * PATIENCE + 1
        watcher.step()
        assert sorted_in(folders) == ["_failed/bad.pdf", "sport/a.docx", "sport/b.txt"]
        assert watcher.status() == "2 sorted, 0 unsure, 1 unreadable, 0 waiting, 0 corrections"
        growing.write_text("The choir sang, and the violin played a concert.")
        for clock[0] in (100.0, 200.0):
            watcher.step()
        assert "music/b.txt" in sorted_in(folders) and "sport/b.txt" in sorted_in(folders)
    assert "bad.pdf -> _failed/bad.pdf (damaged" in caplog.text and "b.txt -> sport/b.txt (" in caplog.text
    entry = next(entry for entry in read_sorted(folders / "sorted" / MANIFEST) if entry.target == "sport/b.txt")
    words = entry.reason.replace("; against it: ", ", ").split(", ")
    assert set(words) <= {"the", "team", "scored", "goal", "in", "final", "match"}
    with SortedFolder.opened(folders / "sorted") as sorted_folder:  # started again: nothing twice
        watcher = watcher_of(folders, sorted_folder)
        for clock[0] in (300.0, 400.0, 500.0):
            watcher.step()
        assert len(sorted_in(folders)) == 4 and watcher.next_step() == float("inf")


def test_a_moved_file_teaches_and_what_a_kill_left_out_is_learned_at_the_next_start(folders, clock, caplog):
    caplog.set_level("INFO")
    inbox, out = folders / "inbox", folders / "sorted"
    for i, verb in enumerate(("prune", "water", "move", "plant")):
        (inbox / f"{i}.txt").write_text(GARDEN.format(verb))
    write_damaged(inbox / "bad.pdf")
    with SortedFolder.opened(out) as sorted_folder:
        watcher = watcher_of(folders, sorted_folder)
        for clock[0] in (0.0, 10.0, 100.0):
            watcher.step()
        places = sorted_in(folders)
        moved = [name for name in places if name.endswith(".txt")]
        (out / "sport").mkdir(exist_ok=True)
        (out / "mine").mkdir()
        for name in moved[:2]:
            os.rename(out / name, out / "sport" / f"moved {name[-5:]}")
        os.rename(out / moved[2], out / "mine" / "x.txt")
        os.rename(out / "_failed" / "bad.pdf", out / "sport" / "bad.pdf")
        watcher.step()
        watcher.step()
    assert "2 corrections" in watcher.status()
    assert "which is the folder of no label" in caplog.text and "which teaches nothing: damaged" in caplog.text
    os.rename(out / moved[3], out / "sport" / "last.txt")  # while nothing runs
    with SortedFolder.opened(out) as sorted_folder:
        watcher = watcher_of(folders, sorted_folder)
        sorted_folder.append = lambda entries: (_ for _ in ()).throw(KeyboardInterrupt)  # killed after it has learned
        with pytest.raises(KeyboardInterrupt):
            watcher.step()
    pipe = pipeline("docsplit-knn", model=str(folders / "model"), device="cpu")
    assert len(pipe.datastore) == 43
    with SortedFolder.opened(out) as sorted_folder:
        watcher = watcher_of(folders, sorted_folder)
        watcher.step()
        (inbox / "later.txt").write_text(GARDEN.format("fertilize"))
        for clock[0] in (200.0, 300.0):
            watcher.step()
    assert "sport/later.txt" in sorted_in(folders)
    pipe = pipeline("docsplit-knn", model=str(folders / "model"), device="cpu")
    assert len(pipe.datastore) == 43 and pipe.datastore.origins[-1].file.endswith(".txt")
    reasons = [entry.reason for entry in read_sorted(out / MANIFEST)]
    assert reasons.count(MOVED) == 5


def test_a_correction_is_learned_by_the_classifier_that_another_program_saves_meanwhile(folders, clock, monkeypatch):
    out = folders / "sorted"
    text = GARDEN.format("prune")
    (folders / "inbox" / "a.txt").write_text(text)
    fit = KNNClassifierPipeline.fit
    others = [pipeline("docsplit-knn", model=str(folders / "model"), device="cpu")]

    def fit_while_another_program_saves(pipe, **options):
        if others:
            other = others.pop()
            other.remove_examples(other.datastore.ids[:3])
            other.save_pretrained(folders / "model")
        return fit(pipe, **options)

    with SortedFolder.opened(out) as sorted_folder:
        watcher = watcher_of(folders, sorted_folder)
        for clock[0] in (0.0, 10.0):
            watcher.step()
        [name] = sorted_in(folders)
        label = "music" if name.startswith("sport") else "sport"
        (out / label).mkdir(exist_ok=True)
        os.rename(out / name, out / label / "a.txt")
        monkeypatch.setattr(KNNClassifierPipeline, "fit", fit_while_another_program_saves)
        watcher.step()
    store = pipeline("docsplit-knn", model=str(folders / "model"), device="cpu").datastore
    assert len(store) == 40 - 3 + 1 and not others
    assert store.texts[-1] == text and store.label_names[store.labels[-1]] == label
    assert "1 corrections" in watcher.status()


def test_another_classifier_is_opened_and_the_plan_copies_nothing(folders, clock):
    (folders / "inbox" / "a.txt").write_text("The team scored a goal in the final match.")
    watcher = watcher_of(folders, SortedFolder(folders / "sorted"))
    assert [entry.target for entry in watcher.plan()] == ["sport/a.txt"] and not (folders / "sorted").exists()
    with SortedFolder.opened(folders / "sorted") as sorted_folder:
        watcher = watcher_of(folders, sorted_folder)
        pipe = pipeline("docsplit-knn", model=str(folders / "model"), device="cpu")
        pipe.add_examples(["The team scored a goal in the final match."] * 3, ["chess"] * 3, allow_duplicates=True)
        pipe.remove_examples(texts=[text for text in pipe.datastore.texts[:40] if "match" in text])
        pipe.fit(show_progress=False)
        pipe.save_pretrained(folders / "model")
        for clock[0] in (0.0, 10.0):
            watcher.step()
    assert sorted_in(folders) == ["chess/a.txt"]
