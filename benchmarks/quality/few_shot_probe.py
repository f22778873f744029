"""Labeled texts from folders with train.jsonl and test.jsonl, and few-shot macro F1 of their embeddings."""

from pathlib import Path

import numpy as np
from datasets import load_dataset
from sklearn.metrics import f1_score
from sklearn.neighbors import KNeighborsClassifier

from docsplit_hf.evaluation.probes import sample_per_class
from docsplit_hf.fitting.experts.linear_probe import fit_probe

MOST = 1_500


def labeled_texts(folder: Path, split: str) -> tuple[list[str], np.ndarray]:
    """Up to 1,500 texts and their labels, drawn with a fixed seed; training texts are balanced over the classes."""
    data = load_dataset("json", data_files=str(folder / f"{split}.jsonl"), split="train").shuffle(seed=0)
    data = data.filter(lambda row: bool(row["text"].strip()))
    labels = np.array([str(label) for label in data["label"]])
    rows = np.arange(min(MOST, len(labels)))
    if split == "train":
        names = np.unique(labels)
        rows = np.concatenate([np.flatnonzero(labels == name)[: MOST // len(names)] for name in names])
    return data.select(rows.tolist())["text"], labels[rows]


def few_shot_scores(
    train: np.ndarray, test: np.ndarray, labels: np.ndarray, asked: np.ndarray, shots: int, seeds: int
) -> tuple[float, float]:
    """Mean macro F1 over draws of examples: of a linear probe fitted like the pipeline's, and of 5 nearest neighbors.

    If a class has fewer examples than ``shots``, this smaller number is drawn of each class.
    """
    names, numbers = np.unique(labels, return_inverse=True)
    shots = min(shots, np.bincount(numbers).min())
    found = []
    for seed in range(seeds):
        rows = sample_per_class(numbers, shots, seed, names)
        probe = fit_probe(train[rows], np.eye(len(names))[numbers[rows]], multi_label=False)
        nearest = KNeighborsClassifier(5, weights="distance").fit(train[rows], numbers[rows])
        by_probe = f1_score(asked, names[(test @ probe[:, :-1].T + probe[:, -1]).argmax(1)], average="macro")
        by_neighbors = f1_score(asked, names[nearest.predict(test)], average="macro")
        found.append((by_probe, by_neighbors))
    return tuple(np.mean(found, axis=0))
