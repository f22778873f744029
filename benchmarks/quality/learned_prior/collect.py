"""Collect what a fit knows before it has seen a test text, and the scores of test texts: one file for each cell.

    OMP_NUM_THREADS=1 python -m benchmarks.quality.learned_prior.collect --tasks SETS/* --output output/cells

A cell is a data set, a number of labels per class and a draw. The pipeline is fitted as a user does it, with the rest
of the pool as documents, and once more without them. Everything else (weights, sharpness, fallback) is then computed
from the files in seconds. Finished cells are kept.

Format of ``<set>.<labels>.<draw>.npz``. E experts in the order of ``experts``, n examples, m of them held out by folds,
C labels, N test texts, S sampled documents (of examples, if there are no documents):

- ``set``, ``labels`` (per class: "1", "5", "20" or "all"), ``draw``, ``names`` (C,): of the labels, sorted
- ``test_targets`` int64 (N,): labels of the test texts, indexes into ``names``
- ``probe``, ``words`` float32 (N, C): probabilities of the benchmarks' probe and TF-IDF regression, with C by
  cross-validation; ``probe_c``, ``words_c``: the chosen inverse regularization
- ``ours`` (N, C), ``chosen``: probabilities of the pipeline, and the arm that it chose; ``lacking``: whether it left
  documents out because they lack a label

Arrays of two arms, with the prefix ``documents.`` (missing with no documents) or ``alone.``:

- ``experts`` (E,) names; ``seconds`` of the fit; ``probabilities`` (N, C) of this arm
- ``held_out`` (E, m, C): logits by folds; ``targets`` int64 (m,); ``folds`` int64 (m,)
- ``test`` (E, N, C), ``sample`` (E, S, C): logits
- ``neighbor_proportions`` (m, C), ``test_neighbor_proportions`` (N, C), ``closeness`` (m,)
- ``fold_shift`` (m, C), ``learned_shift`` (C,): before proportions are estimated; ``shift`` (C,), ``proportions`` (C,),
  ``draws`` (B, C): after it; ``out_of_scope``
- ``prior``, ``raw_prior`` (E,): today's prior weights, with a sum of 1, and before it; ``weights`` (E,): chosen, of the
  scaled logits; ``spreads`` (E,)
- ``counts`` (C,): examples of each label; ``corpus_size``: number of all texts; ``reliability`` of the names
- ``example_weight``; ``edge_agreement``: weighted fraction of edges of the graph with the same propagated label;
  ``versions``, ``version_groups``, ``contradictory``, ``agreeing``, ``version_fraction``: as in the report;
  ``words_per_text``
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.inputs import default_model
from benchmarks.quality.few_labels import embedder as embedding
from benchmarks.quality.few_labels import protocol, systems
from benchmarks.quality.few_labels.embedder import Embedder
from benchmarks.quality.few_labels.protocol import FewLabels, draw, load_few_labels, rest
from benchmarks.quality.few_labels.systems import C_GRID, probe, tfidf
from docsplit_hf.fitting.ensemble import fit_experts as fitting
from docsplit_hf.fitting.ensemble.fit_experts import fit_experts
from docsplit_hf.fitting.ensemble.problem import Problem
from docsplit_hf.fitting.ensemble.scoring import PreparedExperts, score_all, score_texts
from docsplit_hf.fitting.experts.label_names_expert import readable_names
from docsplit_hf.fitting.experts.log_linear_pool import pool
from docsplit_hf.fitting.experts.registry import EXPERTS, features_of_corpus, prior_weights
from docsplit_hf.reading.inputs import joined_texts, texts_and_pairs

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import Pipeline

    from docsplit_hf.arrays.snapshot import Snapshot
    from docsplit_hf.fitting.ensemble.fitted_ensemble import Ensemble, Fit
    from docsplit_hf.fitting.ensemble.held_out_scores import HeldOutScores
    from docsplit_hf.fitting.ensemble.weighing import Weighing
    from docsplit_hf.fitting.experts.expert import TrainingData

POOL_SIZE = 800
TEST_SIZE = 300
DRAWS = {"1": 2, "5": 2, "20": 1, "all": 1}
ALL = 10**9
MANY_LABELS = 20  # with more and all examples, the regressions choose among fewer C, which saves minutes
FEWER_C = [10.0, 100.0, 1000.0]
Cell = dict[str, np.ndarray]


@dataclass
class Recorded:
    """What a fit passes from one step to the next."""

    folds: list[np.ndarray] = field(default_factory=list)
    data: list[TrainingData] = field(default_factory=list)
    ensembles: list[Ensemble] = field(default_factory=list)
    scores: list[HeldOutScores] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    weighings: list[Weighing] = field(default_factory=list)
    fitted: list[Fit] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


@contextmanager
def recorded() -> Iterator[Recorded]:
    """Record the steps of all fits in the block."""
    found = Recorded()
    by_folds = fitting.scores_by_folds
    weigh = fitting.weigh
    fit = fitting.fit_experts

    def record_folds(data, voters, folds, *others):
        found.folds.append(folds)
        return by_folds(data, voters, folds, *others)

    def record_weighing(problem, data, ensemble, scores):
        weighing = weigh(problem, data, ensemble, scores)
        found.data.append(data)
        found.ensembles.append(ensemble)
        found.scores.append(scores)
        found.snapshots.append(problem.snapshot)
        found.weighings.append(weighing)
        return weighing

    def record_fit(*given, **named):
        start = process_time()
        fitted = fit(*given, **named)
        found.seconds.append(process_time() - start)
        found.fitted.append(fitted)
        return fitted

    with (
        mock.patch.object(fitting, "scores_by_folds", record_folds),
        mock.patch.object(fitting, "weigh", record_weighing),
        mock.patch("docsplit_hf.classifier.fit_datastore.fit_experts", record_fit),
    ):
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--tasks", nargs="+", required=True, help="Folders with train.jsonl and test.jsonl.")
    add("--labels", nargs="+", default=["1", "5", "20", "all"], help="Labels per class. Default: %(default)s.")
    add("--draws", type=int, nargs="+", help="Draws of each of these. Default: 2 of 1 and 5 labels, 1 of more.")
    add("--encoder", default=default_model(), help="Any encoder. Default: the installed all-MiniLM-L6-v2.")
    add("--pool_size", type=int, default=2500, help="Texts to load. Default: %(default)s.")
    add("--documents", type=int, default=POOL_SIZE, help="Texts of the pool that are used. Default: %(default)s.")
    add("--test_texts", type=int, default=TEST_SIZE, help="Test texts that are used. Default: %(default)s.")
    add("--first", action="store_true", help="Take the first texts, which keeps versions of a text together.")
    add("--embeddings", default="output/embeddings", help="Where they are kept. Default: %(default)s.")
    add("--output", type=Path, default=Path("output/cells"), help="Folder for the cells. Default: %(default)s.")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    draws = DRAWS if options.draws is None else dict(zip(options.labels, options.draws, strict=True))
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
    for folder in options.tasks:
        name = Path(folder).name
        wanted = [(labels, number) for labels in options.labels for number in range(draws[labels])]
        missing = [cell for cell in wanted if not path_of(options.output, name, *cell).exists()]
        if not missing:
            continue
        try:
            with mock.patch.object(protocol, "_sample", first_rows) if options.first else nullcontext():
                loaded = load_few_labels(folder, options.pool_size)
        except ValueError as error:
            print(name, error, flush=True)
            continue
        task = shorten(loaded, options.documents, options.test_texts)
        with mock.patch.object(embedding, "SAMPLE", 1):  # its speed is not used
            embedder = Embedder(options.encoder, task, options.embeddings, precision="int8")
        for labels, number in missing:
            start = process_time()
            cell = collect(task, labels, number, embedder, embedder.emptied_pipeline())
            path = path_of(options.output, name, labels, number)
            part = path.with_suffix(".part.npz")
            np.savez_compressed(part, **cell)
            part.rename(path)
            print(name, labels, number, f"{process_time() - start:.1f} s", flush=True)


def first_rows(split: Dataset, size: int) -> Dataset:
    """The first rows of a split, in place of random ones."""
    return split.select(range(min(size, len(split))))


def path_of(folder: Path, name: str, labels: str, number: int) -> Path:
    """File of a cell."""
    return folder / f"{name}.{labels}.{number}.npz"


def shorten(task: FewLabels, pool_size: int, test_size: int) -> FewLabels:
    """Keep the first texts of the pool and of the test set, and the classes with 2 texts in the pool."""
    pool_labels = task.pool_labels[:pool_size]
    kept = np.flatnonzero(np.bincount(pool_labels, minlength=len(task.names)) >= 2)
    rows = np.flatnonzero(np.isin(pool_labels, kept))
    test = np.flatnonzero(np.isin(task.test_labels, kept))[:test_size]
    return FewLabels(
        name=task.name,
        names=[task.names[label] for label in kept],
        descriptions=[task.descriptions[label] for label in kept],
        pool=[task.pool[row] for row in rows],
        pool_labels=np.searchsorted(kept, pool_labels[rows]),
        test=[task.test[row] for row in test],
        test_labels=np.searchsorted(kept, task.test_labels[test]),
    )


def collect(task: FewLabels, labels: str, number: int, embedder: Embedder, pipe: Pipeline) -> Cell:
    """All arrays of a cell; ``pipe`` has no examples."""
    rows = draw(task.pool_labels, ALL if labels == "all" else int(labels), number)
    unlabeled = rest(len(task.pool), rows)
    with embedder.remembered(), recorded() as fits:
        pipe.add_examples([task.pool[row] for row in rows], [task.names[i] for i in task.pool_labels[rows]])
        if len(unlabeled):
            pipe.add_documents([task.pool[row] for row in unlabeled])
        report = pipe.fit(show_progress=False)
        chosen = pipe.datastore.snapshot.fitted.settings["left_out"] > 0 or not len(unlabeled)
        if len(unlabeled) and len(fits.fitted) == 1:
            names = embedder.embed_anew(readable_names(sorted(set(task.names))))
            alone = replace(fits.snapshots[0], documents=None)
            start = process_time()
            problem = Problem(alone, name_embeddings=names, with_left_out=fits.data[0].corpus)  # as in a fit
            fits.fitted.append(fit_experts(problem, show_progress=False))
            fits.seconds.append(process_time() - start)
    order = np.argsort(task.names)
    grid = FEWER_C if labels == "all" and len(task.names) > MANY_LABELS else C_GRID
    with mock.patch.object(systems, "C_GRID", grid):
        by_probe = probe(task, rows, embedder, 1)
        by_words = tfidf(task, rows, embedder, 1)
    cell: Cell = {
        "set": np.array(task.name),
        "labels": np.array(labels),
        "draw": np.array(number),
        "names": np.array(task.names)[order],
        "test_targets": np.argsort(order)[task.test_labels],
        "probe": by_probe.probabilities[:, order].astype(np.float32),
        "words": by_words.probabilities[:, order].astype(np.float32),
        "probe_c": np.array(by_probe.settings["C"]),
        "words_c": np.array(by_words.settings["C"]),
        "chosen": np.array("alone" if chosen else "documents"),
        "lacking": np.array(bool(report.lacking)),
    }
    arms = ["documents", "alone"] if len(unlabeled) else ["alone"]
    for i, arm in enumerate(arms):
        for name, array in arrays_of_arm(task, embedder, fits, i).items():
            cell[f"{arm}.{name}"] = array
    cell["ours"] = cell[f"{cell['chosen']}.probabilities"]
    return cell


def arrays_of_arm(task: FewLabels, embedder: Embedder, fits: Recorded, i: int) -> Cell:
    """The arrays of a fit."""
    data = fits.data[i]
    ensemble = fits.ensembles[i]
    scores = fits.scores[i]
    snapshot = fits.snapshots[i]
    weighing = fits.weighings[i]
    report = fits.fitted[i].report
    corpus = data.corpus
    held_out = np.flatnonzero(fits.folds[i] >= 0)
    folds = fits.folds[i]
    of_sample = score_all(
        ensemble.learned.by_expert,
        ensemble.experts,
        features_of_corpus(corpus, ensemble.learned.soft_labels, False, corpus.sample),
    )
    single_texts, pairs = texts_and_pairs(task.test)
    texts = joined_texts(single_texts, pairs or [None] * len(single_texts))
    ready = PreparedExperts.of_ensemble(snapshot, ensemble)
    of_test = score_texts(ready, embedder.embed(task.test), texts, None)
    edges = corpus.graph.tocoo()
    propagated = ensemble.learned.soft_labels.argmax(1)
    is_equal = propagated[edges.row] == propagated[edges.col]
    shift = weighing.ensemble.learned.shift
    found: Cell = {
        "experts": np.array(ensemble.experts),
        "seconds": np.array(fits.seconds[i]),
        "probabilities": pool(of_test.logits, weighing.weights.of_logits, False, shift),
        "held_out": scores.scores,
        "targets": scores.targets.argmax(1) if len(scores.targets) else np.zeros(0, np.int64),
        "folds": folds[held_out],
        "test": of_test.logits,
        "sample": of_sample,
        "neighbor_proportions": scores.neighbor_label_proportions,
        "test_neighbor_proportions": of_test.neighbor_label_proportions,
        "closeness": scores.closeness,
        "fold_shift": scores.shift,
        "learned_shift": ensemble.learned.shift,
        "shift": shift,
        "proportions": weighing.proportions.likeliest,
        "draws": weighing.proportions.draws,
        "out_of_scope": np.array(weighing.out_of_scope),
        "prior": prior_weights(ensemble.experts, data),
        "raw_prior": np.array([EXPERTS[name].prior(data) for name in ensemble.experts]),
        "weights": weighing.weights.for_scaled_logits,
        "spreads": weighing.weights.spreads,
        "counts": data.targets.sum(0),
        "corpus_size": np.array(len(corpus.ids)),
        "reliability": np.array(data.reliability(data.names)),
        "example_weight": np.array(data.text_weights[data.rows].max()),
        "edge_agreement": np.array(np.average(is_equal, weights=edges.data) if len(edges.data) else 0.0),
        "versions": np.array(report.versions),
        "version_groups": np.array(report.version_groups),
        "contradictory": np.array(report.contradictory),
        "agreeing": np.array(report.agreeing),
        "version_fraction": np.array(report.version_fraction),
        "words_per_text": np.array(np.mean([len(text.split()) for text in texts])),
    }
    return as_float32(found)


def as_float32(cell: Cell) -> Cell:
    """Arrays of float64 in half of their size."""
    return {name: own.astype(np.float32) if own.dtype == np.float64 else own for name, own in cell.items()}


if __name__ == "__main__":
    main()
