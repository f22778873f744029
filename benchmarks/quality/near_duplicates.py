"""Measure the effect of near-duplicates on pretraining, and how many of them datatrove's MinHash finds.

    python -m benchmarks.quality.near_duplicates --texts articles.jsonl

Some articles are copied several times, each copy with some of its words left out. A small BERT with random weights is
trained for the same number of steps on the articles with their copies, on the articles that MinHash keeps, and on the
articles alone. Half-document retrieval is measured on other articles. MinHash splits English into words with spaCy.
"""

from __future__ import annotations

import argparse
import tempfile
import time

import numpy as np
import torch
from datasets import Dataset
from datatrove.data import Document
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from datatrove.utils.hashing import HashConfig
from transformers import PrinterCallback, set_seed

from benchmarks.inputs import load_texts
from docsplit_hf import (
    AutoModelForDocSplit,
    ContrastiveTrainer,
    ContrastiveTrainingArguments,
    DataCollatorForDocSplit,
    segment_documents,
)
from docsplit_hf.encoding.small_bert import small_bert_config, train_small_bert_tokenizer
from docsplit_hf.training.markdown import table

HELD_OUT = 500
BATCH = 64
MAX_LENGTH = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", required=True, help="a file with a column 'text'")
    parser.add_argument("--articles", type=int, default=1000, help="to train on (%(default)s)")
    parser.add_argument("--share", type=float, default=0.2, help="of them that are copied (%(default)s)")
    parser.add_argument("--copies", type=int, default=5, help="of each of these (%(default)s)")
    parser.add_argument("--left_out", type=float, default=0.01, help="share of the words of a copy (%(default)s)")
    parser.add_argument("--steps", type=int, default=80, help="of training (%(default)s)")
    parser.add_argument("--seeds", type=int, default=2, help="each trains anew (%(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)

    texts = load_texts(options.texts, options.articles + HELD_OUT)
    held_out = texts[:HELD_OUT]
    articles = texts[HELD_OUT:]
    copies = make_copies(articles, options)
    whole = [Document(text, f"article {i}") for i, text in enumerate(articles)]
    whole += [Document(text, f"copy {i}") for i, text in enumerate(copies)]
    whole = [whole[i] for i in np.random.default_rng(1).permutation(len(whole))]
    start = time.perf_counter()
    left = deduplicate(whole)
    seconds = time.perf_counter() - start
    # One of each group, an article and its copies, should be kept.
    groups = {f"article {i}": i for i in range(len(articles))}
    groups |= {f"copy {i}": i // options.copies for i in range(len(copies))}
    there = {groups[name] for name, _ in left}
    print(f"{len(articles):,} articles, {len(copies):,} copies without {options.left_out:.0%} of the words.")
    print(f"MinHash, {seconds:.0f} s on one core: {len(whole) - len(left):,} of {len(copies):,} removed, ", end="")
    print(f"{len(articles) - len(there)} articles lost with all their copies.\n")

    corpora = {
        "with the copies": [document.text for document in whole],
        "MinHash": [text for _, text in left],
        "without the copies": articles,
    }
    tokenizer = train_small_bert_tokenizer(articles)
    test = segment_documents(Dataset.from_dict({"text": held_out}), tokenizer)
    rows = []
    for name, corpus in corpora.items():
        documents = segment_documents(Dataset.from_dict({"text": corpus}), tokenizer)
        recalls = []
        accuracies = []
        for seed in range(options.seeds):
            recall, accuracy = train(documents, test, tokenizer, options.steps, seed)
            recalls.append(100 * recall)
            accuracies.append(100 * accuracy)
        rows.append((name, f"{len(corpus):,}", mean_and_deviation(recalls), mean_and_deviation(accuracies)))
        print(*rows[-1], flush=True)
    print()
    print(table(("trained on", "documents", "recall@1, other articles", "in-batch accuracy, last steps"), rows))


def mean_and_deviation(values: list[float]) -> str:
    return f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}"


def make_copies(articles: list[str], options: argparse.Namespace) -> list[str]:
    """Copies of the first articles, each without some words."""
    rng = np.random.default_rng(0)
    copies = []
    for text in articles[: int(options.share * len(articles))]:
        for _ in range(options.copies):
            words = text.split(" ")
            copies.append(" ".join(word for word in words if rng.random() >= options.left_out))
    return copies


def deduplicate(documents: list[Document]) -> list[tuple[str, str]]:
    """The ids and texts of the documents that MinHash keeps, in datatrove's four stages."""
    config = MinhashConfig(hash_config=HashConfig(hash_fc="sha1"))  # xxhash 4 refuses the strings of datatrove 0.10
    with tempfile.TemporaryDirectory() as folder:
        stages = [
            ([[*documents], JsonlWriter(f"{folder}/all", compression=None)], 1),
            ([JsonlReader(f"{folder}/all"), MinhashDedupSignature(f"{folder}/signatures", config)], 1),
            ([MinhashDedupBuckets(f"{folder}/signatures", f"{folder}/buckets", config=config)], config.num_buckets),
            ([MinhashDedupCluster(f"{folder}/buckets", f"{folder}/remove", config=config)], 1),
            ([JsonlReader(f"{folder}/all"), MinhashDedupFilter(f"{folder}/remove"),
              JsonlWriter(f"{folder}/left", compression=None)], 1),
        ]  # fmt: skip
        for number, (blocks, tasks) in enumerate(stages):
            LocalPipelineExecutor(blocks, tasks=tasks, workers=1, logging_dir=f"{folder}/logs/{number}").run()
        return [(document.id, document.text) for document in JsonlReader(f"{folder}/left").run()]


def train(documents: Dataset, test: Dataset, tokenizer, steps: int, seed: int) -> tuple[float, float]:
    """Recall@1 of half-document retrieval after training, and the in-batch accuracy of the last steps."""
    set_seed(seed)
    model = AutoModelForDocSplit.from_config(small_bert_config(tokenizer, 128, 2), "mean", mlm_head=False)
    with tempfile.TemporaryDirectory() as folder:
        args = ContrastiveTrainingArguments(
            folder, max_steps=steps, per_device_train_batch_size=BATCH, learning_rate=1e-3, mlm_weight=0, seed=seed,
            save_strategy="no", logging_steps=steps // 5, use_cpu=True, disable_tqdm=True, report_to=[],
        )  # fmt: skip
        collator = DataCollatorForDocSplit(tokenizer, MAX_LENGTH, mlm_probability=0, seed=seed)
        trainer = ContrastiveTrainer(model, args, documents, test, collator)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        logs = [entry["in_batch_accuracy"] for entry in trainer.state.log_history if "in_batch_accuracy" in entry]
        return trainer.evaluate()["eval_recall@1"], logs[-1]


if __name__ == "__main__":
    main()
