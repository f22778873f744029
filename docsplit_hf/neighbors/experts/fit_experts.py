"""Fitting the experts of a datastore, and choosing what each counts: by folds of its examples, or on held-out texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm.auto import tqdm

from ..rejection import familiarity
from .corpus import Corpus, make_corpus
from .experts import (
    EXPERTS,
    PROPORTIONS,
    SHIFT,
    SOFT,
    ask_all,
    asked_of_corpus,
    first_lesson,
    fit_all,
    prior_weights,
)
from .fit_report import HELD_OUT, LARGEST_CLASS, WORD_COUNTS, largest_class
from .fitted_experts import FittedExperts, HeldOutAnswers
from .held_out_scores import (
    HeldOut,
    HeldOutScores,
    are_texts,
    folds_of,
    one_hot,
    scores_by_folds,
    scores_of_held_out,
    voters_in_corpus,
)
from .log_linear_pool import (
    ALONE,
    SHARPNESS,
    ClassProportions,
    fit_weights,
    given_proportions,
    pool,
    sharpness_by_agreement,
    spread_of_scores,
)
from .vector_experts import EXAMPLE_WEIGHTS, choose_example_weight, names_as_vectors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..store.snapshot import Snapshot
    from .expert import Lesson


PROMISES = (0.01, 0.05, 0.1)  # errors for which the report says how many texts get an answer
MEASURED = ("accuracy", "macro_f1", "log_loss")
SAMPLE = 1_000  # documents on which experts are compared without labels
INDEPENDENT = ("classifier", "names"), ("neighbors", "vocabulary")  # experts who know different things
FEWEST = 5  # examples of a label, and without it, from which its own threshold can be told


def fit_experts(
    snapshot: Snapshot,
    experts: Sequence[str] | None = None,
    held_out: HeldOut | None = None,
    has_head: bool = False,
    show_progress: bool = True,
    make: Callable[[Snapshot], Corpus] = make_corpus,
    embed_names: Callable[[tuple[str, ...]], np.ndarray] | None = None,
    class_proportions: ClassProportions = "estimated",
) -> FittedExperts:
    """Fit the experts on all texts of a datastore, and weigh them on ``held_out`` texts or by folds of the examples.

    ``make`` makes the corpus, ``embed_names`` embeds the names of labels. The settings of the result: ``labels`` (those
    with examples), ``several``, ``weights`` by expert, ``log_likelihood`` of the held-out texts without the shift,
    ``shares`` (the weights where logits have a unit of spread, adding up to 1), the other fields of ``FitReport``, and
    with several labels per text ``thresholds``, in the order of ``labels``.
    """
    several = snapshot.multi_label
    columns = np.flatnonzero(snapshot.labels.any(0)) if several else np.unique(snapshot.labels)
    columns = np.array(sorted(columns.tolist(), key=lambda column: snapshot.label_names[column]), np.int64)
    names = [snapshot.label_names[column] for column in columns]
    _check_labels(names, len(snapshot.keys), bool(several and not snapshot.labels[:, columns].all()))
    proportions, targets = given_proportions(class_proportions, names), one_hot(snapshot.labels, columns)
    wanted = _known_experts(experts)
    with tqdm(total=2, desc="Fitting experts", unit="step", disable=not show_progress) as progress:
        corpus = make(snapshot)
        # In the order of the corpus: sums are rounded in one way then, in whatever order the examples came.
        order = np.argsort(corpus.rows)
        rows, targets = corpus.rows[order], targets[order]
        folds = None if held_out is not None else folds_of(snapshot, corpus.rows)[order]
        progress.total += 0 if folds is None else int(folds.max()) + 1
        progress.update()
        experts = _possible_experts(wanted, corpus, several, embed_names is not None)
        example_weight = EXAMPLE_WEIGHTS[0]
        is_weighed = folds is not None and (folds >= 0).any() and "topics" in experts
        if is_weighed and len(rows) < len(corpus.ids):
            example_weight = choose_example_weight(corpus, rows, targets, folds, proportions)
        vectors_of_names = None
        if "names" in experts:
            vectors_of_names = names_as_vectors(embed_names(tuple(names)), corpus.document_vectors.mean)
        known = has_head, example_weight, vectors_of_names, are_texts(snapshot)[order]
        lesson = first_lesson(corpus, rows, targets, several, *known)
        learned = fit_all(lesson, experts, proportions)
        if held_out is not None and proportions is None:  # they show how often each label is
            learned[SHIFT] = np.zeros_like(learned[SHIFT])
        progress.update()
        voters = voters_in_corpus(snapshot, corpus, order)
        settings: dict[str, Any] = {"labels": names, "several": several, "weights": dict.fromkeys(experts, 1.0)}
        settings |= {"has_head": has_head, "temperature": voters.temperature}
        fitted = FittedExperts(settings, corpus.document_vectors, corpus.vectorizer, learned, corpus.ids, None)
        if held_out is not None:
            asked = scores_of_held_out(fitted, snapshot, held_out, columns, one_hot(held_out.labels, columns))
            measured_on = HELD_OUT
        else:
            asked = scores_by_folds(lesson, voters, folds, experts, proportions, example_weight, progress)
            measured_on = "folds of the examples" if len(asked.targets) else "nothing to hold out"
    # Examples stand for all texts: one of a label that is frequent there counts more than one of a rare one.
    counts = 1.0 if several or held_out is not None else _counts(asked.shift, asked.targets)
    unit, weights = _weigh(lesson, learned, experts, asked, counts)
    settings |= _described(experts, names, lesson, learned, weights, unit)
    settings |= {"measured_on": measured_on, "texts": len(asked.targets), "left_out": 0}
    settings["class_proportions"] = class_proportions if isinstance(class_proportions, str) else "given"
    probabilities = _pooled(asked, weights / unit, several, asked.shift)
    settings["log_likelihood"] = _log_likelihood(_pooled(asked, weights / unit, several), asked.targets, several)
    others = {"mixture": probabilities, WORD_COUNTS: asked.word_counts}
    others[LARGEST_CLASS] = largest_class(targets, len(asked.targets), several)
    settings["measured"] = _measure(asked.scores, asked.targets, experts, several, others) if len(probabilities) else []
    if several:
        settings["thresholds"] = label_thresholds(probabilities, asked.targets).tolist()
    familiar = familiarity(probabilities, asked.shares, asked.closeness)
    held = (asked.ids, probabilities.astype(np.float32), asked.targets > 0, familiar.astype(np.float32))
    fitted = fitted._replace(held_out=HeldOutAnswers(*held))
    settings["answered"] = {} if several else {str(error): fitted.share_answered(error) for error in PROMISES}
    settings["least_error"] = fitted.least_error()
    return fitted


def _weigh(
    lesson: Lesson,
    learned: Mapping[str, np.ndarray],
    experts: list[str],
    asked: HeldOutScores,
    counts: np.ndarray | float,
) -> tuple[np.ndarray, np.ndarray]:
    """The spread of each expert's logits, and what it counts in this unit, both ``(E,)``."""
    corpus, rows, _, several = lesson[:4]
    prior, sharpness = prior_weights(experts, lesson), SHARPNESS
    # Names that say nothing agree with nobody: the mixture would be taken for a guess.
    known = [name for name in experts if name != "names" or lesson.belief >= 0.5]
    pair = next((pair for pair in INDEPENDENT if set(pair) <= set(known)), None)
    is_plain, is_alone = not several and not lesson.has_head, len(rows) == len(corpus.ids)
    is_compared = is_plain and not is_alone and pair is not None
    is_held_out, sample = len(asked.targets) > 0, None
    if is_compared or not is_held_out:
        sample = _scores_of_sample(corpus, learned, several, experts)
    unit = spread_of_scores(asked.scores if is_held_out else sample, several)
    if is_compared:
        places = [experts.index(name) for name in pair]
        sharpness = sharpness_by_agreement(sample / unit[:, None, None], prior, learned[SHIFT], *places)
    elif is_plain and is_alone and not is_held_out:
        sharpness = ALONE
    weights = sharpness * prior
    if is_held_out:
        scores = asked.scores / unit[:, None, None]
        weights = fit_weights(scores, asked.targets, prior, several, asked.shift, counts, sharpness)
    return unit, np.where(np.isfinite(unit), weights, 0.0)  # of one that says nothing of these texts, nothing is known


def _described(
    experts: list[str],
    names: list[str],
    lesson: Lesson,
    learned: Mapping[str, np.ndarray],
    weights: np.ndarray,
    unit: np.ndarray,
) -> dict[str, Any]:
    """What is known of the mixture before it is measured: settings."""
    of_labels = zip(names, lesson.targets.sum(0), strict=True)
    return {
        "weights": dict(zip(experts, (weights / unit).tolist(), strict=True)),
        "shares": dict(zip(experts, (weights / max(weights.sum(), 1e-12)).tolist(), strict=True)),
        "examples": len(lesson.rows),
        "documents": len(lesson.corpus.ids) - len(lesson.rows),
        "single": [name for name, total in of_labels if total == 1],
        PROPORTIONS: dict(zip(names, learned[PROPORTIONS].tolist(), strict=True)),
    }


def _pooled(asked: HeldOutScores, weights: np.ndarray, several: bool, shift: np.ndarray | float = 0.0) -> np.ndarray:
    """The mixture's probabilities of the held-out texts, ``(m, C)``; m may be 0."""
    return pool(asked.scores, weights, several, shift) if len(asked.targets) else np.zeros(asked.targets.shape)


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


def _counts(shift: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """How many texts each of the held-out examples stands for, ``(n, 1)``, 1 in the mean."""
    counts = np.exp((shift * targets).sum(1, keepdims=True, dtype=np.float64))
    return counts / counts.mean() if len(counts) else counts


def _log_likelihood(probabilities: np.ndarray, targets: np.ndarray, several: bool) -> float:
    """Of the labels of held-out texts; in the mean over the labels where a text may have several."""
    logs = np.log(probabilities.clip(1e-12)) * targets
    if several:
        return float((logs + np.log((1 - probabilities).clip(1e-12)) * (1 - targets)).sum() / targets.shape[1])
    return float(logs.sum())


def _possible_experts(wanted: list[str], corpus: Corpus, several: bool, has_names: bool) -> list[str]:
    experts = [name for name in wanted if EXPERTS[name].can_learn(corpus, several, has_names)]
    if not experts:
        raise ValueError(
            f"Of {', '.join(wanted)} none can be fitted here: 'words' and 'vocabulary' need texts with words in the "
            "datastore, 'topics' and 'names' one label per text, and 'names' an encoder. Name others."
        )
    return experts


def _check_labels(names: list[str], examples: int, some_have_none: bool) -> None:
    if not examples:
        raise ValueError("No labeled examples yet: add_examples(texts, labels), or add_labels({label: description}).")
    if len(names) < 2 and not (names and some_have_none):
        found = f"have the label {names[0]!r}" if names else "have no label"
        raise ValueError(f"All {examples} examples {found}: there is nothing to tell apart. Add some of other labels.")


def _scores_of_sample(
    corpus: Corpus, learned: Mapping[str, np.ndarray], several: bool, experts: list[str]
) -> np.ndarray:
    """The logits of documents without labels, or of examples where there are none."""
    rows = np.setdiff1d(np.arange(len(corpus.ids)), corpus.rows)
    rows = np.sort(np.random.default_rng(0).permutation(rows if len(rows) else corpus.rows)[:SAMPLE])
    return ask_all(learned, experts, asked_of_corpus(corpus, learned[SOFT], several, rows))


def _measure(
    scores: np.ndarray, targets: np.ndarray, experts: list[str], several: bool, others: dict[str, np.ndarray | None]
) -> list[dict[str, Any]]:
    """What each expert alone, in the sharpness that suits it, and others make of examples they did not see."""
    from ...metrics.registry import metric_class  # which imports evaluate, and datasets with it

    labels = targets.astype(int) if several else targets.argmax(1)
    answers, unit, records = {}, spread_of_scores(scores, several), []
    for i, name in enumerate(experts):
        alone = scores[[i]] / unit[i]
        answers[name] = pool(alone, fit_weights(alone, targets, np.ones(1), several), several)
    for name, probabilities in (answers | others).items():
        if probabilities is None:
            continue
        found = {m: metric_class(m)().compute(predictions=probabilities, references=labels)[m] for m in MEASURED}
        records.append({"expert": name} | {metric: float(value) for metric, value in found.items()})
    return records


def label_thresholds(probabilities: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The thresholds ``(C,)`` with the best F1 on held-out examples ``(n, C)``; of rare labels that of all together."""
    if not len(targets):
        return np.full(targets.shape[1], 0.5)
    common = _best(probabilities.ravel(), targets.ravel())
    counts = np.minimum(targets.sum(0), (1 - targets).sum(0))
    columns = zip(probabilities.T, targets.T, counts, strict=True)
    return np.array([_best(p, y) if count >= FEWEST else common for p, y, count in columns])


def _best(probabilities: np.ndarray, targets: np.ndarray) -> float:
    """In the middle between the last that is in and the first that is out, so that rounding decides nothing."""
    order = np.argsort(-probabilities, kind="stable")
    ranked, hits = probabilities[order], np.cumsum(targets[order])
    f1 = 2 * hits / (np.arange(1, len(hits) + 1) + max(hits[-1], 1))
    f1[:-1][ranked[:-1] == ranked[1:]] = -1  # equal probabilities are in or out together
    last = int(f1.argmax())
    return float((ranked[last] + (ranked[last + 1] if last + 1 < len(ranked) else 0)) / 2)
