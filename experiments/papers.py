"""The papers' protocols by name, and the function that runs them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from docsplit_hf.evaluation.systems import System

from .evaluation import runner
from .evaluation.experiment import Experiment, check_protocols
from .evaluation.protocols import PROBES, probe_protocols
from .evaluation.results import ResultStore
from .evaluation.tasks import EvaluationTask
from .papers_options import PaperSettings
from .protocols.attention import ATTENTION
from .protocols.citation import CITATION
from .protocols.decoupled import DECOUPLED, NEIGHBORS_SWEEP, RETRIEVAL_VECTORS
from .protocols.length import LENGTH
from .protocols.masked_nouns import MASKED_NOUNS
from .protocols.nearest_neighbors import KNN
from .protocols.passage_citation import PASSAGE_CITATION
from .protocols.perceptron import mlp_predictions
from .protocols.redundancy import NOUNS_AND_VERBS, REDUNDANCY
from .taggers.load_tagger import load_tagger

logger = logging.getLogger(__name__)

PROTOCOLS: Mapping[str, Experiment] = {
    **probe_protocols({**PROBES, "mlp": mlp_predictions}),
    "knn": KNN,
    "length": LENGTH,
    "decoupled": DECOUPLED,
    "retrieval_vectors": RETRIEVAL_VECTORS,
    "neighbors_sweep": NEIGHBORS_SWEEP,
    "citation": CITATION,
    "passage_citation": PASSAGE_CITATION,
    "half_documents": runner.PROTOCOLS["half_documents"],
    "redundancy": REDUNDANCY,
    "attention": ATTENTION,
    "masked_nouns": MASKED_NOUNS,
}
TAGGED = ("attention", "masked_nouns")  # protocols that need a tagger


def run_papers(
    systems: Mapping[str, System],
    tasks: Sequence[EvaluationTask],
    names: Sequence[str],
    settings: PaperSettings,
    store: ResultStore,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Run ``run_protocols`` with the papers' protocols; without a tagger, leave out what needs one."""
    check_protocols(names, PROTOCOLS)
    tagger = None
    left_out: list[str] = []
    if {"redundancy", *TAGGED} & set(names):
        try:
            tagger = load_tagger(settings.tagger)
        except (ModuleNotFoundError, OSError) as error:
            names = [name for name in names if name not in TAGGED]
            left_out = [f"Parts of speech ({', '.join(TAGGED)}, and R of redundancy) are left out: {error}"]
            logger.warning(left_out[0])
    records, lines = runner.run_protocols(systems, tasks, names, settings, store, PROTOCOLS)
    if tagger is not None and "redundancy" in names:
        # Word repetition depends on the tagger alone, so the tagger takes the place of the system.
        by_tagger = {"nouns_and_verbs": NOUNS_AND_VERBS}
        tagger_records, _ = runner.run_protocols(
            {tagger.name: tagger}, tasks, list(by_tagger), settings, store, by_tagger
        )
        records += tagger_records
    return records, left_out + lines
