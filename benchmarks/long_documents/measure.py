"""What an encoder is worth on long documents: citation, few-shot classification, half-document retrieval."""

from typing import NamedTuple

import numpy as np
import torch
from datasets import Dataset
from long_documents.texts import Labeled, Pairs, Texts
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score
from transformers import PreTrainedModel

from docsplit_hf import DataCollatorForDocSplit
from docsplit_hf.evaluation.labeled_features import sample_per_class
from docsplit_hf.models.inference.batching import inference_batches, inference_mode
from docsplit_hf.pretraining.half_retrieval import half_retrieval_metrics
from docsplit_hf.pretraining.passage_pooling import pool_passages
from docsplit_hf.text.passages import passage_bounds
from experiments.protocols.citation import best_threshold

TOKENS_READ = 1008  # of a document, at most, in passages in even distances
SHOTS, DRAWS = (5, 20), 10
BEST = 3


class Embedded(NamedTuple):
    """Of N documents the passages, of norm 1, one matrix each; their mean, and the first passage, ``(N, D)``."""

    passages: list[np.ndarray]
    mean: np.ndarray
    head: np.ndarray


def measure(model: PreTrainedModel, collator: DataCollatorForDocSplit, texts: Texts) -> dict[str, float]:
    """All metrics, by name, as shares of 1."""
    metrics = citation(embed(model, collator, texts.citation.papers), texts.citation)
    for name, task in texts.few_shot.items():
        metrics |= {
            f"{name}, {key}": value for key, value in few_shot(embed(model, collator, task.documents), task).items()
        }
    return metrics | half_retrieval(model, collator, texts.held_out)


def embed(model: PreTrainedModel, collator: DataCollatorForDocSplit, documents: Dataset) -> Embedded:
    """Passages as long as those of the training, no more of a document than ``TOKENS_READ``."""
    room = collator.max_length - len(collator.prefix) - len(collator.suffix)
    rows, counts = [], []
    for document in documents:
        bounds = passage_bounds(document["sentence_lengths"], room)
        most = min(len(bounds), TOKENS_READ // room)
        for start, end in bounds[np.linspace(0, len(bounds) - 1, most).astype(int)]:
            ids = [*collator.prefix, *document["input_ids"][start:end], *collator.suffix]
            rows.append({"input_ids": np.array(ids, dtype=np.int32)})
        counts.append(most)
    embeddings = embed_rows(model, collator, rows)
    lengths = torch.tensor([len(row["input_ids"]) for row in rows])
    mask = (torch.arange(int(lengths.max())) < lengths[:, None]).long()
    mean = pool_passages(embeddings, {"passage_counts": torch.tensor(counts), "attention_mask": mask})
    passages = list(torch.split(embeddings, counts))
    return Embedded([part.numpy() for part in passages], unit(mean), unit(torch.stack([part[0] for part in passages])))


def embed_rows(model: PreTrainedModel, collator: DataCollatorForDocSplit, rows: list[dict]) -> torch.Tensor:
    """Of norm 1, ``(R, D)``."""
    model.eval()
    embeddings = torch.empty(len(rows), model.config.hidden_size)
    with inference_mode(model.device, bf16=True):
        for numbers, batch in inference_batches(rows, collator.tokenizer, model.device, packed=True):
            embeddings[numbers] = torch.nn.functional.normalize(model(**batch).embeddings)
    return embeddings


def unit(embeddings: torch.Tensor) -> np.ndarray:
    return torch.nn.functional.normalize(embeddings).numpy()


def citation(papers: Embedded, pairs: Pairs) -> dict[str, float]:
    """AUROC over all pairs, and the accuracy on the test pairs with the best threshold of the others."""
    first, second = pairs.rows.T
    scores = {
        "heads": (papers.head[first] * papers.head[second]).sum(1),
        "means": (papers.mean[first] * papers.mean[second]).sum(1),
        f"best {BEST} pairs of passages": np.array(
            [np.sort((papers.passages[a] @ papers.passages[b].T).ravel())[-BEST:].mean() for a, b in pairs.rows]
        ),
    }
    metrics = {}
    for name, values in scores.items():
        threshold = best_threshold(values[~pairs.is_test], pairs.cites[~pairs.is_test])
        metrics[f"citation, {name}, AUROC"] = roc_auc_score(pairs.cites, values)
        metrics[f"citation, {name}, accuracy"] = np.mean((values > threshold) == pairs.cites, where=pairs.is_test)
    return {name: float(value) for name, value in metrics.items()}


def few_shot(documents: Embedded, task: Labeled) -> dict[str, float]:
    """Macro F1 of logistic regression on so many examples per class, on all others; the mean over the draws."""
    names = [str(label) for label in range(task.labels.max() + 1)]
    found = {}
    for reading, features in (("heads", documents.head), ("means", documents.mean)):
        for shots in SHOTS:
            scores = []
            for seed in range(DRAWS):
                rows = sample_per_class(task.labels, shots, seed, names)
                others = np.setdiff1d(np.arange(len(task.labels)), rows)
                probe = LogisticRegression(C=10, max_iter=1000).fit(features[rows], task.labels[rows])
                scores.append(f1_score(task.labels[others], probe.predict(features[others]), average="macro"))
            found[f"{shots} per class, {reading}"] = float(np.mean(scores))
    return found


def half_retrieval(model: PreTrainedModel, collator: DataCollatorForDocSplit, documents: Dataset) -> dict[str, float]:
    """recall@1 of the other half, read as in training by passages, and as in training on heads."""
    found = {}
    for name, most in (("heads", None), ("passages", max(1, TOKENS_READ // 2 // collator.max_length))):
        reading = DataCollatorForDocSplit(collator.tokenizer, collator.max_length, 0, passages_per_view=most)
        batch = reading(list(documents))
        rows = [
            {"input_ids": ids[mask == 1].numpy()}
            for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
        ]
        anchors, positives = pool_passages(embed_rows(model, collator, rows), batch).chunk(2)
        found[f"half retrieval, {name}"] = half_retrieval_metrics(anchors, positives, batch["document_ids"])["recall@1"]
    return found
