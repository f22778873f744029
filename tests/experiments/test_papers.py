import dataclasses

import numpy as np
import pytest

from docsplit_hf import DocumentEncoder
from docsplit_hf.experiments.protocols.experiment import Evaluation, document_encoder
from docsplit_hf.experiments.protocols.registry import PROTOCOLS, check_protocols, measure, plan
from docsplit_hf.experiments.protocols.settings import EvaluationSettings
from docsplit_hf.experiments.systems.encoders import EncoderWithOptions
from docsplit_hf.experiments.systems.load_system import EncoderSystem, TfidfSystem, load_system
from docsplit_hf.experiments.taggers.load_tagger import load_tagger
from docsplit_hf.experiments.tasks.task import ClassificationTask, CorpusTask, PairTask

SETTINGS = EvaluationSettings(probe="logistic", seeds=2, repeats=3, curve_shots=[1, 2, 50], shots=2, max_length=64)
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
    """A pipeline that knows a few nouns, saved as spaCy saves them."""
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


def test_a_measurement_of_sentences_knows_their_language_where_it_is_not_english(texts):
    planned, _ = plan(["half_documents", "redundancy"], TfidfSystem(), CorpusTask("IFLYTEK", texts), SETTINGS)
    assert [one.settings["language"] for one in planned] == ["zh"] * 4
    planned, _ = plan(["half_documents"], TfidfSystem(), CorpusTask("mine", texts), SETTINGS)
    assert planned[0].settings == {"max_length": 64}


def test_where_texts_are_repeated_records_from_before_they_were_held_out_together_are_not_served():
    labels = np.arange(800) % 2
    for copies in (1, 2):
        texts = [f"Text {number // copies}." for number in range(800)]
        task = ClassificationTask("mine", texts, labels, texts, labels, ["no", "yes"])
        settings = dataclasses.replace(SETTINGS, curve_shots=[10, 300])
        planned, _ = plan(["full", "knn", "curve", "half_documents"], TfidfSystem(), task, settings)
        new = {(one.protocol, one.settings.get("shots")) for one in planned if "equal_texts" in one.settings}
        assert new == ({("full", None), ("knn", None), ("few_shot", 300)} if copies == 2 else set())


def test_what_does_not_fit_is_left_out_with_a_line(tasks):
    planned, left_out = plan(["full", "attention"], TfidfSystem(), tasks["pairs"], SETTINGS)
    assert planned == [] and left_out == [
        "full does not run on cited: it takes texts with labels, and cited has pairs of documents.",
        "attention does not run with tfidf: it takes an encoder whose weights are here.",
    ]
    endpoint = EncoderSystem("service", object())
    assert plan(["attention", "decoupled"], endpoint, tasks["classification"], SETTINGS)[0] == []


def test_a_class_with_fewer_examples_than_the_shots_is_named_and_stops_few_shot_only(tasks):
    settings = EvaluationSettings(shots=20, seeds=1)
    planned, [line] = plan(["few_shot", "full"], TfidfSystem(), tasks["classification"], settings)
    assert [one.protocol for one in planned] == ["full"]
    assert line.startswith("few_shot does not run on rivers: 20 examples of each class") and "'yes' has" in line


def test_an_unknown_protocol_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="no protocol 'few-shot'. Did you mean 'few_shot'. Known protocols: full, few"):
        check_protocols(["full", "few-shot"])


def test_a_tagger_counts_nouns_and_verbs_once_per_task(tasks, pipeline_folder):
    tagger = load_tagger(pipeline_folder)
    settings = dataclasses.replace(SETTINGS, tagger=pipeline_folder)
    [planned], _ = plan(["redundancy", "full"], tagger, tasks["classification"], settings)
    assert planned == ("nouns_and_verbs", {"tagger": pipeline_folder, "tagger_version": "spaCy en_nouns 1.2.3"}, 0)
    assert plan(["full"], tagger, tasks["classification"], settings) == ([], [])
    assert measure(Evaluation(tagger, tasks["corpus"]), planned)["all"] > 1


@pytest.mark.parametrize("name", sorted(METRICS))
@pytest.mark.parametrize("kind", ["tfidf", "encoder"])
def test_each_protocol_gives_its_metrics_and_the_same_for_the_same_seed(name, kind, tasks, tiny_checkpoint):
    system = load_system(str(tiny_checkpoint), max_length=64) if kind == "encoder" else None
    system = system or TfidfSystem()
    task = next(task for task in tasks.values() if type(task) in PROTOCOLS[name].tasks)
    planned, left_out = plan([name], system, task, SETTINGS)
    assert left_out == [] or name == "curve"
    found = [measure(Evaluation(system, task, str(tiny_checkpoint)), planned[0]) for _ in range(2)]
    without_head = {"accuracy"} if (name, kind) == ("citation", "tfidf") else set()
    assert found[0] == found[-1] and set(found[0]) == METRICS[name] - without_head
    assert all(-1 <= value <= 1 for value in found[0].values())


def test_attention_uses_the_tagger_and_is_known_by_it(tasks, tiny_checkpoint, pipeline_folder):
    system = load_system(str(tiny_checkpoint), max_length=64)
    settings = EvaluationSettings(tagger=pipeline_folder, max_length=64)
    [planned], _ = plan(["attention"], system, tasks["corpus"], settings)
    assert plan(["attention"], system, tasks["corpus"], dataclasses.replace(settings, seed=7))[0] == [planned]
    assert planned.settings["tagger_version"] == "spaCy en_nouns 1.2.3"
    assert set(measure(Evaluation(system, tasks["corpus"]), planned)) >= {"noun", "noun_interval", "other"}


def test_only_an_encoder_with_its_weights_is_a_document_encoder(tiny_checkpoint):
    encoder = DocumentEncoder.from_pretrained(str(tiny_checkpoint))
    assert document_encoder(EncoderSystem("ours", encoder)) is encoder
    assert document_encoder(EncoderSystem("ours", EncoderWithOptions(encoder, bf16=True))) is encoder
    assert document_encoder(EncoderSystem("service", object())) is None and document_encoder(TfidfSystem()) is None
