"""Few-shot classification with DocSplit in closed form and other maps of frozen embeddings.

    python -m benchmarks.quality.projection \\
        --encoders MiniLM=sentence-transformers/all-MiniLM-L6-v2 docsplit-small-en \\
        --tasks 20News=data/20news BBCNews=data/bbc_news --output_dir output/projection

All maps are fitted on the training texts of a task, without labels. results.md has tables, results.json the numbers.
Run it again to continue a stopped run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from docsplit_hf import DocumentEncoder
from docsplit_hf.content_hash import sha256_of_parts
from docsplit_hf.evaluation.systems import EncoderWithOptions
from docsplit_hf.pretraining.half_retrieval import half_texts
from experiments.evaluation.experiment import EvaluationSettings
from experiments.evaluation.results import ResultStore, describe_command, summarize
from experiments.evaluation.runner import run_protocols
from experiments.evaluation.systems import EncoderSystem
from experiments.evaluation.tasks import EvaluationTask
from experiments.tasks.load_paper_task import load_paper_task

MAX_TRAIN_EXAMPLES = 2000  # as in the study
MAX_TEST_EXAMPLES = 1000
SETTINGS = EvaluationSettings(shots=5, max_length=160)
SEED = 0
SHRINKAGES = 10.0 ** np.arange(-2, 2.1, 0.5)  # candidates for lambda
FOLDS = 5

Map = Callable[[np.ndarray], np.ndarray]


def centered(embeddings: np.ndarray, first: np.ndarray, second: np.ndarray) -> Map:
    return partial(apply, embeddings.mean(0), np.eye(embeddings.shape[1]))


def power(embeddings: np.ndarray, first: np.ndarray, second: np.ndarray, exponent: float, shrinkage: float = 0) -> Map:
    """A power of the covariance, without halves: -0.5 is whitening, positive exponents are its opposite."""
    return partial(apply, embeddings.mean(0), matrix_power(shrunk(np.cov(embeddings.T), shrinkage), exponent))


def all_but_the_top(embeddings: np.ndarray, first: np.ndarray, second: np.ndarray) -> Map:
    """Remove the first D / 100 principal components (Mu and Viswanath 2018)."""
    _, vectors = np.linalg.eigh(np.cov(embeddings.T))
    top = vectors[:, -max(1, len(vectors) // 100) :]
    return partial(apply, embeddings.mean(0), np.eye(len(vectors)) - top @ top.T)


def cca(embeddings: np.ndarray, first: np.ndarray, second: np.ndarray, shrinkage: float) -> Map:
    """Regularized CCA of the halves, each direction times the root of its correlation."""
    both = np.concatenate([first, second])
    mean = both.mean(0)
    whiten = matrix_power(shrunk(np.cov(both.T), shrinkage), -0.5)
    cross = (first - mean).T @ (second - mean) / len(first)
    shared, directions = np.linalg.eigh(whiten @ (cross + cross.T) @ whiten / 2)
    return partial(apply, mean, whiten @ directions * np.sqrt(shared.clip(0)))


def cca_of_few(embeddings: np.ndarray, first: np.ndarray, second: np.ndarray, shrinkage: float, most: int) -> Map:
    """CCA of the halves of ``most`` random documents."""
    rows = order(first)[:most]
    return cca(embeddings, first[rows], second[rows], shrinkage)


def projection(
    embeddings: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    shrinkage: float | None = None,
    most: int | None = None,
) -> Map:
    """DocSplit in closed form, fitted on all halves or on those of ``most`` random documents."""
    rows = order(first)[:most]
    first = normalized(first[rows])
    second = normalized(second[rows])
    if shrinkage is None:
        shrinkage, _ = choose_shrinkage(first, second, SEED)
    mean = (first.mean(0) + second.mean(0)) / 2
    total, cross = moments(first - mean, second - mean)
    return partial(apply, mean, half_to_half(total / len(first), cross / len(first), shrinkage))


def normalized(embeddings: np.ndarray) -> np.ndarray:
    embeddings = np.asarray(embeddings, np.float64)
    return embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True).clip(1e-12)


def moments(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Second moments of centered halves x and y: half of x^T x + y^T y, and x^T y, made symmetric."""
    product = first.T @ second
    return (first.T @ first + second.T @ second) / 2, (product + product.T) / 2


def half_to_half(total: np.ndarray, cross: np.ndarray, shrinkage: float) -> np.ndarray:
    """B = (S + l s I)^-1 (C + l s r I): the ridge regression of one half on the other, shrunk to r I.

    S: the covariance of the halves; C: that between the two; s = tr S / D and r = tr C / tr S.
    """
    ridge = shrinkage * np.trace(total) / len(total)
    ratio = np.trace(cross) / np.trace(total)
    identity = np.eye(len(total))
    return np.linalg.solve(total + ridge * identity, cross + ridge * ratio * identity)


def choose_shrinkage(first: np.ndarray, second: np.ndarray, seed: int) -> tuple[float, float]:
    """The shrinkage with the smallest squared error on held-out documents, and this error as a part of the variance.

    The squared error of a map B is ``tr S' - 2 tr B^T C' + tr B^T S' B`` with the held-out moments S' and C'.
    """
    mean = (first.mean(0) + second.mean(0)) / 2
    fold = np.random.default_rng(seed).permutation(len(first)) % FOLDS
    by_fold = [moments(first[fold == number] - mean, second[fold == number] - mean) for number in range(FOLDS)]
    total = np.sum([each[0] for each in by_fold], axis=0)
    cross = np.sum([each[1] for each in by_fold], axis=0)
    errors = np.zeros(len(SHRINKAGES))
    for number, (held_total, held_cross) in enumerate(by_fold):
        count = np.count_nonzero(fold != number)
        for i, shrinkage in enumerate(SHRINKAGES):
            matrix = half_to_half((total - held_total) / count, (cross - held_cross) / count, shrinkage)
            linear = 2 * (matrix * held_cross).sum()
            errors[i] += np.trace(held_total) - linear + (matrix * (held_total @ matrix)).sum()
    best = int(errors.argmin())
    return float(SHRINKAGES[best]), float(errors[best] / np.trace(total))


def shrunk(covariance: np.ndarray, shrinkage: float) -> np.ndarray:
    return covariance + shrinkage * np.trace(covariance) / len(covariance) * np.eye(len(covariance))


def matrix_power(covariance: np.ndarray, exponent: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * values.clip(1e-12) ** exponent) @ vectors.T


def apply(mean: np.ndarray, matrix: np.ndarray, embeddings: np.ndarray) -> np.ndarray:
    mapped = (embeddings - mean) @ matrix
    return (mapped / np.linalg.norm(mapped, axis=1, keepdims=True).clip(1e-12)).astype(np.float32)


MAPS: dict[str, Callable[..., Map]] = {
    "projection": projection,
    "whitening, shrinkage 1": partial(power, exponent=-0.5, shrinkage=1),
    "whitening, shrinkage 10": partial(power, exponent=-0.5, shrinkage=10),
    "CCA, shrinkage 10": partial(cca, shrinkage=10),
    "covariance to 1/4": partial(power, exponent=0.25),
    "covariance to 1/2": partial(power, exponent=0.5),
    "centered": centered,
    "all but the top": all_but_the_top,
    "CCA, shrinkage 1": partial(cca, shrinkage=1),
    "CCA, shrinkage 3": partial(cca, shrinkage=3),
    "projection, shrinkage 0.1": partial(projection, shrinkage=0.1),
    "projection, shrinkage 1": partial(projection, shrinkage=1),
    "projection, shrinkage 10": partial(projection, shrinkage=10),
    "projection, 100 documents": partial(projection, most=100),
    "projection, 300 documents": partial(projection, most=300),
    "projection, 1000 documents": partial(projection, most=1000),
    "CCA, shrinkage 10, 100 documents": partial(cca_of_few, shrinkage=10, most=100),
    "CCA, shrinkage 10, 300 documents": partial(cca_of_few, shrinkage=10, most=300),
}


def order(rows: np.ndarray) -> np.ndarray:
    return np.random.default_rng(SEED).permutation(len(rows))


class MappedSystem:
    """An encoder followed by a map that is fitted on the training texts and their halves."""

    def __init__(self, name: str, encoder: EncoderSystem, kind: str) -> None:
        self.name = f"{name} + {kind}"
        self.encoder = encoder
        self.kind = kind
        self.fingerprint = sha256_of_parts([f"{encoder.fingerprint} {kind} {SEED}".encode()])

    def features(self, train: Sequence[str], *others: Sequence[str]) -> list[np.ndarray]:
        """The mapped embeddings of each list of texts."""
        first, second = half_texts(train, SEED, show_progress=False)
        *embeddings, halves = self.encoder.features(train, *others, [*first, *second])
        fitted = MAPS[self.kind](embeddings[0], halves[: len(first)], halves[len(first) :])
        return [fitted(rows) for rows in embeddings]


def tables(records: list[dict]) -> str:
    """Macro F1 of each encoder in %, and in parentheses its difference from the plain encoder, on the same draws."""
    frame = pd.DataFrame(records).assign(score=[100 * record["metrics"]["macro_f1"] for record in records])
    if (frame.groupby("system")["system_fingerprint"].nunique() > 1).any():
        raise ValueError("Two encoders of one name are in results.json: delete it, and measure again.")
    frame = frame.pivot(index="seed", columns=["system", "task"], values="score")
    names = list(dict.fromkeys(record["system"] for record in records))
    tasks = list(dict.fromkeys(record["task"] for record in records))
    lines = []
    for encoder in names:
        if " + " in encoder:
            continue
        lines += [f"| {encoder} | {' | '.join(tasks)} | mean |", "|" + " --- |" * (len(tasks) + 2)]
        plain = with_mean(frame[encoder][tasks])
        for name in names:
            base, _, kind = name.partition(" + ")
            if base == encoder:
                scores = with_mean(frame[name][tasks])
                cells = [cell(scores[task], plain[task] if kind else None) for task in scores]
                lines.append(f"| {kind or 'as it is'} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def cell(scores: pd.Series, plain: pd.Series | None) -> str:
    """The mean with its interval, or with its difference from the plain encoder."""
    if plain is None:
        return f"{scores.mean():.1f} ± {summarize(scores).interval:.1f}"
    change = summarize(scores - plain)
    return f"{scores.mean():.1f} ({change.mean:+.1f} ± {change.interval:.1f})"


def load_task(named: str) -> EvaluationTask:
    """Load a task given as NAME=FOLDER."""
    name, folder = named.split("=", 1)
    return load_paper_task(name, folder, max_train_examples=MAX_TRAIN_EXAMPLES, max_test_examples=MAX_TEST_EXAMPLES)


def with_mean(scores: pd.DataFrame) -> pd.DataFrame:
    return scores.assign(mean=scores.mean(axis=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoders", nargs="+", required=True, help="Names or folders, or NAME=FOLDER.")
    parser.add_argument("--tasks", nargs="+", required=True, help="NAME=FOLDER each, as in docsplit evaluate.")
    parser.add_argument("--maps", nargs="+", choices=MAPS, default=list(MAPS), help="Default: all.")
    parser.add_argument("--output_dir", type=Path, default="output/projection", help="Default: %(default)s.")
    parser.add_argument("--cache_dir", type=Path, help="Where embeddings are kept. Default: in the output folder.")
    options = parser.parse_args()
    tasks = [load_task(named) for named in options.tasks]
    store = ResultStore(options.output_dir, describe_command(sys.argv))
    for named in options.encoders:
        name, _, path = named.partition("=")
        encoder = DocumentEncoder.from_pretrained(path or name, max_length=SETTINGS.max_length)
        cache = options.cache_dir or options.output_dir / "embeddings"
        plain = EncoderSystem(name, EncoderWithOptions(encoder, bf16=True), cache)
        systems = {name: plain} | {f"{name} + {kind}": MappedSystem(name, plain, kind) for kind in options.maps}
        run_protocols(systems, tasks, ["few_shot"], SETTINGS, store)
        (options.output_dir / "results.md").write_text(tables(store.records), encoding="utf-8")


if __name__ == "__main__":
    main()
