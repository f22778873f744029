"""How good pipeline("docsplit-knn") is without any training: an encoder as it is, and a few examples of each label.

    python benchmarks/few_examples.py --model_name_or_path output/pretrain --task my_folder

The examples are drawn at random from the training set, the answers are for the test set. A task is one of the paper's
by name, or a folder of jsonl files with train and test.
"""

import argparse
from collections import defaultdict

import numpy as np
from transformers import pipeline

from docsplit_hf.text.paper_tasks import load_task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_name_or_path", required=True, help="Any encoder.")
    parser.add_argument("--task", required=True, help="The name of a task, or a folder of jsonl.")
    parser.add_argument("--per_label", type=int, nargs="+", default=[8], help="Examples of each label.")
    parser.add_argument("--seeds", type=int, default=3, help="Draws of the examples. Default: %(default)s.")
    parser.add_argument("--max_test_examples", type=int, default=1000, help="Default: %(default)s.")
    options = parser.parse_args()
    splits = load_task(options.task)
    train, test = splits["train"], splits["test"].shuffle(seed=0)
    test = test.select(range(min(len(test), options.max_test_examples)))
    names = train.features["label"].names
    gold = [names[label] for label in test["label"]]
    majority = max(map(gold.count, set(gold))) / len(gold)
    print(f"{options.task}: {len(test)} test texts, {len(names)} labels; the largest has {majority:.1%} of them.\n")
    print("| examples per label | accuracy, mean of the draws | lowest, highest |\n|---|---|---|")
    for per_label in options.per_label:
        accuracies = []
        for seed in range(options.seeds):
            rows = draw(train["label"][:], per_label, seed)
            pipe = pipeline("docsplit-knn", model=options.model_name_or_path)
            pipe.add_examples([train[i]["text"] for i in rows], [names[train[i]["label"]] for i in rows])
            answers = pipe(test["text"][:], return_neighbors=3)
            accuracies.append(np.mean([answer["label"] == g for answer, g in zip(answers, gold, strict=True)]))
        print(f"| {per_label} | {np.mean(accuracies):.1%} | {min(accuracies):.1%}, {max(accuracies):.1%} |", flush=True)
    print(f"\nThe last answer: {answers[-1]['label']!r}, score {answers[-1]['score']:.2f}, because of")
    for neighbor in answers[-1]["neighbors"]:
        text = " ".join(neighbor["text"].split())[:70]
        print(f"  {neighbor['weight']:.2f}  {neighbor['label']!r} (id {neighbor['id']}): {text}...")


def draw(labels: list[int], per_label: int, seed: int) -> list[int]:
    """Rows of up to so many examples of each label."""
    rows = defaultdict(list)
    for row in np.random.default_rng(seed).permutation(len(labels)).tolist():
        rows[labels[row]].append(row)
    return [row for label in sorted(rows) for row in rows[label][:per_label]]


if __name__ == "__main__":
    main()
