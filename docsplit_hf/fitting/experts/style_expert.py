"""Expert on how texts are written: a linear probe of the numbers of ``style.py``, standardized over many texts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .expert import Expert
from .linear_probe import fit_probe
from .schema import REGRESSION_WEIGHTS, Array, Range
from .style import STYLE_NUMBERS, as_counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .expert import Features, TrainingData

LARGEST_DEVIATION = 4.0  # in standard deviations; numbers farther from the mean are cut
LEAST_DEVIATION = 1e-3  # of a number that all texts have alike
LARGEST_NUMBER = 1e4  # above the root or logarithm of what a text of 2**20 characters may have
LARGEST_PRIOR = 5.0  # the other experts together have about 1
LEAST_PRIOR = 1e-6  # above 0, for an ensemble of this expert alone
# Coefficients of the logarithm of the prior, learned by benchmarks/quality/learned_prior/style.py.
LEARNED_PRIOR = {"one": -0.907, "name_reliability": -1.47, "misleading_versions": 2.41}
UNKNOWN = 1.0  # reliability of names that were not embedded: with nothing known, style counts as with topics
MAX_DESCRIBED = 3
LEAST_DESCRIBED_DEVIATION = 0.5  # in standard deviations; nearer numbers are those of most texts


class Style(Expert):
    """Linear probe of how the examples are written."""

    name = "style"
    needs_words = True
    needs_single_label = True
    reads_style = True
    teaches = False  # documents written alike need not be about the same
    arrays = {
        "mean": Array(("style numbers",), Range(0.0, LARGEST_NUMBER)),
        "deviation": Array(("style numbers",), Range(LEAST_DEVIATION / 2, LARGEST_NUMBER)),
        "probe": Array(("labels", "style numbers and bias"), REGRESSION_WEIGHTS),
    }

    def prior(self, data: TrainingData) -> float:
        features = {
            "one": 1.0,
            "name_reliability": UNKNOWN if data.names is None else data.reliability(data.names),
            "misleading_versions": data.misleading_versions,
        }
        return prior_weight(features, len(data.rows) / data.targets.shape[1])

    def fit(self, data: TrainingData) -> dict[str, np.ndarray]:
        corpus = data.corpus
        numbers = corpus.style[corpus.described]
        mean = numbers.mean(0, dtype=np.float64).astype(np.float32)
        deviation = np.maximum(numbers.std(0, dtype=np.float64), LEAST_DEVIATION).astype(np.float32)
        probe = fit_probe(standardized(corpus.style[data.rows], mean, deviation), data.targets, data.multi_label)
        return {"mean": mean, "deviation": deviation, "probe": probe}

    def score(self, learned: Mapping[str, np.ndarray], features: Features) -> np.ndarray:
        numbers = standardized(features.style, learned["mean"], learned["deviation"])
        return numbers @ learned["probe"][:, :-1].T + learned["probe"][:, -1]

    def described(
        self, learned: Mapping[str, np.ndarray], style: np.ndarray, label: int, against: int | None
    ) -> list[str]:
        weights = learned["probe"][label, :-1] - (0 if against is None else learned["probe"][against, :-1])
        deviations = standardized(style[None], learned["mean"], learned["deviation"])[0]
        contributions = weights * deviations
        is_unusual = np.abs(deviations) * np.sqrt(len(deviations)) >= LEAST_DESCRIBED_DEVIATION
        counted = as_counted(style)
        typical = as_counted(learned["mean"])
        found: dict[str, str] = {}
        for place in np.argsort(-contributions, kind="stable"):
            number = STYLE_NUMBERS[place]
            if contributions[place] > 0 and is_unusual[place] and number.subject not in found:
                words = number.describe(float(counted[place]), float(typical[place]))
                if words:
                    found[number.subject] = words
        return list(found.values())[:MAX_DESCRIBED]


def prior_weight(
    features: dict[str, float], examples_per_label: float, learned: dict[str, float] = LEARNED_PRIOR
) -> float:
    """Prior weight by what tells style from topics: names that mean a topic, and versions of one text."""
    logarithm = sum(coefficient * features[name] for name, coefficient in learned.items())
    # One text of a label does not show what is common to its texts.
    return max(min(math.exp(logarithm), LARGEST_PRIOR) * (1 - 1 / examples_per_label), LEAST_PRIOR)


def standardized(numbers: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Standardize numbers ``(N, S)``, and divide them by the root of S: the norm is about 1."""
    scaled = np.clip((numbers - mean) / deviation, -LARGEST_DEVIATION, LARGEST_DEVIATION)
    return (scaled / np.sqrt(numbers.shape[1])).astype(np.float32)
