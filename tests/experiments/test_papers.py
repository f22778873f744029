import dataclasses

import numpy as np
import pytest

from docsplit_hf.evaluation.systems import TfidfSystem
from experiments.evaluation.experiment import Evaluation
from experiments.evaluation.results import ResultStore
from experiments.evaluation.systems import EncoderSystem, load_system
from experiments.evaluation.tasks import ClassificationTask, CorpusTask
from experiments.papers import PROTOCOLS, run_papers
from experiments.papers_options import PaperSettings
from experiments.taggers.load_tagger import load_tagger
from experiments.tasks.citation_pairs import PairTask

from .planning import plan

SETTINGS = PaperSettings(probe="logistic", seeds=2, repeats=3, curve_shots=[1, 2, 50], shots=2, max_length=64)
METRICS = {
    **dict.fromkeys(("full", "few_shot", "curve", "knn"), {"accuracy", "macro_f1", "matthews_correlation"}),
    "citation": {"accuracy", "cosine_accuracy"},
    "half_documents": {"recall@1", "recall@10", "mrr"},
    "redundancy": {"within", "between", "within_interval", "between_interval"},
}


@pytest.fixture(scope="module")
def tasks(texts):
    labels = np.array(["river" in text for text in texts], dtype=np.int64)
    keys = [str(number) for number in range(len(texts))]
    pairs = [(keys[i], keys[i + 1], i % 2) for i in range(len(keys) - 1)]
    return {
        "classification": ClassificationTask("rivers", texts[:32], labels[:32], texts[32:], labels[32:], ["no", "yes"]),
        "pairs": PairTask("cited", dict(zip(keys, texts, strict=True)), pairs[:30], pairs[30:]),
        "corpus": CorpusTask("alone", texts),
    }


@pytest.fixture(scope="session")
def pipeline_folder(tmp_path_factory):
    """A saved pipeline of spaCy that tags a few nouns."""
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en", meta={"name": "nouns", "version": "1.2.3"})
    nouns = [[{"LOWER": {"IN": ["river", "harbour", "number"]}}]]
    nlp.add_pipe("attribute_ruler").add(nouns, {"POS": "NOUN", "LEMMA": "noun"})
    folder = tmp_path_factory.mktemp("pipeline")
    nlp.to_disk(folder)
    return str(folder)


def test_seeds_settings_and_no_measurement_twice(tasks):
    planned, left_out = plan(["full", "few_shot", "curve"], TfidfSystem(), tasks["classification"], SETTINGS)
    assert [(one.protocol, one.settings.get("shots"), one.seed) for one in planned] == [
        ("full", None, 0), ("full", None, 1),
        ("few_shot", 2, 0), ("few_shot", 2, 1), ("few_shot", 2, 2),  # the curve's two shots are these
        ("few_shot", 1, 0), ("few_shot", 1, 1), ("few_shot", 1, 2),
    ]  # fmt: skip
    assert planned[0].settings == {"probe": "logistic", "max_length": 64}
    assert planned[2].settings == {"shots": 2, "probe": "logistic", "max_length": 64}
    [line] = left_out
    assert line.startswith("curve leaves 50 examples per class out on rivers")


def test_unsuitable_protocols_are_left_out_with_a_reason(tasks):
    planned, left_out = plan(["full", "attention"], TfidfSystem(), tasks["pairs"], SETTINGS)
    assert planned == [] and left_out == [
        "full does not run on cited: it takes texts with labels, and cited has pairs of documents.",
        "attention does not run with tfidf: it takes an encoder whose weights are here.",
    ]
    endpoint = EncoderSystem("service", object())
    assert plan(["attention", "decoupled"], endpoint, tasks["classification"], SETTINGS)[0] == []


def test_a_tagger_counts_nouns_and_verbs_once_per_task(tasks, pipeline_folder):
    tagger = load_tagger(pipeline_folder)
    settings = dataclasses.replace(SETTINGS, tagger=pipeline_folder)
    [planned], _ = plan(["nouns_and_verbs"], tagger, tasks["classification"], settings)
    assert planned.protocol == "nouns_and_verbs" and planned.seed == 0
    assert planned.settings == {"tagger": pipeline_folder, "tagger_version": "spaCy en_nouns 1.2.3"}
    assert planned.run(Evaluation(tagger, tasks["corpus"]))["all"] > 1


@pytest.mark.parametrize("name", sorted(METRICS))
@pytest.mark.parametrize("kind", ["tfidf", "encoder"])
def test_each_protocol_gives_its_metrics_and_the_same_for_the_same_seed(name, kind, tasks, tiny_checkpoint):
    system = load_system(str(tiny_checkpoint), max_length=64) if kind == "encoder" else TfidfSystem()
    kinds = PROTOCOLS[name].tasks or object
    task = next(task for task in tasks.values() if isinstance(task, kinds))
    planned, left_out = plan([name], system, task, SETTINGS)
    assert left_out == [] or name == "curve"
    found = [planned[0].run(Evaluation(system, task, str(tiny_checkpoint))) for _ in range(2)]
    without_head = {"accuracy"} if (name, kind) == ("citation", "tfidf") else set()
    assert found[0] == found[-1] and set(found[0]) == METRICS[name] - without_head
    assert all(-1 <= value <= 1 for value in found[0].values())


def test_attention_uses_the_tagger_and_has_it_in_its_settings(tasks, tiny_checkpoint, pipeline_folder):
    system = load_system(str(tiny_checkpoint), max_length=64)
    settings = PaperSettings(tagger=pipeline_folder, max_length=64)
    [planned], _ = plan(["attention"], system, tasks["corpus"], settings)
    assert plan(["attention"], system, tasks["corpus"], dataclasses.replace(settings, seed=7))[0] == [planned]
    assert planned.settings["tagger_version"] == "spaCy en_nouns 1.2.3"
    assert set(planned.run(Evaluation(system, tasks["corpus"]))) >= {"noun", "noun_interval", "other"}


def test_redundancy_is_measured_by_the_tagger_alone_and_with_each_system(tasks, pipeline_folder, tmp_path):
    settings = PaperSettings(seeds=1, tagger=pipeline_folder)
    store = ResultStore(tmp_path)
    records, left_out = run_papers({"tfidf": TfidfSystem()}, [tasks["corpus"]], ["redundancy"], settings, store)
    assert [(one["protocol"], one["system"]) for one in records] == [
        ("redundancy", "tfidf"), ("nouns_and_verbs", "spaCy en_nouns 1.2.3"),
    ]  # fmt: skip
    assert left_out == []
    records, left_out = run_papers({"tfidf": TfidfSystem()}, [tasks["corpus"]], ["full"], settings, store)
    assert records == []
    assert left_out == ["full does not run on alone: it takes texts with labels, and alone has texts alone."]


def test_without_a_tagger_the_other_protocols_run_and_a_line_tells_how_to_install_it(tmp_path, tasks, caplog):
    settings = PaperSettings(seeds=1, tagger="en_core_web_of_nowhere")
    records, left_out = run_papers(
        {"tfidf": TfidfSystem()},
        [tasks["classification"]],
        ["redundancy", "attention"],
        settings,
        ResultStore(tmp_path),
    )
    assert [record["protocol"] for record in records] == ["redundancy"]
    [line] = left_out
    assert "spacy download en_core_web_of_nowhere" in line and line in caplog.text
