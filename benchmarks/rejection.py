"""Does reject keep what it promises, and does novelty tell texts of no known class?

    OMP_NUM_THREADS=1 python benchmarks/rejection.py --tasks 20news bbc_news

A task is a folder with train.jsonl and test.jsonl (text, label). Each draw takes some examples of each class, or 80 %
of all; other documents of the pool have no labels. "promises": the errors among the test texts that get an answer.
Where a test set is of a later time it is not like the examples, and they can promise nothing of it: with --mixed,
training and test texts are shuffled together for each draw; with --held_out, some test texts are fitted on, and the
others asked. "novelty": a quarter of the classes has no examples; documents without labels are of all classes, or of
the known ones. "foreign", with --known: only so many classes have examples; how many texts of the others, and of the
folder's oos.jsonl, get an answer with reject, and how many of the known ones, by the limits to novelty. Records are
kept in rejection.jsonl, and not made again.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from few_labels.embedder import Embedder
from few_labels.options import encoder_name, task_parser
from few_labels.protocol import FewLabels, draw, load_few_labels
from few_labels.records import add_record, read_records
from scipy.stats import binomtest
from sklearn.covariance import LedoitWolf
from sklearn.metrics import roc_auc_score
from tqdm.auto import tqdm

from docsplit_hf import KNNDatastore
from docsplit_hf.neighbors.experts.fit_experts import fit_experts
from docsplit_hf.neighbors.experts.fitted_experts import ReadyExperts, ScoredTexts, ready_experts, score_texts
from docsplit_hf.neighbors.experts.held_out_scores import HeldOut
from docsplit_hf.neighbors.experts.measuring import REPORTED_ERRORS
from docsplit_hf.neighbors.experts.vector_experts import readable_names
from docsplit_hf.neighbors.store.row_table import encode_known_labels
from docsplit_hf.training.markdown import table

RECORDS = "rejection.jsonl"
Embed = Callable[[tuple[str, ...]], np.ndarray]  # names of labels
SHARE_OF_ALL, MOST_DOCUMENTS, LEFT_OUT = 0.8, 3_000, 0.25
LIMITS = {"off": False, "as fitted": None, "0.05": 0.05}  # to novelty
KEY = ("kind", "task", "encoder", "per_label", "mixed", "documents", "held_out", "draw")


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
        pool, test = embedder.embed(task.pool), embedder.embed(task.test)

        def embed_names(names: tuple[str, ...], embedder: Embedder = embedder) -> np.ndarray:
            return embedder.embed_anew(readable_names(names))

        for per_label in options.per_label:
            for number in tqdm(range(options.draws if per_label else max(options.draws // 3, 1)), desc=task.name):
                given = _mixed(task, pool, test, number) if options.mixed else (task, pool, test)
                kinds = (("promises", "all"), ("novelty", "all"), ("novelty", "known"))
                kinds = kinds[:1] if options.held_out or options.promises_only else kinds
                for kind, documents in (("foreign", "all"), ("foreign", "none")) if options.known else kinds:
                    held_out = options.held_out
                    values = (kind, task.name, encoder, per_label, options.mixed, documents, held_out, number)
                    if values in {tuple(r[name] for name in KEY) for r in read_records(options.output / RECORDS)}:
                        continue
                    if kind == "promises":
                        found = promises(*given, per_label, number, held_out, embed_names)
                    elif kind == "foreign":
                        strangers = read_strangers(folder)
                        embedded = embedder.embed_anew(strangers) if strangers else test[:0]
                        given_strangers = strangers, embedded, options.known, documents
                        found = foreign(*given, per_label, number, *given_strangers, embed_names)
                    else:
                        found = novelty(*given, per_label, number, documents, embed_names)
                    add_record(options.output / RECORDS, dict(zip(KEY, values, strict=True)) | found)
    text = report(read_records(options.output / RECORDS))
    (options.output / "rejection.md").write_text(text, encoding="utf-8")
    print(text)


def promises(
    task: FewLabels, pool: np.ndarray, test: np.ndarray, per_label: int, number: int, held_out: int, embed_names: Embed
) -> dict[str, Any]:
    """By the error that is promised: how many texts get an answer, and how many of the answers are wrong."""
    rows = np.random.default_rng(number).permutation(len(test))
    fitted_on, rows = rows[:held_out], rows[held_out:]
    ready = _fit(task, pool, per_label, number, np.arange(len(task.names)), "all", test, fitted_on, embed_names)
    answers, right = _ask(task, test, ready, rows)
    sure = ready.fitted.guarantees.confidence(
        answers.probabilities, ready.fitted.guarantees.novelty(answers.familiarity())
    )
    found = {}
    for error in REPORTED_ERRORS:
        accepted = sure >= ready.fitted.guarantees.confidence_threshold(error)
        found[str(error)] = {"answers": int(accepted.sum()), "wrong": int((~right[accepted]).sum())}
    held_out = ready.fitted.held_out
    accuracies = {"accuracy": float(right.mean()), "accuracy_in_folds": float(held_out.right.mean())}
    report = ready.fitted.settings.report
    [measured] = [record["accuracy"] for record in report.measured if record["expert"] == "mixture"]
    accuracies |= {"measured": measured, "interval": report.accuracy_interval}
    found_proportions = np.array([report.proportions.get(name, 0.0) for name in task.names])
    shares = np.bincount(task.test_labels[rows], minlength=len(task.names)) / len(rows)
    accuracies["proportions_off"] = float(np.abs(found_proportions - shares).sum() / 2)
    accuracies["equal_off"] = float(np.abs(1 / len(shares) - shares).sum() / 2)
    return {"texts": len(right), "examples": len(held_out.ids), "promises": found} | accuracies


def read_strangers(folder: str) -> list[str]:
    """The texts of a folder's oos.jsonl, which are of no class."""
    path = Path(folder) / "oos.jsonl"
    if not path.exists():
        return []
    return [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]


def foreign(
    task: FewLabels,
    pool: np.ndarray,
    test: np.ndarray,
    per_label: int,
    number: int,
    strangers: list[str],
    strangers_embedded: np.ndarray,
    known_count: int,
    documents: str,
    embed_names: Embed,
) -> dict[str, Any]:
    """The shares of known texts, of texts of other classes and of texts of none that get an answer, by both limits."""
    classes = np.arange(len(task.names))
    known = np.sort(np.random.default_rng(number).choice(classes, known_count, replace=False))
    ready = _fit(task, pool, per_label, number, known, documents, test, [], embed_names)
    answers, right = _ask(task, test, ready, np.arange(len(test)))
    novel = ready.fitted.guarantees.novelty(answers.familiarity())
    is_known = np.isin(task.test_labels, known)
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
    report = ready.fitted.settings.report
    auroc = float(roc_auc_score(~is_known, novel))
    return {"known_classes": known_count, "found_foreign": report.foreign, "auroc": auroc, "answered": found}


def novelty(
    task: FewLabels, pool: np.ndarray, test: np.ndarray, per_label: int, number: int, documents: str, embed_names: Embed
) -> dict[str, Any]:
    """The area under the ROC curve of texts of left-out classes against those of known ones, by three measures."""
    rng, classes = np.random.default_rng(number), np.arange(len(task.names))
    known = np.setdiff1d(classes, rng.choice(classes, max(round(LEFT_OUT * len(classes)), 1), replace=False))
    ready = _fit(task, pool, per_label, number, known, documents, test, [], embed_names)
    answers, _ = _ask(task, test, ready, np.arange(len(test)))
    is_new = ~np.isin(task.test_labels, known)
    measures = {
        "novelty": ready.fitted.guarantees.novelty(answers.familiarity()),
        "max_probability": -answers.probabilities.max(1),
        "mahalanobis": _mahalanobis(ready, test),
    }
    return {name: float(roc_auc_score(is_new, values)) for name, values in measures.items()}


def _fit(
    task: FewLabels,
    pool: np.ndarray,
    per_label: int,
    number: int,
    known: np.ndarray,
    documents: str,
    test: np.ndarray,
    fitted_on: Sequence[int],
    embed_names: Embed,
) -> ReadyExperts:
    rng = np.random.default_rng(number)
    rows = draw(task.pool_labels, per_label, number)
    if not per_label:
        rows = rng.permutation(len(pool))[: int(SHARE_OF_ALL * len(pool))]
    rows = rows[np.isin(task.pool_labels[rows], known)]
    others = rng.permutation(np.setdiff1d(np.arange(len(pool)), rows))
    if documents == "known":
        others = others[np.isin(task.pool_labels[others], known)]
    others, texts = others[:MOST_DOCUMENTS], np.array(task.pool, dtype=object)
    names = [task.names[label] for label in task.pool_labels[rows]]
    store = KNNDatastore(pool[rows], names, [], texts[rows])
    if len(others) and documents != "none":
        store.add_documents(pool[others], texts[others])
    held_out = None
    if len(fitted_on):
        labels = encode_known_labels([task.names[task.test_labels[i]] for i in fitted_on], task.names, False)
        held_out = HeldOut(test[fitted_on], [task.test[i] for i in fitted_on], labels, None)
    fitted = fit_experts(store.snapshot, held_out=held_out, show_progress=False, embed_names=embed_names)
    store.fitted = fitted.to_state()
    return ready_experts(store.snapshot)


def _ask(task: FewLabels, test: np.ndarray, ready: ReadyExperts, rows: np.ndarray) -> tuple[ScoredTexts, np.ndarray]:
    answers = score_texts(ready, test[rows], [task.test[i] for i in rows], None, with_closeness=True)
    names = np.array(ready.snapshot.label_names)[answers.probabilities.argmax(1)]
    return answers, names == np.array(task.names)[task.test_labels[rows]]


def _mahalanobis(ready: ReadyExperts, test: np.ndarray) -> np.ndarray:
    """The distance to the nearest class mean, by the covariance within classes (Lee et al. 2018, shrunk)."""
    keys, labels = np.asarray(ready.snapshot.keys, np.float64), ready.snapshot.labels
    means = np.stack([keys[labels == label].mean(0) for label in range(labels.max() + 1)])
    precision = LedoitWolf(assume_centered=True).fit(keys - means[labels]).precision_
    return np.stack([np.einsum("nd,de,ne->n", test - mean, precision, test - mean) for mean in means]).min(0)


def _mixed(
    task: FewLabels, pool: np.ndarray, test: np.ndarray, number: int
) -> tuple[FewLabels, np.ndarray, np.ndarray]:
    order = np.random.default_rng(number).permutation(len(pool) + len(test))
    texts = [(task.pool + task.test)[i] for i in order]
    labels, keys = (np.concatenate(both)[order] for both in ((task.pool_labels, task.test_labels), (pool, test)))
    size = len(pool)
    parts = {"pool": texts[:size], "pool_labels": labels[:size], "test": texts[size:], "test_labels": labels[size:]}
    return replace(task, **parts), keys[:size], keys[size:]


def report(records: list[dict[str, Any]]) -> str:
    """Two tables: of promises, and of novelty; or one of foreign texts."""
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
    """A table of the shares that get an answer: the mean over draws, and the lowest and the highest."""
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
