"""Fitting the experts of a datastore, and choosing what each counts: by folds of its examples, or on held-out texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm.auto import tqdm

from ...datastore.row_table import rows_at, take_passages
from ..rejection import LOST, NOVEL, accuracy_interval, familiarity, foreign_share, text_counts
from .corpus import Corpus, make_corpus, texts_in
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
from .label_proportions import Proportions, estimate_proportions
from .log_linear_pool import (
    ALONE,
    SHARPNESS,
    ClassProportions,
    fit_weights,
    given_proportions,
    is_drawn_by_label,
    log_shift,
    pool,
    sharpness_by_agreement,
    spread_of_scores,
)
from .registry import (
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
from .report import HELD_OUT, LARGEST_CLASS, OF_SAMPLE, UNKNOWN, WORD_COUNTS, largest_class
from .scoring import BESIDE_DOCUMENTS, FittedExperts, HeldOutAnswers, ReadyExperts, ask_experts
from .vector_experts import EXAMPLE_WEIGHTS, choose_example_weight, names_as_vectors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...datastore.snapshot import Snapshot
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
        settings[BESIDE_DOCUMENTS] = True  # until it is known: held-out texts are compared with documents, too
        if held_out is not None:
            asked = scores_of_held_out(fitted, snapshot, held_out, columns, one_hot(held_out.labels, columns))
            measured_on = HELD_OUT
        else:
            asked = scores_by_folds(lesson, voters, folds, experts, proportions, example_weight, progress)
            measured_on = "folds of the examples" if len(asked.targets) else "nothing to hold out"
        settings[BESIDE_DOCUMENTS] = False
    counts = 1.0 if several or held_out is not None else _counts(asked.shift, asked.targets)
    unit, weights = _weigh(lesson, learned, experts, asked, counts)
    settings |= _described(experts, names, lesson, learned, weights, unit)
    has_documents = len(corpus.rows) < len(corpus.ids)
    foreign = 0.0
    if not several and not has_head and has_documents and len(asked.targets):
        before = _held_out_answers(asked, _pooled(asked, weights / unit, several, asked.shift))
        foreign = _foreign_share(snapshot, fitted._replace(held_out=before))
    is_sample = held_out is not None or not is_drawn_by_label(targets)
    drawn = Proportions(learned[PROPORTIONS], np.zeros((0, len(names)), np.float32))
    if proportions is not None and not several:
        drawn = Proportions(proportions, proportions[None])
    elif not several and not has_head and has_documents and not is_sample and len(asked.targets):
        if foreign:  # what they say of the proportions is of other labels, too
            drawn = drawn._replace(likeliest=targets.mean(0, dtype=np.float64))
        else:
            drawn = _estimated(corpus, learned, experts, asked, weights / unit, targets)
        learned[PROPORTIONS] = drawn.likeliest.astype(np.float32)
        learned[SHIFT] = log_shift(drawn.likeliest, targets, True).astype(np.float32)
        asked = asked._replace(shift=np.tile(learned[SHIFT], (len(asked.targets), 1)))
        unit, weights = _weigh(lesson, learned, experts, asked, _counts(asked.shift, asked.targets))
        settings |= _described(experts, names, lesson, learned, weights, unit)
    settings |= {"measured_on": measured_on, "texts": len(asked.targets), "left_out": 0}
    settings["class_proportions"] = class_proportions if isinstance(class_proportions, str) else "given"
    is_weighted = len(drawn.draws) > 0
    settings["measured_for"] = _measured_for(settings, is_sample, is_weighted)
    probabilities = _pooled(asked, weights / unit, several, asked.shift)
    settings["log_likelihood"] = _log_likelihood(_pooled(asked, weights / unit, several), asked.targets, several)
    others = {"mixture": probabilities, WORD_COUNTS: asked.word_counts}
    shares = drawn.likeliest[None] if is_weighted else targets
    others[LARGEST_CLASS] = largest_class(shares, len(asked.targets), several)
    counts = text_counts(asked.targets > 0, drawn.draws)
    settings["measured"] = []
    if len(probabilities):
        settings["measured"] = _measure(asked, experts, several, others, counts.mean(0))
    if several:
        settings["thresholds"] = label_thresholds(probabilities, asked.targets).tolist()
    settings |= {"foreign": foreign, BESIDE_DOCUMENTS: foreign > 0, "novelty": 0.0, "lost": 0.0}
    held = _held_out_answers(asked, probabilities, asked.to_documents if foreign else None)
    fitted = fitted._replace(held_out=held, proportion_draws=drawn.draws.astype(np.float32))
    if foreign:
        settings["novelty"] = LOST if fitted.most_novel(LOST) < NOVEL else 0.0  # too few texts can guarantee nothing
        settings["lost"] = fitted.share_lost()
    settings["accuracy_interval"] = [] if several else list(accuracy_interval(held.right, counts)[1:])
    settings["answered"] = {} if several else {str(error): fitted.share_answered(error) for error in PROMISES}
    settings["least_error"] = fitted.least_error()
    return fitted


def _held_out_answers(
    asked: HeldOutScores, probabilities: np.ndarray, to_documents: np.ndarray | None = None
) -> HeldOutAnswers:
    """What is kept of the texts that were held out; ``to_documents`` where familiarity compares examples with them."""
    familiar = familiarity(probabilities, asked.shares, asked.closeness, to_documents)
    return HeldOutAnswers(
        ids=asked.ids,
        probabilities=probabilities.astype(np.float32),
        labels=asked.targets > 0,
        familiarity=familiar.astype(np.float32),
    )


def _estimated(
    corpus: Corpus,
    learned: Mapping[str, np.ndarray],
    experts: list[str],
    asked: HeldOutScores,
    weights: np.ndarray,
    targets: np.ndarray,
) -> Proportions:
    """How often each label is among all texts, examples and documents, by what the mixture says of the documents."""
    documents = np.setdiff1d(np.arange(len(corpus.ids)), corpus.rows)
    sampled = np.sort(np.random.default_rng(0).permutation(documents)[:SAMPLE])
    scores = ask_all(learned, experts, asked_of_corpus(corpus, learned[SOFT], False, sampled))
    of_documents, of_held_out = (np.tensordot(weights, logits, 1) for logits in (scores, asked.scores))
    found = estimate_proportions(of_held_out, asked.targets, of_documents)
    counts, total = targets.sum(0, dtype=np.float64), len(corpus.ids)
    of_all = [(len(documents) * of_documents + counts) / total for of_documents in found]
    return Proportions(*of_all)


def _measured_for(settings: Mapping[str, Any], is_sample: bool, has_proportions: bool) -> str:
    """For which proportions of the labels all is measured."""
    if settings["several"] or is_sample and not has_proportions:
        return OF_SAMPLE
    if not has_proportions:
        return UNKNOWN
    return settings["class_proportions"]


def _foreign_share(snapshot: Snapshot, fitted: FittedExperts) -> float:
    """Which share of the documents is of no label that has examples; 0 where chance may explain it."""
    documents = snapshot.documents
    if documents is None or not len(documents.keys):
        return 0.0
    ready = ReadyExperts.of(snapshot, fitted)
    rows = np.argsort(ready.places, kind="stable")  # in the order of the corpus, whatever order they came in
    rows = rows[ready.places[rows] >= 0]
    sampled = np.sort(np.random.default_rng(0).permutation(len(rows))[:SAMPLE])
    rows = rows[sampled]
    texts = texts_in(rows_at(documents.rows, rows))
    given = documents.keys[rows], texts, None, take_passages(documents.passages, rows)
    answers = ask_experts(ready, *given, without_equal=True, with_closeness=True)
    familiar = familiarity(answers.probabilities, answers.shares, answers.closeness)
    return foreign_share(familiar, fitted.held_out.familiarity, fitted.text_counts())


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
    asked: HeldOutScores,
    experts: list[str],
    several: bool,
    others: dict[str, np.ndarray | None],
    counts: np.ndarray,
) -> list[dict[str, Any]]:
    """What each expert alone, in the sharpness that suits it, and others make of examples they did not see.

    These stand for ``counts`` ``(m,)`` texts.
    """
    scores, targets = asked.scores, asked.targets
    labels = targets.astype(int) if several else targets.argmax(1)
    answers, unit, records = {}, spread_of_scores(scores, several), []
    for i, name in enumerate(experts):
        alone = scores[[i]] / unit[i]
        answers[name] = pool(alone, fit_weights(alone, targets, np.ones(1), several), several)
    for name, probabilities in (answers | others).items():
        if probabilities is None:
            continue
        records.append({"expert": name} | _measures(probabilities, labels, counts))
    return records


def _measures(probabilities: np.ndarray, labels: np.ndarray, counts: np.ndarray) -> dict[str, float]:
    """``MEASURED`` of probabilities, for texts that stand for ``counts`` ``(m,)``."""
    from sklearn.metrics import accuracy_score, f1_score

    from ...metrics.registry import metric_class  # which imports evaluate, and datasets with it

    if (counts == counts[0]).all():
        found = {m: metric_class(m)().compute(predictions=probabilities, references=labels)[m] for m in MEASURED}
        return {metric: float(value) for metric, value in found.items()}
    best = probabilities.argmax(1)
    likelihood = np.take_along_axis(probabilities.clip(1e-12, 1 - 1e-12), labels[:, None], axis=1)[:, 0]
    return {
        "accuracy": float(accuracy_score(labels, best, sample_weight=counts)),
        "macro_f1": float(f1_score(labels, best, average="macro", zero_division=0, sample_weight=counts)),
        "log_loss": float(np.average(-np.log(likelihood), weights=counts)),
    }


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
