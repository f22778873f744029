"""How sure neighbors may be: equation 2, and what a prior of the labels does to it.

    python benchmarks/prior.py --model_name_or_path <encoder> --tasks my_folder another_folder

Examples are drawn from the training set, k and T are calibrated by leaving one out, and what is measured are the
answers for the test set. A task is one of the paper's by name, or a folder of jsonl files with train and test.
"""

import argparse
from collections import defaultdict

import numpy as np
from few_labels.protocol import draw
from scipy import stats

from docsplit_hf import DocumentEncoder
from docsplit_hf.classification.evaluation import classification_metrics
from docsplit_hf.neighbors.mixing.calibration import calibrate, temperature_grid, without_self
from docsplit_hf.neighbors.mixing.mixture import (
    add_one_smoothing,
    effective_neighbors,
    knn_probabilities,
    neighbor_weights,
)
from docsplit_hf.neighbors.store.keys import exact_search
from docsplit_hf.text.paper_tasks import load_task
from docsplit_hf.training.markdown import table

MOST_NEIGHBORS = 128
PLAIN, SMOOTHED = "equation 2", "one more example of each label"
METRICS = ("log_loss", "accuracy", "macro_f1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_name_or_path", required=True, help="Any encoder.")
    parser.add_argument("--tasks", nargs="+", required=True, help="Names of tasks, or folders of jsonl.")
    parser.add_argument("--per_label", type=int, nargs="+", default=[1, 2, 5, 20, 100], help="Default: %(default)s.")
    parser.add_argument("--seeds", type=int, default=5, help="Draws of the examples. Default: %(default)s.")
    parser.add_argument("--max_test_examples", type=int, default=1000, help="Default: %(default)s.")
    parser.add_argument("--max_length", type=int, help="Tokens. Default: the encoder's.")
    parser.add_argument(
        "--natural", action="store_true", help="Draw as many examples at random, not as many of each label."
    )
    options = parser.parse_args()
    encoder = DocumentEncoder.from_pretrained(options.model_name_or_path, max_length=options.max_length)
    measured = defaultdict(list)  # (examples per label, system) -> for each task the means over its draws
    for task in options.tasks:
        splits = {name: rows.shuffle(seed=0) for name, rows in load_task(task).items()}
        labels = np.array(splits["train"]["label"])
        num_labels, most = len(splits["train"].features["label"].names), 3 * max(options.per_label) // 2
        pool = np.array(draw(labels.tolist(), most, 0))
        if options.natural:
            pool = np.arange(min(most * num_labels, len(labels)))
        labels = labels[pool]
        test = splits["test"].select(range(min(len(splits["test"]), options.max_test_examples)))
        texts = (splits["train"][pool]["text"], test["text"][:])
        train, queries = (encoder.encode(each, show_progress=False) for each in texts)
        measure(measured, options, train, labels, queries, np.array(test["label"]), num_labels)
        print(f"{task}: {len(pool)} training texts, {len(test)} test texts", flush=True)
    report(measured, options)


def measure(measured, options, train, labels, queries, gold, num_labels):
    """Append the means over the draws on one task."""
    for per_label in options.per_label:
        results = defaultdict(list)
        for seed in range(options.seeds):
            rows = draw(labels.tolist(), per_label, seed)
            if options.natural:
                rows = np.random.default_rng(seed).permutation(len(labels))[: per_label * num_labels]
            for name, probabilities in answers(train[rows], labels[rows], queries, num_labels):
                metrics = classification_metrics(probabilities, gold)
                results[name].append([*(metrics[m] for m in METRICS), probabilities.max(1).mean()])
        for name, values in results.items():
            measured[per_label, name].append(np.mean(values, axis=0))


def report(measured, options):
    """The table."""
    print(f"\nMeans over {len(options.tasks)} tasks, {options.seeds} draws each; differences with 95 % t-intervals.\n")
    columns = ("log loss", "accuracy", "macro F1", "confidence", "change in accuracy", "change in log loss")
    lines = []
    for (per_label, name), values in measured.items():
        changes = np.array(values) - np.array(measured[per_label, PLAIN])
        intervals = [stats.t.ppf(0.975, len(changes) - 1) * stats.sem(changes[:, i]) for i in (0, 1)]
        log_loss, accuracy, macro_f1, confidence = np.mean(values, axis=0)
        of_accuracy = f"{100 * changes[:, 1].mean():+.2f} ± {100 * intervals[1]:.2f}"
        of_loss = f"{changes[:, 0].mean():+.3f} ± {intervals[0]:.3f}"
        means = (f"{log_loss:.3f}", f"{accuracy:.1%}", f"{macro_f1:.1%}", f"{confidence:.1%}")
        lines.append((str(per_label), name, *means, of_accuracy, of_loss))
    print(table(("examples per label", "", *columns), lines))


def answers(keys, labels, queries, num_labels):
    """What each system says of the queries, ``(Q, C)``, by its name."""
    count = len(labels)
    frequencies = (np.bincount(labels, minlength=num_labels) + 1) / (count + num_labels)

    def by_frequencies(knn, distances, temperature):
        return (count * knn + num_labels * frequencies) / (count + num_labels)

    def by_effective_neighbors(knn, distances, temperature):
        effective = effective_neighbors(neighbor_weights(distances, temperature))[:, None]
        return (effective * knn + frequencies) / (effective + 1)

    def smoothed(knn, distances, temperature):
        return add_one_smoothing(knn, count)

    distances, rows = exact_search(keys, keys, min(MOST_NEIGHBORS + 1, count))
    others = without_self(rows == np.arange(count)[:, None])
    distances, rows = (np.take_along_axis(given, others, axis=1) for given in (distances, rows))
    found, neighbors = exact_search(queries, keys, min(MOST_NEIGHBORS, count))

    def say(k, temperature, change=None):
        knn = knn_probabilities(found[:, :k], labels[neighbors[:, :k]], num_labels, temperature)
        return knn if change is None else change(knn, found[:, :k], temperature)

    chosen = calibrate(distances, labels[rows], labels, num_labels=num_labels)
    yield PLAIN, say(chosen.k, chosen.temperature)
    yield SMOOTHED, say(chosen.k, chosen.temperature, smoothed)
    yield "the same, weighted by label frequencies", say(chosen.k, chosen.temperature, by_frequencies)
    for name, change in (("effective neighbors", by_effective_neighbors), ("one more example", smoothed)):

        def likelihood(k, temperature, change=change):
            knn = knn_probabilities(distances[:, :k], labels[rows[:, :k]], num_labels, temperature)
            return np.log(change(knn, distances[:, :k], temperature)[np.arange(count), labels]).mean()

        ks = [2**n for n in range(8) if 2**n <= distances.shape[1]]
        best = max(
            ((k, t) for k in ks for t in temperature_grid(distances)), key=lambda candidate: likelihood(*candidate)
        )
        yield f"{name}, calibrated with it", say(*best, change)


if __name__ == "__main__":
    main()
