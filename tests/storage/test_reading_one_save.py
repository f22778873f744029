"""A folder is read from one save, with one or several saves at each moment of a load, and without locks."""

import contextlib
import itertools
from pathlib import Path

import pytest
from transformers import AutoTokenizer, BertConfig, BertModel, pipeline

from docsplit_hf import AutoModelForDocSplit, DocumentEncoder, KNNClassifier, KNNClassifierPipeline, KNNDatastore
from docsplit_hf.encoding.checkpoints import checkpoint
from docsplit_hf.storage import atomic_replacement
from docsplit_hf.storage.atomic_replacement import (
    SAVED,
    FolderState,
    locked,
    read_one_save,
    replaced_at_once,
    save_lock,
)

from .test_atomic_replacement import content
from .test_atomic_replacement import write as write_files

BESIDE_WRITERS = Path(__file__).parents[2] / "benchmarks" / "release" / "beside_writers.py"
NAMES = ("1_Pooling/config.json", "config.json", "model.safetensors")


def save(folder, version):
    with replaced_at_once(folder) as staging:
        write_files(staging, dict.fromkeys(NAMES, version))


def read(folder, between=lambda number: None):
    found = []
    for number, name in enumerate(NAMES):
        between(number)
        found.append((folder / name).read_text())
    between(len(NAMES))
    return found


@pytest.mark.parametrize("moment", range(len(NAMES) + 1))
@pytest.mark.parametrize("versions", ["b", "ba", "bab"])
def test_saves_at_any_moment_of_a_load_leave_one_state(versions, moment, tmp_path):
    save(tmp_path, "a")
    times = []

    def between(number):
        if number == moment and not times:
            times.append(number)
            for version in versions:  # back to what was there before, too
                save(tmp_path, version)

    found, state = read_one_save(tmp_path, lambda place: read(place, between))
    assert found == [versions[-1]] * 3 and state == FolderState.of(tmp_path)
    save(tmp_path, "another")
    assert state != FolderState.of(tmp_path)


def test_errors_from_a_concurrent_save_cause_a_second_read_and_others_are_raised(tmp_path):
    save(tmp_path, "a")
    calls = []

    def read_broken(place):
        calls.append(None)
        if len(calls) == 1:
            save(tmp_path, "b")
            raise KeyError("half old and half new")
        return read(place)

    assert read_one_save(tmp_path, read_broken)[0] == ["b"] * 3
    with pytest.raises(ZeroDivisionError):
        read_one_save(tmp_path, lambda _: 1 / 0)


def no_locks(*_):
    raise OSError("as on some disks of a network")


def test_without_locks_reading_is_tried_several_times_and_then_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_replacement.fcntl, "flock", no_locks)
    save(tmp_path, "a")
    times = []

    def between(number):
        if len(times) < 5:
            times.append(number)
            save(tmp_path, f"{len(times)}")

    assert read_one_save(tmp_path, lambda place: read(place, between))[0] == ["5"] * 3
    numbers = itertools.count()
    with pytest.raises(OSError, match="was saved to during each of 20 tries"):
        read_one_save(tmp_path, lambda _: save(tmp_path, f"{next(numbers)}"))


class Killed(BaseException):
    pass


@contextlib.contextmanager
def killed_before_files_are_in_place():
    def die(*_):
        raise Killed

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(atomic_replacement, "_put_in_place", die)
        yield


def test_what_a_killed_save_left_is_read_where_it_is(tmp_path):
    save(tmp_path, "a")
    with killed_before_files_are_in_place():
        save(tmp_path, "b")
    before = content(tmp_path)
    found, state = read_one_save(tmp_path, read)
    assert found == ["b"] * 3 and state.place == tmp_path / SAVED
    assert read_one_save(tmp_path, read, hold=True)[0] == ["b"] * 3 and content(tmp_path) == before


def test_reading_does_not_wait_for_a_save(tmp_path):
    save(tmp_path, "a")
    with replaced_at_once(tmp_path) as staging:
        write_files(staging, dict.fromkeys(NAMES, "b"))
        assert read_one_save(tmp_path, read)[0] == ["a"] * 3
    assert read(tmp_path) == ["b"] * 3


def test_a_held_folder_can_be_read_and_not_saved_to(tmp_path):
    save(tmp_path, "a")
    with save_lock(tmp_path):
        with save_lock(tmp_path):
            pass
        assert read_one_save(tmp_path, read, hold=True)[0] == ["a"] * 3
        with pytest.raises(ValueError, match="^It is in use[.]$"), locked(tmp_path, "It is in use."):
            pass
    with locked(tmp_path, "It is in use."):
        pass


@pytest.mark.slow
@pytest.mark.parametrize(("loads", "writers"), [(12, 1), (8, 2)])
def test_loading_beside_writers_gives_one_state(loads, writers, run_script):
    printed = run_script(BESIDE_WRITERS, f"--loads={loads}", f"--writers={writers}")
    assert f": {loads} whole;" in printed


@pytest.fixture
def versions(make_tiny_config, tokenizer, texts):
    """Two classifiers that differ in each of their parts."""
    pipes = []
    for version in range(2):
        model = KNNClassifier.around(BertModel(make_tiny_config()), id2label={0: "river", 1: "engine"})
        model.config.k = 3 + version
        pipe = KNNClassifierPipeline(model=model, tokenizer=tokenizer, device="cpu")
        pipe.add_examples(texts[: 20 + version], (["river", "engine"] * 11)[: 20 + version])
        pipes.append(pipe)
    return pipes


def seen(pipe):
    return pipe.model.config.k - 3, len(pipe.datastore) - 20


@pytest.mark.parametrize("saves", [[1], [1, 0], [1, 0, 1]])
def test_saves_between_the_tokenizer_and_the_datastore_are_seen(saves, versions, tmp_path, monkeypatch):
    """``transformers.pipeline`` loads model and tokenizer before anything of ours is asked."""
    versions[0].save_pretrained(tmp_path)
    left = list(saves)
    load = AutoTokenizer.from_pretrained

    def load_after_saves(*arguments, **options):
        while left:
            versions[left.pop(0)].save_pretrained(tmp_path)
        return load(*arguments, **options)

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", load_after_saves)
    pipe = pipeline("docsplit-knn", model=str(tmp_path), device="cpu")
    assert left == [] and seen(pipe) == (saves[-1], saves[-1])
    assert not hasattr(pipe.model, "loaded_from")  # a model that was changed here is not loaded again


def test_a_given_tokenizer_is_kept(versions, tmp_path, tokenizer):
    versions[0].save_pretrained(tmp_path)
    load = KNNDatastore.from_pretrained
    own = type(tokenizer).from_pretrained(tmp_path)
    own.name_or_path = "mine"
    with pytest.MonkeyPatch.context() as patch:

        def save_before(*arguments, **options):
            patch.undo()
            versions[1].save_pretrained(tmp_path)
            return load(*arguments, **options)

        patch.setattr(KNNDatastore, "from_pretrained", save_before)
        pipe = pipeline("docsplit-knn", model=str(tmp_path), tokenizer=own, device="cpu")
    assert pipe.tokenizer is own and seen(pipe) == (1, 1)


def test_a_save_between_the_parts_of_an_encoder_is_seen(make_tiny_config, tokenizer, tmp_path, monkeypatch):
    for name, size in (("old", 32), ("new", 16)):
        config = BertConfig(**{**make_tiny_config().to_dict(), "hidden_size": size})
        BertModel(config).save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)

    def save_version(name):
        with replaced_at_once(tmp_path / "model") as staging:
            for file in (tmp_path / name).iterdir():
                (staging / file.name).write_bytes(file.read_bytes())

    left = []
    load_config = checkpoint._load_config

    def save_after_the_config(path, **options):
        config = load_config(path, **options)
        if left:
            save_version(left.pop())
        return config

    monkeypatch.setattr(checkpoint, "_load_config", save_after_the_config)
    for from_pretrained in (DocumentEncoder.from_pretrained, AutoModelForDocSplit.from_pretrained):
        save_version("old")
        left.append("new")
        loaded = from_pretrained(str(tmp_path / "model"))
        model = getattr(loaded, "model", loaded)
        assert (
            left == [] and model.config.hidden_size == model.base_model.embeddings.word_embeddings.embedding_dim == 16
        )


@pytest.mark.parametrize("way", ["load", "datastore", "edit", "save"])
def test_a_classifier_whose_save_was_killed_is_loaded_and_saved_to(way, versions, tmp_path):
    versions[0].save_pretrained(tmp_path)
    with killed_before_files_are_in_place():
        versions[1].save_pretrained(tmp_path)
    before = content_hashes(tmp_path)
    loaded = load(tmp_path)
    assert seen(loaded) == (1, 1) and content_hashes(tmp_path) == before
    if way == "datastore":  # which belongs to the classifier of the killed save
        versions[1].datastore.save_pretrained(tmp_path)
    if way == "edit":
        loaded.save_pretrained(tmp_path)
    if way == "save":
        versions[0].save_pretrained(tmp_path)
    assert seen(load(tmp_path)) == ((0, 0) if way == "save" else (1, 1))
    assert (tmp_path / SAVED).exists() == (way == "load")


def load(folder):
    return pipeline("docsplit-knn", model=str(folder), device="cpu")


def content_hashes(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
