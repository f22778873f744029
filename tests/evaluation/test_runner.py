import numpy as np
import pytest

from docsplit_hf.evaluation.evaluation_settings import EvaluationSettings
from docsplit_hf.evaluation.experiment import Measurement
from docsplit_hf.evaluation.load_system import EncoderSystem, TfidfSystem
from docsplit_hf.evaluation.results import ResultStore
from docsplit_hf.evaluation.runner import describe_task, run_protocols, short_names
from docsplit_hf.evaluation.task import ClassificationTask, CorpusTask

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
    with pytest.raises(ValueError, match="Two models are called 'X': tell them apart"):
        short_names(["a/m#name=X", "b/m#name=X"])


def test_nothing_is_measured_twice_and_names_may_change(tmp_path, task, monkeypatch):
    systems = {"tfidf": TfidfSystem()}
    first, _ = run_protocols(systems, [task], ["full", "few_shot"], SETTINGS, ResultStore(tmp_path))
    assert [record["protocol"] for record in first] == ["full"] * 2 + ["few_shot"] * 3
    content = (tmp_path / "results.json").read_bytes()
    monkeypatch.setattr(Measurement, "run", lambda *_: 1 / 0)
    again, _ = run_protocols(
        {"tfidf": TfidfSystem("TF-IDF")}, [task], ["full", "few_shot"], SETTINGS, ResultStore(tmp_path)
    )
    assert again == [record | {"system": "TF-IDF"} for record in first]
    assert (tmp_path / "results.json").read_bytes() == content


def test_what_was_measured_before_an_error_is_kept_and_the_error_says_where(tmp_path, task):
    class Broken:
        fingerprint = "broken"

        def encode(self, texts, show_progress=True):
            return np.full((len(texts), 2), np.nan, dtype=np.float32)

    systems = {"tfidf": TfidfSystem(), "ours": EncoderSystem("ours", Broken())}
    store = ResultStore(tmp_path)
    with pytest.raises(ValueError, match="ours on rivers, full: .*NaN"):
        run_protocols(systems, [task], ["full"], SETTINGS, store)
    assert len(ResultStore(tmp_path).records) == 2


def test_everything_is_planned_before_anything_is_measured(tmp_path, task, monkeypatch):
    monkeypatch.setattr(Measurement, "run", lambda *_: 1 / 0)
    with pytest.raises(ValueError, match="no protocol 'few-shot'"):
        run_protocols({"tfidf": TfidfSystem()}, [task], ["full", "few-shot"], SETTINGS, ResultStore(tmp_path))
    assert not (tmp_path / "results.json").exists()


def labeled(name, train, test, **pairs):
    return ClassificationTask(name, train, np.array([0, 1]), test, np.array([0]), ["no", "yes"], **pairs)


def test_a_task_is_described_by_its_kind_its_sizes_and_the_words_of_training_and_test_together():
    sizes = {"kind": "texts with labels", "train": 2, "test": 1, "classes": 2, "documents": 3}
    task = labeled("mine", ["one", "one two"], ["one two three four five six"])
    assert describe_task(task) == sizes | {"words": {"mean": 3.0, "median": 2.0, "max": 6}}
    task = labeled("mine", ["a b", "c"], ["d"], train_pairs=["e", "f"], test_pairs=["g h i"])
    assert describe_task(task) == sizes | {"words": {"mean": 3.0, "median": 3.0, "max": 4}}
    task = labeled("TNEWS", ["今天", "天 气"], ["很好吗"], language="zh")
    assert describe_task(task)["words"] == {"mean": 2.3, "median": 2.0, "max": 3}
    sizes = {"kind": "texts alone", "test": 1, "documents": 1}
    assert describe_task(CorpusTask("alone", ["One."])) == sizes | {"words": {"mean": 1.0, "median": 1.0, "max": 1}}
