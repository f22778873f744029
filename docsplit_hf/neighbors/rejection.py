"""When a classifier should not answer: the confidence it needs (Learn then Test), and how familiar a text is."""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np
from scipy.special import betainc

from .store.duplicates import EQUAL
from .store.keys import exact_search

CERTAINTY = 0.9  # the share of draws of the held-out texts in which the promise holds
TESTS = 20
ERRORS_AT_FIRST = 1  # allowed in the first and most confident group: one wrong label must not end the test
SHARE_AT_FIRST = 10  # that group has at least a tenth of the texts
ONE_SIDE = 0.025  # of a 95 % interval
TINY = 1e-9  # where the beta distribution needs a parameter above 0
NEAREST = 5
NEAREST_DOCUMENTS = 20
BESIDE_DOCUMENTS = 4.0  # the sharpness of the comparison with them
LEAST_FAMILIAR = 0.1  # of the held-out texts: the level at which documents are compared with them
BY_CHANCE = 0.001  # documents whose labels have other proportions than the held-out texts differ a little, too
LOST = 0.05  # of the texts of known classes, where documents are of others
NOVEL = 0.99  # a text that is less familiar than 99 % of the held-out examples gets no answer, however sure it seems


def confidence_threshold(
    confidence: np.ndarray, right: np.ndarray, error: float, counts: np.ndarray | None = None
) -> float:
    """The lowest confidence at which at most a share ``error`` of the answers is wrong; infinity if there is none.

    ``confidence`` and ``right`` are ``(m,)``, of held-out texts; confidence 0 is no answer. Growing groups of the most
    confident texts are tested by the binomial distribution until one fails (fixed sequence testing, section 3 of
    Angelopoulos et al. 2021). In 9 of 10 draws of the held-out texts the level holds for new texts like them.
    ``counts`` ``(B, m)`` are those of ``text_counts``; None: each text stands for one.
    """
    ranked = np.argsort(-confidence, kind="stable")[: np.count_nonzero(confidence > 0)]
    if not len(ranked):
        return np.inf
    confidence = confidence[ranked]
    groups = Groups.of(right[ranked], np.ones((1, len(right)))[:, ranked] if counts is None else counts[:, ranked])
    total = len(ranked)
    enough = np.flatnonzero(tail_probability(ERRORS_AT_FIRST, groups.sizes.mean(0), error) <= 1 - CERTAINTY)
    first = max(enough[0] + 1, total // SHARE_AT_FIRST) if len(enough) else total
    level = np.inf
    for count in np.unique(np.linspace(first, total, TESTS).astype(int)):
        last = np.searchsorted(-confidence, -confidence[count - 1], side="right") - 1  # equal confidence, equal fate
        if tail_probability(groups.wrong[:, last], groups.sizes[:, last], error).mean() > 1 - CERTAINTY:
            break
        level = float(confidence[last])
    return level


class Groups(NamedTuple):
    """The first 1, 2, ..., m of ranked texts: how many they amount to, and how many of these are wrong, ``(B, m)``."""

    sizes: np.ndarray
    wrong: np.ndarray

    @classmethod
    def of(cls, right: np.ndarray, counts: np.ndarray) -> Groups:
        """A group of texts that count c amounts to ``(sum c)^2 / sum c^2`` texts (Kish): all of them if all c are 1."""
        mass = np.cumsum(counts, axis=1)
        sizes = mass**2 / np.cumsum(counts**2, axis=1)
        return cls(sizes, sizes * np.cumsum(counts * ~right, axis=1) / mass)


def tail_probability(wrong: np.ndarray | float, sizes: np.ndarray | float, error: float) -> np.ndarray:
    """The binomial probability of at most ``wrong`` errors in ``sizes`` texts; neither has to be a whole number."""
    rest = np.maximum(sizes - wrong, 0)
    return np.where(rest > 0, betainc(np.maximum(rest, TINY), np.asarray(wrong) + 1.0, 1 - error), 1.0)


def text_counts(targets: np.ndarray, proportions: np.ndarray) -> np.ndarray:
    """How many texts each held-out one stands for, ``(B, m)``, 1 in the mean; all 1 if B is 0.

    ``targets``, bool ``(m, C)``, are their labels, and ``proportions`` ``(B, C)`` those of the labels among all texts,
    in B draws of what is not known of them.
    """
    if not len(proportions) or not len(targets):
        return np.ones((1, len(targets)))
    labels, shares = targets.argmax(1), targets.mean(0)
    counts = proportions[:, labels].astype(np.float64) / shares[labels]
    return counts / counts.mean(1, keepdims=True)


def accuracy_interval(right: np.ndarray, counts: np.ndarray) -> tuple[float, float, float]:
    """The share of ``right`` answers ``(m,)`` of texts that stand for ``counts`` ``(B, m)``, and its 95 % interval.

    Clopper and Pearson's, with the size that the texts amount to, and its tails in the mean over the B draws.
    """
    from scipy.optimize import brentq

    if not len(right):
        return 0.0, 0.0, 1.0
    groups = Groups.of(right, counts)
    sizes, wrong = groups.sizes[:, -1], groups.wrong[:, -1]

    def bound(wrong: np.ndarray, tail: float) -> float:
        """The share of errors at which at most so many are as improbable as ``tail``."""
        return float(brentq(lambda error: tail_probability(wrong, sizes, error).mean() - tail, 0.0, 1.0))

    most = 1.0 if (wrong >= sizes).all() else bound(wrong, ONE_SIDE)
    least = 0.0 if (wrong <= 0).all() else bound(np.maximum(wrong - 1, TINY - 1), 1 - ONE_SIDE)
    return float(1 - (wrong / sizes).mean()), 1 - most, 1 - least


def check_error(error: float) -> None:
    """Refuse a ``reject`` that is not a share of wrong answers."""
    if not isinstance(error, Real) or not 0 < error < 1:
        raise ValueError(f"reject must be the share of wrong answers to allow, between 0 and 1, got {error!r}.")


def check_lost(novelty: float) -> None:
    """Refuse a ``novelty`` that is not a share of texts to lose; 0 and False are none."""
    if not isinstance(novelty, Real) or not 0 <= novelty < 1 or novelty is True:
        raise ValueError(
            "novelty must be the share of texts of the known labels that may get no answer, such as 0.05, or False, "
            f"got {novelty!r}."
        )


def least_error(counts: np.ndarray) -> float:
    """The lowest error that held-out texts can guarantee, if all their answers are right.

    They stand for ``counts`` ``(B, m)`` texts.
    """
    from scipy.optimize import brentq

    if not counts.shape[1]:
        return 1.0
    sizes = Groups.of(np.ones(counts.shape[1], bool), counts).sizes[:, -1]
    return float(brentq(lambda error: np.power(1 - error, sizes).mean() - (1 - CERTAINTY), 0.0, 1.0))


def least_held_out(lost: float) -> int:
    """How many held-out texts it takes to guarantee that at most a share ``lost`` of the known texts is lost."""
    return int(np.ceil(np.log(1 - CERTAINTY) / np.log(1 - lost)))


def closeness(queries: np.ndarray, examples: np.ndarray, without_equal: bool = False) -> np.ndarray:
    """The mean cosine ``(Q,)`` of the 5 nearest examples, ``without_equal`` no copies; all are ``(., D)`` of norm 1."""
    near = np.zeros(len(queries))
    rows, deeper = np.arange(len(queries)), NEAREST + without_equal
    while len(rows):
        count = min(deeper, len(examples))
        distances = exact_search(queries[rows], examples, count)[0]
        others = distances > (EQUAL if without_equal else -1)
        others &= np.cumsum(others, axis=1) <= NEAREST
        found = others.sum(1)
        near[rows] = ((1 - distances / 2) * others).sum(1) / np.maximum(found, 1)  # |a - b|^2 = 2 - 2 cos
        rows = rows[(found < NEAREST) & (count < len(examples))]  # of texts with many copies
        deeper *= 4
    return near


def familiarity(
    probabilities: np.ndarray, shares: np.ndarray, closeness: np.ndarray, to_documents: np.ndarray | None = None
) -> np.ndarray:
    """``max p(y) max s(y) max(c, 0)^2``, from 0 to 1: low for texts of a class that has no examples.

    p ``(N, C)`` are the probabilities of the mixture, s ``(N, C)`` the shares of the labels among the neighbors, c
    ``(N,)`` is ``closeness``. Each of the three misses some texts of unknown classes that the others find. Where the
    documents are of such classes, too, these texts are nearer to documents than to examples: with the closeness d
    ``to_documents`` ``(N,)``, it is times ``exp(4 (c - d - 1))``.
    """
    familiar = probabilities.max(1) * shares.max(1) * closeness.clip(0, 1) ** 2
    if to_documents is None:
        return familiar
    nearer = np.maximum(closeness, 0) - np.maximum(to_documents, 0)
    return familiar * np.exp(BESIDE_DOCUMENTS * (nearer - 1)).clip(max=1)  # cosines are rounded


def foreign_share(documents: np.ndarray, held_out: np.ndarray, counts: np.ndarray) -> float:
    """Which share of the documents is of classes without examples, by familiarities; 0 where chance may explain it.

    By the share of documents ``(N,)`` that are less familiar than nine of ten held-out texts ``(m,)``, which stand for
    ``counts`` ``(B, m)``. If there were no such documents, this number would have a beta-binomial distribution.
    """
    from scipy.stats import betabinom  # a third of a second, which importing docsplit_hf need not wait for

    order = np.argsort(held_out, kind="stable")
    groups = Groups.of(np.ones(len(order), bool), counts[:, order])
    share_below = (np.cumsum(counts[:, order], axis=1) / counts.sum(1, keepdims=True)).mean(0)
    place = int(np.searchsorted(share_below, LEAST_FAMILIAR - TINY))
    size = float(groups.sizes[:, -1].mean())
    rank = share_below[place] * size  # among so many texts, as if all counted alike
    below = int(np.count_nonzero(documents < held_out[order[place]]))
    if betabinom.sf(below - 1, len(documents), rank, max(size + 1 - rank, TINY)) > BY_CHANCE:
        return 0.0
    return float(max(below / len(documents) - share_below[place], 0) / max(1 - share_below[place], TINY))


def novelty(familiarity: np.ndarray, of_examples: np.ndarray) -> np.ndarray:
    """From 0 to 1, the share of held-out examples that are more familiar than a text; interpolated between two."""
    familiar = np.concatenate([[0.0], np.sort(of_examples), [1.0]])
    return 1 - np.interp(familiarity, familiar, np.linspace(0, 1, len(familiar)))


def most_novel(novelty: np.ndarray, lost: float, counts: np.ndarray) -> float:
    """The highest novelty at which a text gets an answer, if at most a share ``lost`` of the known texts may get none.

    By the novelty of held-out texts ``(m,)``, which stand for ``counts`` ``(B, m)``: of the limits between them the
    lowest that so few exceed that in 9 of 10 draws of the held-out texts it costs no more. 1 if they are too few.
    """
    order = np.argsort(-novelty, kind="stable")  # the most novel first
    counts = counts[:, order]
    size = Groups.of(np.ones(len(order), bool), counts).sizes[:, [-1]]
    shares = (np.cumsum(counts, axis=1) - counts) / counts.sum(1, keepdims=True)  # of those that are more novel
    kept = tail_probability(shares * size, size, lost).mean(0) <= 1 - CERTAINTY
    possible = int(np.argmin(kept)) if not kept.all() else len(kept)  # what costs more cannot be promised either
    return float(novelty[order[possible - 1]]) if possible else 1.0


def confidence(probabilities: np.ndarray, novelty: np.ndarray, most_novel: float = NOVEL) -> np.ndarray:
    """How sure an answer is, ``(N,)``: the largest of the probabilities ``(N, C)``, and 0 for a novel text."""
    return np.where(novelty > most_novel, 0, probabilities.max(1)).astype(np.float32)  # as held-out ones are kept
