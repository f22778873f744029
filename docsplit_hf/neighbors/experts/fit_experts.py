"""Fitting the experts of a datastore, and choosing what each counts: by folds of its examples, or on held-out texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from ..store.duplicates import number_texts
from .corpus import Corpus, make_corpus
from .fitted_experts import FittedExperts, ReadyExperts, ask_experts, find_voters
from .folds import assign_folds
from .label_thresholds import label_thresholds
from .log_linear_pool import SHARPNESS, fit_weights, pool, prior_weights, spread_of_scores
from .models import EXPERTS, Models, all_scores, fit_models
from .neighbor_scores import neighbor_shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..store.snapshot import Snapshot

LABEL_ID = "label:"  # ids of examples that are descriptions of labels begin so: nothing is measured on them
MEASURED = ("accuracy", "macro_f1", "log_loss")
SAMPLE = 1_000  # texts that logits are brought to one unit by, where no example can be held out


class HeldOut(NamedTuple):
    """M labeled texts that are not among the examples."""

    embeddings: np.ndarray  # (M, D)
    texts: list[str]  # those of a pair joined
    labels: np.ndarray  # int64 (M,) or bool (M, L), of all labels of the datastore
    logits: np.ndarray | None  # (M, H) by the trained classifier, if there is one


def fit_experts(
    snapshot: Snapshot,
    experts: Sequence[str] | None = None,
    held_out: HeldOut | None = None,
    has_head: bool = False,
    show_progress: bool = True,
) -> FittedExperts:
    """Fit the experts on all texts of a datastore.

    With ``held_out`` texts their weights are chosen on these; else by folds of the examples, in which the experts are
    fitted without those that they answer. Where every label has one example, the weights are the prior ones.

    The settings of the result: ``labels`` (those with examples), ``several``, ``weights`` by expert; and what was
    found: ``shares`` (the weights where logits have a unit of spread, adding up to 1) and the other fields of
    ``FitReport``; with several labels per text ``thresholds``, in the order of ``labels``.
    """
    several, rows = snapshot.multi_label, np.arange(len(snapshot.keys))
    columns = np.flatnonzero(snapshot.labels.any(0)) if several else np.unique(snapshot.labels)
    names = [snapshot.label_names[column] for column in columns]
    _check_labels(names, len(rows), bool(several and not snapshot.labels[:, columns].all()))
    targets = one_hot(snapshot.labels, columns)
    wanted = _known_experts(experts)
    folds = None if held_out is not None else _folds(snapshot)
    count = 0 if folds is None else int(folds.max()) + 1
    with tqdm(total=count + 2, desc="Fitting experts", unit="step", disable=not show_progress) as progress:
        corpus = make_corpus(snapshot)
        progress.update()
        experts = _possible_experts(wanted, corpus, several)
        models = fit_models(corpus, rows, targets, several, experts, has_head)
        progress.update()
        vectors = (corpus.document_vectors, corpus.vectorizer, models, corpus.ids, corpus.of_words)
        settings: dict[str, Any] = {"labels": names, "several": several, "weights": dict.fromkeys(experts, 1.0)}
        if held_out is not None:
            unweighted = FittedExperts(settings, *vectors)
            scores, right = _scores_of_held_out(unweighted, snapshot, held_out, columns)
            measured_on = "held-out texts"
        else:
            scores, right = _scores_by_folds(corpus, folds, targets, several, experts, progress)
            measured_on = "folds of the examples" if len(right) else "nothing to hold out"
    prior = prior_weights(experts, len(corpus.ids) > 2 * len(rows))
    if len(right):
        unit = spread_of_scores(scores, several)
        weights = fit_weights(scores / unit[:, None, None], right, prior, several)
    else:
        unit = spread_of_scores(_scores_in_corpus(corpus, models, several, experts, _sample(corpus)), several)
        weights = SHARPNESS * prior
    weights = np.where(np.isfinite(unit), weights, 0.0)  # of one that says nothing of these texts, nothing is known
    settings["weights"] = dict(zip(experts, (weights / unit).tolist(), strict=True))
    settings["shares"] = dict(zip(experts, (weights / max(weights.sum(), 1e-12)).tolist(), strict=True))
    settings |= {"examples": len(rows), "documents": len(corpus.ids) - len(rows), "measured_on": measured_on}
    settings["texts"] = len(right)
    settings["single"] = [name for name, total in zip(names, targets.sum(0), strict=True) if total == 1]
    settings["measured"] = _measure(scores, right, weights / unit, experts, several) if len(right) else []
    if several:
        probabilities = pool(scores, weights / unit, several) if len(right) else np.zeros((0, len(names)))
        settings["thresholds"] = label_thresholds(probabilities, right).tolist()
    return FittedExperts(settings, *vectors)


def one_hot(labels: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Labels as float32 ``(n, C)`` of 0 and 1, for some of the labels."""
    return (labels[:, columns] if labels.ndim == 2 else labels[:, None] == columns).astype(np.float32)


def _known_experts(wanted: Sequence[str] | None) -> list[str]:
    if isinstance(wanted, str):
        raise TypeError(f"Expected a list of experts, got one string: pass [{wanted!r}].")
    experts = list(EXPERTS if wanted is None else dict.fromkeys(wanted))
    for name in experts:
        if name not in EXPERTS:
            raise ValueError(f"There is no expert {name!r}: choose among {', '.join(EXPERTS)}.")
    if not experts:
        raise ValueError(f"No expert is left: choose among {', '.join(EXPERTS)}.")
    return experts


def _possible_experts(wanted: list[str], corpus: Corpus, several: bool) -> list[str]:
    impossible = {"words"} if corpus.words is None else set()
    impossible |= {"topics"} if several else set()
    experts = [name for name in wanted if name not in impossible]
    if not experts:
        raise ValueError(
            f"Of {', '.join(wanted)} none can be fitted here: 'words' needs texts with words in the datastore, and "
            "'topics' one label per text. Name others."
        )
    return experts


def _check_labels(names: list[str], examples: int, some_have_none: bool) -> None:
    if not examples:
        raise ValueError("There are no examples: add_examples(texts, labels), or add_labels({label: description}).")
    if len(names) < 2 and not (names and some_have_none):
        found = f"have the label {names[0]!r}" if names else "have no label"
        raise ValueError(f"All {examples} examples {found}: there is nothing to tell apart. Add some of other labels.")


def _folds(snapshot: Snapshot) -> np.ndarray:
    ids, rows = snapshot.rows["id"].to_pylist(), np.arange(len(snapshot.keys))
    table = snapshot.rows.select(["text", "text_pair"]).to_pydict()
    groups = number_texts(snapshot.rows, *table.values())[0]
    groups = np.where(groups < 0, groups.max(initial=0) + 1 + rows, groups)  # texts that are not kept: all different
    return assign_folds(snapshot.labels, groups, np.array([not row_id.startswith(LABEL_ID) for row_id in ids]))


def _scores_by_folds(
    corpus: Corpus, folds: np.ndarray, targets: np.ndarray, several: bool, experts: list[str], progress: tqdm
) -> tuple[np.ndarray, np.ndarray]:
    """The logits ``(E, m, C)`` of all examples that are in a fold, by experts that learn from the others."""
    scores = np.zeros((len(experts), *targets.shape))
    for fold in range(int(folds.max()) + 1):
        learned, asked = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        models = fit_models(corpus, learned, targets[learned], several, experts, has_head=False)
        scores[:, asked] = _scores_in_corpus(corpus, models, several, experts, asked)
        progress.update()
    return scores[:, folds >= 0], targets[folds >= 0]


def _scores_in_corpus(
    corpus: Corpus, models: Models, several: bool, experts: list[str], rows: np.ndarray
) -> np.ndarray:
    words = None if corpus.words is None else corpus.words[rows]
    shares = neighbor_shares(corpus.vectors[rows], corpus.vectors, models.soft, without_equal=True)
    return all_scores(models, experts, several, corpus.vectors[rows], corpus.whitened[rows], words, shares, None)


def _scores_of_held_out(
    fitted: FittedExperts, snapshot: Snapshot, held_out: HeldOut, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    targets = one_hot(held_out.labels, columns)
    usable = np.flatnonzero(targets.any(1)) if held_out.labels.ndim == 1 else np.arange(len(targets))
    if not len(usable):
        raise ValueError("No held-out text has a label that the examples have: fit on others, or on none (folds).")
    texts, logits = [held_out.texts[i] for i in usable], held_out.logits
    ready = ReadyExperts(snapshot, fitted, find_voters(fitted, snapshot))
    logits = None if logits is None else logits[usable]
    answers = ask_experts(ready, held_out.embeddings[usable], texts, logits, without_equal=True)
    return answers.scores, targets[usable]


def _sample(corpus: Corpus) -> np.ndarray:
    """Documents without labels, or examples where there are none."""
    first = corpus.examples if len(corpus.ids) > corpus.examples else 0
    rows = np.arange(first, len(corpus.ids))
    return np.random.default_rng(0).permutation(rows)[:SAMPLE]


def _measure(
    scores: np.ndarray, targets: np.ndarray, weights: np.ndarray, experts: list[str], several: bool
) -> list[dict[str, Any]]:
    """What each expert alone, in the sharpness that suits it, and the mixture make of examples they did not see."""
    from ...metrics.registry import metric_class  # which imports evaluate, and datasets with it

    labels = targets.astype(int) if several else targets.argmax(1)
    unit, records = spread_of_scores(scores, several), []
    for name, rows in [*((name, [i]) for i, name in enumerate(experts)), ("mixture", list(range(len(experts))))]:
        if name == "mixture":
            probabilities = pool(scores, weights, several)
        else:
            alone = scores[rows] / unit[rows, None, None]
            probabilities = pool(alone, fit_weights(alone, targets, np.ones(1), several), several)
        found = {m: metric_class(m)().compute(predictions=probabilities, references=labels)[m] for m in MEASURED}
        records.append({"expert": name} | {metric: float(value) for metric, value in found.items()})
    return records
