"""Measure whether ``reject`` keeps its error rate target, and how well ``novelty`` finds out-of-scope texts.

    OMP_NUM_THREADS=1 python -m benchmarks.quality.rejection --tasks 20news bbc_news

A task is a folder with train.jsonl and test.jsonl (text, label). Each draw takes some examples of each class, or 80 %
of all; other documents of the pool have no labels. "promises": the errors among the answered test texts. No target
holds for a test set of a later time, which differs from the examples: with --mixed, training and test texts are
shuffled together for each draw; with --held_out, some test texts are fitted on, and the others are classified.
"novelty": a quarter of the classes has no examples; documents without labels are of all classes, or of the known ones.
"foreign", with --known: only this many classes have examples; the shares of texts of known classes, of the other
classes and of the folder's oos.jsonl that are answered with reject, by the limits to novelty. Finished records in
rejection.jsonl are kept.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest
from sklearn.covariance import LedoitWolf
from sklearn.metrics import roc_auc_score
from tqdm.auto import tqdm

from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.options import encoder_name, task_parser
from benchmarks.quality.few_labels.protocol import FewLabels, draw, load_few_labels
from benchmarks.quality.few_labels.records import add_record, read_records
from docsplit_hf import KNNDatastore
from docsplit_hf.arrays.row_table import encode_known_labels
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.held_out_metrics import REPORTED_ERRORS
from docsplit_hf.fitting.ensemble.problem import HeldOut, Problem, used_labels
from docsplit_hf.fitting.ensemble.scoring import PreparedExperts, Scores, prepare_experts, score_texts
from docsplit_hf.fitting.experts.label_names_expert import readable_names
from docsplit_hf.training.markdown import table

RECORDS = "rejection.jsonl"
Embed = Callable[[tuple[str, ...]], np.ndarray]  # names of labels
SHARE_OF_ALL = 0.8  # of the pool, where all examples are asked for
MOST_DOCUMENTS = 3_000
LEFT_OUT = 0.25  # share of classes without examples
LIMITS = {"off": False, "as fitted": None, "0.05": 0.05}  # to novelty
KEY = ("kind", "task", "encoder", "per_label", "mixed", "documents", "held_out", "draw")


@dataclass(frozen=True)
class Trial:
    """A draw of examples from a task."""

    task: FewLabels
    pool: np.ndarray  # embeddings (N, D) of task.pool
    test: np.ndarray  # embeddings (M, D) of task.test
    per_label: int  # examples; 0: SHARE_OF_ALL of the pool
    number: int  # seed of the draw
    embed_names: Embed


def main() -> None:
    parser = task_parser(__doc__)
    add = parser.add_argument
    add("--per_label", type=int, nargs="+", default=[20, 0], help="Examples of a class; 0: all. Default: %(default)s.")
    add("--mixed", action="store_true", help="Shuffle training and test texts together.")
    add("--promises_only", action="store_true", help="Do not measure novelty.")
    add("--held_out", type=int, default=0, help="Test texts to fit on, in place of folds. Default: %(default)s.")
    add("--known", type=int, default=0, help="Classes with examples, to measure foreign texts. Default: %(default)s.")
    add("--draws", type=int, default=10, help="Draws of a few examples; a third as many of all. Default: %(default)s.")
    add("--pool", type=int, default=12_000, help="Most training texts. Default: %(default)s.")
    options = parser.parse_args()
    encoder = encoder_name(options.encoder)
    for folder in options.tasks:
        task = load_few_labels(folder, options.pool, test_size=3_000)
        embedder = Embedder(options.encoder, task, options.embeddings)
        pool = embedder.embed(task.pool)
        test = embedder.embed(task.test)

        def embed_names(names: list[str], embedder: Embedder = embedder) -> np.ndarray:
            return embedder.embed_anew(readable_names(names))

        for per_label in options.per_label:
            for number in tqdm(range(options.draws if per_label else max(options.draws // 3, 1)), desc=task.name):
                trial = Trial(task, pool, test, per_label, number, embed_names)
                if options.mixed:
                    trial = _mixed(trial)
                kinds = (("promises", "all"), ("novelty", "all"), ("novelty", "known"))
                kinds = kinds[:1] if options.held_out or options.promises_only else kinds
                for kind, documents in (("foreign", "all"), ("foreign", "none")) if options.known else kinds:
                    held_out = options.held_out
                    values = (kind, task.name, encoder, per_label, options.mixed, documents, held_out, number)
                    if values in {tuple(r[name] for name in KEY) for r in read_records(options.output / RECORDS)}:
                        continue
                    if kind == "promises":
                        found = promises(trial, held_out)
                    elif kind == "foreign":
                        strangers = read_strangers(folder)
                        embedded = embedder.embed_anew(strangers) if strangers else test[:0]
                        found = foreign(trial, strangers, embedded, options.known, documents)
                    else:
                        found = novelty(trial, documents)
                    add_record(options.output / RECORDS, dict(zip(KEY, values, strict=True)) | found)
    text = report(read_records(options.output / RECORDS))
    (options.output / "rejection.md").write_text(text, encoding="utf-8")
    print(text)


def promises(trial: Trial, held_out: int) -> dict[str, Any]:
    """Count the answered texts and the wrong answers, by error rate target."""
    task = trial.task
    order = np.random.default_rng(trial.number).permutation(len(trial.test))
    fitted_on = order[:held_out]
    rows = order[held_out:]
    ready = _fit(trial, np.arange(len(task.names)), "all", fitted_on)
    answers, right = _ask(trial, ready, rows)
    sure = ready.fitted.guarantees.confidence(
        answers.probabilities, ready.fitted.guarantees.novelty(answers.familiarity())
    )
    found = {}
    for error in REPORTED_ERRORS:
        accepted = sure >= ready.fitted.guarantees.confidence_threshold(error)
        found[str(error)] = {"answers": int(accepted.sum()), "wrong": int((~right[accepted]).sum())}
    held_out = ready.fitted.held_out
    accuracies = {"accuracy": float(right.mean()), "accuracy_in_folds": float(held_out.right.mean())}
    report = ready.fitted.report
    measured = report.ensemble_accuracy().accuracy
    accuracies |= {"measured": measured, "interval": report.accuracy_interval}
    found_proportions = np.array([report.proportions.get(name, 0.0) for name in task.names])
    shares = np.bincount(task.test_labels[rows], minlength=len(task.names)) / len(rows)
    accuracies["proportions_off"] = float(np.abs(found_proportions - shares).sum() / 2)
    accuracies["equal_off"] = float(np.abs(1 / len(shares) - shares).sum() / 2)
    return {"texts": len(right), "examples": len(held_out.ids), "promises": found} | accuracies


def read_strangers(folder: str) -> list[str]:
    """Read the texts of a folder's oos.jsonl, which belong to no class."""
    path = Path(folder) / "oos.jsonl"
    if not path.exists():
        return []
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


def foreign(
    trial: Trial, strangers: list[str], strangers_embedded: np.ndarray, known_count: int, documents: str
) -> dict[str, Any]:
    """Measure the shares of texts of known, other and no classes that are answered, by both limits."""
    classes = np.arange(len(trial.task.names))
    known = np.sort(np.random.default_rng(trial.number).choice(classes, known_count, replace=False))
    ready = _fit(trial, known, documents, [])
    answers, right = _ask(trial, ready, np.arange(len(trial.test)))
    novel = ready.fitted.guarantees.novelty(answers.familiarity())
    is_known = np.isin(trial.task.test_labels, known)
    of_strangers = None
    if strangers:
        of_strangers = score_texts(ready, strangers_embedded, strangers, None, with_closeness=True)
    found: dict[str, Any] = {}
    for error in REPORTED_ERRORS[1:]:
        for name, most_lost in LIMITS.items():
            level = ready.fitted.guarantees.confidence_threshold(error, most_lost)
            accepted = ready.fitted.guarantees.confidence(answers.probabilities, novel, most_lost) >= level
            record = {
                "known": float(accepted[is_known].mean()),
                "wrong": float((~right)[accepted & is_known].mean()) if accepted[is_known].any() else 0.0,
                "lost": float((novel > ready.fitted.guarantees.novelty_limit(most_lost))[is_known].mean()),
                "foreign": float(accepted[~is_known].mean()),
            }
            if of_strangers is not None:
                own = ready.fitted.guarantees.novelty(of_strangers.familiarity())
                sure = ready.fitted.guarantees.confidence(of_strangers.probabilities, own, most_lost)
                record["out_of_scope"] = float((sure >= level).mean())
            found[f"{error} {name}"] = record
    report = ready.fitted.report
    auroc = float(roc_auc_score(~is_known, novel))
    return {"known_classes": known_count, "found_foreign": report.out_of_scope, "auroc": auroc, "answered": found}


def novelty(trial: Trial, documents: str) -> dict[str, float]:
    """Measure the area under the ROC curve of texts of left-out classes against known ones, by three measures."""
    rng = np.random.default_rng(trial.number)
    classes = np.arange(len(trial.task.names))
    known = np.setdiff1d(classes, rng.choice(classes, max(round(LEFT_OUT * len(classes)), 1), replace=False))
    ready = _fit(trial, known, documents, [])
    answers, _ = _ask(trial, ready, np.arange(len(trial.test)))
    is_new = ~np.isin(trial.task.test_labels, known)
    measures = {
        "novelty": ready.fitted.guarantees.novelty(answers.familiarity()),
        "max_probability": -answers.probabilities.max(1),
        "mahalanobis": _mahalanobis(ready, trial.test),
    }
    return {name: float(roc_auc_score(is_new, values)) for name, values in measures.items()}


def _fit(trial: Trial, known: np.ndarray, documents: str, fitted_on: Sequence[int]) -> PreparedExperts:
    """Fit on examples of the known classes; ``fitted_on`` are held-out rows of the test set, in place of folds."""
    task = trial.task
    pool = trial.pool
    rng = np.random.default_rng(trial.number)
    rows = draw(task.pool_labels, trial.per_label, trial.number)
    if not trial.per_label:
        rows = rng.permutation(len(pool))[: int(SHARE_OF_ALL * len(pool))]
    rows = rows[np.isin(task.pool_labels[rows], known)]
    others = rng.permutation(np.setdiff1d(np.arange(len(pool)), rows))
    if documents == "known":
        others = others[np.isin(task.pool_labels[others], known)]
    others = others[:MOST_DOCUMENTS]
    texts = np.array(task.pool, dtype=object)
    names = [task.names[label] for label in task.pool_labels[rows]]
    store = KNNDatastore(pool[rows], names, [], texts[rows])
    if len(others) and documents != "none":
        store.add_documents(pool[others], texts[others])
    held_out = None
    if len(fitted_on):
        labels = encode_known_labels([task.names[task.test_labels[i]] for i in fitted_on], task.names, False)
        held_out = HeldOut(trial.test[fitted_on], [task.test[i] for i in fitted_on], labels, None)
    name_embeddings = trial.embed_names(used_labels(store.snapshot))
    problem = Problem(store.snapshot, held_out=held_out, name_embeddings=name_embeddings)
    store.fitted = fit_experts(problem, show_progress=False).to_state()
    return prepare_experts(store.snapshot)


def _ask(trial: Trial, ready: PreparedExperts, rows: np.ndarray) -> tuple[Scores, np.ndarray]:
    """Classify rows of the test set; returns the answers, and whether each is right."""
    task = trial.task
    answers = score_texts(ready, trial.test[rows], [task.test[i] for i in rows], None, with_closeness=True)
    names = np.array(ready.snapshot.label_names)[answers.probabilities.argmax(1)]
    return answers, names == np.array(task.names)[task.test_labels[rows]]


def _mahalanobis(ready: PreparedExperts, test: np.ndarray) -> np.ndarray:
    """Return the distance to the nearest class mean, by the covariance within classes (Lee et al. 2018, shrunk)."""
    keys = np.asarray(ready.snapshot.keys, np.float64)
    labels = ready.snapshot.labels
    means = np.stack([keys[labels == label].mean(0) for label in range(labels.max() + 1)])
    precision = LedoitWolf(assume_centered=True).fit(keys - means[labels]).precision_
    return np.stack([np.einsum("nd,de,ne->n", test - mean, precision, test - mean) for mean in means]).min(0)


def _mixed(trial: Trial) -> Trial:
    """Shuffle the pool and the test set together."""
    task = trial.task
    size = len(trial.pool)
    order = np.random.default_rng(trial.number).permutation(size + len(trial.test))
    all_texts = task.pool + task.test
    texts = [all_texts[i] for i in order]
    labels = np.concatenate([task.pool_labels, task.test_labels])[order]
    embeddings = np.concatenate([trial.pool, trial.test])[order]
    mixed = replace(task, pool=texts[:size], pool_labels=labels[:size], test=texts[size:], test_labels=labels[size:])
    return replace(trial, task=mixed, pool=embeddings[:size], test=embeddings[size:])


def report(records: list[dict[str, Any]]) -> str:
    """Make a table of error rates and one of novelty; or one of foreign texts."""
    frame = pd.DataFrame(records)
    if (frame.kind == "foreign").any():
        return foreign_report(frame)
    lines = []
    kept = frame[frame.kind == "promises"]
    for (task, mixed, per_label, fitted_on), group in kept.groupby(
        ["task", "mixed", "per_label", "held_out"], sort=False
    ):
        for error in REPORTED_ERRORS:
            found = [entry[str(error)] for entry in group.promises]
            tests = [binomtest(f["wrong"], f["answers"], error) for f in found if f["answers"]]
            holds = sum(test.proportion_ci(0.95).low <= error for test in tests) + len(found) - len(tests)
            below = sum(test.statistic <= error for test in tests) + len(found) - len(tests)
            answers, wrong = (sum(f[name] for f in found) for name in ("answers", "wrong"))
            lines.append(
                (
                    f"{task}{', mixed' if mixed else ''}{f', fitted on {fitted_on} test texts' if fitted_on else ''}",
                    str(per_label or "all"),
                    f"{error:.0%}",
                    f"{answers / group.texts.sum():.0%}",
                    f"{wrong / answers:.1%}" if answers else "no answers",
                    f"{holds} of {len(found)}",
                    f"{below} of {len(found)}",
                )
            )
    heads = ("task", "examples per class", "promised", "answered", "wrong", "in the interval", "at most as promised")
    text = f"# Rejection\n\n## Promises\n\n{table(heads, lines)}\n\n## Novelty\n\n"
    measures = ["novelty", "max_probability", "mahalanobis"]
    lines = []
    kept = frame[frame.kind == "novelty"]
    for (task, mixed, per_label, documents), group in kept.groupby(
        ["task", "mixed", "per_label", "documents"], sort=False
    ):
        half = 1.96 * group[measures].std() / np.sqrt(len(group))
        shown = [f"{group[name].mean():.3f} ± {half[name]:.3f}" for name in measures]
        lines.append((f"{task}{', mixed' if mixed else ''}", str(per_label or "all"), documents, *shown))
    heads = ("task", "examples per class", "documents of classes", "novelty", "maximum probability", "Mahalanobis")
    return f"{text}{table(heads, lines)}\n"


def foreign_report(frame: pd.DataFrame) -> str:
    """Make a table of the shares that are answered: the mean over draws, the lowest and the highest."""
    lines = []
    for (task, encoder, per_label, documents), group in frame.groupby(
        ["task", "encoder", "per_label", "documents"], sort=False
    ):
        for case in group.answered.iloc[0]:
            error, _, limit = case.partition(" ")
            found = pd.DataFrame([answered[case] for answered in group.answered])
            shown = [
                f"{found[name].mean():.1%} ({found[name].min():.1%} to {found[name].max():.1%})"
                for name in ("known", "wrong", "lost", "foreign", "out_of_scope")
                if name in found
            ]
            lines.append((task, encoder, str(per_label), documents, f"{float(error):.0%}", limit, *shown))
    heads = ("task", "encoder", "examples per class", "documents of classes", "reject", "novelty")
    heads += ("known answered", "of these wrong", "known lost", "foreign answered", "out of scope answered")
    return f"# Foreign texts\n\n{table(heads[: len(lines[0])], lines)}\n"


if __name__ == "__main__":
    main()
