import copy
from dataclasses import replace

import numpy as np
import pytest

from docsplit_hf import KNNDatastore
from docsplit_hf.classifier.fit_datastore import fit_datastore
from docsplit_hf.encoding.classifier_embedder import ClassifierEmbedder
from docsplit_hf.fitting.ensemble.fit_experts import weigh_experts
from docsplit_hf.fitting.ensemble.report import FitReport
from docsplit_hf.fitting.ensemble.scoring import prepare_experts, score_texts
from docsplit_hf.fitting.experts.registry import EXPERTS

from ..fitting.ensemble.stores import make_store, misleading_store, score
from .conftest import labels_of

NEW = ["The river feeds the valley.", "An engine.", "", "北京大学", "half \ud800"]
WITHOUT_TEACHER = [name for name, expert in EXPERTS.items() if not expert.needs_teacher]
EQUATION_3 = [{}, {"k": 3}, {"return_neighbors": 2}]


@pytest.fixture(scope="module")
def fitted_of_module(make_fitted):
    return make_fitted(14, 36)


@pytest.fixture
def fitted(fitted_of_module):
    return copy.deepcopy(fitted_of_module)


@pytest.fixture
def filled(fitted):
    fitted.datastore.fitted = None
    return fitted


def scores_of(answers):
    return np.array([[entry["score"] for entry in sorted(a, key=lambda e: e["label"])] for a in answers])


def test_the_order_of_texts_changes_no_bit_of_an_answer(untrained_of_module, texts):
    found = []
    for seed in range(2):
        pipe = copy.deepcopy(untrained_of_module)
        order = np.random.default_rng(seed).permutation(14)
        examples = [texts[i] for i in order]
        pipe.add_examples(examples, labels_of(examples))
        pipe.add_documents([texts[i] for i in 14 + np.random.default_rng(seed).permutation(22)])
        pipe.fit(show_progress=False)
        found.append(scores_of(pipe(texts[36:], top_k=None)))
    assert np.array_equal(*found)


def test_fit_returns_a_report_prints_nothing_and_changes_the_answers(filled, texts, capsys):
    before = filled(texts[36:], top_k=None)
    report = filled.fit(show_progress=False)
    assert capsys.readouterr() == ("", "") and list(report.shares) == WITHOUT_TEACHER
    assert str(report) == repr(report) and str(report).startswith("Fitted on 14 examples of 2 labels")
    assert (report.examples, report.documents, sorted(report.labels)) == (14, 22, ["engine", "river"])
    after = filled(texts[36:], top_k=None)
    assert not np.allclose(scores_of(before), scores_of(after))
    np.testing.assert_allclose(scores_of(after).sum(1), 1)


def test_equation_3_answers_after_fit_by_its_name(fitted, texts):
    found = [fitted(texts[36:40], top_k=None, method="knn", **options) for options in EQUATION_3]
    forget(fitted)
    assert found == [fitted(texts[36:40], top_k=None, **options) for options in EQUATION_3]
    assert fitted(texts[36:40], top_k=None, k=3, method="knn") == found[1]


@pytest.mark.parametrize("experts", [("classifier", "neighbors"), ("naive_bayes",), ("topics", "naive_bayes")], ids=str)
def test_experts_can_be_switched_off(experts, filled, texts):
    report = filled.fit(experts=experts, show_progress=False)
    assert tuple(report.shares) == experts and sum(report.shares.values()) == pytest.approx(1)
    (answer,) = filled([texts[40]], explain=True)
    assert tuple(name for name in answer["explanation"]["experts"] if name != "class proportions") == experts


def test_the_explanation_adds_up_to_the_log_odds(fitted, texts):
    for answer in fitted(texts[36:42], top_k=None, explain=True):
        best, second = answer
        odds = np.log(best["score"] / second["score"])
        assert sum(best["explanation"]["experts"].values()) == pytest.approx(odds, abs=1e-5)
        assert sum(second["explanation"]["experts"].values()) == pytest.approx(-odds, abs=1e-5)
        assert best["explanation"]["against"] == second["label"]


def test_any_text_has_an_answer(fitted):
    answers = fitted(NEW, top_k=None, explain=True, return_neighbors=1, return_documents=1)
    assert np.isfinite(scores_of(answers)).all() and not answers[2][0]["explanation"]["words"]
    one_by_one = [fitted([text], top_k=None)[0] for text in NEW]
    np.testing.assert_allclose(scores_of(answers), scores_of(one_by_one), atol=1e-4)


def test_a_later_example_changes_answers_at_once(filled, texts, caplog):
    filled.fit(experts=["neighbors"], show_progress=False)
    fitted = filled
    before = scores_of(fitted([texts[40]], top_k=None))[0]
    with caplog.at_level("INFO", logger="docsplit_hf"):
        added = fitted.add_examples([texts[40]], ["river"])
    assert "call fit() for the other experts" in caplog.text
    assert scores_of(fitted([texts[40]], top_k=None))[0, 1] > before[1]
    fitted.remove_examples(added)
    np.testing.assert_array_equal(scores_of(fitted([texts[40]], top_k=None))[0], before)
    fitted.add_examples([texts[40]], ["a new one"])
    scores = {entry["label"]: entry["score"] for entry in fitted([texts[40]], top_k=None)[0]}
    assert scores["a new one"] > 0.02 and sum(scores.values()) == pytest.approx(1)


def test_documents_are_not_embedded_again_for_their_answers(fitted, texts, monkeypatch):
    asked = texts[10:40]
    read = []
    expected = fitted(asked, top_k=None, return_read=True)  # which reads all
    plain = ClassifierEmbedder.embed

    def counting(embedder, given, pairs=None):
        read.extend(given)
        return plain(embedder, given, pairs)

    monkeypatch.setattr(ClassifierEmbedder, "embed", counting)
    answers = fitted(asked, top_k=None)
    assert read == [text for text in asked if text not in texts[14:36]]
    np.testing.assert_allclose(scores_of(answers), scores_of(expected), atol=1e-5)
    del read[:]
    fitted(texts[20], max_length=8)
    assert read == [texts[20]], "it was stored as read to its end"


def test_several_labels_and_pairs(untrained, texts):
    multi_label = [[name for name in ("river", "engine") if name in text] for text in texts[:24]]
    pairs = [{"text": text[:30], "text_pair": text[30:]} for text in texts]
    untrained.add_examples(pairs[:24], multi_label)
    untrained.add_documents(pairs[24:40])
    report = untrained.fit(show_progress=False)
    assert list(report.shares) == ["classifier", "naive_bayes", "neighbors", "word_regression"]
    assert len(untrained.datastore.fitted.settings["thresholds"]) == 2
    answers = untrained(pairs[40:], top_k=None, explain=True)
    assert all(0 < entry["score"] < 1 and entry["explanation"]["against"] is None for a in answers for entry in a)


def test_a_classifier_with_a_head_is_fitted_on_held_out_texts(pipe, texts):
    names = ["river" if "river" in text else "engine" for text in texts]
    pipe.remove_examples(pipe.datastore.ids[24:])
    pipe.add_documents(texts[24:36])
    before = pipe(texts[36:38], top_k=None, method="knn")
    pipe.model.config.knn_weight = 0.0
    head = pipe(texts[36:38], top_k=None)
    pipe.model.config.knn_weight = 0.4
    with pytest.raises(ValueError, match="pass held-out texts and their labels"):
        pipe.fit()
    report = pipe.fit(
        held_out_texts=[*texts[30:48], texts[0]], held_out_labels=[*names[30:48], names[0]], show_progress=False
    )
    assert report.measured_on == "held-out texts" and list(report.shares) == WITHOUT_TEACHER
    assert pipe(texts[36:38], top_k=None, method="knn") == before
    pipe.fit(held_out_texts=texts[30:48], held_out_labels=names[30:48], experts=["classifier"], show_progress=False)
    np.testing.assert_array_equal(scores_of(pipe(texts[36:38], top_k=None)).argmax(1), scores_of(head).argmax(1))
    weight = pipe.datastore.fitted.settings["weights"]["classifier"]
    powered = scores_of(head) ** weight
    expected = powered / powered.sum(1, keepdims=True)
    np.testing.assert_allclose(scores_of(pipe(texts[36:38], top_k=None)), expected, atol=1e-5)


def test_a_warning_names_held_out_texts_that_are_versions_of_examples(pipe, caplog):
    long_text = " ".join(f"word{i}" for i in range(80))
    pipe.add_examples([long_text], ["river"])
    pipe.fit(
        held_out_texts=["A river.", "An engine.", long_text + " changed"],
        held_out_labels=["river", "engine", "river"],
        show_progress=False,
    )
    assert "1 of 3 held-out texts are versions of examples" in caplog.text


def test_a_datastore_without_texts_has_no_words(pipe, texts):
    bare = type(pipe.datastore)(
        pipe.datastore.keys, pipe.datastore.labels, pipe.datastore.label_names, probe=pipe.datastore.snapshot.probe
    )
    pipe.datastore = bare
    report = pipe.fit(
        held_out_texts=["The river.", "An engine."], held_out_labels=["river", "engine"], show_progress=False
    )
    assert list(report.shares) == ["classifier", "neighbors", "topics", "label_names"]
    assert pipe(texts[3], explain=True)[0]["explanation"]["words"] == []


def fit_on(pipe, texts, labels):
    return pipe.fit(held_out_texts=texts, held_out_labels=labels)


ERRORS = {
    "texts without a name": (lambda p: p.fit(["a"], ["river"]), TypeError, "held_out_texts=texts, held_out_labels"),
    "one of the two": (lambda p: fit_on(p, ["a"], None), ValueError, "held-out texts and their labels, or neither"),
    "fewer labels": (lambda p: fit_on(p, ["a", "b"], ["river"]), ValueError, "2 texts and 1 labels"),
    "an unknown label": (lambda p: fit_on(p, ["a"], ["lake"]), ValueError, "no label 'lake'"),
    "a number for a label": (lambda p: fit_on(p, ["a"], [1]), ValueError, "no label '1'"),
    "no label": (lambda p: fit_on(p, ["a"], [None]), TypeError, "not a name"),
    "an unknown expert": (lambda p: p.fit(experts=["word"]), ValueError, "no expert 'word': choose among classifier"),
    "an expert by its earlier name": (
        lambda p: p.fit(experts=["vocabulary"]),
        ValueError,
        "no expert 'vocabulary' any more, it is 'word_regression': choose",
    ),
    "no expert": (lambda p: p.fit(experts=[]), ValueError, "No expert is left"),
    "explaining before": (lambda p: (forget(p), p("a", explain=True)), ValueError, "Only fitted experts can explain"),
    "explaining equation 3": (lambda p: p("a", explain=True, method="knn"), ValueError, "leave out method="),
    "k of another method": (
        lambda p: p("a", k=2), ValueError,
        r"k=2 is for the vote of the nearest examples \(equation 3\), and after fit\(\) .* pass method='knn' as well",
    ),
    "k as a default before fit": (
        lambda p: (setattr(p, "_forward_params", {"k": 2}), p("a")), ValueError,
        "or leave out k",
    ),
    "experts before fit": (lambda p: (forget(p), p("a", method="experts")), ValueError, "call fit"),
    "an unknown method": (
        lambda p: p("a", method="mixture"), ValueError, "method must be one of 'experts', 'knn', got 'mixture'",
    ),
    "explain as a number": (lambda p: p("a", explain=3), ValueError, "explain must be True or False, got 3"),
    "no documents": (
        lambda p: (p.datastore.remove_documents(p.datastore.documents.ids), p("a", return_documents=1)), ValueError,
        "return_documents=1: there are no documents",
    ),
    "fewer than no documents": (lambda p: p("a", return_documents=-1), ValueError, "return_documents must be"),
    "one class": (
        lambda p: (p.remove_examples(ids_with(p, "river")), p.fit()), ValueError, "have the label 'engine'",
    ),
    "no examples": (lambda p: (p.remove_examples(p.datastore.ids), p.fit()), ValueError, "No labeled examples yet"),
    "nothing to ask": (lambda p: (p.remove_examples(p.datastore.ids), p("a")), ValueError, "No labeled examples yet"),
    "held-out texts among the examples": (
        lambda p: fit_on(p, p.datastore.texts[:2], ["river"] * 2), ValueError, "All 2 held-out texts are among",
    ),
}  # fmt: skip


def forget(pipe):
    pipe.datastore.fitted = None


def ids_with(pipe, name):
    store = pipe.datastore
    return [row_id for row_id, n in zip(store.ids, store.labels, strict=True) if store.label_names[n] == name]


@pytest.mark.parametrize("case", ERRORS)
def test_wrong_arguments_are_refused(case, fitted):
    act, error, message = ERRORS[case]
    with pytest.raises(error, match=message):
        act(fitted)


def test_nan_from_an_encoder_is_refused(fitted, texts):
    encoder = fitted.model.encoder
    encoder.encoder.layer[1].output.dense.weight.data.fill_(float("nan"))
    for act in (
        lambda: fitted(texts[40]),
        lambda: fitted.add_documents(["A new document."]),
        lambda: fitted.add_examples(["A new example."], ["river"]),
    ):
        with pytest.raises(ValueError, match="gives NaN or infinity for text 0 of 1"):
            act()
    assert len(fitted.datastore) == 14 and len(fitted.datastore.documents) == 22


def test_with_several_labels_answers_have_those_above_their_threshold(untrained, texts):
    multi_label = [[name for name in ("river", "engine") if name in text] for text in texts[:24]]
    untrained.add_examples(texts[:24], multi_label)
    assert "labels" not in untrained(texts[24:26])[0]
    untrained.fit(show_progress=False)
    settings = untrained.datastore.fitted.settings
    thresholds = dict(zip(settings["labels"], settings["thresholds"], strict=True))
    answers = untrained(texts[24:])
    scores = untrained(texts[24:], top_k=None)
    for answer, entries in zip(answers, scores, strict=True):
        reached = {entry["label"] for entry in entries if entry["score"] >= thresholds[entry["label"]]}
        assert set(answer["labels"]) == reached
    assert any(answer["labels"] for answer in untrained(texts))
    with pytest.raises(ValueError, match="reject is for one label per text"):
        untrained(texts[30], reject=0.1)


def test_misleading_documents_are_left_out_and_reported(untrained, monkeypatch):
    """Documents of one label reduce the proportions of the other labels in every vote."""
    monkeypatch.setattr("docsplit_hf.classifier.fit_datastore.MIN_LOG_LIKELIHOOD_GAIN", 1.0)
    store = misleading_store(noise=1.0)
    report = fit_datastore(untrained.embedder, store, experts=[name for name in EXPERTS if name != "label_names"])
    assert (report.left_out, report.documents) == (300, 0)
    assert "300 documents were left out: held-out examples are answered better without them. If they" in str(report)
    examples_only = KNNDatastore.from_snapshot(replace(store.snapshot, documents=None, fitted=None))
    alone = fit_datastore(untrained.embedder, examples_only, experts=list(report.shares))
    assert alone.shares == report.shares and alone.left_out == 0
    np.testing.assert_array_equal(score(store).probabilities, score(examples_only).probabilities)
    helpful = fit_datastore(untrained.embedder, make_store(60, 300), experts=list(report.shares))
    assert (helpful.left_out, helpful.documents) == (0, 300)


def test_a_fit_without_documents_follows_only_where_it_may_be_better(untrained, monkeypatch):
    """Enough held-out examples that are answered with probabilities of nearly 1 cannot be answered clearly better."""
    without = []

    def counted(problem, show_progress):
        without.append(problem)
        return weigh_experts(problem, show_progress)

    monkeypatch.setattr("docsplit_hf.classifier.fit_datastore.weigh_experts", counted)
    experts = ["classifier", "topics"]
    fit_datastore(untrained.embedder, make_store(30, 90), experts=experts)
    assert not without
    fit_datastore(untrained.embedder, misleading_store(), experts=experts)
    assert len(without) == 1 and without[0].snapshot.documents is None


def test_an_encoder_with_equal_embeddings_for_all_texts_is_logged(filled, caplog):
    keys = filled.datastore.keys
    same = np.ones_like(keys) + 1e-4 * keys
    store = KNNDatastore(same, filled.datastore.labels, filled.datastore.label_names, filled.datastore.texts)
    fit_datastore(filled.embedder, store)
    assert "gives nearly one vector for all texts" in caplog.text and "Try the one that ships" in caplog.text
    caplog.clear()
    fit_datastore(filled.embedder, filled.datastore)
    assert "one vector" not in caplog.text


def test_documents_that_are_versions_are_left_out_unless_they_clearly_help(untrained, monkeypatch):
    """Each document has its draft among the documents, so their groups follow texts, not labels."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, 5_000, (90, 40))
    texts = [" ".join(f"w{word}" for word in row) for row in words]
    drafts = [f"{text} draft" for text in texts]
    store = KNNDatastore(rng.standard_normal((30, 8)).astype(np.float32), [0, 1] * 15, ["a", "b"], texts[:30])
    store.add_documents(rng.standard_normal((150, 8)).astype(np.float32), texts[30:] + drafts)
    experts = [name for name in EXPERTS if name != "label_names"]
    report = fit_datastore(untrained.embedder, store, experts=experts)
    assert (report.left_out, report.documents, report.version_fraction) == (150, 0, 1.0)
    assert "150 documents were left out: 100% of all texts are versions of another one" in str(report)
    assert FitReport.of(store.fitted.settings) == report
    monkeypatch.setattr("docsplit_hf.classifier.fit_datastore.MIN_LOG_LIKELIHOOD_GAIN", -50.0)  # evidence for documents
    assert fit_datastore(untrained.embedder, store, experts=experts).documents == 150


@pytest.mark.parametrize(("drafts", "left_out"), [(25, 0), (28, 88)])
def test_documents_stay_below_the_limit_of_versions(untrained, drafts, left_out):
    """43 and 47 % of all texts are versions of another one."""
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{word}" for word in row) for row in rng.integers(0, 5_000, (90, 40))]
    documents = texts[30:] + [f"{text} draft" for text in texts[:drafts]]
    keys = rng.standard_normal((90 + drafts, 8)).astype(np.float32)
    store = KNNDatastore(keys[:30], [0, 1] * 15, ["a", "b"], texts[:30])
    store.add_documents(keys[30:], documents)
    report = fit_datastore(untrained.embedder, store, experts=["classifier", "topics", "word_regression"])
    assert report.version_fraction == pytest.approx(2 * drafts / (90 + drafts))
    assert report.left_out == left_out


@pytest.mark.parametrize("has_versions", [True, False])
def test_versions_of_the_examples_show_what_tells_labels_apart_though_documents_are_left_out(untrained, has_versions):
    """Embeddings show mainly what a text is about; only beside its version, which has another label, the label."""
    rng = np.random.default_rng(0)
    keys = np.repeat(rng.standard_normal((90, 24)), 2, axis=0)
    keys[:, 0] = np.tile([-0.4, 0.4], 90) + 0.1 * rng.standard_normal(180)
    texts = [f"a{place // 2} b{place // 2} c{place // 2} d{place // 2} e{place}" for place in range(180)]
    keys = keys.astype(np.float32)
    examples = np.array([2 * text + text % 2 for text in range(12)])
    documents = np.setdiff1d(np.arange(120), examples) if has_versions else np.arange(24, 120)
    store = KNNDatastore(keys[examples], examples % 2, ["a", "b"], [texts[row] for row in examples])
    store.add_documents(keys[documents], [texts[row] for row in documents])
    report = fit_datastore(untrained.embedder, store, experts=["classifier"])
    assert report.left_out == len(documents)
    found = score_texts(prepare_experts(store.snapshot), keys[120:], texts[120:], None)
    accuracy = (found.probabilities.argmax(1) == np.tile([0, 1], 30)).mean()
    assert accuracy > 0.95 if has_versions else accuracy < 0.85


def test_descriptions_alone_keep_documents_that_are_versions(untrained):
    words = np.random.default_rng(0).integers(0, 5_000, (20, 40))
    texts = [" ".join(f"w{word}" for word in row) for row in words]
    documents = [f"{text} {draft}" for text in texts for draft in ("first", "second")]
    untrained.add_labels({"a": "about apples", "b": "about bears"})
    untrained.add_documents(documents)
    report = untrained.fit(show_progress=False)
    assert report.version_fraction > 0.9 and report.documents == len(documents)
