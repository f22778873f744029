"""DocSplitClassifier: the answers of the pipeline through the interface of scikit-learn."""

import multiprocessing
import os
import re
import shutil
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from joblib import parallel_config
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator
from sklearn.utils.validation import check_is_fitted, validate_data
from transformers import pipeline

from docsplit_hf import AutoModelForDocSplit, DocSplitClassifier
from docsplit_hf.classifier import estimator
from docsplit_hf.classifier.estimator import DEFAULT_EXPERTS, embed_once, encoder_pipeline
from docsplit_hf.encoding.classifier_embedder import ClassifierEmbedder

CLASSES = ["nature", "places", "works"]
WORDS = ["river|garden|glacier|forest", "court|harbour|kitchen|library", "engine|orchestra|market|stadium"]


@pytest.fixture(scope="module")
def encoder(make_tiny_config, tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    torch.manual_seed(0)
    AutoModelForDocSplit.from_config(make_tiny_config(), pooling="mean").save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def has_label(texts):
    """Whether a text is about each class, ``(48, 3)``."""
    return np.array([[int(bool(re.search(words, text))) for words in WORDS] for text in texts])


@pytest.fixture(scope="module")
def labels(has_label):
    return np.array(CLASSES)[has_label.argmax(1)]


FAST = ("naive_bayes", "neighbors")  # experts that are fitted in no time


def scores(pipe, texts, names=CLASSES):
    answers = pipe(texts, top_k=None)
    return np.array([[{a["label"]: a["score"] for a in answer}[name] for name in names] for answer in answers])


@pytest.mark.parametrize("max_length", [None, 8])
def test_probabilities_equal_those_of_the_pipeline(encoder, texts, labels, max_length, tmp_path):
    model = DocSplitClassifier(encoder, texts[30:], max_length=max_length).fit(texts[:30], labels[:30])
    probabilities = model.predict_proba(texts)
    model.pipeline_.save_pretrained(tmp_path)
    for pipe in (model.pipeline_, pipeline("docsplit-knn", model=str(tmp_path))):
        np.testing.assert_allclose(probabilities, scores(pipe, texts), atol=1e-5)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert model.predict(texts).tolist() == [answer["label"] for answer in model.pipeline_(texts)]
    with pytest.raises(ValueError, match="X has no texts"):
        model.predict([])


def test_the_pipeline_equals_one_made_by_hand(encoder, texts, labels, tmp_path, monkeypatch):
    # A GPU rounds each batch differently. The estimator caches its pipeline, on a GPU perhaps, by the folder.
    monkeypatch.setattr(estimator, "pipeline", partial(pipeline, device="cpu"))
    encoder = shutil.copytree(encoder, tmp_path / "encoder")
    order = np.argsort(labels[:30], kind="stable")  # the pipeline numbers labels as they come
    examples = [texts[i] for i in order]
    unlabeled = [*texts[20:], "", texts[40]]
    model = DocSplitClassifier(encoder, unlabeled).fit(examples, labels[order])
    pipe = pipeline("docsplit-knn", model=str(encoder), device="cpu")
    pipe.add_documents(unlabeled)
    pipe.add_examples(examples, labels[order].tolist(), allow_duplicates=True)
    report = pipe.fit(experts=DEFAULT_EXPERTS, show_progress=False)  # labels of an estimator may be no words
    np.testing.assert_allclose(model.predict_proba(texts), scores(pipe, texts), atol=1e-4)
    assert (report.examples, report.documents) == (model.report_.examples, model.report_.documents) == (30, 18)
    assert model.pipeline_.model.config.k == pipe.model.config.k


def test_copies_do_not_lower_the_guaranteed_error(encoder, texts, labels, caplog):
    once = DocSplitClassifier(encoder, experts=FAST).fit(texts, labels).report_
    caplog.clear()
    twice = DocSplitClassifier(encoder, experts=FAST).fit([*texts, *texts], [*labels, *labels]).report_
    assert (twice.examples, twice.least_error, twice.answered) == (once.examples, once.least_error, once.answered)
    assert "48 of 96 examples are in the datastore already with the same label" in caplog.text


@pytest.mark.parametrize("kinds, names", [([1, 2], "12"), ([True, False], ("true", "false")), ([1.0, 2.0], "12")])
def test_labels_have_the_names_of_the_pipeline(encoder, texts, labels, kinds, names):
    given = np.where(labels == labels[0], kinds[0], kinds[1])
    model = DocSplitClassifier(encoder, experts=FAST).fit(texts, given)
    pipe = pipeline("docsplit-knn", model=encoder)
    pipe.add_examples(texts, given)
    assert set(model.pipeline_.datastore.label_names) == set(pipe.datastore.label_names) == set(names)
    assert model.predict(texts).dtype == given.dtype


def test_the_form_of_texts_makes_no_difference(encoder, texts, labels):
    forms = [list, lambda t: np.array(t, dtype=object)[:, None], pd.Series, lambda t: pd.DataFrame({"text": t})]
    model = DocSplitClassifier(encoder, experts=FAST)
    found = [model.fit(form(texts), labels).predict_proba(form(texts)) for form in forms]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
    pairs = np.array([texts, texts[::-1]]).T, pd.DataFrame({"text": texts, "text_pair": texts[::-1]})
    of_pairs = [model.fit(form, labels).predict_proba(form) for form in pairs]
    np.testing.assert_array_equal(*of_pairs)
    assert not np.allclose(of_pairs[0], found[0])


@pytest.mark.parametrize("classes", [np.array([0.0, 1.0, 2.0]), np.array([False, True])], ids=str)  # beside the checks'
def test_the_type_of_labels_makes_no_difference(encoder, texts, labels, classes):
    numbers = np.unique(labels, return_inverse=True)[1].clip(max=len(classes) - 1)
    model = DocSplitClassifier(encoder, experts=FAST)
    expected = model.fit(texts, numbers).predict_proba(texts)
    for given in (classes[numbers], classes[numbers].tolist(), pd.Series(classes[numbers])):
        model.fit(texts, given)
        np.testing.assert_array_equal(model.classes_, classes)
        np.testing.assert_array_equal(model.predict_proba(texts), expected)
    assert model.classes_.dtype == classes.dtype


def test_several_labels_are_a_matrix_of_any_kind(encoder, texts, has_label):
    forms = [has_label, has_label > 0, has_label.tolist(), sp.csr_matrix(has_label), sp.csc_array(has_label)]
    models = [DocSplitClassifier(encoder, experts=FAST).fit(texts, y) for y in forms]
    expected = models[0].predict_proba(texts)
    np.testing.assert_allclose(expected, scores(models[0].pipeline_, texts, ["0", "1", "2"]), atol=1e-5)
    for model in models:
        np.testing.assert_array_equal(model.predict_proba(texts), expected)
        np.testing.assert_array_equal(model.predict(texts), models[0].predict(texts))
    thresholds = models[0].pipeline_.datastore.fitted.settings["thresholds"]
    np.testing.assert_array_equal(models[0].predict(texts), expected >= thresholds)
    assert models[0].classes_.tolist() == [0, 1, 2]
    model = DocSplitClassifier(encoder, experts=FAST).fit(
        texts, np.insert(has_label, 1, 0, axis=1)
    )  # a label that no text has
    np.testing.assert_allclose(np.delete(model.predict_proba(texts), 1, axis=1), expected)
    assert not model.predict_proba(texts)[:, 1].any() and not model.predict(texts)[:, 1].any()


ODD = "a text"
WRONG = {
    "numbers are no texts": ([1, 2, 3], ["a", "b", "a"], TypeError, "Text 0 is 1, not a string"),
    "a matrix of numbers": (np.zeros((3, 4)), ["a", "b", "a"], TypeError, r"array of shape \(3, 4\)"),
    "a sparse matrix": (sp.csr_matrix(np.eye(3)), ["a", "b", "a"], TypeError, "array of shape"),
    "one string": (ODD, ["a"], TypeError, r"pass \[text\]"),
    "a missing text": (pd.Series([ODD, None, "c"]), ["a", "b", "a"], TypeError, "Text 1 is None, not a string"),
    "NaN for a text": ([ODD, "b", float("nan")], ["a", "b", "a"], TypeError, "Text 2 is nan, not a string"),
    "an empty text": ([ODD, " ", "c"], ["a", "b", "a"], ValueError, "Text 1 is empty"),
    "no column": (pd.DataFrame({"body": [ODD]}), ["a"], TypeError, "no column 'text'"),
    "another length": ([ODD, "b"], ["a", "b", "a"], ValueError, "inconsistent numbers of samples"),
    "nothing": ([], [], ValueError, "X has no texts"),
    "no labels": ([ODD, "b"], None, ValueError, "y to be passed"),
    "a missing label": ([ODD, "b", "c"], ["a", None, "b"], ValueError, "text 1 has no label"),
    "NaN for a label": ([ODD, "b", "c"], [0, 1, np.nan], ValueError, "text 2 has no label"),
    "one class": ([ODD, "b"], ["a", "a"], ValueError, "only one class"),
    "one column": ([ODD, "b"], np.array([[1, 0], [1, 0]]), ValueError, "nothing to tell apart"),
    "numbers to predict": ([ODD, "b"], [0.5, 1.5], ValueError, "Unknown label type"),
    "columns of classes": ([ODD, "b"], np.array([[1, 2], [3, 4]]), ValueError, "several columns of classes"),
    "lists of labels": ([ODD, "b"], [["a"], ["a", "b"]], ValueError, "MultiLabelBinarizer"),
}


@pytest.mark.parametrize("X, y, error, says", WRONG.values(), ids=WRONG)
def test_invalid_training_data_is_refused(encoder, X, y, error, says):  # noqa: N803
    with pytest.raises(error, match=says):
        DocSplitClassifier(encoder).fit(X, y)


def test_wrong_parameters_are_refused_by_fit(encoder, texts, labels):
    for parameters, error in (
        ({"encoder": "docsplit-smal-en"}, FileNotFoundError),
        ({"experts": ["word"]}, ValueError),
        ({"max_length": 65}, ValueError),
        ({"max_length": 0}, ValueError),
        ({"unlabeled": [1]}, TypeError),
    ):
        with pytest.raises(error):
            DocSplitClassifier(**{"encoder": encoder} | parameters).fit(texts, labels)
    with pytest.raises(NotFittedError):
        DocSplitClassifier(encoder).predict(texts)


@pytest.mark.slow
def test_cross_validation_is_silent_and_the_same_in_threads_and_processes(server, encoder, texts, labels, capfd):
    model = DocSplitClassifier(encoder, unlabeled=texts)
    alone = cross_val_score(model, texts, labels, cv=3)
    assert capfd.readouterr().out == ""
    with parallel_config(backend="threading"):
        np.testing.assert_array_equal(cross_val_score(model, texts, labels, cv=3, n_jobs=2), alone)
    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        np.testing.assert_array_equal(pool.apply(cross_val_score, (model, texts, labels), {"cv": 3}), alone)


def test_cleanlab_finds_wrong_labels(encoder, texts, labels):
    filters = pytest.importorskip("cleanlab.filter")
    from cleanlab.classification import CleanLearning

    numbers = np.unique(labels, return_inverse=True)[1]
    wrong = np.arange(0, 48, 8)
    numbers[wrong] = (numbers[wrong] + 1) % 3
    model = DocSplitClassifier(encoder, experts=["word_regression"])  # of the random encoder some say anything
    probabilities = cross_val_predict(model, texts, numbers, cv=3, method="predict_proba")
    issues = filters.find_label_issues(numbers, probabilities, filter_by="predicted_neq_given")
    assert issues[wrong].mean() > 0.5 > 0.4 > np.delete(issues, wrong).mean()
    cleaned = CleanLearning(model, cv_n_folds=3).fit(np.array(texts), numbers)
    assert cleaned.predict(np.array(texts)).shape == (48,)


STEPS = np.linspace(-3, 3, 13)


class OfNumbers(DocSplitClassifier):
    """Turn numbers into texts for scikit-learn's checks: a word for each step that a number is above."""

    def fit(self, X, y):  # noqa: N803
        return super().fit(_as_texts(validate_data(self, X)), y)

    def predict_proba(self, X):  # noqa: N803
        check_is_fitted(self)
        return super().predict_proba(_as_texts(validate_data(self, X, reset=False)))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        tags.input_tags.one_d_array = False
        tags.input_tags.string = False
        return tags


def _as_texts(rows):
    return [
        " ".join(["row", *(f"f{i}s{s}" for i, v in enumerate(row) for s in np.flatnonzero(v > STEPS))]) for row in rows
    ]


# scikit-learn asks for 1e-7. Embeddings are float32, and a matrix product of other rows adds up in another order.
FLOAT32 = "probabilities of the same text differ by some 1e-6 with the texts beside it"
EXPECTED_TO_FAIL = {"check_methods_sample_order_invariance": FLOAT32, "check_methods_subset_invariance": FLOAT32}


@pytest.mark.slow
def test_the_checks_of_scikit_learn_pass(encoder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = OfNumbers(encoder, experts=FAST)
        results = check_estimator(model, expected_failed_checks=EXPECTED_TO_FAIL, on_fail=None, on_skip=None)
    statuses = {result["check_name"]: (result["status"], result["exception"]) for result in results}
    assert [f"{name}: {status[1]}" for name, status in statuses.items() if status[0] == "failed"] == []
    assert sum(result["status"] == "passed" for result in results) >= 55
    skipped = {name for name, status in statuses.items() if status[0] == "skipped"}
    assert skipped == {  # an array API that is off, a method that it does not have
        "check_array_api_input",
        "check_classifiers_multilabel_output_format_decision_function",
    }


@pytest.mark.filterwarnings("ignore:Can't test estimator")  # which says that all others are for numbers
def test_the_checks_of_scikit_learn_for_texts_pass(encoder):
    for model, check in estimator_checks_generator(DocSplitClassifier(encoder, experts=FAST)):
        check(model)
    tags = DocSplitClassifier().__sklearn_tags__()
    assert tags.input_tags.string and tags.input_tags.one_d_array and not tags.input_tags.two_d_array
    assert tags.classifier_tags.multi_label and not tags.input_tags.allow_nan


@pytest.fixture
def embedded(monkeypatch):
    """The texts that are embedded, call by call, with nothing kept before."""
    calls = []

    def counted(embedder, texts, pairs):
        calls.append(texts)
        return read(embedder, texts, pairs)

    read = ClassifierEmbedder.embed
    monkeypatch.setattr(ClassifierEmbedder, "embed", counted)
    monkeypatch.setattr(estimator, "_cached_embeddings", {})
    return calls


def test_each_text_is_embedded_once(untrained, texts, embedded):
    given = [texts[0], texts[1], texts[0]]
    pairs = [None, None, texts[1]]
    expected = untrained.embedder.embed(given, pairs).retrieval_embeddings
    embedded.clear()
    for _ in range(2):
        found = embed_once(untrained.embedder, "encoder", given, pairs)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    embed_once(untrained.embedder, "encoder", texts[:3], [None] * 3)
    assert [sorted(read) for read in embedded] == [sorted(given), [texts[2]]]
    assert embed_once(untrained.embedder, "encoder", [], []).shape == (0, 32)


def test_embeddings_are_cached_per_encoder_and_length(untrained, texts, embedded):
    for fingerprint, max_length in (("one", 64), ("two", 64), ("one", 16), ("one", 64)):
        untrained.model.config.max_length = max_length
        embed_once(untrained.embedder, fingerprint, texts[:1], [None])
    assert len(embedded) == 3


def test_a_changed_folder_is_loaded_again(tiny_checkpoint, tiny_model):
    before = encoder_pipeline(tiny_checkpoint)[1]
    with torch.no_grad():
        next(tiny_model.parameters()).zero_()
    tiny_model.save_pretrained(tiny_checkpoint)
    os.utime(tiny_checkpoint / "model.safetensors")
    assert encoder_pipeline(tiny_checkpoint)[1] != before


def test_a_classifier_is_refused(classifier, tokenizer, tmp_path):
    classifier.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="pass the encoder that it was made from"):
        encoder_pipeline(tmp_path)
