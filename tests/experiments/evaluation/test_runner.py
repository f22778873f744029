"""Planning and measuring, and names in tables."""

import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.evaluation.systems import TfidfSystem
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.problem import Problem
from docsplit_hf.fitting.ensemble.scoring import prepare_experts, score_texts
from experiments.evaluation.experiment import EvaluationSettings, PlannedMeasurement
from experiments.evaluation.protocols import ENSEMBLE, LARGEST_CLASS
from experiments.evaluation.results import ResultStore
from experiments.evaluation.runner import describe_task, run_protocols, short_names
from experiments.evaluation.systems import EncoderSystem, load_system
from experiments.evaluation.tasks import ClassificationTask, CorpusTask


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"repeats": 0}, "repeats must be at least 1, got 0"),
        ({"max_test_examples": -1}, "max_test_examples must be at least 1"),
        ({"curve_shots": []}, "curve_shots must be numbers from 1"),
        ({"curve_shots": [5, 0]}, "curve_shots must be numbers from 1"),
        ({"seed": -1}, "seed must not be negative"),
    ],
)
def test_settings_out_of_range_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        EvaluationSettings(**options)


SETTINGS = EvaluationSettings(seeds=2, repeats=3, shots=2)


@pytest.fixture
def task(texts):
    labels = np.array(["river" in text for text in texts], dtype=np.int64)
    return ClassificationTask("rivers", texts[:32], labels[:32], texts[32:], labels[32:], ["no", "yes"])


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["a/x/model", "b/x/model", "c/other"], ["a/x/model", "b/x/model", "other"]),
        (["google-bert/bert-base-uncased#pooling=mean"], ["bert-base-uncased#pooling=mean"]),
        ([".", "tfidf"], [".", "tfidf"]),
        (["out/best#name=DocSplit"], ["DocSplit"]),
        (["https://api.openai.com/v1#text-embedding-3-small"], ["text-embedding-3-small"]),
    ],
)
def test_short_names(names, short):
    assert short_names(names) == short


def test_two_models_of_one_name_are_refused():
    with pytest.raises(ValueError, match="Two models are called 'X': rename one"):
        short_names(["a/m#name=X", "b/m#name=X"])


def test_nothing_is_measured_twice_and_names_may_change(tmp_path, task, monkeypatch):
    systems = {"tfidf": TfidfSystem()}
    first, _ = run_protocols(systems, [task], ["full", "few_shot"], SETTINGS, ResultStore(tmp_path))
    expected = [("full", "tfidf")] * 2 + [("full", LARGEST_CLASS)]
    expected += [("few_shot", "tfidf")] * 3 + [("few_shot", LARGEST_CLASS)] * 3
    assert [(record["protocol"], record["system"]) for record in first] == expected
    content = (tmp_path / "results.json").read_bytes()
    monkeypatch.setattr(PlannedMeasurement, "run", lambda *_: 1 / 0)
    again, _ = run_protocols(
        {"tfidf": TfidfSystem("TF-IDF")}, [task], ["full", "few_shot"], SETTINGS, ResultStore(tmp_path)
    )
    new_names = {"tfidf": "TF-IDF", LARGEST_CLASS: LARGEST_CLASS}
    assert again == [record | {"system": new_names[record["system"]]} for record in first]
    assert (tmp_path / "results.json").read_bytes() == content


def test_measurements_before_an_error_are_kept_and_the_error_names_system_and_task(tmp_path, task):
    class Broken:
        fingerprint = "broken"

        def encode(self, texts, show_progress=True):
            return np.full((len(texts), 2), np.nan, dtype=np.float32)

    systems = {"tfidf": TfidfSystem(), "ours": EncoderSystem("ours", Broken())}
    store = ResultStore(tmp_path)
    with pytest.raises(ValueError, match="ours on rivers, full: .*NaN"):
        run_protocols(systems, [task], ["full"], SETTINGS, store)
    assert len(ResultStore(tmp_path).records) == 3


def test_the_ensemble_and_the_largest_class_have_rows(tmp_path, task):
    """The ensemble is what fit() answers after the same examples."""
    systems = {"tfidf": TfidfSystem(), "small": load_system("docsplit-small-en")}
    records, _ = run_protocols(systems, [task], ["full"], SETTINGS, ResultStore(tmp_path))
    found = {record["system"]: record["metrics"]["accuracy"] for record in records}
    assert list(found) == ["tfidf", LARGEST_CLASS, "docsplit-small-en", f"docsplit-small-en, {ENSEMBLE}"]
    assert found[LARGEST_CLASS] == max(np.bincount(task.test_labels)) / 16
    keys = load_system("docsplit-small-en").features(task.train_texts, task.test_texts)
    store = KNNDatastore(keys[0], [task.label_names[i] for i in task.train_labels], (), task.train_texts)
    store.fitted = fit_experts(Problem(store.snapshot), show_progress=False).to_state()
    said = score_texts(prepare_experts(store.snapshot), keys[1], task.test_texts, None).probabilities.argmax(1)
    said = [task.label_names.index(store.label_names[i]) for i in said]
    assert found[f"docsplit-small-en, {ENSEMBLE}"] == np.mean(said == task.test_labels)


def test_everything_is_planned_before_anything_is_measured(tmp_path, task, monkeypatch):
    monkeypatch.setattr(PlannedMeasurement, "run", lambda *_: 1 / 0)
    with pytest.raises(ValueError, match="no protocol 'few-shot'"):
        run_protocols({"tfidf": TfidfSystem()}, [task], ["full", "few-shot"], SETTINGS, ResultStore(tmp_path))
    assert not (tmp_path / "results.json").exists()


def labeled(name, train, test, **pairs):
    return ClassificationTask(name, train, np.array([0, 1]), test, np.array([0]), ["no", "yes"], **pairs)


def test_a_task_is_described_by_its_kind_its_sizes_and_its_word_counts():
    sizes = {"kind": "texts with labels", "train": 2, "test": 1, "classes": 2, "documents": 3}
    task = labeled("mine", ["one", "one two"], ["one two three four five six"])
    assert describe_task(task) == sizes | {"words": {"mean": 3.0, "median": 2.0, "max": 6}}
    task = labeled("mine", ["a b", "c"], ["d"], train_pairs=["e", "f"], test_pairs=["g h i"])
    assert describe_task(task) == sizes | {"words": {"mean": 3.0, "median": 3.0, "max": 4}}
    task = labeled("TNEWS", ["今天", "天 气"], ["很好吗"], language="zh")
    assert describe_task(task)["words"] == {"mean": 2.3, "median": 2.0, "max": 3}
    sizes = {"kind": "texts alone", "test": 1, "documents": 1}
    assert describe_task(CorpusTask("alone", ["One."])) == sizes | {"words": {"mean": 1.0, "median": 1.0, "max": 1}}
