"""Fit of the experts of a datastore: prepare, learn, weigh, measure."""

from __future__ import annotations

from tqdm.auto import tqdm

from ..experts.registry import fit_all, start_in_folds
from .fitted_ensemble import Ensemble, Fit
from .held_out_metrics import measure_ensemble
from .held_out_scores import scores_by_folds, scores_of_held_out
from .preparing import Prepared, prepare_fit
from .problem import Problem
from .weighing import Weighing, weigh


def fit_experts(problem: Problem, show_progress: bool = True) -> Fit:
    """Fit experts on all texts of a datastore, and choose their weights on held-out texts or folds of the examples.

    Args:
        problem: The datastore, and what else is known about its labels.
        show_progress: Whether to show a progress bar.

    Returns:
        The fitted experts with their weights, the report and the guarantees.

    Raises:
        ValueError: If no expert can be fitted, or an option of the problem does not fit its labels.
    """
    return measure_ensemble(problem, *weigh_experts(problem, show_progress))


def weigh_experts(problem: Problem, show_progress: bool = True) -> tuple[Prepared, Weighing]:
    """Do all steps of ``fit_experts`` but the last, which measures."""
    with tqdm(total=2, desc="Fitting experts", unit="step", disable=not show_progress) as progress:
        prepared = prepare_fit(problem)
        progress.total += 0 if prepared.folds is None else int(prepared.folds.max()) + 1
        progress.update()
        ensemble = _learn(problem, prepared)
        progress.update()
        if problem.held_out is None:
            scores = scores_by_folds(prepared.data, prepared.voters, prepared.folds, prepared.groups, progress)
        else:
            scores = scores_of_held_out(ensemble, problem)
    return prepared, weigh(problem, prepared.data, ensemble, scores)


def _learn(problem: Problem, prepared: Prepared) -> Ensemble:
    data = prepared.data
    corpus = data.corpus
    [start] = start_in_folds([data])
    return Ensemble(
        labels=problem.labels,
        weights=dict.fromkeys(data.experts, 1.0),
        multi_label=data.multi_label,
        has_head=data.has_head,
        temperature=prepared.voters.temperature,
        document_vote=1.0 if data.multi_label else 1 / data.example_weight,
        compares_with_documents=True,
        document_vectors=corpus.document_vectors,
        terms=corpus.terms,
        idf=corpus.idf,
        learned=fit_all(data, start, are_known=problem.held_out is not None),
        ids=corpus.ids,
    )
