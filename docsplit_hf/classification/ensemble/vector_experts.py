"""The experts that know vectors: the "classifier" or a linear probe, the "topics", and the "names" of the labels."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, log_softmax, softmax

from .corpus import spread_labels, unit
from .expert import Expert
from .log_linear_pool import smoothed, spread_of_scores

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sklearn.linear_model import LogisticRegression

    from .corpus import Corpus
    from .expert import Asked, Lesson, Sizes

INVERSE_REGULARIZATION = 20.0
UNKNOWN = 1e-3  # the share of a label that no example, or every example, has
CONCENTRATION, STEPS = 30.0, 10
EXAMPLE_WEIGHTS = 3.0, 10.0  # what a text with a label counts, where one without counts 1: folds choose
EVIDENCE = 3.0  # the log likelihood that something else than the default must gain in folds: a Bayes factor of 20
MOST, HALF_LIFE = 1.0, 1.5  # its share without examples, and with how many of each label it has half of that
_NO_WORDS = str.maketrans("._-/", "    ")


class Classifier(Expert):
    """The trained classifier, or else a linear probe: logistic regression on the vectors of the examples."""

    def prior(self, lesson: Lesson) -> float:
        return 0.2 if lesson.has_documents else 0.45

    def fit(self, lesson: Lesson) -> dict[str, np.ndarray]:
        if lesson.has_head:
            return {}
        probe = fit_probe(lesson.corpus.vectors[lesson.rows], lesson.targets, lesson.several)
        return {"probe": np.column_stack(probe)}

    def score(self, learned: Mapping[str, np.ndarray], asked: Asked) -> np.ndarray:
        if "probe" in learned:
            return asked.vectors @ learned["probe"][:, :-1].T + learned["probe"][:, -1]
        if asked.logits is None:
            raise ValueError(
                "The experts were fitted beside a trained classifier, and this encoder is none: fit() again."
            )
        return asked.logits

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        return {} if sizes.has_head else {"probe": (sizes.labels, sizes.dimensions + 1)}


def fit_probe(vectors: np.ndarray, targets: np.ndarray, several: bool) -> tuple[np.ndarray, np.ndarray]:
    """Weights ``(C, D)`` and biases ``(C,)`` of logits, log odds of several labels, by ``targets`` ``(n, C)``."""
    if several:
        columns = [_binary(vectors, column) for column in targets.T]
        return np.stack([c[0] for c in columns]).astype(np.float32), np.array([c[1] for c in columns], np.float32)
    with warnings.catch_warnings():  # where each label has one example, scikit-learn asks whether they are numbers
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        model = _regression().fit(vectors, targets.argmax(1))
    weights, biases = model.coef_, model.intercept_
    if len(weights) == 1:  # of two labels scikit-learn gives the log odds of the second
        weights, biases = np.vstack([-weights, weights]) / 2, np.array([-biases[0], biases[0]]) / 2
    return weights.astype(np.float32), biases.astype(np.float32)


def _binary(vectors: np.ndarray, has_label: np.ndarray) -> tuple[np.ndarray, float]:
    if has_label.min() == has_label.max():
        share = np.clip(has_label.mean(), UNKNOWN, 1 - UNKNOWN)
        return np.zeros(vectors.shape[1]), float(np.log(share / (1 - share)))
    model = _regression().fit(vectors, has_label > 0)
    return model.coef_[0], float(model.intercept_[0])


def _regression() -> LogisticRegression:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=INVERSE_REGULARIZATION, max_iter=300)


class Topics(Expert):
    """Soft k-means: how near a text is to the middle of all that a label's texts are about."""

    learns_from_documents = True

    def can_learn(self, corpus: Corpus, several: bool, has_names: bool) -> bool:
        return not several

    def prior(self, lesson: Lesson) -> float:
        return 0.35 if lesson.has_documents else 0.45

    def fit(self, lesson: Lesson) -> dict[str, np.ndarray]:
        return {"centers": lesson.centers}  # they were found when labels were made soft

    def score(self, learned: Mapping[str, np.ndarray], asked: Asked) -> np.ndarray:
        return topic_scores(asked.whitened, learned["centers"])

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        return {"centers": (sizes.labels, sizes.dimensions)}


def fit_topics(
    vectors: np.ndarray, rows: np.ndarray, soft: np.ndarray, weights: np.ndarray, proportions: np.ndarray | None = None
) -> np.ndarray:
    """The soft labels ``(N, C)`` of texts that are grouped by topic.

    Expectation maximization of a mixture of von Mises-Fisher distributions over the whitened vectors ``(N, D)`` of all
    texts, which count ``weights`` ``(N,)``. It begins with ``soft``; the texts ``rows`` keep theirs. The priors are the
    ``proportions`` of the labels ``(C,)``, or, if None, estimated with the rest.
    """
    given, prior = soft[rows], 0.0 if proportions is None else np.log(proportions)
    for _ in range(STEPS):
        soft = softmax(topic_scores(vectors, centers_of(vectors, soft, weights)) + prior, axis=1)
        soft[rows] = given
        if proportions is None:
            prior = np.log(smoothed(soft.mean(0, dtype=np.float64)))
    return soft.astype(np.float32, copy=False)


def choose_example_weight(
    corpus: Corpus, rows: np.ndarray, targets: np.ndarray, folds: np.ndarray, proportions: np.ndarray | None
) -> float:
    """What an example counts beside a document: more where topics then find held-out examples better."""
    scores = np.zeros((len(EXAMPLE_WEIGHTS), *targets.shape))
    for fold in range(int(folds.max()) + 1):
        is_asked = folds == fold
        learned, asked = rows[~is_asked], rows[is_asked]
        spread = spread_labels(corpus.graph, learned, targets[~is_asked], False)
        for i, example_weight in enumerate(EXAMPLE_WEIGHTS):
            weights = np.ones(len(corpus.whitened), np.float32)
            weights[learned] = example_weight
            soft = fit_topics(corpus.whitened, learned, spread, weights, proportions)
            scores[i, is_asked] = topic_scores(corpus.whitened[asked], centers_of(corpus.whitened, soft, weights))
    scores, held_out = scores[:, folds >= 0], targets[folds >= 0]
    scores /= spread_of_scores(scores, False)[:, None, None]
    likelihoods = (log_softmax(scores, axis=2) * held_out).sum((1, 2))
    return EXAMPLE_WEIGHTS[int(likelihoods[1] > likelihoods[0] + EVIDENCE)]


def topic_scores(vectors: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Logits ``(N, C)``: 30 times the cosine of a text and a center."""
    return CONCENTRATION * (vectors @ centers.T)


def centers_of(vectors: np.ndarray, soft: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The middle of the texts of each label, ``(C, D)``, of norm 1."""
    # Not soft.T @ vectors: with two threads on a busy machine OpenBLAS takes six times as long for it.
    return unit((vectors.T @ (soft * weights[:, None])).T)


class Names(Expert):
    """Cosines of embeddings and of the names of labels, as far as the examples confirm them."""

    def can_learn(self, corpus: Corpus, several: bool, has_names: bool) -> bool:
        return has_names and not several

    def prior(self, lesson: Lesson) -> float:
        """Less with more examples, and next to nothing where names are no help with these."""
        return MOST / (1 + len(lesson.rows) / lesson.targets.shape[1] / HALF_LIFE) * lesson.belief

    def fit(self, lesson: Lesson) -> dict[str, np.ndarray]:
        return {"names": lesson.names}

    def score(self, learned: Mapping[str, np.ndarray], asked: Asked) -> np.ndarray:
        return _cosines(asked.vectors, learned["names"])

    def shapes(self, sizes: Sizes) -> dict[str, tuple[int, ...]]:
        return {"names": (sizes.labels, sizes.embedding)}


def belief_in_names(
    corpus: Corpus, rows: np.ndarray, targets: np.ndarray, names: np.ndarray, is_text: np.ndarray | None = None
) -> float:
    """The probability that names tell labels apart, rather than being any words, given the examples.

    As names were not learned from them, all examples testify but descriptions of labels, which are names themselves.
    """
    if is_text is not None:
        rows, targets = rows[is_text], targets[is_text]
    scores = _cosines(corpus.vectors, names)
    scores /= max(np.sqrt(np.square(scores - scores.mean(1, keepdims=True)).mean()), 1e-9)
    said = log_softmax(scores[rows], axis=1)[targets > 0]
    return float(expit(said.sum() + len(said) * np.log(targets.shape[1])))


def readable_names(names: Sequence[str]) -> list[str]:
    """Names as an encoder reads them: ``comp.sys.mac-hardware`` is four words."""
    return [name.translate(_NO_WORDS).strip() or name for name in names]


def names_as_vectors(embeddings: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Embeddings of names, ``(C, H)``, less what all texts, and all names, have in common; of norm 1."""
    centered = unit(embeddings.astype(np.float32) - mean)
    return unit(centered - centered.mean(0)).astype(np.float32)


def _cosines(vectors: np.ndarray, names: np.ndarray) -> np.ndarray:
    return unit(vectors[:, : names.shape[1]]) @ names.T
