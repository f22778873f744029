"""Suggesting documents to label next, with the present answer and the reason."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from ..experts.corpus import rows_of
from ..experts.fitted_experts import ask_experts, ready_experts, vectors_of_examples
from ..store.passage_table import take_passages
from ..store.row_table import joined_texts
from .choose_documents import Choice, choose_documents

if TYPE_CHECKING:
    import pyarrow as pa

    from ..experts.fitted_experts import Answers, ReadyExperts
    from ..store.fitted_state import FittedState
    from ..store.snapshot import Snapshot
    from ..store.store import Store

logger = logging.getLogger(__name__)

MOST_CANDIDATES = 10_000  # documents that are asked about; more of them change the clusters little
FITTING = threading.Lock()  # held while what was fitted is replaced by what follows from it
SUGGESTED = "suggested"  # in the settings of what was fitted: the ids of documents that were suggested


def suggest(
    datastore: Store, count: int, again: bool, logits_of: Callable[[list[Any], list[Any]], np.ndarray | None]
) -> list[dict[str, Any]]:
    """Suggest as ``KNNClassifierPipeline.suggest`` says, and remember what was suggested.

    ``logits_of`` gives what a trained classifier says of texts and their pairs, or None.
    """
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise ValueError(f"n must be a whole number from 1, got {count!r}.")
    snapshot = datastore.snapshot
    ready = ready_experts(snapshot)
    if ready is None:
        raise ValueError("Nothing was fitted: call fit() before suggest(n), which asks where its experts are unsure.")
    rows = _candidates(snapshot, count, again)
    table = rows_of(snapshot.documents.rows, rows)
    texts, pairs = table["text"].to_pylist(), table["text_pair"].to_pylist()
    logits, keys = logits_of(texts, pairs), snapshot.documents.keys[rows]
    passages = take_passages(snapshot.documents.passages, rows)
    answers = ask_experts(ready, keys, joined_texts(texts, pairs), logits, passages, without_equal=True)
    examples = vectors_of_examples(ready)
    choices = choose_documents(answers.vectors, _doubt(answers, snapshot.multi_label), examples, count)
    found = [_suggestion(choice, table, answers, ready) for choice in choices]
    with FITTING:
        if (fitted := datastore.fitted) is not None:
            suggested = list(dict.fromkeys([*suggested_before(fitted), *(one["id"] for one in found)]))
            datastore.fitted = replace(fitted, settings=fitted.settings | {SUGGESTED: suggested})
    return found


def suggested_before(fitted: FittedState | None) -> list[str]:
    """The ids of documents that were suggested."""
    found = None if fitted is None else fitted.settings.get(SUGGESTED)
    return found if isinstance(found, list) else []


def _candidates(snapshot: Snapshot, count: int, again: bool) -> np.ndarray:
    """The rows of the documents to choose from."""
    if snapshot.documents is None or not len(snapshot.documents.keys):
        raise ValueError("There are no documents without labels to choose from: add_documents(texts).")
    ids, before = snapshot.documents.rows["id"].to_pylist(), set(suggested_before(snapshot.fitted))
    rows = np.array([row for row, document_id in enumerate(ids) if again or document_id not in before], np.int64)
    if count > len(rows):
        known = len(ids) - len(rows)
        others = f" beside {known} that were suggested before: ask for fewer, or pass again=True." if known else "."
        raise ValueError(f"n is {count}, and there are {len(rows)} documents without labels{others}")
    if len(rows) > MOST_CANDIDATES:
        logger.info("Of %d documents, a random %d are asked about.", len(rows), MOST_CANDIDATES)
        rows = np.sort(np.random.default_rng(len(rows)).choice(rows, max(MOST_CANDIDATES, count), replace=False))
    return rows


def _doubt(answers: Answers, several: bool) -> np.ndarray:
    """One less the margin between the two best labels, ``(N,)``; of several labels, that of the least sure one."""
    if several:
        return 1 - np.abs(2 * answers.probabilities - 1).min(1)
    ranked = np.sort(answers.probabilities, axis=1)
    return 1 - (ranked[:, -1] - ranked[:, -2])


def _suggestion(choice: Choice, table: pa.Table, answers: Answers, ready: ReadyExperts) -> dict[str, Any]:
    document = {name: value[0] for name, value in table.slice(choice.row, 1).to_pydict().items()}
    probabilities, names = answers.probabilities[choice.row], ready.snapshot.label_names
    best = np.argsort(-probabilities, kind="stable")
    output = {"label": names[best[0]], "score": float(probabilities[best[0]])}
    if ready.snapshot.multi_label:
        thresholds = ready.fitted.thresholds(names)
        output["labels"] = [names[i] for i in np.flatnonzero(probabilities >= thresholds)]
        best = np.argsort(np.abs(2 * probabilities - 1), kind="stable")  # the least sure first
    here = " or ".join(f"{names[i]} ({probabilities[i]:.0%})" for i in best[:2])
    alike = f"similar documents without a label: {len(choice.cluster) - 1:,}, with a label: {choice.examples:,}"
    doubt = _doubt(answers, ready.snapshot.multi_label)[choice.cluster].mean()
    return {**document, **output, "reason": f"{alike}; average uncertainty {doubt:.0%}; {here}"}
