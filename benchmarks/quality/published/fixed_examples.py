"""What the tables have in common: systems that learn from given examples, and answer given tests."""

from __future__ import annotations

import argparse
import types
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.inputs import default_model
from benchmarks.quality.few_labels.embedder import Embedder

RESULTS = Path(__file__).parents[3] / "docs" / "results"
DRAWS = 10_000  # for the interval of a mean


def table_parser(description: str | None, records: Path) -> argparse.ArgumentParser:
    """A parser with the options of all tables."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("part", choices=["measure", "report"])
    add("--name", default="all-MiniLM-L6-v2", help="The encoder's name in records. Default: %(default)s.")
    add("--model", help="A folder, or a model on the Hub. Default: the installed all-MiniLM-L6-v2.")
    add("--precision", choices=["float32", "int8"], default="int8", help="Default: %(default)s.")
    add("--embeddings", type=Path, default=Path("output/embeddings"), help="Where they are kept. Default: %(default)s.")
    add("--output", type=Path, default=records, help="A file of records. Default: %(default)s.")
    add("--systems", nargs="+", help="Default: all.")
    return parser


def embedder_of(options: argparse.Namespace, texts: Sequence[str]) -> Embedder:
    """An embedder that has read all texts."""
    reading = types.SimpleNamespace(pool=sorted(set(texts)), test=[])
    precision = {"precision": "int8"} if options.precision == "int8" else {}
    return Embedder(options.model or default_model(), reading, options.embeddings, **precision)


def by_fit(
    embedder: Embedder,
    examples: Sequence[str],
    labels: Sequence[str],
    tests: Sequence[str],
    documents: Sequence[str] = (),
    proportions: str = "estimated",
    experts: Sequence[str] | None = None,
) -> np.ndarray:
    """The labels of tests by the pipeline, fitted to the examples, and to documents if there are any."""
    pipe = embedder.emptied_pipeline()
    with embedder.remembered():
        pipe.add_examples(examples, labels)
        if len(documents):
            pipe.add_documents(documents)
        pipe.fit(show_progress=False, class_proportions=proportions, experts=experts)
        return np.array([answer["label"] for answer in pipe(tests)])


def by_probe(embedder: Embedder, examples: Sequence[str], labels: Sequence[str], tests: Sequence[str]) -> np.ndarray:
    """The labels of tests by logistic regression on the embeddings, with scikit-learn's defaults."""
    probe = LogisticRegression(max_iter=1000).fit(embedder.embed(examples), labels)
    return probe.predict(embedder.embed(tests))


def interval_of_mean(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of a mean, by drawing values with replacement."""
    drawn = np.random.default_rng(0).choice(values, (DRAWS, len(values))).mean(1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)
