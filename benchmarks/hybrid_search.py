"""What words add to the neighbors: Milvus' BM25 in a hybrid search, against the words expert of fit, on equal examples.

    python benchmarks/hybrid_search.py hybrid.db 20news bbc_news arxiv_abstracts fakenews_small
    python benchmarks/hybrid_search.py http://host:19530 20news --model sentence-transformers/all-MiniLM-L6-v2

Each folder has train.jsonl and test.jsonl with the columns text and label. Of each class as many examples are drawn as
are asked for, or as it has in 1,500 training texts; 500 test texts are classified, without any training. Draws are the
same for all. The first column is a datastore of its own, or of Milvus without words, which gives the same answers; with
"BM25 alone" the neighbors are found by words alone, each with as much weight. ± is half the 95 % interval over draws.
"""

import argparse
import logging
import uuid
from pathlib import Path

import numpy as np
from few_shot_probe import labeled_texts
from scipy.stats import sem, t
from sklearn.metrics import f1_score
from transformers import pipeline

from docsplit_hf import KNNClassifierPipeline, KNNDatastore
from docsplit_hf.evaluation.labeled_features import sample_per_class
from docsplit_hf.models.inference.batched_inference import Predictions, predict
from docsplit_hf.neighbors.classification_output import Shown
from docsplit_hf.training.markdown import table

TESTED = 500
FITTED = {"words expert": ["words"], "neighbors + words experts": ["neighbors", "words"], "fit()": None}
SYSTEMS = ("neighbors", "BM25 alone", "neighbors + BM25", *FITTED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="of a Milvus server, or a folder of milvus-lite that ends in .db")
    parser.add_argument("folders", nargs="+", type=Path, help="Folders with train.jsonl and test.jsonl.")
    parser.add_argument("--model", help="A model on the Hub or a folder. Default: the one that ships.")
    parser.add_argument("--per_class", type=int, nargs="+", default=[5, 50], help="(default: 5 and 50)")
    parser.add_argument("--draws", type=int, default=5, help="of examples (default: %(default)s)")
    parser.add_argument("--analyzer", default="standard", help="of Milvus (default: %(default)s)")
    options = parser.parse_args()
    rows = []
    for folder in options.folders:
        train, test = labeled_texts(folder, "train"), labeled_texts(folder, "test")
        test = test[0][:TESTED], test[1][:TESTED]
        for shots in options.per_class:
            scores = np.array([measure(options, train, test, shots, seed) for seed in range(options.draws)])
            rows.append((folder.name, str(shots), *(interval(column) for column in 100 * scores.T)))
            print(*rows[-1], sep=" | ", flush=True)
    print(table(("", "per class", *SYSTEMS), rows))


def interval(scores: np.ndarray) -> str:
    """Their mean, and half the interval around it."""
    return f"{scores.mean():.1f} ± {sem(scores) * t.ppf(0.975, len(scores) - 1):.1f}"


def measure(
    options: argparse.Namespace, train: tuple[list[str], np.ndarray], test: tuple[list[str], np.ndarray], shots: int,
    seed: int,
) -> list[float]:  # fmt: skip
    """Macro F1 of each system on one draw."""
    names, numbers = np.unique(train[1], return_inverse=True)
    drawn = sample_per_class(numbers, min(shots, np.bincount(numbers).min()), seed, names)
    texts, labels = [train[0][i] for i in drawn], [str(train[1][i]) for i in drawn]
    model = {} if options.model is None else {"model": options.model}
    local = pipeline("docsplit-knn", device="cpu", **model)
    local.add_examples(texts, labels)
    remote = KNNDatastore.connect(
        options.address, f"hybrid_{uuid.uuid4().hex[:8]}", index="FLAT", analyzer=options.analyzer,
        dimension=local.datastore.dimension, timeout=600,
    )  # fmt: skip
    remote.merge(local.datastore)
    hybrid = pipeline("docsplit-knn", device="cpu", datastore=remote, **model)
    asked = test[0], predict(local.model, local.tokenizer, test[0], log_cut=False)
    answers = {"neighbors": answer(local, *asked), "neighbors + BM25": answer(hybrid, *asked)}
    hybrid.model.config.bm25_weight = 1e9
    hybrid.model.config.knn_temperature = 1e12
    answers["BM25 alone"] = answer(hybrid, *asked)
    for name, experts in FITTED.items():
        local.fit(experts=experts, show_progress=False)
        answers[name] = answer(local, *asked)
    return [f1_score(test[1], answers[name], average="macro") for name in SYSTEMS]


def answer(pipe: KNNClassifierPipeline, texts: list[str], predictions: Predictions) -> list[str]:
    """The labels that a pipeline gives to texts that are embedded already."""
    mixture = pipe._forward(predictions, texts, Shown())
    return [mixture.label_names[label] for label in mixture.mixture.argmax(1)]


if __name__ == "__main__":
    logging.getLogger("docsplit_hf").setLevel(logging.ERROR)
    main()
