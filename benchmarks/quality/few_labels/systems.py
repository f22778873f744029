"""Systems on a frozen encoder or on words: functions of a task, its labeled rows, an embedder and a seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter, process_time
from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import softmax
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.semi_supervised import SelfTrainingClassifier

from benchmarks.quality.few_labels.embedder import SAMPLE, Embedder
from benchmarks.quality.few_labels.protocol import Answer, FewLabels, Text, as_one_text, rest
from docsplit_hf.classifier.estimator import DEFAULT_EXPERTS
from docsplit_hf.evaluation.systems import WORDS

DEFAULT_C = 10.0
C_GRID = [1.0, 10.0, 100.0, 1000.0, 10_000.0]
MOST_ROTATED = 1_000  # examples; with more, sparse word counts are smaller than dense rotated ones
COSINE_SCALE = 20  # sentence-transformers' own, for probabilities from cosines


def ours(
    task: FewLabels,
    rows: np.ndarray,
    embedder: Embedder,
    seed: int,
    documents: bool,
    fit: bool,
    experts: list[str] | None = None,
) -> Answer:
    """The pipeline as a user calls it, with or without unlabeled documents; without fit, the mixture of two."""
    pipe = embedder.pipeline()
    unlabeled = rest(len(task.pool), rows) if documents else []
    with embedder.remembered():
        with timed() as spent:
            if len(rows):
                pipe.add_examples([task.pool[row] for row in rows], [task.names[i] for i in task.pool_labels[rows]])
            else:
                pipe.add_labels(dict(zip(task.names, task.descriptions, strict=True)))
            if len(unlabeled):
                pipe.add_documents([task.pool[row] for row in unlabeled])
            if fit:
                pipe.fit(experts=experts)
        answers = pipe(task.test, top_k=None)
    scores = [{answer["label"]: answer["score"] for answer in given} for given in answers]
    spent["embedding_seconds"] = embedder.seconds_per_text * (len(rows) + len(unlabeled))
    spent["documents_per_second"] = speed(partial(pipe, top_k=None), task, seed)
    return Answer(np.array([[given.get(name, 0.0) for name in task.names] for given in scores]), **spent)


def probe(task: FewLabels, rows: np.ndarray, embedder: Embedder, seed: int) -> Answer:
    """Logistic regression on the embeddings, the usual baseline."""
    examples = embedder.embed([task.pool[row] for row in rows])
    test = embedder.embed(task.test)
    with timed() as spent:
        model = logistic_regression(examples, task.pool_labels[rows], seed)
    spent["embedding_seconds"] = embedder.seconds_per_text * len(rows)
    spent["documents_per_second"] = speed(lambda texts: model.predict_proba(embedder.embed_anew(texts)), task, seed)
    return Answer(model.predict_proba(test), **spent, settings={"C": model.C})


def self_training(task: FewLabels, rows: np.ndarray, embedder: Embedder, seed: int) -> Answer:
    """scikit-learn's self-training with its defaults: the probe repeatedly adds labels with a confidence of 75 %."""
    unlabeled = rest(len(task.pool), rows)
    places = np.concatenate([rows, unlabeled])
    pool = embedder.embed([task.pool[row] for row in places])
    test = embedder.embed(task.test)
    labels = np.concatenate([task.pool_labels[rows], np.full(len(unlabeled), -1)])
    with timed() as spent:
        chosen = logistic_regression(pool[: len(rows)], task.pool_labels[rows], seed)
        model = SelfTrainingClassifier(chosen).fit(pool, labels)
    spent["embedding_seconds"] = embedder.seconds_per_text * len(places)
    return Answer(model.predict_proba(test), **spent, documents_per_second=None, settings={"C": chosen.C})


def tfidf(task: FewLabels, rows: np.ndarray, embedder: Embedder, seed: int) -> Answer:
    """Logistic regression on TF-IDF, with document frequencies of the whole pool."""
    pool = as_one_text(task.pool)
    test = as_one_text(task.test)
    with timed() as spent:
        vectorizer = TfidfVectorizer(sublinear_tf=True, token_pattern=WORDS).fit(pool)
        words = vectorizer.transform([pool[row] for row in rows])
        basis = words.T @ _basis(words) if len(rows) <= MOST_ROTATED else scipy.sparse.eye_array(words.shape[1])
        model = logistic_regression(words @ basis, task.pool_labels[rows], seed)

    def classify(texts: list[Text]) -> np.ndarray:
        return model.predict_proba(vectorizer.transform(as_one_text(texts)) @ basis)

    spent["documents_per_second"] = speed(classify, task, seed)
    return Answer(classify(test), **spent, settings={"C": model.C})


def _basis(words: scipy.sparse.csr_matrix) -> np.ndarray:
    """Return B so that ``words @ words.T @ B`` are the examples in the dimensions that they span.

    This preserves all angles and lengths, so logistic regression gives the same answers in a tenth of the time.
    """
    values, vectors = np.linalg.eigh((words @ words.T).toarray())
    kept = values > 1e-9 * values.max()
    return vectors[:, kept] / np.sqrt(values[kept])


def name_cosine(task: FewLabels, rows: np.ndarray, embedder: Embedder, seed: int) -> Answer:
    """The class with the nearest description, for 0 labels."""
    with timed() as spent:
        classes = embedder.embed_anew(task.descriptions)

    def classify(embeddings: np.ndarray) -> np.ndarray:
        return softmax(COSINE_SCALE * embeddings @ classes.T, axis=1)

    spent["documents_per_second"] = speed(lambda texts: classify(embedder.embed_anew(texts)), task, seed)
    return Answer(classify(embedder.embed(task.test)), **spent)


SYSTEMS: dict[str, Callable[..., Answer]] = {
    "ours": partial(ours, documents=True, fit=True),
    "ours_without_documents": partial(ours, documents=False, fit=True),
    "ours_without_names": partial(ours, documents=True, fit=True, experts=DEFAULT_EXPERTS),
    "two_way": partial(ours, documents=False, fit=False),
    "probe": probe,
    "self_training": self_training,
    "tfidf": tfidf,
    "name_cosine": name_cosine,
}
WITHOUT_LABELS = ("ours", "ours_without_documents", "name_cosine")  # systems that run without labels


def logistic_regression(features: Any, labels: np.ndarray, seed: int) -> LogisticRegression:
    """Logistic regression with C chosen by cross-validated log loss, if each class has at least two examples."""
    _, counts = np.unique(labels, return_counts=True)
    fewest = counts.min()
    # With the default tolerance of 1e-4, training on words stops after a few steps: macro F1 falls by up to 20 points.
    model = LogisticRegression(C=DEFAULT_C, tol=1e-6, max_iter=300)
    if fewest < 2:
        return model.fit(features, labels)
    folds = StratifiedKFold(min(5, fewest), shuffle=True, random_state=seed)
    search = GridSearchCV(model, {"C": C_GRID}, scoring="neg_log_loss", cv=folds)
    return search.fit(features, labels).best_estimator_


@contextmanager
def timed() -> Iterator[dict[str, float | None]]:
    """Seconds of the block, by the clock and of the processor."""
    spent: dict[str, float | None] = {}
    wall = perf_counter()
    cpu = process_time()
    yield spent
    spent["fit_seconds"] = perf_counter() - wall
    spent["fit_cpu_seconds"] = process_time() - cpu


def speed(classify: Callable[[list[Text]], Any], task: FewLabels, seed: int) -> float | None:
    """Documents per second on a sample, embedding included; measured for the first draw only, else None."""
    if seed > 0:
        return None
    sample = task.test[:SAMPLE]
    start = perf_counter()
    classify(sample)
    return len(sample) / (perf_counter() - start)
