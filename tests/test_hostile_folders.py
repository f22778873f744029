"""A folder that a stranger made is opened, saved to and finished: no file outside it changes, whatever it holds."""

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib.figure
import numpy as np
import pytest
import torch
from transformers import BertModel, TrainerCallback, pipeline

from docsplit_hf import (
    Audit,
    AutoModelForDocSplit,
    DocumentEncoder,
    KNNClassifier,
    KNNClassifierPipeline,
    KNNDatastore,
)
from docsplit_hf.apps.page.sessions import SharedModel
from docsplit_hf.classifier.predict_file import PredictionFiles, classify_file
from docsplit_hf.encoding.checkpoints.checkpoint import (
    AutoModelWithoutHead,
    DamagedCheckpointError,
    find_checkpoint,
    open_checkpoint,
)
from docsplit_hf.evaluation.systems import load_system
from docsplit_hf.reading.files.failure_lists import write_failures
from docsplit_hf.reading.files.failures import FailedFile
from docsplit_hf.storage.atomic_replacement import SAVED, STAGING, finish_save, replaced_at_once, valid_folder
from docsplit_hf.storage.inside_folder import refuse_links, write_file
from docsplit_hf.storage.manifest import render_manifest
from docsplit_hf.storage.shards import shard_table, writing_shard
from docsplit_hf.training.checkpoint_folders import check_output_dir
from experiments.evaluation.results import ResultStore
from experiments.report.figures import save as save_figure

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")

LOADERS = {
    "DocumentEncoder": lambda folder: DocumentEncoder.from_pretrained(str(folder), device="cpu"),
    "pipeline": lambda folder: pipeline("docsplit-knn", model=str(folder), device="cpu"),
    "KNNDatastore": KNNDatastore.from_pretrained,
    "mapped KNNDatastore": lambda folder: KNNDatastore.from_pretrained(folder, memory_map=True),
    "KNNClassifier.from_encoder": lambda folder: KNNClassifier.from_encoder(str(folder), num_labels=2),
    "AutoModelForDocSplit": lambda folder: AutoModelForDocSplit.from_pretrained(str(folder)),
    "AutoModelWithoutHead": lambda folder: AutoModelWithoutHead.from_pretrained(str(folder)),
    "find_checkpoint": find_checkpoint,
    "open_checkpoint": open_checkpoint,
    "valid_folder": valid_folder,
    "the page": lambda folder: SharedModel(str(folder)),
    "load_system": lambda folder: load_system(str(folder)),
}


def save_classifier(folder):
    pipe = pipeline("docsplit-knn", model=str(folder.parent / "whole"), device="cpu")
    pipe.save_pretrained(folder)


def save_files(folder):
    with replaced_at_once(folder, lambda folder: ["out/deep/model.safetensors", "notes"]) as staging:
        for name in ("out/precious.txt", "config.json", "model.safetensors"):
            (staging / name).parent.mkdir(exist_ok=True)
            (staging / name).write_text("new")


WRITERS = {
    "save_pretrained": save_classifier,
    "datastore": lambda folder: KNNDatastore.from_pretrained(folder.parent / "whole").save_pretrained(folder),
    "replaced_at_once": save_files,
    "finish_save": finish_save,
}


@pytest.fixture(scope="module")
def classifier(make_tiny_config, tokenizer, texts, tmp_path_factory):
    """A folder with a whole classifier."""
    folder = tmp_path_factory.mktemp("classifier") / "whole"
    torch.manual_seed(0)
    model = KNNClassifier.around(BertModel(make_tiny_config()), id2label={0: "river", 1: "engine"})
    pipe = KNNClassifierPipeline(model=model, tokenizer=tokenizer, device="cpu")
    pipe.add_examples(texts[:20], ["river", "engine"] * 10)
    pipe.save_pretrained(folder)
    return folder


@pytest.fixture
def place(classifier, tmp_path):
    """A classifier's folder that is going to be attacked, a whole one, and the victim's files beside them."""
    shutil.copytree(classifier, tmp_path / "whole")
    shutil.copytree(classifier, tmp_path / "model")
    make_victim(tmp_path)
    return tmp_path


def make_victim(place):
    for name in ("precious.txt", ".bashrc", "datastore/manifest.json", "deep/model.safetensors"):
        file = place / "victim" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"mine: {name}")
        file.chmod(0o640)
        os.utime(file, (1e9, 1e9))


def seen(place):
    """Contents, times, modes and kinds of all that the victim has; the place itself must get no new file either."""
    found = {}
    for path in [place / "victim", *sorted((place / "victim").rglob("*"))]:
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else sorted(entry.name for entry in path.iterdir())
        found[str(path)] = (content, status.st_mtime_ns, status.st_mode, status.st_uid, status.st_gid)
    return found, sorted(path.name for path in place.iterdir())


def put(folder, name, content="evil", place=SAVED):
    """Put a file into what a killed save has left, which is a whole classifier if the folder has one."""
    if place == SAVED and not (folder / SAVED).exists():
        folder.mkdir(exist_ok=True)
        shutil.copytree(folder, folder.parent / "copy", symlinks=True)
        (folder.parent / "copy").rename(folder / SAVED)
    path = folder / place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def link(folder, name, target):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def folder_of_a_save_is_a_link(folder, victim):
    put(folder, "x")
    link(folder, f"{SAVED}/a", victim)


def folder_of_two_parts_is_a_link(folder, victim):
    put(folder, "d/x")
    link(folder, f"{SAVED}/d/a", f"../../../{victim.name}")


def target_folder_is_a_link(folder, victim):
    put(folder, "out/precious.txt")
    put(folder, "out/new.txt")
    link(folder, "out", victim)


def target_folder_is_a_link_to_a_link(folder, victim):
    put(folder, "a/precious.txt")
    link(folder, "b", victim)
    link(folder, "a", "b")


def datastore_is_a_link(folder, victim):
    put(folder, "x")
    link(folder, "datastore", victim / "datastore")


def save_is_a_link(folder, victim):
    link(folder, SAVED, victim)


def save_is_a_link_to_a_save(folder, victim):
    (folder.parent / "other").mkdir()
    put(folder, "x")
    shutil.move(folder / SAVED, folder.parent / "other" / SAVED)
    (folder.parent / "other" / SAVED / "precious.txt").hardlink_to(victim / "precious.txt")
    link(folder, SAVED, folder.parent / "other" / SAVED)


def save_is_a_file(folder, victim):
    (folder / SAVED).hardlink_to(victim / "precious.txt")


def file_is_a_link(folder, victim):
    link(folder, f"{SAVED}/model.safetensors", victim / "deep" / "model.safetensors")
    link(folder, f"{SAVED}/config.json", victim / "precious.txt")


def file_is_a_hard_link(folder, victim):
    put(folder, "x")
    for name in ("model.safetensors", "datastore/manifest.json"):
        (folder / SAVED / name).parent.mkdir(exist_ok=True)
        (folder / SAVED / name).unlink(missing_ok=True)
        (folder / SAVED / name).hardlink_to(victim / "deep" / "model.safetensors")


def file_is_a_pipe(folder, victim):
    put(folder, "x")
    os.mkfifo(folder / SAVED / "a pipe")


def target_is_a_link(folder, victim):
    put(folder, "x")
    put(folder, "labels.jsonl")
    link(folder, "config.json", victim / "precious.txt")
    link(folder, "notes", victim / ".bashrc")


def target_is_a_hard_link(folder, victim):
    put(folder, "x")
    (folder / "config.json").unlink(missing_ok=True)
    (folder / "config.json").hardlink_to(victim / "precious.txt")
    (folder / "notes").hardlink_to(victim / ".bashrc")


def what_a_save_deletes_is_a_link(folder, victim):
    link(folder, "model-00001-of-00002.safetensors", victim / "deep" / "model.safetensors")
    link(folder, "merges.txt", victim)
    link(folder, "out/deep", victim / "deep")
    (folder / "modules.json").hardlink_to(victim / "precious.txt")
    link(folder, "datastore/keys-0123456789abcdef.safetensors", victim / "precious.txt")
    (folder / "datastore" / "rows-0123456789abcdef.parquet").hardlink_to(victim / ".bashrc")


def staging_is_a_link(folder, victim):
    link(folder, STAGING, victim)


def staging_beside_a_save_is_a_link(folder, victim):
    put(folder, "x")
    link(folder, STAGING, victim)


def staging_is_a_file(folder, victim):
    (folder / STAGING).hardlink_to(victim / "precious.txt")


def links_are_left(folder, victim):
    """Nothing is complete, and what is deleted has links."""
    link(folder, f"{STAGING}/a", victim)
    link(folder, f"{STAGING}/d/model.safetensors", victim / "deep" / "model.safetensors")
    (folder / STAGING / "b").hardlink_to(victim / "precious.txt")


def link_loop(folder, victim):
    put(folder, "a/x")
    link(folder, f"{SAVED}/b", "b")
    link(folder, "a", "a")


def datastore_has_a_save_of_its_own(folder, victim):
    folder_of_a_save_is_a_link(folder / "datastore", victim)


def datastore_has_links_of_its_own(folder, victim):
    links_are_left(folder / "datastore", victim)


def datastore_is_staged_behind_a_link(folder, victim):
    link(folder, f"datastore/{STAGING}", victim)


def journal_of_an_earlier_version(folder, victim):
    """It named the files to move and to delete."""
    names = ["../victim/precious.txt", f"{victim}/.bashrc", "a/precious.txt"]
    put(folder, "journal.json", json.dumps({"move": names, "delete": names}), place=STAGING)
    link(folder, f"{STAGING}/a", victim)


ATTACKS = {
    attack.__name__: attack
    for attack in (
        folder_of_a_save_is_a_link, folder_of_two_parts_is_a_link, target_folder_is_a_link,
        target_folder_is_a_link_to_a_link, datastore_is_a_link, save_is_a_link, save_is_a_link_to_a_save,
        save_is_a_file, file_is_a_link, file_is_a_hard_link, file_is_a_pipe, target_is_a_link, target_is_a_hard_link,
        what_a_save_deletes_is_a_link, staging_is_a_link, staging_beside_a_save_is_a_link, staging_is_a_file,
        links_are_left, link_loop, datastore_has_a_save_of_its_own, datastore_has_links_of_its_own,
        datastore_is_staged_behind_a_link, journal_of_an_earlier_version,
    )
}  # fmt: skip


# Each attack on what all doors go through; and one on each part of a folder, through each door.
FOLLOWERS = ("valid_folder", "replaced_at_once", "finish_save")
ON_EACH_PART = (
    file_is_a_link, save_is_a_link, staging_is_a_link, datastore_has_a_save_of_its_own, what_a_save_deletes_is_a_link,
)  # fmt: skip
OPENINGS = [(attack, name) for name in FOLLOWERS for attack in ATTACKS.values()]
OPENINGS += [(attack, name) for name in (*LOADERS, *WRITERS) for attack in ON_EACH_PART if name not in FOLLOWERS]


@pytest.mark.parametrize("attack, name", OPENINGS, ids=lambda part: getattr(part, "__name__", part))
def test_no_file_outside_is_touched_by_any_way_to_open_or_to_save(attack, name, place):
    attack(place / "model", place / "victim")
    before = seen(place)
    try:
        {**LOADERS, **WRITERS}[name](place / "model")
    except (ValueError, OSError, DamagedCheckpointError) as error:
        assert str(error)
    assert seen(place) == before


@pytest.mark.parametrize("left_in", [None, STAGING, SAVED])
def test_opening_changes_nothing_whatever_a_killed_save_left(left_in, place):
    folder = place / "model"
    if left_in is not None:
        put(folder, "x")
        (folder / SAVED).rename(folder / left_in)
    before = entries(folder)
    for name, call in LOADERS.items():
        with contextlib.suppress(ValueError):  # a classifier is no encoder to pretrain
            call(folder)
        assert entries(folder) == before, name


def entries(folder):
    """All that a folder holds, with the times at which it was changed."""
    found = {path: path.lstat() for path in [folder, *folder.rglob("*")]}
    return {
        path: (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        for path, status in found.items()
    }


RENAME, UNLINK, REPLACE = os.rename, os.unlink, os.replace


class Swapped:
    """Swaps a folder for a link just before a call of the system, and back after it."""

    def __init__(self, call, folder, victim):
        self.call, self.folder, self.victim, self.count = call, folder, victim, 0

    def __call__(self, *arguments, **options):
        aside = self.folder.with_name("aside")
        is_there = self.folder.is_dir()
        if is_there:
            self.count += 1
            RENAME(self.folder, aside)
            os.symlink(self.victim, self.folder)
        try:
            return self.call(*arguments, **options)
        finally:
            if is_there:
                UNLINK(self.folder)
                RENAME(aside, self.folder)


@pytest.mark.parametrize("name", ["d", f"{SAVED}/d", SAVED])
def test_a_folder_that_is_swapped_for_a_link_in_the_very_moment_leads_nowhere(name, tmp_path, monkeypatch):
    folder, victim = tmp_path / "model", tmp_path / "victim"
    make_victim(tmp_path)
    (folder / "d").mkdir(parents=True)
    for file in ("precious.txt", "model.safetensors"):
        (folder / "d" / file).write_text("old")
        put(folder, f"d/{file}", "new")
    put(folder, "config.json", "new")
    (folder / "model.safetensors").write_text("old")
    before = seen(tmp_path)
    swapped = [Swapped(call, folder / name, victim) for call in (os.link, REPLACE, UNLINK)]
    for attribute, call in zip(("link", "replace", "unlink"), swapped, strict=True):
        monkeypatch.setattr(os, attribute, call)
    finish_save(folder)
    monkeypatch.undo()
    assert all(call.count >= 1 for call in swapped)
    assert seen(tmp_path) == before
    assert (folder / "d" / "precious.txt").read_text() == "new" and not (folder / "model.safetensors").exists()


SWAPS = """
import os, sys
folder, victim = sys.argv[1:]
os.symlink(victim, folder + "/link")
print("ready", flush=True)
while True:
    for name in ("d", ".saved/d"):
        try:
            os.rename(f"{folder}/{name}", f"{folder}/aside")
            os.rename(f"{folder}/link", f"{folder}/{name}")
            os.rename(f"{folder}/{name}", f"{folder}/link")
            os.rename(f"{folder}/aside", f"{folder}/{name}")
        except OSError:
            pass
"""


def test_a_process_that_swaps_folders_for_links_all_the_time_reaches_nothing(tmp_path):
    folder, victim = tmp_path / "model", tmp_path / "victim"
    make_victim(tmp_path)
    (folder / "d").mkdir(parents=True)
    before = None
    process = subprocess.Popen([sys.executable, "-c", SWAPS, folder, victim], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        before = seen(tmp_path)
        finished = 0
        for _ in range(100):
            try:
                (folder / SAVED).mkdir()
                staging = os.open(folder / SAVED, os.O_RDONLY)
                # Written by descriptors: it is the test that must not write through the links.
                os.makedirs(f"/proc/self/fd/{staging}/new/deep", exist_ok=True)
                for name in ("precious.txt", "deep/model.safetensors"):
                    with open(f"/proc/self/fd/{staging}/new/{name}", "w") as file:
                        file.write("evil")
                os.rename("new", "d", src_dir_fd=staging, dst_dir_fd=staging)
                os.close(staging)
                finish_save(folder)
                finished += 1
            except (OSError, ValueError):
                for name in (STAGING, SAVED):
                    shutil.rmtree(folder / name, ignore_errors=True)
            assert seen(tmp_path) == before
    finally:
        process.kill()
        process.wait()
    assert finished > 0


# Files that are not of a save, and that a command writes in a folder that somebody else may have prepared.


@pytest.fixture(scope="module")
def pipe(classifier):
    return pipeline("docsplit-knn", model=str(classifier), device="cpu")


KINDS = {
    "link": lambda path, target: path.symlink_to(target),
    "hard link": lambda path, target: path.hardlink_to(target),
    "link to nothing": lambda path, target: path.symlink_to(target.with_name("new")),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["answers.csv.partial", "answers.csv.tmp", "answers.csv", "answers.jsonl.partial"])
def test_answers_to_a_file_are_not_written_through_what_lies_there(name, kind, pipe, texts, tmp_path):
    make_victim(tmp_path)
    folder = tmp_path / "answers"
    folder.mkdir()
    (folder / "texts.csv").write_text("text\n" + "\n".join(texts[:3]) + "\n")
    KINDS[kind](folder / name, tmp_path / "victim" / "precious.txt")
    before = seen(tmp_path)
    target = folder / name.removesuffix(".partial").removesuffix(".tmp")
    try:
        classify_file(pipe, PredictionFiles(folder / "texts.csv", target), show_progress=False, overwrite=True)
        assert not name.endswith(".partial")
    except ValueError as error:
        assert name.endswith(".partial") and "is not a plain file" in str(error)
    assert seen(tmp_path) == before


@pytest.mark.parametrize("kind", KINDS)
def test_the_list_of_failures_takes_the_place_of_a_link(kind, tmp_path):
    make_victim(tmp_path)
    folder = tmp_path / "answers"
    folder.mkdir()
    KINDS[kind](folder / "failed.csv", tmp_path / "victim" / "precious.txt")
    before = seen(tmp_path)
    write_failures([FailedFile("a.pdf", "damaged", "Copy it again.")], folder / "failed.csv")
    assert seen(tmp_path) == before
    assert "a.pdf" in (folder / "failed.csv").read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_whole_takes_the_place_of_a_link(kind, tmp_path):
    make_victim(tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    audit = Audit(*[() for _ in dataclasses.fields(Audit)])
    writers = {
        "results.json": lambda: ResultStore(folder, {"command": "x"})._write(),
        "audit.json": lambda: audit.to_json(folder / "audit.json"),
        "config.json": lambda: write_file(folder / "config.json", "new"),
        "figure.svg": lambda: save_figure(matplotlib.figure.Figure, folder / "figure"),
    }
    for name in writers:
        KINDS[kind](folder / name, tmp_path / "victim" / "precious.txt")
    before = seen(tmp_path)
    (folder / "results.json").unlink()  # which would be read
    KINDS["link to nothing"](folder / "results.json", tmp_path / "victim" / "precious.txt")
    for write in writers.values():
        write()
    assert seen(tmp_path) == before
    assert all((folder / name).stat().st_size and not (folder / name).is_symlink() for name in writers)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_does_not_go_on_where_its_files_are_links(kind, tmp_path):
    make_victim(tmp_path)
    run = tmp_path / "run"
    (run / "checkpoint-3").mkdir(parents=True)
    KINDS[kind](run / "checkpoint-3" / "trainer_state.json", tmp_path / "victim" / "precious.txt")
    with pytest.raises(ValueError, match="is not a plain file"):
        refuse_links(run / "checkpoint-3")
    check_output_dir(run, resume=True, overwrite=False)
    KINDS[kind](run / "trainer_state.json", tmp_path / "victim" / "precious.txt")
    with pytest.raises(ValueError, match="is not a plain file"):
        check_output_dir(run, resume=True, overwrite=False)


def test_a_checkpoint_that_is_a_link_is_not_written_to(make_baseline, tmp_path):
    trainer = make_baseline("info_nce", save_steps=2, save_strategy="steps", max_steps=2)
    make_victim(tmp_path)
    before = seen(tmp_path / "victim" / "..")[0]
    output = Path(trainer.args.output_dir)
    output.mkdir(exist_ok=True)
    trainer.add_callback(LinkAt(output / "checkpoint-2", tmp_path / "victim"))
    with pytest.raises(ValueError, match="is a link or a file where a folder should be"):
        trainer.train()
    assert seen(tmp_path / "victim" / "..")[0] == before


class LinkAt(TrainerCallback):
    """Somebody puts a link where the checkpoint goes."""

    def __init__(self, path, target):
        self.path, self.target = path, target

    def on_step_begin(self, *_, **__):
        if not os.path.lexists(self.path):
            self.path.symlink_to(self.target)


def test_a_shard_takes_the_place_of_links(tmp_path):
    make_victim(tmp_path)
    folder = tmp_path / "shards"
    folder.mkdir()
    for name in ("00000.parquet", ".00000-old"):
        link(folder, name, tmp_path / "victim" / ("" if name.startswith(".") else "precious.txt"))
    before = seen(tmp_path)
    with writing_shard(folder, 0, {"dtype": "float32"}) as writer:
        writer.write_table(shard_table(["a"], ["text"], ["label"], np.zeros((1, 2), np.float32)))
    assert seen(tmp_path) == before


@pytest.mark.parametrize("name", ["..", ".", "../victim", "C:x", "a\\b", ""])
def test_a_manifest_names_no_file_elsewhere(name, place):
    path = place / "model" / "datastore" / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_bytes(render_manifest({**manifest, "classifier": {name: "0" * 64}}))
    with pytest.raises(ValueError, match="a file of the classifier is"):
        KNNDatastore.from_pretrained(place / "model")


def test_a_save_deletes_only_what_a_save_wrote_whatever_the_manifest_there_names(place):
    path = place / "model" / "datastore" / "manifest.json"
    manifest = json.loads(path.read_text())
    (place / "model" / "notes.txt").write_text("mine")
    path.write_bytes(render_manifest({**manifest, "classifier": {**manifest["classifier"], "notes.txt": "0" * 64}}))
    save_classifier(place / "model")
    assert (place / "model" / "notes.txt").read_text() == "mine"
