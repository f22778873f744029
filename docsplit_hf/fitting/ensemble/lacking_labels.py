"""Labels that documents lack: propagation gives all labels the same mass, so it takes documents of others for them."""

from __future__ import annotations

import numpy as np

from ..experts.corpus import texts_in
from .fitted_ensemble import Ensemble, Fit
from .held_out_scores import are_texts
from .problem import Problem
from .report import FitReport
from .scoring import PreparedExperts, score_texts

ENOUGH_EXAMPLES = 30  # those that are held out show whether documents mislead
LEAST_DOCUMENTS = 50  # in fewer, it is chance how many a label gets
LEAST_EXCESS = 0.2  # fraction of the documents that a label gets by propagation beyond the answers with it


def may_lack_labels(problem: Problem, report: FitReport) -> bool:
    """Whether documents that lack a label could mislead a fit unnoticed: examples are texts, but few."""
    is_enough = report.documents >= LEAST_DOCUMENTS and bool(are_texts(problem.snapshot).any())
    return is_enough and report.examples < ENOUGH_EXAMPLES and not problem.snapshot.multi_label


def lacking_labels(problem: Problem, fitted: Fit, without: Problem, alone: Ensemble) -> dict[str, float]:
    """Labels that documents lack, and were propagated to them all the same, with their fraction of the documents.

    The fraction is that of the answers of a fit on the examples alone. Few held-out examples cannot show that other
    documents were taken for a label.

    Args:
        problem: The examples and documents.
        fitted: The fit on both.
        without: The examples.
        alone: The experts that were fitted on them.

    Returns:
        The fractions, by the name of the label; empty if no label lacks documents.
    """
    documents = problem.snapshot.documents.take(problem.corpus.sampled_documents())
    scored = score_texts(
        PreparedExperts.of_ensemble(without.snapshot, alone),
        documents.keys,
        texts_in(documents.rows),
        head_logits=None,
        passages=documents.passages,
    )
    answered = _shares(scored.probabilities[:, scored.columns])
    propagated = _shares(fitted.ensemble.learned.soft_labels[problem.corpus.sample])
    is_lacking = propagated > answered + LEAST_EXCESS
    return {problem.labels[label]: float(answered[label]) for label in np.flatnonzero(is_lacking)}


def _shares(probabilities: np.ndarray) -> np.ndarray:
    """Fraction of texts of each label, the likeliest by probabilities ``(N, C)``."""
    return np.bincount(probabilities.argmax(1), minlength=probabilities.shape[1]) / len(probabilities)
